"""What somebody changed about a run: the question "what if", as data.

A change names the scene it happens in and the message it befalls, so that the same changes always
give the same run, and can be shared, taken back one by one, or turned into a scenario's own faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from lace.errors import Code, LaceError, UsageError
from lace.interlace import messages as m
from lace.limits import SCENARIO, WORKBENCH
from lace.scenario.build import Built
from lace.scenario.expect import Sentence, parse_expectation
from lace.scenario.link import Delivery
from lace.scenario.model import Deed, Expectation, Fault, Scenario
from lace.scenario.placeholders import fill
from lace.scenario.run import Fate, Meeting, Run, StepRun, World
from lace.selectors import selector

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something befalls one message of one exchange."""

    scene: int
    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Something that a side is told in the middle of an exchange, or time that passes."""

    scene: int
    step: int
    """After how many steps of the scene."""
    do: Literal["rules", "tick", "close"]
    peer: str = ""
    text: str = ""
    """The rules that the peer changes to."""
    seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Everything that was changed about a run."""

    faults: tuple[Change, ...] = ()
    orders: tuple[Order, ...] = ()
    seed: int = 0
    watched: tuple[str, ...] = ()

    def meet(self, world: World, scene: int) -> Meeting:
        """Return the exchange of a scene with the scenario's own faults and these.

        Where something happens in its middle, the exchange stays open until the scene is over.
        """
        step = world.built.scenario.steps[scene]
        assert step.interlace is not None
        faults = (*(c.fault for c in self.faults if c.scene == scene), *step.faults)
        fate = Fate(step.interlace, faults, world.built)
        stay = any(order.scene == scene for order in self.orders)
        return world.meet(scene, fate, self.seed, stay=stay)

    def play(self, built: Built) -> Iterator[Run]:
        """Yield the run after each scene with these changes, without checking anything."""
        run = Run(built, [], World.begin(built), self.play)
        for number, step in enumerate(built.scenario.steps):
            run.world.prepare(number)
            meeting = None
            if step.interlace is not None:
                meeting = self.meet(run.world, number)
                for _ in self.steps(meeting, run.world, number):
                    pass
            held = {peer.id: run.world.held(peer.id) for peer in built.scenario.peers}
            run.steps.append(StepRun(number=number, say=step.say, meeting=meeting, held=held))
            yield run

    def steps(self, meeting: Meeting, world: World, scene: int) -> Iterator[Delivery]:
        """Yield each step of a scene's exchange as it happens, until it is over or quiet."""
        link = meeting.link
        orders = sorted((o for o in self.orders if o.scene == scene), key=lambda o: o.step)
        told = 0
        yield from meeting.deliveries  # what has just woken an exchange that stayed open
        while True:
            done = len(meeting.deliveries)
            while told < len(orders) and orders[told].step <= done:
                self._tell(orders[told], meeting, world.built)
                told += 1
            if len(meeting.deliveries) == done:
                delivery = link.step()
                if delivery is None and told < len(orders):
                    self._tell(orders[told], meeting, world.built)
                    told += 1
                elif delivery is None:
                    if not world.built.scenario.steps[scene].stay:
                        link.end()
                    yield from meeting.deliveries[done:]
                    return
            yield from meeting.deliveries[done:]

    def _tell(self, order: Order, meeting: Meeting, built: Built) -> None:
        link = meeting.link
        if order.do == "tick":
            link.advance(order.seconds)
            return
        index = meeting.side(order.peer)
        if link.sides[index].closed:
            return
        if order.do == "close":
            link.give(index, m.CloseRequested())
        else:
            module = selector(fill(order.text, built.values).text)
            link.give(index, m.OperandChanged(module))

    def watches(self, built: Built) -> list[tuple[str, Sentence | str]]:
        """Return the watched sentences; one that cannot be read comes with the reason."""
        found: list[tuple[str, Sentence | str]] = []
        for text in self.watched:
            try:
                found.append((text, parse_expectation(text, built.scenario, built.values)))
            except LaceError as error:
                found.append((text, f"{error.message} {error.hint}"))
        return found

    def into(self, scenario: Scenario) -> Scenario:
        """Return the scenario with these faults and watches written into it."""
        steps = []
        for number, step in enumerate(scenario.steps):
            mine = tuple(c.fault for c in self.faults if c.scene == number)
            watched = self.watched if number == len(scenario.steps) - 1 else ()
            more = tuple(Expectation(text=text) for text in watched)
            steps.append(replace(step, faults=mine + step.faults, expect=step.expect + more))
        return replace(scenario, steps=tuple(steps))

    def to_json(self) -> Json:
        return {
            "seed": self.seed,
            "watched": list(self.watched),
            "faults": [
                {
                    "scene": c.scene, "do": c.fault.do, "sender": c.fault.sender,
                    "record": c.fault.record, "message": c.fault.message, "byte": c.fault.byte,
                }
                for c in self.faults
            ],
            "orders": [
                {
                    "scene": o.scene, "step": o.step, "do": o.do, "peer": o.peer, "text": o.text,
                    "seconds": o.seconds,
                }
                for o in self.orders
            ],
        }  # fmt: skip


