"""What is known of a link between exchanges: one value, with everything that it depends on.

It is taken whole or not at all. A value that is read back from a store is the value that was kept,
so that an exchange cannot tell whether anybody stopped in between.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from lace import b64a
from lace._version import __version__
from lace.answering.following import Position, Witness
from lace.answering.parts import (
    Layout,
    Part,
    Parts,
    checked,
    damaged,
    head_of,
    read_tables,
    tables_parts,
    with_check,
)
from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import EncodingError, StoreError
from lace.interlace.groups import GROUP
from lace.interlace.messages import LinkState
from lace.limits import Limits
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.recordstore.base import LinkChange, LinkMemory
from lace.text import fact_line

_TEXT: Final = b"t"


@dataclass(frozen=True, slots=True)
class Known:
    """How a link stood at a fixed point, and on what that depended."""

    basis: bytes
    """A digest of the link, and of everything but the records and the time: see ``basis_of``."""
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
    witness: Witness = field(default_factory=Witness)
    """What the store said of the position."""


def basis_of(
    plan: ExchangePlan,
    index: int,
    schema: frozenset[str] | None,
    exposure: Exposure,
    limits: Limits,
    link: bytes | None = None,
) -> bytes:
    """Return a digest of all that decides on a selection, but for records, time and claims.

    What is kept of one link, if one is given, is of no use to another one.
    """
    modules = [*(operand.module for operand in plan.operands), *exposure.modules]
    lines = [__version__, str(index), plan.id, plan.lowering.name, repr(limits)]
    lines += [exposure.default, str(exposure.union), *(module.id for module in modules)]
    for operand in plan.operands:
        lines += [operand.source_label, operand.viewer]
    lines += ["*"] if schema is None else [f"+{name}" for name in sorted(schema)]
    lines += [] if link is None else [b64a.encode(link)]
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
    if before is None:
        layout, tables = tables_parts(state, None, None, known.basis)
    else:
        layout, tables = tables_parts(state, before.state, before.layout, known.basis)
    if before is not None and known.texts is before.texts:
        texts_digest = before.texts_digest
    else:
        texts_digest = _digest_of(known.texts)
    head = json.dumps({
        "basis": b64a.encode(known.basis),
        "position": [known.position.high_water, known.position.forgets],
        "witness": [known.witness.records, known.witness.forgotten],
        "runtime": b64a.encode(known.runtime),
        "own": head_of(state.own),
        "peers": head_of(state.peers),
        "layout": layout.as_head(),
        "texts": [len(known.texts), b64a.encode(texts_digest)],
        "wanted": sorted(state.wanted),
        "stamp": secrets.token_hex(8),
    }, sort_keys=True).encode()  # fmt: skip
    head = with_check(head)
    parts = dict(chain(tables, _text_parts(known.texts, {} if before is None else before.texts)))
    gone = frozenset(name for name, part in parts.items() if part is None)
    put = _Put({name: part for name, part in parts.items() if part is not None})
    base = None if before is None else before.head
    new = replace(known, head=head, layout=layout, texts_digest=texts_digest)
    return new, LinkChange(head, put, gone, base)


def read_known(memory: LinkMemory, standard: int) -> Known | None:
    """Return the value that was kept, or None if it is none that this engine wrote."""
    body = checked(memory.head)
    if body is None:
        return None
    try:
        head = json.loads(body)
        layout = Layout.of(head["layout"], 64**standard // GROUP)
        basis = b64a.decode(head["basis"])
        own, peers = read_tables(head["own"], head["peers"], layout, basis, memory, standard)
        count, texts_digest = int(head["texts"][0]), b64a.decode(head["texts"][1])
        return Known(
            basis,
            Position(*map(int, head["position"])),
            b64a.decode(head["runtime"]),
            LinkState(own, peers, frozenset(map(str, head["wanted"]))),
            _Texts(memory, count, texts_digest),
            memory.head,
            memory,
            layout,
            texts_digest,
            Witness(tuple(map(str, head["witness"][0])), str(head["witness"][1])),
        )
    except (ValueError, struct.error, KeyError, TypeError, IndexError, EncodingError):
        return None


def is_whole(memory: LinkMemory, standard: int) -> bool:
    """Whether all that is kept can be read: nothing of it is held afterwards."""
    known = read_known(memory, standard)
    try:
        if known is not None:
            known.texts.items()
            for table in (known.state.own, known.state.peers):
                for start in range(0, 64**standard, GROUP):
                    table.runs(range(start, start + GROUP))
    except StoreError:
        return False
    return known is not None


class _Texts(Mapping[str, bytes]):
    """Advertisements as they are kept, each in a part of its own.

    They are known to be whole by all of them: whoever begins with them looks at all first.
    """

    def __init__(self, memory: LinkMemory, count: int, digest: bytes) -> None:
        self._memory = memory
        self._count = count
        self._digest = digest

    def __getitem__(self, record: str) -> bytes:
        text = self._memory.part(_TEXT + record.encode())
        if text is None:
            raise KeyError(record)
        return text

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
            raise damaged(self._memory)
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


def _text_parts(texts: Mapping[str, bytes], before: Mapping[str, bytes]) -> Parts:
    if texts is before:
        return
    had = dict(before.items())  # at one go
    for record in had.keys() - texts.keys():
        yield _TEXT + record.encode(), None
    for record, text in texts.items():
        if had.get(record) != text:
            yield _TEXT + record.encode(), text
