"""vectors/sketch.json: keys, names, cells and differences, computed from the definition alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lace.interlace import sketch
from lace.interlace.sketch import Decoder, Difference, Sketch, names_of, sketch_key

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/sketch.json").read_text("utf-8"))


def why(case: Any) -> Any:
    return case["why"] if isinstance(case, dict) else None


def numbers(texts: list[str]) -> list[int]:
    return [int(text, 16) for text in texts]


def test_constants() -> None:
    assert numbers(VECTORS["constants"]["blocks"]) == list(sketch._FACTORS)
    assert int(VECTORS["constants"]["check"], 16) == sketch._CHECK_FACTOR


@pytest.mark.parametrize("case", VECTORS["keys"], ids=why)
def test_keys(case: Any) -> None:
    made = sketch_key(tuple(case["nonces"]), tuple(case["hellos"]), case["plan"])
    assert made.hex() == case["key"]


def test_names() -> None:
    assert len(VECTORS["items"]) == 5
    for case in VECTORS["items"]:
        key, digest = bytes.fromhex(case["key"]), bytes.fromhex(case["digest"])
        (name,) = names_of(key, [digest])
        assert f"{name:016x}" == case["name"]
        assert f"{sketch._check(name):06x}" == case["check"]


@pytest.mark.parametrize("case", VECTORS["sketches"], ids=why)
def test_cells(case: Any) -> None:
    cells = bytes.fromhex("".join(case["cells"]))
    assert Sketch(numbers(case["names"])).cells(0, len(case["cells"])) == cells


@pytest.mark.parametrize("case", VECTORS["differences"], ids=why)
def test_differences(case: Any) -> None:
    ours = numbers(case["ours"])
    decoder = Decoder(Sketch(ours), ours, most=len(case["cells"]))
    decoder.add(0, bytes.fromhex("".join(case["cells"])))
    assert decoder.decode() == Difference(
        theirs=frozenset(numbers(case["only_theirs"])), ours=frozenset(numbers(case["only_ours"]))
    )
