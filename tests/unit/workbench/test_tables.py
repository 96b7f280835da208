"""Tables of records: versions of a coordinate together, the raw tip marked, nothing made up."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lace.record.build import build_plex
from lace.record.model import Plex
from lace.recordstore.memory import MemoryStore
from lace.scenario.library import find_scenario, library
from lace.scenario.write import write_scenario
from lace.urc import Coordinate
from lace.workbench.recording import record_run
from lace.workbench.session import Session
from lace.workbench.tables import table_of

Json = dict[str, Any]


def plex(name: str, second: int, data: str = "") -> Plex:
    return build_plex(
        group="g", app="a", name=name, tai=f"{second:010}:000000000", data=data.encode()
    )


def rows_at(recording: Json, scene: int, step: int, side: int) -> dict[str, Json]:
    """Return the rows of one side by the ids of their records, in their order."""
    frame = recording["scenes"][scene]["frames"][step]
    return named(recording, recording["tables"][frame["tables"][side]])


def named(recording: Json, rows: list[Json]) -> dict[str, Json]:
    return {recording["records"][row["hash"]]["id"]: row for row in rows}


@given(
    st.lists(
        st.builds(plex, st.sampled_from("xyz"), st.integers(0, 3), st.sampled_from("abc")),
        unique_by=lambda record: record.hash,
        max_size=12,
    )
)
def test_versions_stand_together_and_the_tip_is_the_stores(records: list[Plex]) -> None:
    store = MemoryStore()
    store.save(records)
    rows = table_of([(record, {}) for record in records], {}, {})
    assert sorted(row["hash"] for row in rows) == sorted(record.hash for record in records)
    place = {record.hash: record.coordinate for record in records}
    runs = [at for at, _ in groupby(place[row["hash"]] for row in rows)]
    assert len(runs) == len(set(runs))
    for at in runs:
        found = [row for row in rows if place[row["hash"]] == at]
        assert [row["hash"] for row in found] == store.versions(at, 99)
        several = len(found) > 1
        assert [row.get("at") for row in found] == [str(at) if several else None] * len(found)
        assert [row.get("tip") for row in found] == [several or None] + [None] * (len(found) - 1)


def test_single_versions_stay_a_flat_table_in_the_order_of_the_store() -> None:
    records = [plex("z", 1), plex("a", 3), plex("m", 2)]
    rows = table_of([(record, {"sendable": True}) for record in records], {}, {})
    assert rows == [{"hash": r.hash, "state": "have", "sendable": True} for r in records]


def test_what_was_only_heard_of_is_placed_by_what_was_told_and_is_never_the_tip() -> None:
    old, new, other = plex("x", 1), plex("x", 9), plex("x", 5)
    place = [("App", "a"), ("Group", "g"), ("Name", "x")]
    heard = {str(new.hash): [*place, ("TAI", new.tai)], str(other.hash): place[:2]}
    states: dict[str, Json] = {hash: {"state": "advertised", "code": None} for hash in heard}
    rows = table_of([(old, {})], heard, states)
    at = str(Coordinate(group="g", app="a", name="x"))
    assert [(row["hash"], row.get("at"), row.get("tip")) for row in rows] == [
        (new.hash, at, None),
        (old.hash, at, True),
        (other.hash, None, None),  # its name was not told
    ]


def test_the_tip_that_the_other_sides_rules_see_is_marked_apart() -> None:
    old, new = plex("x", 1), plex("x", 9)
    rows = table_of([(old, {"hidden": False}), (new, {"hidden": True})], {}, {})
    assert [(row["hash"], row.get("tip"), row.get("seen_tip")) for row in rows] == [
        (new.hash, True, None),
        (old.hash, None, True),
    ]


@pytest.mark.req("000-WB-03")
def test_the_tip_moves_when_the_newer_version_arrives() -> None:
    recording = record_run(find_scenario("cache-fill"))
    scene = recording["scenes"][2]
    before = rows_at(recording, 2, 0, 1)
    assert "at" not in before["pears"]
    assert rows_at(recording, 2, 0, 0)["pears-cheaper"]["tip"]
    arrival = next(
        number
        for number, frame in enumerate(scene["frames"])
        if any(event["kind"] == "RecordSaved" for event in frame.get("events", ()))
    )
    assert scene["frames"][arrival]["sentence"].endswith(
        "pears-cheaper is now the newest that Cache has at //shop//catalog/item//pears."
    )
    after = rows_at(recording, 2, arrival, 1)
    assert list(after) == ["apples", "pears-cheaper", "pears", "plums"]
    assert [id for id, row in after.items() if row.get("tip")] == ["pears-cheaper"]


def test_a_side_that_meets_nobody_has_its_table_too() -> None:
    recording = record_run(find_scenario("offline-notes"))
    scene = recording["scenes"][2]
    assert scene["pair"] is None
    rows = named(recording, recording["tables"][scene["tables"]["laptop"]])
    assert [(id, row.get("at"), row.get("tip")) for id, row in rows.items()] == [
        ("monday", None, None),
        ("tuesday-again", "//home//notes/text//2023/tuesday", True),
        ("tuesday", "//home//notes/text//2023/tuesday", None),
    ]


@pytest.mark.parametrize("name", library())
def test_a_side_knows_no_more_of_a_record_than_it_was_told(name: str) -> None:
    """Before a record is there, its row holds the fields that crossed, and no others."""
    recording = record_run(find_scenario(name))
    heard = 0
    for scene in recording["scenes"]:
        for frame in scene.get("frames", ()):
            for table in frame["tables"]:
                for row in recording["tables"][table]:
                    assert ("told" in row) == (row["state"] != "have")
                    if row["state"] == "have":
                        continue
                    whole = {(n, v) for n, _, v in recording["records"][row["hash"]]["fields"]}
                    assert {tuple(one) for one in row["told"]} <= whole
                    fields = scene["plan"]["fields"]
                    assert fields is None or {n for n, _ in row["told"]} <= set(fields)
                    heard += len(row["told"])
    assert heard or name == "bait-attack"


def test_damaged_advertisements_make_no_recording_fail() -> None:
    built = find_scenario("notes-room")
    recording = record_run(built)
    sent = next(x for x in recording["scenes"][0]["messages"] if "advertises" in x["summary"])
    sender = recording["scenes"][0]["pair"][sent["sender"]]
    session = Session()
    command = {"do": "run", "name": "notes-room", "toml": write_scenario(built.scenario)}
    for byte in range(0, sent["bytes"], max(1, sent["bytes"] // 25)):
        fault = {"scene": 0, "do": "flip", "sender": sender, "message": sent["own"], "byte": byte}
        (answer,) = session.handle(command | {"changes": {"faults": [fault]}})
        assert answer["type"] == "recording"
