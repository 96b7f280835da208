"""Who may see what and who may store what, from a file; turned into selectors that say so.

An entry speaks of anyone, of everyone who proves a key, or of some verifiers. What a peer may do is
what all entries that speak of it allow together. ``see`` and ``store`` differ by direction, and
rules know the direction only by who is here and who is the peer: that takes a server that proves a
key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn

from lace.datalog.ast import (
    Anonymous,
    Atom,
    BodyAtom,
    Constant,
    Negated,
    Rule,
    Variable,
)
from lace.errors import Code, LaceError, UsageError
from lace.ids import Verifier, is_verifier
from lace.limits import DEFAULT_LIMITS, FIXED, Limits
from lace.policy.admission import takes_from_anyone
from lace.policy.module import PolicyModule, module_from_rules, module_from_text, renamed
from lace.policy.view import Exposure
from lace.selectors import selector
from lace.text import shown

_P, _S, _V, _ANY = Variable("P"), Variable("S"), Variable("V"), Anonymous()
_ANYONE: Final = "anyone"
_PROVEN: Final = "proven"
_SELECTED: Final = Exposure(default="selected")
ANYONE: Final = _ANYONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Most that is taken, from one peer or from all together."""

    mib_per_day: int
    """MiB of records in one day of TAI."""
    records_per_day: int
    """Records in one day of TAI."""
    mib: int
    """MiB of records in all."""
    records: int
    """Records in all."""


Selectors = PolicyModule | str | Iterable[PolicyModule | str]
"""A selector or several: as modules, as places, or as rules."""


