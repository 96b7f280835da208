"""The two ends of an exchange: a local lace, and a peer somewhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from lace.answering.warm import WarmLinks
from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.errors import Code, UsageError, a_kind, wrong_type
from lace.ids import Verifier, parse_verifier
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule
from lace.policy.view import Exposure
from lace.record.build import build_plex, check_name, seal
from lace.record.model import Plex, Record, Seal
from lace.recordstore.base import RecordStore
from lace.recordstore.memory import MemoryStore
from lace.recordstore.sqlite import SqliteStore
from lace.rooms import Room
from lace.text import shown
from lace.threads import Threads
from lace.transport.address import Address, parse_address
from lace.urc import path_fault
from lace.values import DATA, NoValue, Type, check_types, read_value

if TYPE_CHECKING:
    from lace.settings import Settings

__all__ = ["Lace", "Peer", "RecordKind", "connect", "open"]

T = TypeVar("T")

_SELECTED: Final = Exposure(default="selected")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKind:
    """A kind of record that an application has: where it belongs, and which fields it has."""

    group: str
    """The Group of its records."""
    app: str
    """The App of its records."""
    fields: tuple[str, ...] = ()
    """Indexed fields beyond the coordinate; others are refused."""
    required: tuple[str, ...] = ()
    """Those fields that every record of the kind must have."""
    types: Mapping[str, Type] = field(default_factory=dict, hash=False)
    """What fields, and ``Data``, hold: text, bytes, int, decimal, datetime or json. A value that is
    not of its type is refused; ``lace.table`` and ``lace.Projection`` read by it."""

    def __post_init__(self) -> None:
        for what, path in (("group", self.group), ("app", self.app)):
            fault = path_fault(checked_text(path, what))
            if fault is not None:
                raise UsageError(f"{what} cannot be {shown(path)}", code=fault)
        for what in ("fields", "required"):
            given = checked_names(getattr(self, what), what)
            object.__setattr__(self, what, given)  # a list is as good, but cannot be hashed
            for name in given:
                check_name(name)
        check_types(self.types)
        for name in self.types:
            if name not in self.columns or name == "Name":
                known = ", ".join(self.columns[1:])
                raise UsageError(
                    f"types has {shown(name)}, which is no field of {self.app}; there are {known}",
                    code=Code.RECORD_KIND,
                    hint="Name it in fields or required too.",
                )

    def build(
        self,
        name: str,
        data: bytes | str = b"",
        fields: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        *,
        key: SigningKey | None = None,
        tai: str | None = None,
    ) -> Plex | Seal:
        """Return a new record of this kind, signed if a key is given; of now, or of ``tai``."""
        checked_key(key)
        checked_text(name, "name")
        if tai is not None:
            checked_text(tai, "tai", "Write 1700000000:000000000; lace.tai_now() is now.")
        if not isinstance(data, bytes | str):
            raise wrong_type("data as bytes or text", data)
        pairs = list(fields.items()) if isinstance(fields, Mapping) else list(fields)
        for field_name, text in pairs:
            checked_text(text, field_name, "Fields are text; types= says how it is read.")
        self.check(name for name, _ in pairs)
        for field_name, value in (*pairs, (DATA, data)):
            self._check_type(field_name, value)
        plex = build_plex(
            group=self.group,
            app=self.app,
            name=name,
            tai=tai or tai_now(),
            extras=pairs,
            data=data.encode() if isinstance(data, str) else data,
        )
        return plex if key is None else seal(plex, key)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table of such records: the name, the fields, and the data."""
        return ("Name", *dict.fromkeys((*self.required, *self.fields)), DATA)

    def _check_type(self, name: str, value: str | bytes) -> None:
        type = self.types.get(name)
        if type is None:
            return
        try:
            read_value(value, type)
        except NoValue as error:
            raise UsageError(
                f"{name} of {self.app} is of type {type}, and {error}",
                code=Code.RECORD_KIND,
                hint="Give a value of the type that the kind declares.",
            ) from None

    def check(self, names: Iterable[str]) -> None:
        """Raise ``UsageError`` unless these are fields that a record of this kind can have."""
        given = set(names)
        known = {*self.fields, *self.required}
        for wrong in sorted(given - known):
            raise UsageError(
                f"{self.app} has no field {wrong}; it has {', '.join(sorted(known)) or 'none'}",
                code=Code.RECORD_KIND,
            )
        for missing in sorted(set(self.required) - given):
            raise UsageError(f"{self.app} needs the field {missing}", code=Code.RECORD_KIND)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Lace:
    """A local lace. It takes part in interlaces; what it holds is seen through selectors only."""

    _store: RecordStore
    key: SigningKey | None = None
    """Proven to peers, and signs what is added here."""
    limits: Limits = DEFAULT_LIMITS
    """What its input and its peers are held to."""
    kinds: tuple[RecordKind, ...] = ()
    """The kinds of records that the application has."""
    policy: PolicyModule | None = None
    """What belongs, where a call does not say it: the selector of the settings."""
    exposure: Exposure = _SELECTED
    """What peers' rules may see, where a call does not say it; if nobody says it, what the own
    selector selects."""
    peers: Mapping[str, Peer] = field(default_factory=dict)
    """Those of the settings, by name."""
    room: Room | None = None
    """The room that the settings are about."""
    _known_as: Verifier | None = None
    _has_settings: bool = False
    _worker: Threads | None = None
    _warm: WarmLinks = field(default_factory=WarmLinks)
    _closed: bool = False

    def __repr__(self) -> str:
        where = getattr(self._store, "path", "in memory")
        signs = f", {self.key.verifier}" if self.key is not None else ""
        return f"<Lace {where}{signs}{', closed' if self._closed else ''}>"

    @property
    def verifier(self) -> Verifier | None:
        """The verifier of its key; None if it has none."""
        return self._known_as if self.key is None else self.key.verifier

    def kind(self, app: str) -> RecordKind:
        """Return the kind of record that was given for an app."""
        for kind in self.kinds:
            if kind.app == app:
                return kind
        known = ", ".join(kind.app for kind in self.kinds) or "none"
        raise UsageError(f"no kind of record for {app}; there are: {known}", code=Code.RECORD_KIND)

    def close(self) -> None:
        """Let go of the store; what is stored stays stored. A closed lace stays closed."""
        if self._closed:
            return
        self._closed = True
        if self._worker is not None:
            self._worker.shutdown(wait=True)
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def store_of(lace: Lace) -> RecordStore:
    """Return the store of a handle: for this package, which goes by policy, and for nobody else."""
    local = as_lace(lace)
    if local._closed:  # noqa: SLF001
        raise UsageError("this lace was closed", code=Code.STORE_CLOSED)
    return local._store  # noqa: SLF001


