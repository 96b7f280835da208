"""What is known of a link between exchanges: one value, with everything that it depends on.

It is taken whole or not at all. A value that is read back from a store is the value that was kept,
so that an exchange cannot tell whether anybody stopped in between.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lace import b64a
from lace._version import __version__
from lace.answering.following import Position
from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import EncodingError
from lace.interlace.messages import LinkState
from lace.interlace.partition import Partitions, Summary
from lace.limits import Limits
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.recordstore.base import LinkChange, LinkMemory
from lace.text import fact_line

_OWN: Final = b"o"
_PEERS: Final = b"p"
_TEXT: Final = b"t"
_GROUP: Final = 64  # standard partitions that are kept in one part
_LENGTHS: Final = struct.Struct(f">{_GROUP}I")


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
    parts = dict(_parts(known, before))
    gone = frozenset(name for name, data in parts.items() if data is None)
    put = {name: data for name, data in parts.items() if data is not None}
    base = None if before is None else before.head
    kept = Known(known.basis, known.position, known.runtime, state, known.texts, head)
    return kept, LinkChange(head, put, gone, base)


def read_known(memory: LinkMemory, standard: int) -> Known | None:
    """Return the value that was kept, or None if it is none that this engine wrote."""
    try:
        head = json.loads(memory.head)
        own = _table(2, standard, head["own"], memory.parts, _OWN)
        peers = _table(1, standard, head["peers"], memory.parts, _PEERS)
        texts = {
            name[1:].decode(): data for name, data in memory.parts.items() if name[:1] == _TEXT
        }
        return Known(
            b64a.decode(head["basis"]),
            Position(*map(int, head["position"])),
            b64a.decode(head["runtime"]),
            LinkState(own, peers, frozenset(map(str, head["wanted"]))),
            texts,
            memory.head,
        )
    except (ValueError, KeyError, TypeError, IndexError, EncodingError, struct.error):
        return None


def _whole(table: Partitions) -> list[Any]:
    summary = table.summary("")
    odd = {record: b64a.encode(digests) for record, digests in table.odd.items()}
    return [summary.count, b64a.encode(summary.root), odd]


def _table(
    digests: int, standard: int, whole: Any, parts: Mapping[bytes, bytes], kind: bytes
) -> Partitions:
    count, root, odd = whole
    runs: dict[int, bytes] = {}
    for name, data in parts.items():
        if name[:1] == kind:
            lengths = _LENGTHS.unpack_from(data)
            at = _LENGTHS.size
            for number, length in enumerate(lengths, int(name[1:]) * _GROUP):
                runs[number] = data[at : at + length]
                at += length
    summary = Summary("", int(count), b64a.decode(root))
    aside = {str(record): b64a.decode(text) for record, text in odd.items()}
    return Partitions.kept(digests, standard, summary, runs, aside)


def _parts(known: Known, before: Known | None) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the parts that differ from those of a value before; None for one that is gone."""
    then = None if before is None else before.state
    for kind, table, old in (
        (_OWN, known.state.own, None if then is None else then.own),
        (_PEERS, known.state.peers, None if then is None else then.peers),
    ):
        runs = table.runs()
        past = (b"",) * len(runs) if old is None else old.runs()
        for number in range(0, len(runs), _GROUP):
            group, was = runs[number : number + _GROUP], past[number : number + _GROUP]
            if group != was:
                group += (b"",) * (_GROUP - len(group))
                lengths = _LENGTHS.pack(*map(len, group))
                data = b"".join((lengths, *group)) if any(group) else None
                yield kind + str(number // _GROUP).encode(), data
    texts = {} if before is None else before.texts
    for record in texts.keys() - known.texts.keys():
        yield _TEXT + record.encode(), None
    for record, text in known.texts.items():
        if texts.get(record) != text:
            yield _TEXT + record.encode(), text
