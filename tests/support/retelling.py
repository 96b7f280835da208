"""Whole exchanges as plain JSON: what goes in, what each side says, and what comes of it.

The same two functions write the vectors and run them again. What a side says is kept by phase, as
items in order: a module, fact lines, or record bytes in B64A. How lines are cut into blocks is left
to an implementation, so neighbouring blocks are one item.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from sides import Participant

from lace import b64a
from lace.driving.pair import as_text
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import Limits
from lace.policy.module import Facet, module_from_text
from lace.policy.view import Exposure
from lace.record import Record, validate_record
from lace.recordstore import MemoryStore
from lace.recordstore.base import StoreRecordId
from lace.tai import Tai

Json = dict[str, Any]

_PLAIN = (
    "open", "nonce", "peer_nonce", "verifier", "peer_verifier", "expected_peer", "transport",
    "encrypted", "tick_interval", "coarse",
)  # fmt: skip


def record_of(text: str) -> Record:
    return validate_record(b64a.decode(text)).unwrap()


@dataclass(slots=True)
class Said:
    """What one side says, phase by phase."""

    phases: list[Json] = field(default_factory=list)
    _items: list[Json] = field(default_factory=list)

    def add(self, sent: m.Outgoing) -> None:
        match sent:
            case m.SendModule():
                self._items.append({"id": sent.id, "module": sent.content.decode()})
            case m.SendFacts():
                lines = sent.content.decode().splitlines()
                if self._items and "facts" in self._items[-1]:
                    self._items[-1]["facts"] += lines
                else:
                    self._items.append({"facts": lines})
            case m.SendRecord():
                self._items.append({"record": b64a.encode(sent.record.raw)})
            case m.EndPhase():
                self.phases.append({"phase": str(sent.phase), "items": self._items})
                self._items = []

    def all(self) -> list[Json]:
        """Return the phases; what was said of one that did not end comes last."""
        return self.phases + ([{"phase": None, "items": self._items}] if self._items else [])


def heard(item: Json) -> m.Input:
    """Return an item as the other side hears it."""
    if "module" in item:
        return m.PeerModule(item["id"], item["module"].encode())
    if "facts" in item:
        return m.PeerFacts("".join(f"{line}\n" for line in item["facts"]).encode())
    return m.PeerRecord(b64a.decode(item["record"]))


def make_side(given: Json, index: int, pool: Json) -> Participant:
    """Return a side as a case describes it."""
    store = MemoryStore()
    store.save([record_of(pool[hash]) for hash in given["records"]])
    exposure = given.get("exposure", "selected")
    if isinstance(exposure, list):
        shown = Exposure(tuple(module_from_text(text, Facet.EXPOSE) for text in exposure))
    else:
        shown = Exposure(default=exposure)
    limits = Limits(**given.get("limits", {}))
    plain = {name: given[name] for name in _PLAIN if name in given}
    side = Side(index=index, module=module_from_text(given["module"]), limits=limits, **plain)
    return Participant(store, side, shown, limits)


def run_exchange(case: Json, pool: Json) -> Json:
    """Run both sides of a case, step by step; return what they said and what came of it."""
    sides = [make_side(given, index, pool) for index, given in enumerate(case["sides"])]
    said = [Said(), Said()]
    queues: list[deque[m.Input]] = [deque(), deque()]
    clocks = [Tai("")] * 2

    def give(index: int, given: m.Input) -> None:
        sides[index].take(given, clocks[index])
        for sent in sides[index].sent():
            said[index].add(sent)
            queues[1 - index].append(as_text(sent))

    for step in case["steps"]:
        clocks = [Tai(clock) for clock in step.get("clocks", clocks)]
        indexes = [step["side"]] if "side" in step else [0, 1]
        for index in indexes:
            if step["do"] == "store":
                sides[index].store.save([record_of(pool[hash]) for hash in step["records"]])
            else:
                give(index, _input(step))
        while any(queues):
            for index in (0, 1):
                if queues[index]:
                    give(index, queues[index].popleft())
    return {
        "said": [one.all() for one in said],
        "stores": [_stored(side) for side in sides],
        "events": [[_event(event) for event in side.told] for side in sides],
    }


def run_hearing(case: Json, base: Json, pool: Json) -> Json:
    """Let side 1 of an exchange hear one phase of side 0 otherwise; return what came of it.

    ``said`` is what it says that it does not say in the exchange itself, phase by phase.
    """
    side = make_side(base["sides"][1], 1, pool)
    said = Said()
    clock = Tai(base["steps"][0]["clocks"][1])
    inputs: list[m.Input] = [_input(base["steps"][0])]
    for number, phase in enumerate(base["said"][0]):
        items = case["items"] if number == case["phase"] else phase["items"]
        inputs += [*map(heard, items), m.PeerPhaseEnd()]
    for given in inputs:
        side.take(given, clock)
        for sent in side.sent():
            said.add(sent)
    usual = base["said"][1]
    return {
        "phases": len(said.phases),
        "said": [phase for i, phase in enumerate(said.all()) if phase not in usual[i : i + 1]],
        "store": _stored(side),
        "events": [_event(event) for event in side.told],
    }


def _input(step: Json) -> m.Input:
    match step["do"]:
        case "start":
            first, second = step["nonces"]
            return m.Started((first, second))
        case "wake":
            return m.Woken()
        case "timer":
            return m.TimerFired()
        case "operand":
            return m.OperandChanged(module_from_text(step["module"]))
        case "close":
            return m.CloseRequested()
        case "gone":
            return m.PeerGone(orderly=True)
    raise ValueError(step["do"])


def _stored(side: Participant) -> list[str]:
    return [stored.hash for stored in side.store.read(StoreRecordId(0), 10**6)]


def _event(event: m.Event) -> Json:
    content: Json = {"event": type(event).__name__}
    match event:
        case m.RecordSaved() | m.RecordDuplicate():
            return content | {"hash": event.hash}
        case m.RecordRejected():
            return content | {"hash": event.hash, "code": str(event.code)}
        case m.FixedPoint():
            pass
        case m.Closed():
            content["reason"] = event.reason
        case m.Aborted():
            content |= {"code": str(event.code), "blame": str(event.blame)}
    result = event.result
    return content | {
        "link-id": None if result.link is None else b64a.encode(result.link),
        "exchange-plan-id": result.plan,
        "peer-verifier": result.peer,
        "received-hashes": list(result.received),
        "rejected-hashes": list(result.rejected),
        "not-available-hashes": list(result.not_available),
        "bytes-received": result.bytes_received,
        "bytes-sent": result.bytes_sent,
        "cursor-updated": result.cursor_updated,
        "loops": result.loops,
    }
