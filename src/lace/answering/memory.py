"""What is known of a link between exchanges: one value, with everything that it depends on.

It is taken whole or not at all. A value that is read back from a store is the value that was kept,
so that an exchange cannot tell whether anybody stopped in between.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, Final

from lace import b64a
from lace._version import __version__
from lace.answering.following import Position
from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import Code, EncodingError, StoreError
from lace.interlace.groups import GROUP, group_digest
from lace.interlace.messages import LinkState
from lace.interlace.partition import Partitions
from lace.interlace.runs import entry_size, last_digests
from lace.interlace.summary import EMPTY
from lace.limits import Limits
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.recordstore.base import LinkChange, LinkMemory
from lace.text import fact_line

_OWN: Final = b"o"
_PEERS: Final = b"p"
_TEXT: Final = b"t"
_RUN: Final = b"r"
_ROOTS: Final = b"g"
_ROOT: Final = struct.Struct(">I32s")
_ALIKE: Final = b"="
"""Stands for a partition of the peer's table that has what it would say of this side's records."""
_DIGEST: Final = 32
_OWN_DIGESTS: Final = 2


@dataclass(frozen=True, slots=True)
class Known:
    """How a link stood at a fixed point, and on what that depended."""

    basis: bytes
    """A digest of everything but the records and the time: see ``basis_of``."""
    position: Position
    runtime: bytes
    """A digest of the runtime facts that rules look at."""
    state: LinkState
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """Advertisements of the peer that are not what this side would say of the same records."""
    head: bytes = b""
    """What is kept of it, to tell this value from any other."""
    memory: LinkMemory | None = None
    """Where it is read from when somebody looks at it."""


def basis_of(
    plan: ExchangePlan,
    index: int,
    schema: frozenset[str] | None,
    exposure: Exposure,
    limits: Limits,
) -> bytes:
    """Return a digest of all that decides on a selection, but for records, time and claims."""
    modules = [*(operand.module for operand in plan.operands), *exposure.modules]
    lines = [__version__, str(index), plan.id, plan.lowering.name, repr(limits)]
    lines += [exposure.default, str(exposure.union), *(module.id for module in modules)]
    for operand in plan.operands:
        lines += [operand.source_label, operand.viewer]
    lines += ["*"] if schema is None else [f"+{name}" for name in sorted(schema)]
    return digest("\n".join(lines).encode())


def runtime_of(plan: ExchangePlan, exposure: Exposure, runtime: Iterable[Fact]) -> bytes:
    """Return a digest of the runtime facts that any rule looks at."""
    modules = [*(operand.module for operand in plan.operands), *exposure.modules]
    looked_at = plan.lowering.program.base.union(*(module.program.base for module in modules))
    lines = sorted(
        fact_line(fact[0], fact[1:]) for fact in runtime if (fact[0], len(fact) - 1) in looked_at
    )
    return digest("\n".join(lines).encode())


# --- as bytes ---


def change_of(known: Known, before: Known | None) -> tuple[Known, LinkChange]:
    """Return a value with its head, and what a store has to change to keep it."""
    state = known.state
    head = json.dumps({
        "basis": b64a.encode(known.basis),
        "position": [known.position.high_water, known.position.forgets],
        "runtime": b64a.encode(known.runtime),
        "own": _whole(state.own),
        "peers": _whole(state.peers),
        "wanted": sorted(state.wanted),
        "stamp": secrets.token_hex(8),
    }, sort_keys=True).encode()  # fmt: skip
    parts = dict(chain(
        _table_parts(_OWN, state.own, None if before is None else before.state.own),
        _peers_parts(state, None if before is None else before.state),
        _text_parts(known.texts, {} if before is None else before.texts),
    ))  # fmt: skip
    gone = frozenset(name for name, data in parts.items() if data is None)
    put = {name: data for name, data in parts.items() if data is not None}
    base = None if before is None else before.head
    return replace(known, head=head), LinkChange(head, put, gone, base)


def read_known(memory: LinkMemory, standard: int) -> Known | None:
    """Return the value that was kept, or None if it is none that this engine wrote."""
    try:
        head = json.loads(memory.head)
        ours = _KeptTable.of(_OWN, head["own"], 2, memory)
        theirs = _KeptTable.of(_PEERS, head["peers"], 1, memory, ours)
        own = Partitions.from_kept(2, standard, ours)
        peers = Partitions.from_kept(1, standard, theirs)
        return Known(
            b64a.decode(head["basis"]),
            Position(*map(int, head["position"])),
            b64a.decode(head["runtime"]),
            LinkState(own, peers, frozenset(map(str, head["wanted"]))),
            _Texts(memory),
            memory.head,
            memory,
        )
    except (ValueError, KeyError, TypeError, IndexError, EncodingError):
        return None


def _whole(table: Partitions) -> list[Any]:
    groups = b"".join(map(table.group_digest, range(table.groups)))
    odd = {record: b64a.encode(digests) for record, digests in table.odd.items()}
    root = table.known_root
    return [len(table), b64a.encode(groups), odd, root and b64a.encode(root)]


@dataclass(frozen=True, slots=True)
class _KeptTable:
    """A table as it is kept: a part for each partition, and one for the roots of a group."""

    kind: bytes
    count: int
    groups: tuple[bytes, ...]
    odd: Mapping[str, bytes]
    whole: bytes | None
    entry: int
    memory: LinkMemory
    other: _KeptTable | None
    """That of this side's records, for a table of the peer's."""
    stays: ClassVar[bool] = False
    _ahead: dict[bytes, bytes] = field(default_factory=dict)
    """Parts that were read before anybody asked for them."""

    def expected(self) -> None:
        """Have it made from the runs."""

    def names(self, key: bytes, column: int) -> None:
        """Have them made from the runs."""

    @classmethod
    def of(
        cls,
        kind: bytes,
        whole: Any,
        digests: int,
        memory: LinkMemory,
        other: _KeptTable | None = None,
    ) -> _KeptTable:
        count, groups, odd, root = whole
        text = b64a.decode(groups)
        aside = {str(record): b64a.decode(digests) for record, digests in odd.items()}
        cut = tuple(text[at : at + _DIGEST] for at in range(0, len(text), _DIGEST))
        known = None if root is None else b64a.decode(root)
        return cls(kind, int(count), cut, aside, known, entry_size(digests), memory, other)

    def roots(self, group: int) -> Sequence[tuple[int, bytes]]:
        data = self._part(_ROOTS, group)
        if not data:
            return [(0, EMPTY)] * GROUP
        if len(data) % _ROOT.size or group_digest(data) != self.groups[group]:
            raise self._damaged()
        return list(_ROOT.iter_unpack(data))

    def read_ahead(self, numbers: Sequence[int]) -> None:
        names = [self._name(_RUN, number) for number in numbers]
        found = self.memory.some(names)
        self._ahead.update(dict.fromkeys(names, b"") | found)
        if self.other is not None:
            alike = [n for n, name in zip(numbers, names, strict=True) if found.get(name) == _ALIKE]
            self.other.read_ahead(alike)

    def run(self, number: int) -> bytes:
        data = self._part(_RUN, number)
        if data == _ALIKE and self.other is not None:
            return last_digests(self.other.run(number), _OWN_DIGESTS)
        if len(data) % self.entry:
            raise self._damaged()
        return data

    def _part(self, kind: bytes, number: int) -> bytes:
        name = self._name(kind, number)
        found = self._ahead.pop(name, None)
        return self.memory.parts.get(name, b"") if found is None else found

    def _name(self, kind: bytes, number: int) -> bytes:
        return self.kind + kind + str(number).encode()

    def _damaged(self) -> StoreError:
        self.memory.damaged = True
        return StoreError("what is kept of a link is damaged", code=Code.STORE_LINK)


class _Texts(Mapping[str, bytes]):
    """Advertisements as they are kept, each in a part of its own."""

    def __init__(self, memory: LinkMemory) -> None:
        self._memory = memory

    def __getitem__(self, record: str) -> bytes:
        return self._memory.parts[_TEXT + record.encode()]

    def some(self, records: Iterable[str]) -> Mapping[str, bytes]:
        """Return those of some records, read together."""
        names = [_TEXT + record.encode() for record in records]
        return {name[1:].decode(): text for name, text in self._memory.some(names).items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def items(self) -> ItemsView[str, bytes]:
        return self._all().items()

    def _all(self) -> dict[str, bytes]:
        found = self._memory.beginning(_TEXT).items()  # at one go, and nothing of tables
        return {name[1:].decode(): text for name, text in found}


def changed_texts(texts: Mapping[str, bytes], changed: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return texts with some of them changed, or gone if they are empty; the same if none is."""
    had = texts.some(changed) if isinstance(texts, _Texts) else texts
    if not any(changed[record] or record in had for record in changed):
        return texts
    return {r: t for r, t in {**texts, **changed}.items() if t}