def set_known_as(lace: Lace, verifier: Verifier) -> None:
    """Say whom rules take a lace for that has no key: for explanations, which prove nothing."""
    lace._known_as = verifier  # noqa: SLF001


def as_lace(given: object) -> Lace:
    """Return a handle of a lace, or raise ``UsageError`` that says what was given instead."""
    if not isinstance(given, Lace):
        raise wrong_type("a lace", given, "Open one: lace.open(path).")
    return given


def checked_text(given: object, what: str, hint: str = "") -> str:
    """Return a text that was given, or raise ``UsageError`` if it is none."""
    if isinstance(given, str):
        return given
    raise UsageError(
        f"{what} is text, not {a_kind(given)}", code=Code.INPUT_TYPE, hint=hint or "Give a str."
    )


def checked_names(given: object, what: str) -> tuple[str, ...]:
    """Return several names that were given; one text is not several of one letter."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(
            f"{what} is a tuple of names, not {a_kind(given)}",
            code=Code.INPUT_TYPE,
            hint='Write ("Title",) for one.',
        )
    return tuple(checked_text(name, f"a name in {what}") for name in given)


def checked_key(key: SigningKey | None) -> SigningKey | None:
    """Return a key that was given, or raise ``UsageError`` if it is none."""
    if key is None or isinstance(key, SigningKey):
        return key
    raise UsageError(
        f"key is a SigningKey, not a {type(key).__name__}",
        code=Code.INPUT_TYPE,
        hint='Of the keyring it is lace.Keyring().get("alice").key.',
    )


def worker_of(lace: Lace) -> Threads | None:
    """Return the threads in which a handle evaluates and stores, if it has any."""
    return lace._worker  # noqa: SLF001


async def in_worker(lace: Lace, work: Callable[[], T]) -> T:
    """Do work on a handle's store in a thread of its own, so that the event loop goes on meanwhile.

    What is in memory has no such threads: it is done at once.
    """
    if lace._worker is None:  # noqa: SLF001
        return work()
    return await lace._worker.do(work)  # noqa: SLF001


async def in_steps(
    lace: Lace, steps: Iterator[T], count: T, listen: Callable[[T], None] | None
) -> T:
    """Do work step by step in a thread; tell the count after each step, and return the last.

    A thread does not stop when its work is cancelled. So that is put off until the step is done and
    told: whoever begins again finds what was done.
    """
    cancelled = False
    while not cancelled:
        step = asyncio.ensure_future(in_worker(lace, lambda: next(steps, None)))
        while not step.done():
            try:
                await asyncio.wait([step])
            except asyncio.CancelledError:
                cancelled = True
        found = step.result()
        if found is None:
            break
        count = found
        if listen is not None:
            listen(count)
    if cancelled:
        raise asyncio.CancelledError
    return count


def has_settings(lace: Lace) -> bool:
    """Whether a handle has settings of its own, which then hold where a call says nothing."""
    return lace._has_settings  # noqa: SLF001


def warm_links_of(lace: Lace) -> WarmLinks:
    """Return what exchanges of a handle left behind for later ones."""
    return lace._warm  # noqa: SLF001


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another lace at an address; it is called when something is done with it."""

    address: Address
    """Where it listens."""
    expected: Verifier | None = None
    """Whom it must prove to be."""
    trust: Path | None = None
    """One more certificate to believe, for wss."""
    trusts_local: bool = field(default=False)
    """Whether Unix sockets and stdio count as encrypted."""
    key: SigningKey | None = None
    """Proven to it by get, list and store; an interlace proves the key of its own lace."""


