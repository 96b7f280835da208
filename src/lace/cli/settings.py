"""Where commands work: the folder of a lace, its settings, and what flags say instead.

A lace is a folder with ``lace.toml`` and the store that it names. Commands find it like this: the
path given by --lace, else the nearest folder with settings, from the present one upwards. A path
may also be a store file alone; then there are no settings, and flags say everything.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from lace.api.handles import Lace, Peer, connect
from lace.api.handles import open as open_lace
from lace.cli.arguments import read_exposure, read_selector, read_signing_key, read_verifier
from lace.crypto.keys import SigningKey
from lace.errors import Code, LaceError, UsageError
from lace.ids import is_verifier
from lace.policy.module import PolicyModule
from lace.policy.view import Exposure
from lace.selectors import MEMBER_APP, room
from lace.text import shown
from lace.urc import Coordinate, Prefix, parse_urc

FILE: Final = "lace.toml"
STORE: Final = "records.lace"
_FILE_BYTES: Final = 1 << 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSettings:
    """Who admits the members of a room."""

    authority: str
    delegation: bool = False
    revocation: str | None = None


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
    """What ``lace.toml`` says; texts are as written, paths are relative to the folder."""

    folder: Path
    store: Path
    key: str | None = None
    select: str | None = None
    room: RoomSettings | None = None
    expose: tuple[str, ...] = ("selected",)
    peers: Mapping[str, PeerSettings] = field(default_factory=dict)

    @classmethod
    def nowhere(cls) -> Settings:
        """Return the settings of no lace: for what needs none, such as asking a peer."""
        return cls(folder=Path(), store=Path(STORE))

    def open(self, key: SigningKey | None = None) -> Lace:
        """Open the lace."""
        return open_lace(self.store, key=key)

    def signing_key(self, text: str | None, *, warns: bool = True) -> SigningKey | None:
        """Return the key of a flag, else the one of the settings, else None."""
        if text is not None:
            return read_signing_key(text, warns=warns)
        return None if self.key is None else read_signing_key(self._placed(self.key), warns=warns)

    def module(self, text: str | None) -> PolicyModule:
        """Return the selector of a flag or argument, else the one of the settings."""
        if text is not None:
            return read_selector(text)
        if self.select is None:
            raise UsageError(
                "nothing says which records belong",
                code=Code.POLICY_SELECTOR,
                hint="Give a selector such as //group//app//, or write select in lace.toml.",
            )
        if self.room is not None:
            return room(
                self.select,
                authority=self.room.authority,
                delegation=self.room.delegation,
                revocation_app=self.room.revocation,
            )
        return read_selector(self.select, self.folder)

    def grants_at(self, place: Coordinate) -> bool:
        """Whether a record at a place says who is a member of the room, or is one no longer."""
        if self.room is None or self.select is None:
            return False
        about = parse_urc(self.select)
        apps = {MEMBER_APP, self.room.revocation}
        return (
            isinstance(about, Prefix)
            and place.group == about.group
            and place.app in {f"{about.app}/{app}" for app in apps if app is not None}
        )

    def exposure(self, choices: tuple[str, ...]) -> Exposure:
        """Return the exposure of flags, else the one of the settings."""
        return read_exposure(choices) if choices else read_exposure(self.expose, self.folder)

    def peer(
        self,
        text: str,
        *,
        expect: str | None = None,
        trust: str | None = None,
        key: SigningKey | None = None,
    ) -> Peer:
        """Return the peer of a name in the settings, or of an address."""
        known = self.peers.get(text)
        if expect is not None:
            expect = read_verifier(expect, "--expect")
        if known is None:
            return connect(text, expected=expect, trust=trust, key=key)
        where = None if known.trust is None else str(self.folder / known.trust)
        return connect(
            known.address, expected=expect or known.expect, trust=trust or where, key=key
        )

    def _placed(self, key: str) -> str:
        """Return a key's name as it is, and a key's file from the folder."""
        return str(self.folder / key) if "/" in key or "." in key else key


def find(where: str | None) -> Settings:
    """Return the lace that --lace names, or the nearest one from here upwards."""
    if where is None:
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / FILE).is_file():
                return load(folder)
        raise UsageError("there is no lace here", code=Code.SETTINGS_MISSING)
    path = Path(where)
    if path.name == FILE:
        path = path.parent
    if path.is_dir():
        if not (path / FILE).is_file():
            raise UsageError(f"{path} is no lace: it has no {FILE}", code=Code.SETTINGS_MISSING)
        return load(path)
    if not path.exists():
        raise UsageError(f"{path} does not exist", code=Code.SETTINGS_MISSING)
    return Settings(folder=path.parent, store=path)


# --- the file ---


def load(folder: Path) -> Settings:
    """Return the settings in a folder; raise ``UsageError`` saying what is wrong with them."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES + 1)
    except OSError as error:
        _refuse(path, f"it cannot be read: {error.strerror}")
    if len(content) > _FILE_BYTES:
        _refuse(path, f"it is larger than {_FILE_BYTES} bytes")
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
        room=taken.table("room", _room),
        expose=taken.texts("expose") or ("selected",),
        peers=taken.tables("peers", _peer),
    )
    taken.finish()
    if made.room is not None and made.select is None:
        _wrong("room needs select, the app that the room is about")
    return made


def _room(table: Mapping[str, Any]) -> RoomSettings:
    taken = _Table(table, "room")
    authority = taken.text("authority")
    if authority is None or not is_verifier(authority):
        _wrong("room.authority is the verifier that admits members")
    made = RoomSettings(
        authority=authority,
        delegation=taken.flag("delegation"),
        revocation=taken.text("revocation"),
    )
    taken.finish()
    return made


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
