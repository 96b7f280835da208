"""A journal is everything a machine decided by: run again, it comes to the same."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest
from command import lace
from exchanges import NOTES, NOW, note
from sides import Pair, Participant
from simulator import World

from lace.codes import Code
from lace.driving.journal import Journal, replay
from lace.driving.pair import interlace
from lace.errors import EncodingError
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore


def journals(seed: int) -> list[str]:
    """Return the journals of both sides of an exchange in which some bytes were changed."""
    chance = random.Random(seed)
    world = World.make(chance)
    files = [io.StringIO(), io.StringIO()]
    sides = [
        Participant(store, side, exposure, side.limits, journal=Journal.to(file))
        for store, side, exposure, file in zip(
            world.stores, world.sides, world.exposures, files, strict=True
        )
    ]

    def tamper(_side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if isinstance(crossing, m.PeerRecord) and chance.random() < 0.2:
            return [m.PeerRecord(crossing.raw.replace(b"TAI: 0", b"TAI: 1"))]
        if isinstance(crossing, m.PeerFacts) and chance.random() < 0.02:
            return [m.PeerFacts(crossing.content + b"\xff\n")]
        return [crossing]

    interlace(sides[0], sides[1], NOW, tamper)
    return [file.getvalue() for file in files]


@pytest.mark.parametrize("seed", range(20))
def test_a_journal_replays_step_by_step(seed: int) -> None:
    for text in journals(seed):
        lines = text.splitlines()
        assert replay(lines) == (len(lines) - 1, None)


def test_an_open_exchange_with_everything_that_can_happen_replays() -> None:
    files = [io.StringIO(), io.StringIO()]
    sides = [
        Participant(
            MemoryStore(),
            Side(index=i, module=NOTES, open=True, link=b"here"),
            Exposure(default="selected"),
            journal=Journal.to(files[i]),
        )
        for i in (0, 1)
    ]
    pair = Pair(sides[0], sides[1])
    pair.start(NOW)
    pair.run(NOW)
    for number in range(12):
        pair.left.store.save([note(number)])
    pair.wake(NOW)
    pair.give(1, m.OperandChanged(NOTES), NOW)
    pair.run(NOW)
    pair.give(0, m.CloseRequested(), NOW)
    pair.give(1, m.PeerGone(orderly=True), NOW)
    for file in files:
        lines = file.getvalue().splitlines()
        assert replay(lines) == (len(lines) - 1, None)


def test_the_first_difference_is_found() -> None:
    lines = journals(3)[0].splitlines()
    step = json.loads(lines[4])
    assert step["effects"]
    step["effects"][0] = {"type": "Close"}
    lines[4] = json.dumps(step)
    steps, difference = replay(lines)
    assert steps == 3
    assert difference is not None
    assert (difference.step, difference.expected) == (4, {"type": "Close"})
    step["effects"] = []
    lines[4] = json.dumps(step)
    _, difference = replay(lines)
    assert difference is not None
    assert difference.expected is None


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([], Code.JOURNAL_MALFORMED),
        (["{}"], Code.JOURNAL_MALFORMED),
        (['{"journal":3}'], Code.JOURNAL_NEWER),
        (['{"journal":1}'], Code.JOURNAL_MALFORMED),
        (['{"journal":2}'], Code.JOURNAL_MALFORMED),
        (['{"journal":2,"side":{"module":{"text":"x","facet":"y"}}}'], Code.JOURNAL_MALFORMED),
        (["[" * 100_000], Code.JOURNAL_MALFORMED),
    ],
)
def test_what_is_no_journal_is_refused(lines: list[str], code: Code) -> None:
    with pytest.raises(EncodingError) as caught:
        replay(lines)
    assert caught.value.code is code


@pytest.mark.parametrize(
    "step", ["{", "{}", '{"input":{"type":"Boom"}}', '{"input":{"type":"Loaded"}}']
)
def test_a_line_that_is_no_step_is_named(step: str) -> None:
    first = journals(1)[0].splitlines()[0]
    with pytest.raises(EncodingError, match="line 2"):
        replay([first, step])


def test_the_command_says_whether_it_agrees(tmp_path: Path) -> None:
    file = tmp_path / "exchange.jsonl"
    text = journals(5)[1]
    file.write_text(text)
    done = lace("plumb", "journal", "replay", file)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"ok": True, "steps": len(text.splitlines()) - 1}
    lines = text.splitlines()
    lines[2] = lines[2].replace('"effects": [', '"effects": [{"type": "Close"}, ', 1)
    file.write_text("\n".join(lines))
    done = lace("plumb", "journal", "replay", file)
    assert done.returncode == 1
    assert json.loads(done.stdout)["step"] == 2