@dataclass(frozen=True, slots=True, init=False)
class Grant:
    """What some peers may do: ``Grant(who="proven", see="//group//app//")``.

    ``who`` is ``"anyone"``, ``"proven"`` for whoever proves a key, or verifiers. ``sync``, ``see``
    and ``store`` take a selector or several: places, rules, or modules.
    """

    who: frozenset[str] | str
    """Verifiers, ``anyone``, or ``proven``."""
    sync: tuple[PolicyModule, ...]
    """What goes both ways."""
    see: tuple[PolicyModule, ...]
    """What they may get."""
    store: tuple[PolicyModule, ...]
    """What they may give."""
    signed_by_peer: bool
    """Whether they may give only what they signed themselves."""
    said: Mapping[str, tuple[str, ...]]
    """The selectors as they were written, by ``sync``, ``see`` and ``store``."""
    quota: Mapping[str, int]
    """How much each of them may give, where it is more than anyone may, by names of ``Quota``."""

    def __init__(
        self,
        *,
        who: str | Iterable[str],
        sync: Selectors = (),
        see: Selectors = (),
        store: Selectors = (),
        signed_by_peer: bool = False,
        said: Mapping[str, tuple[str, ...]] | None = None,
        quota: Mapping[str, int] | None = None,
    ) -> None:
        given = {"sync": _several(sync), "see": _several(see), "store": _several(store)}
        if not any(given.values()):
            _refuse("a grant allows nothing: give sync, see or store")
        if signed_by_peer and not given["store"]:
            _refuse("signed_by_peer is about store, and there is none")
        written = {
            name: tuple(one if isinstance(one, str) else one.text for one in modules)
            for name, modules in given.items()
        }
        unknown = set(quota or ()) - {entry.name for entry in fields(Quota)}
        if unknown:
            _refuse(f"quota has no {', '.join(map(shown, sorted(unknown)))}")
        values: dict[str, Any] = {
            "who": _who(who),
            "signed_by_peer": signed_by_peer,
            "said": written if said is None else said,
            "quota": dict(quota or {}),
        }
        for name, modules in given.items():
            values[name] = tuple(selector(m) if isinstance(m, str) else m for m in modules)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def speaks_of(self, peer: Verifier | None) -> bool:
        """Return whether this is about a peer; None stands for one that has proven nothing."""
        if self.who == _ANYONE:
            return True
        return peer is not None and (self.who == _PROVEN or peer in self.who)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What a server bears, in all and from each peer."""

    connections: int = 1000
    """Most connections at once."""
    connections_per_host: int = 200
    """Most of them from one network address."""
    memory_mib: int = 2048
    """Most that all connections and workers may hold together; workers have at most half of it.
    The largest connection is ended when it is more."""
    bytes_per_minute: int = 2 * 1024**3
    """Most bytes that one connection may send us in a minute; it waits when it is more."""
    phases_per_minute: int = 3000
    """Most phases, and so evaluations, that one connection may make us do in a minute."""
    sent_bytes_per_minute: int = 512 * 1024**2
    """Most bytes that are sent to one network address in a minute; what is more waits."""
    peer_mib_per_day: int = 64
    """Most MiB of records that are stored from one peer in a day, unless a grant says more."""
    peer_records_per_day: int = 100_000
    """The same, counted in records."""
    peer_mib: int = 4096
    """Most MiB that are stored from one peer in all, unless a grant says more."""
    peer_records: int = 10_000_000
    """The same, counted in records."""
    mib_per_day: int = 4096
    """Most MiB of records that are stored from all peers together in a day."""
    records_per_day: int = 10_000_000
    """The same, counted in records."""
    mib: int = 1_048_576
    """Most MiB that are stored from all peers together in all."""
    records: int = 1_000_000_000
    """The same, counted in records."""
    free_mib: int = 512
    """Nothing of peers is stored while less is free on the disk."""
    idle_seconds: int = 3600
    """How long a connection may stay after a fixed point when nothing happens."""
    workers: int = 2
    """Threads that evaluate and store."""
    rule_seconds: int = 10
    """Processor time after which the operating system ends one evaluation of a peer's rules."""
    rule_mib: int = 512
    """Memory that a process may take which evaluates rules of peers; fewer run if it is much."""
    grace_seconds: int = 10
    """How long exchanges may go on after the server was told to stop."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value < 1:
                _refuse(f"limit {entry.name} is {value}, but must be at least 1")

    @property
    def peer(self) -> Quota:
        """What is taken from a peer of whom no grant says more."""
        return Quota(**{e.name: getattr(self, f"peer_{e.name}") for e in fields(Quota)})

    @property
    def total(self) -> Quota:
        """What is taken from all together."""
        return Quota(**{e.name: getattr(self, e.name) for e in fields(Quota)})


@dataclass(slots=True, kw_only=True)
class ServePolicy:
    """Grants and limits; ``module_for`` is what the server exchanges with a peer."""

    grants: tuple[Grant, ...]
    limits: ServerLimits = field(default_factory=ServerLimits)
    engine: Limits = DEFAULT_LIMITS
    exposure: Exposure = _SELECTED
    """What rules of peers may see: by default, what may be sent may be looked at."""
    accepted: frozenset[str] | None = None
    """Whose records are taken: verifiers, or ``anyone``; None for all whom an entry grants it."""
    _module_of: Callable[[tuple[int, ...], Verifier | None], PolicyModule] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        self._module_of = lru_cache(FIXED.cached_modules)(self._compiled)

    def check(self, server: Verifier | None) -> None:
        """Raise unless this server can tell the directions apart where it has to."""
        if server is None and any(g.see or g.store for g in self.grants):
            _refuse(
                "see and store need a server that proves a key: give it one (--key), or use sync"
            )
        for grant in self.grants:
            self.module_for(next(iter(grant.who)) if _is_list(grant) else None, server)  # type: ignore[arg-type]

    def accepts(self, peer: Verifier | None, server: Verifier | None) -> bool:
        """Whether anything of a peer is stored; of whoever holds the server's own key it is."""
        if self.accepted is None or _ANYONE in self.accepted:
            return True
        return peer is not None and (peer == server or peer in self.accepted)

    def for_strangers(self) -> tuple[list[str], list[str]]:
        """Return what anyone who connects may read, and what anyone may write, as written."""
        reads: list[str] = []
        writes: list[str] = []
        for grant in self.grants:
            if grant.who in {_ANYONE, _PROVEN}:  # keys cost nothing
                reads += [*grant.said.get("sync", ()), *grant.said.get("see", ())]
                writes += grant.said.get("sync", ())
                own = " (signed by themselves)" if grant.signed_by_peer else ""
                writes += [f"{text}{own}" for text in grant.said.get("store", ())]
        return reads, writes if self.accepts(None, None) else []

    def names(self, peer: Verifier) -> bool:
        """Whether an entry speaks of a verifier by itself."""
        return any(peer in grant.who for grant in self.grants if _is_list(grant))

    def quota_for(self, peer: Verifier | None) -> Quota:
        """Return how much is taken from a peer: the most that any entry grants it."""
        found = [self.limits.peer]
        found += [replace(found[0], **g.quota) for g in self.grants if g.speaks_of(peer)]
        return Quota(**{e.name: max(getattr(q, e.name) for q in found) for e in fields(Quota)})

    def module_for(self, peer: Verifier | None, server: Verifier | None) -> PolicyModule:
        """Return the selector for a peer, whose verifier is None until it is proven."""
        chosen = tuple(number for number, grant in enumerate(self.grants) if grant.speaks_of(peer))
        return self._module_of(chosen, server)

    def _compiled(self, chosen: tuple[int, ...], server: Verifier | None) -> PolicyModule:
        return _module([self.grants[number] for number in chosen], server)