def open(
    path: str | Path | None = None,
    *,
    records: Iterable[Record | RecordKind] = (),
    key: SigningKey | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Lace:
    """Open a lace: of a folder, of a store file, or in memory without either.

    A folder is one that ``lace init`` made; what its ``lace.toml`` says holds where nothing else is
    said: the key, the selector, what is exposed, and the peers. If its store is gone, this raises
    ``StoreError``. A store file that is named by itself is made if it is not there; one in a folder
    that may only be read can be read, and storing there raises.
    ``records`` are kinds of records that the application defines, and records to start with.
    """
    checked_key(key)
    if path is not None and not isinstance(path, str | Path):
        raise wrong_type("the path of a folder or a store file", path)
    settings = None if path is None else _settings(Path(path))
    if settings is not None:
        path = settings.store
    said = _said_by(settings)
    given = list(records)
    for item in given:
        if not isinstance(item, Record | RecordKind):
            raise wrong_type("records and kinds of records", item)
    store: RecordStore = MemoryStore(limits) if path is None else SqliteStore(path)
    seeds = [item for item in given if isinstance(item, Record)]
    try:
        if seeds:
            store.save(seeds)
    except BaseException:
        store.close()
        raise
    return Lace(
        _store=store,
        key=said.key if key is None else key,
        limits=limits,
        kinds=tuple(item for item in given if isinstance(item, RecordKind)),
        policy=said.policy,
        exposure=said.exposure,
        peers=said.peers,
        room=said.room,
        _has_settings=settings is not None,
        _worker=None if path is None else Threads(2, "lace"),
    )


@dataclass(frozen=True, slots=True)
class _Said:
    """What the settings of a folder say, ready for use."""

    key: SigningKey | None = None
    policy: PolicyModule | None = None
    exposure: Exposure = _SELECTED
    peers: Mapping[str, Peer] = field(default_factory=dict)
    room: Room | None = None


def _settings(path: Path) -> Settings | None:
    from lace.settings import check_store, load, located  # a file alone needs none of this

    folder = located(path)
    if folder is None:
        return None
    settings = load(folder)
    check_store(settings.store)
    return settings


def _said_by(settings: Settings | None) -> _Said:
    if settings is None:
        return _Said()
    peers = {
        name: connect(
            peer.address,
            expected=peer.expect,
            trust=None if peer.trust is None else settings.folder / peer.trust,
        )
        for name, peer in settings.peers.items()
    }
    policy = None if settings.select is None else settings.module()
    return _Said(settings.signing_key(), policy, settings.exposure(), peers, settings.room)


def connect(
    address: str,
    *,
    expected: str | None = None,
    trust: str | Path | None = None,
    trusts_local: bool = False,
    key: SigningKey | None = None,
) -> Peer:
    """Return a peer by its address: ``tcp:host:port``, ``wss://host/interlace``, ``unix:/path``.

    ``key`` is proven to it by ``get``, ``list`` and ``store``, which have no lace of their own.
    """
    return Peer(
        address=parse_address(checked_text(address, "address", "Write tcp:host:port.")),
        expected=None if expected is None else parse_verifier(expected),
        trust=None if trust is None else Path(trust),
        trusts_local=trusts_local,
        key=checked_key(key),
    )
