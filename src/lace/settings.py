"""The settings of a lace: what ``lace.toml`` in its folder says.

A lace is a folder with this file and the store that it names. A path to a store file alone stands
for a lace without settings. Texts are as written; paths in them are relative to the folder.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from lace.crypto.keys import SigningKey
from lace.errors import Code, LaceError, PolicyError, StoreError, UsageError
from lace.ids import is_verifier
from lace.keyring import Keyring, is_key_name, read_key_file
from lace.limits import FIXED
from lace.policy.module import Facet, PolicyModule, filled, module_from_text, open_names
from lace.policy.view import Expose, Exposure
from lace.recordstore.files import BEGIN
from lace.rooms import Room
from lace.rulefiles import read_rules
from lace.selectors import selector
from lace.text import shown
from lace.urc import Coordinate

FILE: Final = "lace.toml"
STORE: Final = "records.lace"
_WORDS: Final[tuple[Expose, ...]] = ("none", "selected", "everything")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """Somebody to interlace with, by name."""

    address: str
    expect: str | None = None
    """Whom it must prove to be."""
    trust: str | None = None
    """A file with one more certificate to believe."""
    select: str | None = None
    """What it is known to select; only explanations use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What ``lace.toml`` says."""

    folder: Path
    store: Path
    key: str | None = None
    select: str | None = None
    room: Room | None = None
    expose: tuple[str, ...] = ()
    peers: Mapping[str, PeerSettings] = field(default_factory=dict)
    peer: str | None = None
    """Which of the peers is meant where none is said."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What names in braces in files of rules stand for."""

    @property
    def default_peer(self) -> str | None:
        """The peer that is meant where none is said: the one that is named, or the only one."""
        return self.peer or (next(iter(self.peers)) if len(self.peers) == 1 else None)

    def signing_key(self) -> SigningKey | None:
        """Return the key that is named, or None if none is."""
        if self.key is None:
            return None
        if is_key_name(self.key):
            return Keyring().get(self.key).key
        return read_key_file(str(self.folder / self.key))

    def module(self) -> PolicyModule:
        """Return the selector, or raise ``UsageError`` if none is named."""
        if self.select is None:
            raise nothing_selects()
        if self.room is not None:
            return self.room.module
        return read_selector(self.select, self.folder, parameters=self.parameters)

    def exposure(self) -> Exposure:
        """Return what a peer's rules may see: as it says, else as the room does."""
        if self.room is not None and not self.expose:
            return self.room.exposure
        return read_exposure(self.expose, self.folder, self.parameters)

    def grants_at(self, place: Coordinate) -> bool:
        """Whether a record at a place says who is a member of the room, or is one no longer."""
        room = self.room
        return room is not None and (place.group, place.app) == (room.group, room.member_app)


def nothing_selects() -> UsageError:
    """Return the error for a lace whose settings do not say what belongs."""
    return UsageError(
        "nothing says which records belong",
        code=Code.POLICY_SELECTOR,
        hint="Give a selector such as //group//app//, or write select in lace.toml.",
    )


def located(path: Path) -> Path | None:
    """Return the folder of a lace that a path names, or None for the path of a store file."""
    if path.name == FILE:
        path = path.parent
    if not path.is_dir():
        return None
    if not (path / FILE).is_file():
        raise UsageError(f"{path} is no lace: it has no {FILE}", code=Code.SETTINGS_MISSING)
    return path


def check_store(path: Path) -> None:
    """Raise ``StoreError`` if the store of a lace is gone, is empty, or is another kind of file.

    A store that opens empty would look like a lace without records.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(len(BEGIN))
    except FileNotFoundError:
        raise StoreError(f"the store {path} is gone", code=Code.STORE_MISSING) from None
    except OSError:
        return  # whoever opens it says what is wrong
    if not begin:
        raise StoreError(f"the store {path} has 0 bytes", code=Code.STORE_MISSING)
    if begin != BEGIN:
        raise StoreError(f"{path} is no record store", code=Code.STORE_CORRUPT)


# --- what texts mean ---


def is_file(text: str) -> bool:
    """Whether a selector is meant as a file of rules."""
    return not (text.startswith("//") or ":-" in text)


def read_selector(
    text: str,
    folder: Path | None = None,
    fields: Mapping[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> PolicyModule:
    """Return the module of a place, of rules, or of a file; a relative one is from ``folder``.

    Of ``parameters``, a file is given those that it has names for.
    """
    if not is_file(text):
        try:
            return selector(text, fields)
        except PolicyError as error:  # it was typed so
            raise UsageError(error.message, code=error.code, hint=error.hint) from error
    if fields:
        raise UsageError("rules take no field filter", code=Code.POLICY_SELECTOR)
    return _from_file(text, folder, Facet.SELECTOR, parameters)


def _from_file(
    text: str, folder: Path | None, facet: Facet, parameters: Mapping[str, str] | None
) -> PolicyModule:
    path = (folder or Path()) / text.removeprefix("file:")
    module = module_from_text(read_rules(path).text, facet)
    names = open_names(module)
    if not names:
        return module
    return filled(module, {k: v for k, v in (parameters or {}).items() if k in names})


def read_exposure(
    choices: tuple[str, ...],
    folder: Path | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Exposure:
    """Return the exposure of words and files of expose modules; of nothing, what is selected."""
    words = [choice for choice in choices if choice in _WORDS]
    files = [choice for choice in choices if choice not in _WORDS]
    if len(set(words)) > 1:
        raise UsageError(
            f"{' and '.join(words)} cannot both be exposed", code=Code.POLICY_FACET,
            hint="Give one of none, selected, everything.",
        )  # fmt: skip
    modules = tuple(_from_file(file, folder, Facet.EXPOSE, parameters) for file in files)
    default: Expose = "none" if choices else "selected"
    return Exposure(modules, next((word for word in _WORDS if word in words), default))


# --- the file ---


def load(folder: Path) -> Settings:
    """Return the settings in a folder; raise ``UsageError`` saying what is wrong with them."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            content = file.read(FIXED.settings_bytes + 1)
    except OSError as error:
        _refuse(path, f"it cannot be read: {error.strerror}")
    if len(content) > FIXED.settings_bytes:
        _refuse(path, f"it is larger than {FIXED.settings_bytes} bytes")
    try:
        return parse(tomllib.loads(content.decode()), folder)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        _refuse(path, str(error))
    except LaceError as error:
        _refuse(path, error.message)