def changes_from(value: Any, built: Built) -> Changes:
    """Return the changes of a page's text; whatever is not a change of this scenario is refused."""
    if value is None:
        return Changes()
    if not isinstance(value, dict):
        raise _refused("changes are an object")
    seed = value.get("seed", 0)
    if not _is_int(seed, 0, 10**6):
        raise _refused("a seed is a number from 0 to 1000000")
    watched = value.get("watched", [])
    if not isinstance(watched, list) or len(watched) > WORKBENCH.changes:
        raise _refused(f"at most {WORKBENCH.changes} sentences are watched")
    for text in watched:
        if not isinstance(text, str) or not 0 < len(text) <= WORKBENCH.sentence_characters:
            raise _refused("a watch is a sentence")
    faults = value.get("faults", [])
    if not isinstance(faults, list) or len(faults) > WORKBENCH.changes:
        raise _refused(f"at most {WORKBENCH.changes} changes at a time")
    orders = value.get("orders", [])
    if not isinstance(orders, list) or len(orders) > WORKBENCH.changes:
        raise _refused(f"at most {WORKBENCH.changes} orders at a time")
    return Changes(
        faults=tuple(_change(one, built) for one in faults),
        orders=tuple(_order(one, built) for one in orders),
        seed=seed,
        watched=tuple(watched),
    )


def _order(value: Any, built: Built) -> Order:
    if not isinstance(value, dict):
        raise _refused("an order is an object")
    scene, pair = _scene(value, built)
    step, do = value.get("step"), value.get("do")
    peer, text = value.get("peer") or "", value.get("text") or ""
    seconds = value.get("seconds") or 0
    if not _is_int(step, 0, 10**6):
        raise _refused("an order names a step")
    if do == "tick":
        if not _is_int(seconds, 1, WORKBENCH.seconds):
            raise _refused(f"time passes by 1 to {WORKBENCH.seconds} seconds")
    elif do not in {"rules", "close"}:
        raise _refused("an order is one of rules, tick, close")
    elif peer not in pair:
        raise _refused("an order names a peer of that exchange")
    if do == "rules":
        if not isinstance(text, str) or not 0 < len(text) <= SCENARIO.file_bytes:
            raise _refused("rules are text")
        selector(fill(text, built.values).text)  # raises what is wrong with them
    assert step is not None
    return Order(scene=scene, step=step, do=do, peer=peer, text=text, seconds=seconds)


def _change(value: Any, built: Built) -> Change:
    if not isinstance(value, dict):
        raise _refused("a change is an object")
    scene, pair = _scene(value, built)
    do, sender, record = value.get("do"), value.get("sender"), value.get("record")
    message, byte = value.get("message"), value.get("byte", -1)
    if do not in get_args(Deed):
        raise _refused("a change does one of " + ", ".join(get_args(Deed)))
    if sender not in pair:
        raise _refused("a change names a sender of that exchange")
    if record is not None and record not in built.records:
        raise _refused("a change names a record of the scenario")
    if (record is None) == (message is None) or not (message is None or _is_int(message, 1, 10**6)):
        raise _refused("a change hits either a record or a message")
    if not _is_int(byte, -(10**9), 10**9):
        raise _refused("a byte is a number")
    fault = Fault(
        do=cast("Deed", do), sender=str(sender), record=record, message=message, byte=byte
    )
    return Change(scene=scene, fault=fault)


def _scene(value: Json, built: Built) -> tuple[int, tuple[str, str]]:
    """Return the scene that is meant, and who meets in it."""
    scene, steps = value.get("scene"), built.scenario.steps
    if not isinstance(scene, int) or not _is_int(scene, 0, len(steps) - 1):
        raise _refused("a change names a scene")
    pair = steps[scene].interlace
    if pair is None:
        raise _refused("nobody meets in that scene")
    return scene, pair


def _is_int(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _refused(message: str) -> UsageError:
    return UsageError(message, code=Code.SCENARIO_VALUE)
