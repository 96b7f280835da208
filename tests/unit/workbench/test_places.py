"""Requests by place in pictures of an exchange: who asks for which record, as if said in full."""

from __future__ import annotations

from typing import Any

import pytest
from exchanges import NOTES, NOW, note
from sides import Pair, Participant

from lace.driving.journal import Journal
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import Limits
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore
from lace.workbench.retold import retold

Json = dict[str, Any]


def told(most: int, index: int) -> Json:
    """Return an exchange in two rounds, both ways, from the journal of one side."""
    limits = Limits(max_places_listed=most)
    lines: tuple[list[str], list[str]] = ([], [])
    sides = []
    for number, records in enumerate((range(30), range(20, 40))):
        store = MemoryStore()
        store.save([note(n) for n in records])
        side = Side(index=number, module=NOTES, limits=limits, open=True)
        journal = Journal(lines[number].append)
        shown = Exposure(default="selected")
        sides.append(Participant(store, side, shown, limits, journal=journal))
    pair = Pair(sides[0], sides[1])
    pair.start(NOW)
    pair.run(NOW)
    sides[0].store.save([note(n) for n in range(60, 72)])
    pair.give(0, m.Woken(), NOW)
    pair.run(NOW)
    pair.end(NOW)
    scene: Json = retold(lines[index], "Twice")["scenes"][0]
    return scene


@pytest.mark.parametrize("index", [0, 1])
def test_what_is_learned_of_requests_does_not_depend_on_their_words(index: int) -> None:
    by_place, in_full = told(100, index), told(0, index)
    requests = [
        [(e["side"], e["text"]) for e in scene["ledger"] if e["kind"] == "request"]
        for scene in (by_place, in_full)
    ]
    assert sorted(requests[0]) == sorted(requests[1])
    wanted = [text for _, text in requests[0] if text.endswith("and wants it")]
    assert len(wanted) == 20 + 10 + 12
    said = [[line for one in scene["messages"] for line in one.get("lines", [])]
            for scene in (by_place, in_full)]  # fmt: skip
    spans = [[line for line in lines if line.startswith("RequestListed(")] for lines in said]
    assert [bool(found) for found in spans] == [True, False]


def test_a_sentence_counts_the_records() -> None:
    said = " ".join(one["summary"] for one in told(100, 0)["messages"])
    assert "asks for 20 listed records" in said
    assert "asks for 12 listed records" in said