def _table_parts(
    kind: bytes, table: Partitions, before: Partitions | None
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the parts of a table that differ from those before; None for one that is gone."""
    then = before or Partitions(table.columns, standard=table.standard)
    for run in table.differing(then):
        yield kind + _RUN + str(run).encode(), table.run(run) or None
    yield from _roots_parts(kind, table, then)


def _peers_parts(
    state: LinkState, before: LinkState | None
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the same of the peer's table; what follows from the other table is not said again."""
    own, peers = state.own, state.peers
    if before is None:
        then = Partitions(peers.columns, standard=peers.standard)
        changed = set(own.filled()) | set(peers.filled())
    else:
        then = before.peers
        changed = {*own.differing(before.own), *peers.differing(then)}
    for run in sorted(changed):
        name = _PEERS + _RUN + str(run).encode()
        alike = own.run(run) and peers.follows(own, run)
        yield name, _ALIKE if alike else peers.run(run) or None
    yield from _roots_parts(_PEERS, peers, then)


def _roots_parts(
    kind: bytes, table: Partitions, then: Partitions
) -> Iterator[tuple[bytes, bytes | None]]:
    for group in range(table.groups):
        # Records of other formats are in the roots, and in no run.
        if table.group_digest(group) == then.group_digest(group):
            continue
        roots = [table.root(run) for run in table.group_runs(group)]
        data = b"".join(_ROOT.pack(*root) for root in roots)
        yield kind + _ROOTS + str(group).encode(), data if any(c for c, _ in roots) else None


def _text_parts(
    texts: Mapping[str, bytes], before: Mapping[str, bytes]
) -> Iterator[tuple[bytes, bytes | None]]:
    if texts is before:
        return
    for record in before.keys() - texts.keys():
        yield _TEXT + record.encode(), None
    for record, text in texts.items():
        if before.get(record) != text:
            yield _TEXT + record.encode(), text
