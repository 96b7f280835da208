"""What the engine sends has the shapes that the page's types are made from."""

from __future__ import annotations

import copy
from typing import Any, get_args

import pytest

from lace.crypto.keys import demo_key
from lace.errors import Code, Outcome, Status
from lace.interlace import messages as m
from lace.record import build_blob, build_plex, seal
from lace.scenario.library import library
from lace.workbench.session import Session, opened, text_of
from lace.workbench.shapes import fault_of, shapes
from page_types import told

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


COMMANDS: list[dict[str, Any]] = [
    {"do": "hello"},
    {"do": "open", "name": "notes-room"},
    {"do": "check", "text": "SelectHave(R) :- Have(R).\nnonsense"},
    {"do": "judge", "toml": "title = 3"},
    {"do": "share"},
    {"do": "journal", "scene": 0},
    {"do": "page"},
    {"do": "run", "name": "broken", "toml": "title = 3"},
]


def test_every_answer_has_its_shape() -> None:
    session = Session()
    asked = set()
    for command in COMMANDS:
        for answer in session.handle(command | {"id": 7}):
            assert fault_of(answer, KNOWN["Answers"][command["do"]], KNOWN) is None, command
            asked.add(command["do"])
            if answer["type"] == "recording":
                hash = next(iter(answer["recording"]["records"]))
    for flip in ({}, {"flip": 3}):
        (answer,) = session.handle({"do": "inspect", "hash": hash, "id": 8} | flip)
        assert fault_of(answer, ["shape", "Inspected"], KNOWN) is None
    assert asked | {"inspect"} == KNOWN["Answers"].keys() == session._handlers().keys()


@pytest.mark.parametrize(
    "command", [{"do": "open", "name": "nowhere"}, {"do": "inspect", "hash": "x"}, {"do": "fly"}, 7]
)
def test_every_problem_has_its_shape(command: object) -> None:
    (answer,) = Session().handle(command)
    assert fault_of(answer, ["shape", "Problem"], KNOWN) is None


def test_what_a_page_with_a_lace_is_told_has_its_shape() -> None:
    tells = told()
    known = shapes((*tells.TOLD, tells.Entry))
    result = m.InterlaceResult()
    happened: list[m.Event] = [
        m.RecordSaved("S.a"), m.RecordDuplicate("S.a"),
        m.RecordRejected("S.a", Code.LIMIT_EXCEEDED, "too much"), m.FixedPoint(result),
        m.Closed(m.Ending.ASKED, result),
        m.Aborted(Code.LIMIT_EXCEEDED, "too much", m.Blame.LOCAL, result),
    ]  # fmt: skip
    assert {type(event) for event in happened} == set(get_args(m.Event))
    events = ["one of", *(["shape", kind.__name__] for kind in get_args(tells.InterlaceEvent))]
    for event in happened:
        assert fault_of(tells.event(event), events, known) is None, event
    for status in Status:
        made: Outcome[Any] = Outcome(status, code=Code.LIMIT_EXCEEDED)
        assert fault_of(tells.outcome(made), ["shape", "Outcome"], known) is None, status
    plain = build_plex(group="g", app="a", name="n", tai="1700000000:000000000", data=b"x")
    entries, raw = tells.records([plain, seal(plain, demo_key("x")), build_blob(b"y")])
    assert len(raw) == sum(entry["size"] for entry in entries)
    for entry in entries:
        assert fault_of(entry, ["shape", "Entry"], known) is None, entry


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
