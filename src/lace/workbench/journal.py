"""The journals of an exchange, for downloading: they can be run again by ``lace plumb journal``."""

from __future__ import annotations

from lace.scenario.build import Built
from lace.scenario.run import World
from lace.workbench.changes import Changes


def journal_lines(built: Built, changes: Changes, scene: int) -> tuple[list[str], list[str]]:
    """Return the journals of both sides of a scene's exchange; empty ones if nobody meets in it."""
    world = World.begin(built)
    world.journals = {}
    pair = built.scenario.steps[scene].interlace
    for number in range(scene + 1):
        world.prepare(number)
        if built.scenario.steps[number].interlace is not None:
            meeting = changes.meet(world, number)
            for _ in changes.steps(meeting, world, number):
                pass
    return ([], []) if pair is None else world.journals[pair]