def symmetric_policy(
    module: PolicyModule,
    exposure: Exposure = _SELECTED,
    *,
    said: Mapping[str, tuple[str, ...]] | None = None,
    accepted: frozenset[str] | None = None,
) -> ServePolicy:
    """Return the policy under which anyone gets what one selector selects.

    ``accepted`` are those who may also give it: verifiers, or ``anyone``; None is anyone.
    ``exposure`` may show less of it to some.
    """
    grant = Grant(who=_ANYONE, sync=(module,), said=said or {})
    return ServePolicy(grants=(grant,), exposure=exposure, accepted=accepted)


def selector_policy(
    module: PolicyModule,
    exposure: Exposure = _SELECTED,
    *,
    said: tuple[str, ...] = (),
    accepted: Iterable[str] = (),
) -> ServePolicy:
    """Return the policy of one selector, which is for reading where it takes from anyone.

    ``accepted`` are those who may write then: verifiers, or ``anyone``. ``said`` is the selector as
    it was written. Rules that name signers or peers say themselves from whom they take.
    """
    who = frozenset(accepted)
    for name in who:
        if name != _ANYONE and not is_verifier(name):
            _refuse(f"who may write: {shown(name)} is neither a verifier nor {_ANYONE}")
    if takes_from_anyone(module):
        return symmetric_policy(module, exposure, said={"sync": said}, accepted=who)
    if who:
        _refuse("the selector says itself from whom it takes: name nobody who may write")
    by_rules = tuple(f"what the rules of {text} allow" for text in said)
    return symmetric_policy(module, exposure, said={"see": said, "store": by_rules})


def _module(grants: Iterable[Grant], server: Verifier | None) -> PolicyModule:
    rules: list[Rule] = []
    here = Atom("Here", (Constant(server or ""),))
    there = Atom("Peer", (Constant(server or ""),))
    number = 0
    for grant in grants:
        for modules, on_sending, on_receiving in (
            (grant.sync, (), ()),
            (grant.see, (here,), (there,)),
            (grant.store, *_storing(grant, here, there)),
        ):
            for module in modules:
                rules += _part(module, number, on_sending, on_receiving)
                number += 1
    if not rules:
        nothing = (Atom("Have", (_P,)), Negated(Atom("Have", (_P,))))
        no_advert = Atom("Advertised", (_P, _S))
        rules = [
            Rule(Atom("SelectHave", (_P,)), nothing),
            Rule(Atom("SelectAdvertised", (_P, _S)), (no_advert, Negated(no_advert))),
        ]
    return module_from_rules(tuple(rules))


def _storing(
    grant: Grant, here: Atom, there: Atom
) -> tuple[tuple[BodyAtom, ...], tuple[BodyAtom, ...]]:
    """Return the conditions of storing: for the peer that sends, and for us who receive."""
    if not grant.signed_by_peer:
        return (there,), (here,)
    signed_by = Constant("Signed-By")
    return (
        (there, Atom("Field", (_P, signed_by, _ANY, _V)), Atom("Here", (_V,))),
        (here, Atom("AdvertisedField", (_P, _S, signed_by, _ANY, _V)), Atom("Peer", (_V,))),
    )


def _part(
    module: PolicyModule,
    number: int,
    on_sending: tuple[BodyAtom, ...],
    on_receiving: tuple[BodyAtom, ...],
) -> list[Rule]:
    """Return a module's rules under names of their own, and the two facets under conditions."""
    names = {p: f"g{number}_{p.name}" for p in module.program.derived}
    rules = [renamed(rule, names) for rule in module.lacegram.rules]
    have = Atom(f"g{number}_SelectHave", (_P,))
    advertised = Atom(f"g{number}_SelectAdvertised", (_P, _S))
    return [
        *rules,
        Rule(Atom("SelectHave", (_P,)), (have, *on_sending)),
        Rule(Atom("SelectAdvertised", (_P, _S)), (advertised, *on_receiving)),
    ]


# --- the file ---


