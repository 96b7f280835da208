"""What is known of a link between exchanges: one value, with everything that it depends on.

It is taken whole or not at all. A value that is read back from a store is the value that was kept,
so that an exchange cannot tell whether anybody stopped in between. What is damaged, of another
moment or gone is noticed where it is read.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain
from typing import Any, ClassVar, Final, NamedTuple

from lace import b64a
from lace._version import __version__
from lace.answering.following import Position
from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import Code, EncodingError, StoreError
from lace.interlace.groups import (
    GROUP,
    NOTHING,
    Content,
    empty_group,
    pack_contents,
)
from lace.interlace.messages import LinkState
from lace.interlace.partition import Partitions
from lace.interlace.runs import entry_size, last_digests
from lace.limits import Limits
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.recordstore.base import LinkChange, LinkMemory
from lace.text import fact_line

_OWN: Final = b"o"
_PEERS: Final = b"p"
_TEXT: Final = b"t"
_RUN: Final = b"r"
_GROUP: Final = b"g"
_FORM: Final = b"lace-link/3"
"""The form in which this engine keeps a link; what is kept in another one is not read."""
_CHECK: Final = 8
"""Bytes at the end of a head and of a part by which whoever reads it knows that it is whole."""
_CONTENT: Final = struct.Struct(">I32s")
_CONTENTS_BYTES: Final = GROUP * _CONTENT.size
_TOGETHER: Final = 1 << 15
"""Partitions of a group that take so many bytes together are written together."""
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
    layout: Layout = field(default_factory=lambda: Layout(()))
    """In which parts its tables are kept."""
    texts_digest: bytes = b""
    """By which the texts are known to be whole."""


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
    layout, tables = _tables_parts(state, before)
    if before is not None and known.texts is before.texts:
        texts_digest = before.texts_digest
    else:
        texts_digest = _digest_of(known.texts)
    head = json.dumps({
        "basis": b64a.encode(known.basis),
        "position": [known.position.high_water, known.position.forgets],
        "runtime": b64a.encode(known.runtime),
        "own": _whole(state.own),
        "peers": _whole(state.peers),
        "layout": layout.as_head(),
        "texts": [len(known.texts), b64a.encode(texts_digest)],
        "wanted": sorted(state.wanted),
        "stamp": secrets.token_hex(8),
    }, sort_keys=True).encode()  # fmt: skip
    head = _with_check(head)
    parts = dict(chain(tables, _text_parts(known.texts, {} if before is None else before.texts)))
    gone = frozenset(name for name, part in parts.items() if part is None)
    put = _Put({name: part for name, part in parts.items() if part is not None})
    base = None if before is None else before.head
    new = replace(known, head=head, layout=layout, texts_digest=texts_digest)
    return new, LinkChange(head, put, gone, base)


def read_known(memory: LinkMemory, standard: int) -> Known | None:
    """Return the value that was kept, or None if it is none that this engine wrote."""
    body = _checked(memory.head)
    if body is None:
        return None
    try:
        head = json.loads(body)
        layout = Layout.of(head["layout"], 64**standard // GROUP)
        ours = _KeptTable.of(_OWN, head["own"], 2, memory, layout.own_apart)
        theirs = _KeptTable.of(_PEERS, head["peers"], 1, memory, layout.peers_apart)
        theirs = replace(theirs, other=ours, alike=layout.alike)
        own = Partitions.from_kept(2, standard, ours)
        peers = Partitions.from_kept(1, standard, theirs)
        count, texts_digest = int(head["texts"][0]), b64a.decode(head["texts"][1])
        return Known(
            b64a.decode(head["basis"]),
            Position(*map(int, head["position"])),
            b64a.decode(head["runtime"]),
            LinkState(own, peers, frozenset(map(str, head["wanted"]))),
            _Texts(memory, count, texts_digest),
            memory.head,
            memory,
            layout,
            texts_digest,
        )
    except (ValueError, struct.error, KeyError, TypeError, IndexError, EncodingError):
        return None


def _with_check(body: bytes, of: bytes = b"") -> bytes:
    """Return bytes to keep: whoever reads them knows whether they are whole, and what they are."""
    return body + digest(_FORM + of + body)[:_CHECK]


def _checked(data: bytes, of: bytes = b"") -> bytes | None:
    """Return what was kept; None if it is damaged, or was kept for something else."""
    body = data[:-_CHECK]
    return body if data == _with_check(body, of) else None


def _damaged(memory: LinkMemory) -> StoreError:
    memory.damaged = True
    return StoreError("what is kept of a link is damaged", code=Code.STORE_LINK)


def _whole(table: Partitions) -> list[Any]:
    groups = b"".join(map(table.group_digest, range(table.groups)))
    odd = {record: b64a.encode(digests) for record, digests in table.odd.items()}
    root = table.known_root
    return [len(table), b64a.encode(groups), odd, root and b64a.encode(root)]


@dataclass(frozen=True, slots=True)
class Layout:
    """In which parts two tables are kept, by group of partitions.

    A group that is small is kept in one part, with its contents. Of a large one each partition has
    a part of its own, so that a change writes little.
    """

    alike: tuple[int, ...]
    """Partitions of the peer's table that have what it would say of this side's records: a bit for
    each. They are kept nowhere."""
    own_apart: frozenset[int] = frozenset()
    """Groups of this side's table whose partitions are kept one by one."""
    peers_apart: frozenset[int] = frozenset()
    """The same of the peer's."""

    @classmethod
    def of(cls, head: Any, groups: int) -> Layout:
        alike, *apart = head
        bits = struct.unpack(f">{groups}Q", b64a.decode(alike))
        own, peers = (frozenset(map(int, some)) for some in apart)
        return cls(bits, own, peers)

    def as_head(self) -> list[Any]:
        alike = b64a.encode(struct.pack(f">{len(self.alike)}Q", *self.alike))
        return [alike, sorted(self.own_apart), sorted(self.peers_apart)]


