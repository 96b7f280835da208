"""A journal is everything a machine decided by: run again, it comes to the same."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command import lace
from exchanges import NOTES, NOW, note
from sides import Pair, Participant
from simulator import World

from lace.codes import Code
from lace.driving.journal import Journal, JournalFile, replay
from lace.driving.pair import interlace
from lace.errors import EncodingError, UsageError
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


ODD: list[Any] = [
    None, True, 0, -1, 2**70, 1.5, float("nan"), float("inf"), "", "x", "\ud800", [], ["x"], [["x"]], [None],
    {}, {"x": 1}, {"text": 3}, {"bytes": 3}, {"type": "Woken"}, "V.x", "9" * 5000,
]  # fmt: skip


def mutated(line: str, chance: random.Random) -> str:
    """Return a line of a journal in which one thing is another one, is missing, or is too many."""
    whole = {"all": json.loads(line)}
    owners: list[Any] = [whole]
    for owner in owners:
        parts = owner.values() if isinstance(owner, dict) else owner
        owners += [part for part in parts if isinstance(part, dict | list) and part]
    owner = chance.choice(owners)
    names = list(owner) if isinstance(owner, dict) else list(range(len(owner)))
    name = chance.choice(names)
    how = chance.random()
    if how < 0.15 and owner is not whole:
        del owner[name]
    elif how < 0.25 and isinstance(owner, list):
        owner.append(chance.choice(ODD))
    elif how < 0.3 and isinstance(owner, dict):
        owner["odd"] = chance.choice(ODD)
    else:
        owner[name] = chance.choice(ODD)
    return json.dumps(whole["all"])


def test_whatever_stands_in_a_journal_is_answered_in_a_sentence() -> None:
    """Nothing but an error with a code is raised, whatever was changed in a true journal."""
    chance = random.Random(17)
    true = [text.splitlines() for seed in range(4) for text in journals(seed)]
    answers = Counter[str]()
    for _ in range(600):
        lines = list(chance.choice(true))
        at = 0 if chance.random() < 0.3 else chance.randrange(len(lines))
        lines[at] = mutated(lines[at], chance)
        try:
            _, difference = replay(lines)
            answers["agrees" if difference is None else "differs"] += 1
        except EncodingError as error:
            assert error.code in {Code.JOURNAL_MALFORMED, Code.JOURNAL_NEWER}
            assert error.message.startswith("line ")
            answers["refused"] += 1
    assert min(answers["agrees"], answers["differs"], answers["refused"]) > 20


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"index": 2}, "index"), ({"index": True}, "index"), ({"open": "no"}, "open"),
        ({"tick_interval": "1"}, "tick_interval"), ({"limits": {"arity": 1.5}}, "arity"),
        ({"parameters": {"standard_prefix": 9}}, "prefix"), ({"parameters": {"serve_at_once": 0}}, "serve_at_once"),
        ({"verifier": 1}, "verifier"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_named(change: dict[str, Any], reason: str) -> None:
    first, *rest = journals(1)[0].splitlines()
    content = json.loads(first)
    for name, value in change.items():
        if isinstance(value, dict):
            content["side"][name] |= value
        else:
            content["side"][name] = value
    with pytest.raises(EncodingError, match=f"line 1: .*{reason}"):
        replay([json.dumps(content), *rest])


def test_a_journal_is_for_its_owner_alone(tmp_path: Path) -> None:
    kept = JournalFile(tmp_path / "j.jsonl")
    kept.close()
    assert (tmp_path / "j.jsonl").stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="exists already"):
        JournalFile(tmp_path / "j.jsonl")
    with pytest.raises(UsageError, match="cannot write"):
        JournalFile(tmp_path / "no" / "j.jsonl")


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
    lines[2] = lines[2].replace('"now": "', '"now": "\\ud800', 1)
    file.write_text("\n".join(lines))
    done = lace("plumb", "journal", "replay", file)
    assert (done.returncode, b"line 3: " in done.stderr) == (2, True)
    assert Code.JOURNAL_MALFORMED.encode() in done.stderr
