"""The journal of one exchange, for downloading: every input and everything that came of it."""

from __future__ import annotations

import base64
import json
from typing import Any

from lace.interlace import messages as m
from lace.scenario.build import Built
from lace.scenario.link import Delivery, crossing_bytes
from lace.scenario.run import World
from lace.workbench.changes import Changes

Json = dict[str, Any]


def journal_lines(built: Built, changes: Changes, scene: int) -> list[str]:
    """Return one JSON object a line for the exchange of a scene; none if it has none."""
    world = World.begin(built)
    for number in range(scene + 1):
        world.prepare(number)
        if built.scenario.steps[number].interlace is None:
            continue
        meeting = changes.meet(world, number)
        done = list(changes.steps(meeting, world, number))
        if number == scene:
            return [_line(_delivery(delivery)) for delivery in done]
    return []


def _delivery(delivery: Delivery) -> Json:
    given = delivery.given
    return {
        "side": delivery.to,
        "now": delivery.now,
        "input": type(given).__name__,
        "bytes": _base64(given) if delivery.message is not None else None,
        "phase": [str(delivery.before), str(delivery.after)],
        "sent": [
            {"kind": type(x.crossing).__name__, "bytes": _base64(x.original or x.crossing)}
            for x in delivery.sent
        ],
        "events": [type(event).__name__ for event in delivery.events],
    }


def _base64(crossing: object) -> str:
    assert isinstance(crossing, m.PeerModule | m.PeerFacts | m.PeerRecord | m.PeerPhaseEnd)
    return base64.b64encode(crossing_bytes(crossing)).decode("ascii")


def _line(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
