"""Laces that exist, opened read-only and met in memory: the workbench on what is really there.

Their records are copied, and an exchange runs between the copies, with the rules of both and what
each shows and proves. It is what would happen if they met now; nothing of it is stored or sent,
and no secret is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lace.errors import Code, UsageError
from lace.ids import Verifier
from lace.limits import WORKBENCH
from lace.policy.module import PolicyModule
from lace.policy.view import Exposure
from lace.record.facts import fields
from lace.record.model import Record
from lace.recordstore.base import StoreRecordId
from lace.scenario.build import Built
from lace.scenario.model import PeerSpec, Scenario, Step
from lace.selectors import selector
from lace.tai import Tai

NAME: Final = "rehearsal"
_COLUMNS: Final = ("Name", "Signed-By")
_COLUMNS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Somebody whose verifier is known, and nothing else."""

    verifier: Verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class RealLace:
    """A lace as it is: its records, its rules, what it shows, and whom it proves to be."""

    title: str
    records: tuple[Record, ...]
    module: PolicyModule
    exposure: Exposure
    verifier: Verifier | None = None


def read_records(path: Path, most: int = WORKBENCH.records) -> tuple[Record, ...]:
    """Return the records of a store, without changing anything about it."""
    from lace.recordstore.sqlite import SqliteStore  # an engine in a page has no SQLite

    with SqliteStore(path, read_only=True) as store:
        count = store.count()
        if count > most:
            raise UsageError(
                f"{path} has {count:,} records; the workbench looks at {most:,} at most",
                code=Code.INPUT_FILE,
                hint="Copy what matters: lace export SELECTOR, then lace import into a new lace.",
            )
        found = (store.load(stored.hash) for stored in store.read(StoreRecordId(0), most + 1))
        return tuple(record for record in found if record is not None)


def newcomer(like: RealLace) -> RealLace:
    """Return an empty lace with the same rules, whom nobody knows."""
    return replace(like, title="A newcomer", records=(), verifier=None)


def rehearsal(
    accepts: RealLace, connects: RealLace, now: Tai, people: Mapping[str, str] | None = None
) -> Built:
    """Return the meeting of two laces as a scenario; ``people`` names verifiers."""
    sides = {"here": accepts, "there": connects}
    records = named_records(record for side in sides.values() for record in side.records)
    ids = {str(record.hash): id for id, record in records.items()}
    keys = named_keys({id: side.verifier for id, side in sides.items()}, people or {})
    peers = tuple(
        PeerSpec(
            id=id,
            title=side.title,
            key=id if side.verifier is not None else None,
            has=tuple(dict.fromkeys(ids[str(record.hash)] for record in side.records)),
            rules=side.module.text,
            expose=(side.exposure.default, *(module.text for module in side.exposure.modules)),
        )
        for id, side in sides.items()
    )
    say = f"{connects.title} connects to {accepts.title}."
    scenario = Scenario(
        name=NAME,
        title=f"{accepts.title} and {connects.title}",
        story="Real laces, opened for reading: this is what would happen if they met now. Nothing "
        "is stored or sent; what you change here changes nothing there.",
        now=now,
        keys=(),
        records=(),
        peers=peers,
        steps=(Step(say=say, interlace=("here", "there")),),
        columns=columns_of(records.values()),
    )
    modules = {id: side.module for id, side in sides.items()}
    exposures = {id: side.exposure for id, side in sides.items()}
    return Built(scenario, keys, records, modules, exposures, {}, ((),), ids)


def named_keys(sides: Mapping[str, Verifier | None], people: Mapping[str, str]) -> dict[str, Known]:
    """Return who is who: the sides, and then everybody who has a name here."""
    keys = {id: Known(verifier=one) for id, one in sides.items() if one is not None}
    for verifier, name in people.items():
        keys.setdefault(name, Known(verifier=Verifier(verifier)))
    return keys


def with_rules(built: Built, rules: Mapping[str, str]) -> Built:
    """Return the same meeting with other rules for some of both."""
    scenario, modules = built.scenario, dict(built.modules)
    for peer, text in rules.items():
        scenario = scenario.with_rules(peer, text)
        modules[peer] = selector(text)
    return replace(built, scenario=scenario, modules=modules)


def named_records(records: Iterable[Record]) -> dict[str, Record]:
    """Return records by a name to read: that of their place, and of the hash if need be."""
    found = {record.hash: record for record in records}
    counts: dict[str, int] = {}
    for record in found.values():
        counts[_name(record)] = counts.get(_name(record), 0) + 1
    return {
        _name(record) if counts[_name(record)] == 1 else f"{_name(record)} {hash[2:8]}": record
        for hash, record in found.items()
    }


def _name(record: Record) -> str:
    place = record.place
    return f"{record.hash[:9]}…" if place is None else place.name


def columns_of(records: Iterable[Record]) -> tuple[str, ...]:
    """Return the fields that tables show first: the name, who signed, and the author's own."""
    own: dict[str, None] = {}
    for record in records:
        own |= dict.fromkeys(name for name, _, _ in fields(record) if name not in _STANDARD)
    return (*_COLUMNS, *list(own)[: _COLUMNS_SHOWN - len(_COLUMNS)])


_STANDARD: Final = frozenset(
    ("Group", "App", "Name", "TAI", "Signed-By", "Signature", "Type", "Data-Size", "Data-Hash")
)