class _KeptGroup(NamedTuple):
    """What is kept of a group."""

    contents: list[Content]
    starts: list[int] | None
    """Where partitions begin in the data, and where the last one ends; None if each is apart."""
    data: bytes


@dataclass(frozen=True, slots=True)
class _KeptTable:
    """A table as it is kept."""

    kind: bytes
    count: int
    groups: tuple[bytes, ...]
    odd: Mapping[str, bytes]
    whole: bytes | None
    entry: int
    memory: LinkMemory
    apart: frozenset[int]
    """Groups whose partitions are kept one by one."""
    other: _KeptTable | None = None
    """That of this side's records, for a table of the peer's."""
    alike: tuple[int, ...] = ()
    """Partitions that have what follows from the other table."""
    stays: ClassVar[bool] = False
    _ahead: dict[int, bytes] = field(default_factory=dict)
    """Partitions that were read before anybody asked for them."""
    _read: dict[int, _KeptGroup] = field(default_factory=dict)

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
        apart: frozenset[int],
    ) -> _KeptTable:
        count, groups, odd, root = whole
        text = b64a.decode(groups)
        aside = {str(record): b64a.decode(digests) for record, digests in odd.items()}
        cut = tuple(text[at : at + _DIGEST] for at in range(0, len(text), _DIGEST))
        known = None if root is None else b64a.decode(root)
        return cls(kind, int(count), cut, aside, known, entry_size(digests), memory, apart)

    def contents(self, group: int) -> Sequence[Content]:
        return self._group(group).contents

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """Read groups together, and then what is apart."""
        groups = {number // GROUP for number in numbers}.difference(self._read)
        names = {self._name(_GROUP, group): group for group in groups}
        found = self.memory.some(list(names))
        for name, group in names.items():
            self._read[group] = self._parsed(group, found.get(name, b""))
        alike = list(filter(self._is_alike, numbers))
        if alike and self.other is not None:
            self.other.read_ahead(alike)
        runs = {
            self._name(_RUN, number): number
            for number in numbers
            if self._group(number // GROUP).starts is None and not self._is_alike(number)
        }
        for name, data in self.memory.some(list(runs)).items():
            self._ahead[runs[name]] = data

    def run(self, number: int) -> bytes:
        contents, starts, held = self._group(number // GROUP)
        place = number % GROUP
        if self._is_alike(number):
            assert self.other is not None
            return last_digests(self.other.run(number), _OWN_DIGESTS)
        if starts is not None:
            return held[starts[place] : starts[place + 1]]
        if contents[place] == NOTHING:
            return b""
        name = self._name(_RUN, number)
        data = self._ahead.pop(number, None)
        if data is None:
            data = self.memory.parts.get(name, b"")
        return self._checked(data, name, pack_contents(contents[place : place + 1]))

    def _is_alike(self, number: int) -> bool:
        return bool(self.alike) and bool(self.alike[number // GROUP] >> number % GROUP & 1)

    def _group(self, number: int) -> _KeptGroup:
        found = self._read.get(number)
        if found is None:
            data = self.memory.parts.get(self._name(_GROUP, number), b"")
            found = self._read[number] = self._parsed(number, data)
        return found

    def _parsed(self, number: int, data: bytes) -> _KeptGroup:
        if self.groups[number] == empty_group(GROUP).digest:
            return _KeptGroup([NOTHING] * GROUP, [0] * (GROUP + 1), b"")
        body = self._checked(data, self._name(_GROUP, number), self.groups[number])
        contents = list(_CONTENT.iter_unpack(body[:_CONTENTS_BYTES]))
        if number in self.apart:
            return _KeptGroup(contents, None, b"")
        sizes = [count * self.entry for count, _ in contents]
        bits = self.alike[number] if self.alike else 0
        if bits:
            sizes = [0 if bits >> place & 1 else size for place, size in enumerate(sizes)]
        starts = list(accumulate(sizes, initial=_CONTENTS_BYTES))
        return _KeptGroup(contents, starts, body)

    def _name(self, kind: bytes, number: int) -> bytes:
        return self.kind + kind + str(number).encode()

    def _checked(self, data: bytes, name: bytes, told: bytes) -> bytes:
        """Return a part, if it is what the head or the group has told of it."""
        body = _checked(data, name + told)
        if body is None:
            raise _damaged(self.memory)
        return body


class _Texts(Mapping[str, bytes]):
    """Advertisements as they are kept, each in a part of its own.

    They are known to be whole by all of them: whoever begins with them looks at all first.
    """

    def __init__(self, memory: LinkMemory, count: int, digest: bytes) -> None:
        self._memory = memory
        self._count = count
        self._digest = digest

    def __getitem__(self, record: str) -> bytes:
        return self._memory.parts[_TEXT + record.encode()]

    def some(self, records: Iterable[str]) -> Mapping[str, bytes]:
        """Return those of some records, read together."""
        if not self._count:
            return {}
        names = [_TEXT + record.encode() for record in records]
        return {name[1:].decode(): text for name, text in self._memory.some(names).items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return self._count

    def items(self) -> ItemsView[str, bytes]:
        return self._all().items()

    def _all(self) -> dict[str, bytes]:
        if not self._count:
            return {}
        found = self._memory.beginning(_TEXT).items()  # at one go, and nothing of tables
        texts = {name[1:].decode("latin-1"): text for name, text in found}
        if _digest_of(texts) != self._digest:
            raise _damaged(self._memory)
        return texts


def _digest_of(texts: Mapping[str, bytes]) -> bytes:
    """Return the digest of all texts, in the order of the records' names."""
    names = sorted(texts)
    # A name and a text are words of the protocol; neither has a zero byte.
    return digest(b"\0".join(chain.from_iterable((name.encode(), texts[name]) for name in names)))


def changed_texts(texts: Mapping[str, bytes], changed: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return texts with some of them changed, or gone if they are empty; the same if none is."""
    had = texts.some(changed) if isinstance(texts, _Texts) else texts
    if not any(changed[record] or record in had for record in changed):
        return texts
    return {r: t for r, t in {**texts, **changed}.items() if t}


Part = bytes | Callable[[], bytes]
"""What is to be kept, or what makes it."""
Parts = Iterator[tuple[bytes, Part | None]]
"""Parts that differ from those before; None for one that is gone."""


class _Put(Mapping[bytes, bytes]):
    """Parts to keep. Those of tables are made when they are read: a copy of all may be large."""

    def __init__(self, parts: Mapping[bytes, Part]) -> None:
        self._parts = parts

    def __getitem__(self, name: bytes) -> bytes:
        part = self._parts[name]
        return part if isinstance(part, bytes) else part()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def _tables_parts(state: LinkState, before: Known | None) -> tuple[Layout, Parts]:
    """Return how both tables are to be kept, and what has to be written for that."""
    own, peers = state.own, state.peers
    if before is None:
        own_then = Partitions(own.columns, standard=own.standard)
        peers_then = Partitions(peers.columns, standard=peers.standard)
        then = Layout((0,) * own.groups)
    else:
        own_then, peers_then, then = before.state.own, before.state.peers, before.layout
    own_changed = set(own.differing(own_then))
    changed = own_changed.union(peers.differing(peers_then))
    alike = _alike(state, changed, then.alike)
    nothing = (0,) * own.groups
    ours = _Kind(_OWN, own, own_then, own_changed, nothing, nothing, then.own_apart)
    theirs = _Kind(_PEERS, peers, peers_then, changed, alike, then.alike, then.peers_apart)
    layout = Layout(alike, ours.now_apart(), theirs.now_apart())
    return layout, chain(ours.parts(layout.own_apart), theirs.parts(layout.peers_apart))


def _alike(state: LinkState, changed: Iterable[int], then: Sequence[int]) -> tuple[int, ...]:
    """Return which partitions of the peer's table follow from those of this side's."""
    alike, own, peers = list(then), state.own, state.peers
    for run in changed:
        group, bit = run // GROUP, 1 << run % GROUP
        alike[group] &= ~bit
        if own.run(run) and peers.follows(own, run):
            alike[group] |= bit
    return tuple(alike)


@dataclass(slots=True)
class _Kind:
    """One of the two tables, as it is and as it was kept."""

    kind: bytes
    table: Partitions
    before: Partitions
    changed: set[int]
    """Partitions that may be kept otherwise than before."""
    alike: tuple[int, ...]
    alike_then: tuple[int, ...]
    apart_then: frozenset[int]
    contents: dict[int, list[Content]] = field(init=False)
    """Those of the groups that may be kept otherwise than before."""

    def __post_init__(self) -> None:
        touched = sorted({run // GROUP for run in self.changed})
        self.contents = {group: self.table.contents(group) for group in touched}

    def now_apart(self) -> frozenset[int]:
        """Return the groups whose partitions have to be kept one by one."""
        large = {group for group in self.contents if self._size(group) > _TOGETHER}
        return self.apart_then.difference(self.contents) | large

    def _size(self, group: int) -> int:
        """Return how many bytes of entries are to be kept, or a little more."""
        bits, contents = self.alike[group], self.contents[group]
        counts = (count for place, (count, _) in enumerate(contents) if not bits >> place & 1)
        return entry_size(self.table.columns) * sum(counts)

    def _kept(self, group: int, alike: Sequence[int]) -> list[int]:
        """Return the partitions of a group that do not follow from another table."""
        bits = alike[group]
        return [run for run in self.table.group_runs(group) if not bits >> run % GROUP & 1]

    def parts(self, apart: frozenset[int]) -> Parts:
        for group, contents in self.contents.items():
            is_apart = group in apart
            runs = self._kept(group, self.alike)
            is_empty = self.table.group_digest(group) == empty_group(GROUP).digest
            made = partial(self._group, group, contents, [] if is_apart else runs)
            yield self._name(_GROUP, group), None if is_empty else made
            was = set(self._kept(group, self.alike_then)) if group in self.apart_then else set()
            stay = set(runs) if is_apart else set()
            for run in was - stay:
                yield self._name(_RUN, run), None
            for run in stay:
                if run in self.changed or run not in was:
                    content = contents[run % GROUP]
                    made = partial(self._run, run, content)
                    yield self._name(_RUN, run), None if content == NOTHING else made

    def _group(self, number: int, contents: list[Content], runs: list[int]) -> bytes:
        told = self._name(_GROUP, number) + self.table.group_digest(number)
        return _with_check(b"".join((pack_contents(contents), *self.table.runs(runs))), told)

    def _run(self, number: int, content: Content) -> bytes:
        told = self._name(_RUN, number) + pack_contents([content])
        return _with_check(self.table.run(number), told)

    def _name(self, kind: bytes, number: int) -> bytes:
        return self.kind + kind + str(number).encode()


def _text_parts(texts: Mapping[str, bytes], before: Mapping[str, bytes]) -> Parts:
    if texts is before:
        return
    for record in before.keys() - texts.keys():
        yield _TEXT + record.encode(), None
    for record, text in texts.items():
        if before.get(record) != text:
            yield _TEXT + record.encode(), text