def load_policy(path: Path) -> ServePolicy:
    """Return the policy in a TOML file; raise ``UsageError`` saying what is wrong with it."""
    try:
        with path.open("rb") as file:
            content = file.read(FIXED.settings_bytes + 1)
    except OSError as error:
        _refuse(f"cannot read {path}: {error.strerror}")
    if len(content) > FIXED.settings_bytes:
        _refuse(f"{path} is larger than {FIXED.settings_bytes} bytes")
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        _refuse(f"{path}: {error}")
    try:
        return parse_policy(table, path.parent)
    except LaceError as error:
        _refuse(f"{path}: {error.message}")


def parse_policy(table: Mapping[str, Any], folder: Path) -> ServePolicy:
    """Return the policy that a TOML table describes; files are looked for in ``folder``."""
    _known(table, {"allow", "limits", "engine"}, "the file")
    entries = table.get("allow", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        _refuse("allow is a list of tables: write [[allow]]")
    try:
        engine = replace(DEFAULT_LIMITS, **_numbers(table, "engine", Limits))
    except ValueError as error:
        _refuse(f"[engine]: {error}")
    return ServePolicy(
        grants=tuple(_grant(entry, folder) for entry in entries),
        limits=replace(ServerLimits(), **_numbers(table, "limits", ServerLimits)),
        engine=engine,
    )


def _grant(entry: Mapping[str, Any], folder: Path) -> Grant:
    quotas = {quota.name for quota in fields(Quota)}
    _known(entry, {"who", "sync", "see", "store", "signed_by_peer"} | quotas, "allow")
    quota = {name: value for name, value in entry.items() if name in quotas}
    signed = entry.get("signed_by_peer", False)
    if not isinstance(signed, bool):
        _refuse("signed_by_peer is true or false")
    return Grant(
        who=entry.get("who", ()),
        sync=_selectors(entry, "sync", folder),
        see=_selectors(entry, "see", folder),
        store=_selectors(entry, "store", folder),
        signed_by_peer=signed,
        said={name: _texts(entry, name) for name in ("sync", "see", "store")},
        quota=_numbers({"allow": quota}, "allow", Quota),
    )


def _several(given: object) -> tuple[PolicyModule | str, ...]:
    """Return the selectors that are meant, if they are some."""
    if isinstance(given, PolicyModule | str):
        return (given,)
    listed = list(given) if isinstance(given, Iterable) else [None]
    found = tuple(item for item in listed if isinstance(item, PolicyModule | str))
    if len(found) < len(listed):
        _refuse("sync, see and store take places, rules or modules")
    return found


def _who(value: object) -> frozenset[str] | str:
    if isinstance(value, str) and value in {_ANYONE, _PROVEN}:
        return value
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Iterable) or not (listed := list(names)):
        _refuse('who is "anyone", "proven", or a list of verifiers')
    for name in listed:
        if not isinstance(name, str) or not is_verifier(name):
            _refuse(f"who: {shown(str(name))} is not a verifier")
    return frozenset(listed)


def _selectors(entry: Mapping[str, Any], name: str, folder: Path) -> tuple[PolicyModule, ...]:
    return tuple(_selector(text, folder) for text in _texts(entry, name))


def _texts(entry: Mapping[str, Any], name: str) -> tuple[str, ...]:
    texts = entry.get(name, [])
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        _refuse(f"{name} is a list of selectors")
    return tuple(texts)


def _selector(text: str, folder: Path) -> PolicyModule:
    """Return the module of a selector's text, or of the rules in a file named ``file:…``."""
    if not text.startswith("file:"):
        return selector(text)
    path = folder / text.removeprefix("file:")
    try:
        with path.open("rb") as file:
            content = file.read(DEFAULT_LIMITS.lacegram_bytes + 1)
    except OSError as error:
        _refuse(f"cannot read {path}: {error.strerror}")
    return module_from_text(content)


def _numbers(table: Mapping[str, Any], name: str, kind: type) -> dict[str, int]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        _refuse(f"{name} is a table: write [{name}]")
    _known(found, {entry.name for entry in fields(kind)}, name)
    for key, value in found.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            _refuse(f"{name}.{key} is a whole number")
    return found


def _known(table: Mapping[str, Any], names: set[str], where: str) -> None:
    for key in table:
        if key not in names:
            _refuse(f"{where} knows no {shown(key)}; it knows {', '.join(sorted(names))}")


def _is_list(grant: Grant) -> bool:
    return not isinstance(grant.who, str)


def _refuse(message: str) -> NoReturn:
    raise UsageError(message, code=Code.SERVE_POLICY)
