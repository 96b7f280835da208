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
    turns = [b64a.decode(t["bytes"]) for t in case["turns"] if t["side"] == index]
    said = stream_vectors.hear(case, index, VECTORS["records"])
    if all(side.get("packs") for side in case["sides"]):
        assert items(said) == items(b"".join(turns))
    else:
        assert said == b"".join(turns)
    assert not any(isinstance(item, i.Malformed) for item in items(said))


def test_the_file_is_what_the_tool_writes() -> None:
    made = stream_vectors.cases()
    assert made["records"] == VECTORS["records"]
    assert [case["stores"] for case in made["streams"]] == [c["stores"] for c in VECTORS["streams"]]
    for one, other in (case["stores"] for case in made["streams"]):
        assert set(one) == set(other)
