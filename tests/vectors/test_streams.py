"""vectors/streams.json: each side says, to the byte, what is written there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stream_vectors
from lace import b64a
from lace.stream import items as i

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/streams.json").read_text("utf-8"))


def items(said: bytes) -> list[object]:
    """Return the items of a stream; packed lines may have been packed by another zlib."""
    reader = i.ItemReader(unpacks=True)
    found = [*reader.feed(said), *reader.close()]
    return [item.content if isinstance(item, i.FactLines) else item for item in found]


@pytest.mark.req("060-TRN-05")
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("case", VECTORS["streams"], ids=lambda case: case["why"])
def test_a_side_answers_a_stream_with_the_other_one(case: dict[str, Any], index: int) -> None:
    mine = [turn for turn in case["turns"] if turn["side"] == index and "bytes" in turn]
    turns = [b64a.decode(turn["bytes"]) for turn in mine]
    said = stream_vectors.hear(case, index, VECTORS["records"], VECTORS["streams"])
    if all(side.get("packs") for side in case["sides"]):
        assert items(said) == items(b"".join(turns))
    else:
        assert said == b"".join(turns)
    assert not any(isinstance(item, i.Malformed) for item in items(said))


def test_the_file_is_what_the_tool_writes() -> None:
    made = stream_vectors.cases()
    assert made["records"] == VECTORS["records"]
    assert [case["stores"] for case in made["streams"]] == [c["stores"] for c in VECTORS["streams"]]
    for case in made["streams"]:
        one, other = case["stores"]
        assert (set(one) == set(other)) is ("it ends" not in case["why"])


def lines(case: dict[str, Any], start: str) -> list[str]:
    """Return all lines of both directions that begin so."""
    said = b"".join(b64a.decode(turn["bytes"]) for turn in case["turns"] if "bytes" in turn)
    return [line for line in said.decode("utf-8", "replace").splitlines() if line.startswith(start)]


@pytest.mark.parametrize(
    ("why", "start", "number"),
    [
        ("found out by a sketch", "SketchAdvertisements(", 2),
        ("begins from what both had", "AdvertisementDelta(", 4),
        ("one more record", "MayRequest(", 2),
        ("so nothing is packed", "RequestListed('0','12')", 1),
        ("second set-up", "ExchangeOperand(", 4),
        ("second set-up", "Signed-By: ", 2),
        ("says why", "# closing: limit.exceeded", 1),
    ],
)
def test_a_stream_shows_what_it_is_for(why: str, start: str, number: int) -> None:
    case = next(case for case in VECTORS["streams"] if why in case["why"])
    assert len(lines(case, start)) == number
