"""What the engine sends has the shapes that the page's types are made from."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lace.scenario.library import library
from lace.workbench.session import Session, opened, text_of
from lace.workbench.shapes import fault_of, shapes

KNOWN = shapes()
RECORDING = ["shape", "Recording"]


@pytest.mark.parametrize("name", library())
def test_a_recording_has_its_shape(name: str) -> None:
    assert fault_of(opened(*text_of(name, name))[1], RECORDING, KNOWN) is None


def test_a_run_with_everything_changed_has_its_shape() -> None:
    session = Session()
    (answer,) = session.handle({"do": "open", "name": "notes-room"})
    toml = answer["recording"]["scenario"]["toml"]
    faults = [
        {"scene": 0, "do": "flip", "sender": "bob", "record": "grant-bob"},
        {"scene": 1, "do": "drop", "sender": "alice", "message": 2},
    ]
    orders = [{"scene": 0, "step": 3, "do": "tick", "seconds": 60}]
    changes = {"faults": faults, "orders": orders, "watched": ["alice has bob-note", "nonsense"]}
    command = {"do": "run", "name": "x", "toml": toml, "changes": changes}
    (answer,) = session.handle(command)
    assert fault_of(answer["recording"], RECORDING, KNOWN) is None


@pytest.mark.parametrize(
    ("spoil", "place"),
    [
        (lambda r: r.pop("tables"), ".tables"),
        (lambda r: r.update(more=1), ".more"),
        (lambda r: r["scenes"][0].update(say=7), ".scenes[0].say"),
        (lambda r: r["scenes"][1]["frames"][2].update(step=True), ".scenes[1].frames[2].step"),
        (lambda r: r["tables"][0][0].update(state="lost"), ".tables[0][0].state"),
        (lambda r: r["scenes"][0].update(pair=["bob"]), ".scenes[0].pair"),
    ],
)
def test_what_has_another_shape_is_found(spoil: Any, place: str) -> None:
    made = copy.deepcopy(opened(*text_of("notes-room", "notes-room"))[1])
    spoil(made)
    assert fault_of(made, RECORDING, KNOWN) == place