def parse(table: Mapping[str, Any], folder: Path) -> Settings:
    """Return the settings of a TOML table."""
    taken = _Table(table, "the file")
    made = Settings(
        folder=folder,
        store=folder / (taken.text("store") or STORE),
        key=taken.text("key"),
        select=taken.text("select"),
        expose=taken.texts("expose"),
        peers=taken.tables("peers", _peer),
        peer=taken.text("peer"),
        parameters=taken.named_texts("parameters"),
    )
    choices = taken.table("room", _RoomChoices)
    taken.finish()
    if choices is not None:
        if made.select is None:
            _wrong("room needs select, the app that the room is about")
        made = replace(made, room=choices.room(made.select))
    if made.peer is not None and made.peer not in made.peers:
        _wrong(f"peer is {shown(made.peer)}, and there is no [peers.{made.peer}]")
    return made


class _RoomChoices:
    """What the table of a room says; the place of the room is said elsewhere."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        taken = _Table(table, "room")
        self._authority = taken.text("authority")
        self._choices: dict[str, Any] = {
            name: value
            for name, value in (
                ("removed", taken.text("removed")),
                ("places", taken.text("places")),
                ("reads", taken.text("reads")),
                ("delegation", taken.number("delegation")),
                ("roles", taken.lists("roles")),
            )
            if value is not None
        }
        taken.finish()

    def room(self, prefix: str) -> Room:
        if self._authority is None or not is_verifier(self._authority):
            _wrong("room.authority is the verifier that admits members")
        try:
            return Room(prefix=prefix, authority=self._authority, **self._choices)
        except LaceError as error:
            _wrong(f"room: {error.message}. {error.hint}")


def _peer(table: Mapping[str, Any]) -> PeerSettings:
    taken = _Table(table, "a peer")
    address = taken.text("address")
    if address is None:
        _wrong("a peer needs an address")
    expect = taken.text("expect")
    if expect is not None and not is_verifier(expect):
        _wrong("expect of a peer is the verifier that it must prove")
    made = PeerSettings(
        address=address,
        expect=expect,
        trust=taken.text("trust"),
        select=taken.text("select"),
    )
    taken.finish()
    return made


class _Table:
    """Takes entries out of a table; what is left at the end is an error."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self._left = dict(table)
        self._where = where
        self._known: list[str] = []

    def _take(self, name: str, kind: type[T], what: str) -> T | None:
        self._known.append(name)
        value = self._left.pop(name, None)
        if value is not None and not isinstance(value, kind):
            _wrong(f"{name} in {self._where} is {what}")
        return value

    def text(self, name: str) -> str | None:
        return self._take(name, str, "a text") or None

    def flag(self, name: str) -> bool:
        return self._take(name, bool, "true or false") or False

    def named_texts(self, name: str) -> dict[str, str]:
        value = self._take(name, dict, "a table") or {}
        for key, entry in value.items():
            if not isinstance(entry, str):
                _wrong(f"{name}.{key} is a text")
        return value

    def number(self, name: str) -> int | None:
        value = self._take(name, int, "a number")
        if isinstance(value, bool):
            _wrong(f"{name} in {self._where} is a number")
        return value

    def lists(self, name: str) -> dict[str, tuple[str, ...]] | None:
        """Return texts by name: each entry is a text or a list of texts."""
        value = self._take(name, dict, "a table")
        if value is None:
            return None
        entries = _Table(value, name)
        return {key: entries.texts(key) for key in value}

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._take(name, object, "")
        texts = [value] if isinstance(value, str) else [] if value is None else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            _wrong(f"{name} in {self._where} is a text or a list of texts")
        return tuple(texts)

    def table(self, name: str, make: Callable[[Mapping[str, Any]], T]) -> T | None:
        value = self._take(name, dict, "a table")
        return None if value is None else make(value)

    def tables(self, name: str, make: Callable[[Mapping[str, Any]], T]) -> dict[str, T]:
        value = self._take(name, dict, "a table of tables") or {}
        for key, entry in value.items():
            if not isinstance(entry, dict):
                _wrong(f"{name}.{key} is a table")
        return {key: make(entry) for key, entry in value.items()}

    def finish(self) -> None:
        for name in self._left:
            known = ", ".join(self._known)
            _wrong(f"{self._where} knows no {shown(name)}; it knows {known}")


def _wrong(message: str) -> NoReturn:
    raise UsageError(message, code=Code.SETTINGS_MALFORMED)


def _refuse(path: Path, message: str) -> NoReturn:
    raise UsageError(f"{path}: {message}", code=Code.SETTINGS_MALFORMED) from None
