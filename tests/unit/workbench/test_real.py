"""Real laces and journals in the workbench: nothing is changed, and what is shown is what was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import lace_inside

from lace.cli.workbench import is_journal, is_lace, real_journal, real_laces
from lace.errors import EncodingError, UsageError
from lace.workbench import retold as retelling
from lace.workbench.real import read_records
from lace.workbench.session import Session
from lace.workbench.shapes import fault_of, shapes

KNOWN = shapes()
PLACE = "//notes-demo//notes//"


def run(*arguments: str) -> None:
    done = lace_inside(*arguments)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def laces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Alice and Bob with a note each, and one of Bob's that does not belong."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring"))
    for who in ("alice", "bob"):
        run("keyring", "new", who)
        run("init", who, "--key", who, "--select", PLACE)
    for who, place in (("alice", "a"), ("bob", "b")):
        run("add", f"//notes-demo//notes/message//{place}", "--text", "Hi", "--lace", who)
    run("add", "//other//notes/message//c", "--text", "Hi", "--lace", "bob")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for who in ("alice", "bob")
        for path in (folder / who / "lace.toml", folder / who / "records.lace")
    }


def ids_of(recording: dict[str, Any], hashes: list[str]) -> set[str]:
    return {recording["records"][hash]["id"] for hash in hashes}


def test_two_laces_meet_in_memory_and_stay_as_they_are(laces: Path) -> None:
    before = contents(laces)
    recording = real_laces("alice", "bob").recording
    assert fault_of(recording, ["shape", "Recording"], KNOWN) is None
    (scene,) = recording["scenes"]
    assert scene["stopped"]["outcome"] == "fixed point"
    assert ids_of(recording, scene["after"]["here"]) == {"a", "b"}
    assert ids_of(recording, scene["after"]["there"]) == {"a", "b", "c"}
    policy = recording["policies"][scene["frames"][-1]["policies"][1]]
    (hidden,) = set(scene["after"]["there"]) - set(policy["may_send"])
    assert policy["verdicts"]["send"][hidden]["allowed"] is False
    assert recording["scenario"]["keys"]["alice"] == recording["scenario"]["peers"][0]["verifier"]
    assert contents(laces) == before


@pytest.mark.usefixtures("laces")
def test_one_lace_meets_a_newcomer() -> None:
    recording = real_laces("bob", None).recording
    (scene,) = recording["scenes"]
    assert ids_of(recording, scene["after"]["there"]) == {"b"}


@pytest.mark.usefixtures("laces")
def test_other_rules_are_tried_on_real_records() -> None:
    real = real_laces("bob", None)
    session = Session(real=real)
    assert session.handle({"do": "hello"})[0]["first"] == real.name
    session.handle({"do": "open", "name": real.name})
    command = {"do": "run", "name": real.name, "toml": "", "changes": None}
    both = {"here": "//other//notes//", "there": "//other//notes//"}
    recording = session.handle(command | {"rules": both})[0]["recording"]
    assert ids_of(recording, recording["scenes"][0]["after"]["there"]) == {"c"}
    faults = [{"scene": 0, "do": "drop", "sender": "here", "record": "c"}]
    recording = session.handle(command | {"changes": {"faults": faults}})[0]["recording"]
    assert recording["scenes"][0]["after"]["there"] == []  # the rules are still the other ones
    assert session.handle({"do": "share"})[0]["type"] == "problem"
    (again,) = session.handle({"do": "open", "name": real.name})
    assert again["recording"] is real.recording
    (fault,) = session.handle(command | {"rules": {"here": "no rules :-"}})
    assert fault["type"] in {"problem", "problems"}


def test_more_records_than_can_be_shown_are_refused(laces: Path) -> None:
    with pytest.raises(UsageError, match="has 2 records; the workbench looks at 1 at most"):
        read_records(laces / "bob" / "records.lace", most=1)


@pytest.mark.usefixtures("laces")
@pytest.mark.parametrize("with_lace", [False, True])
def test_a_journal_tells_what_happened(with_lace: bool) -> None:
    run("sync", "bob", "--lace", "alice", "--journal", "j.jsonl")
    assert is_journal("j.jsonl")
    assert not is_lace("j.jsonl")
    real = real_journal("j.jsonl", "alice" if with_lace else None)
    recording = real.recording
    assert fault_of(recording, ["shape", "Recording"], KNOWN) is None
    (scene,) = recording["scenes"]
    assert scene["stopped"]["outcome"] == "fixed point"
    saved = [e for f in scene["frames"] for e in f.get("events", []) if e["kind"] == "RecordSaved"]
    assert [recording["records"][event["hash"]]["id"] for event in saved] == ["b"]
    assert ids_of(recording, scene["after"]["there"]) == {"a", "b"}
    titles = {peer["title"] for peer in recording["scenario"]["peers"]}
    assert titles == {"alice", "bob"}
    mine = scene["pair"].index("here")
    policy = recording["policies"][scene["frames"][-1]["policies"][mine]]
    assert all(verdict["mine"] for verdict in policy["verdicts"]["send"].values())
    session = Session(real=real)
    session.handle({"do": "open", "name": real.name})
    command = {"do": "run", "name": real.name, "toml": "", "changes": None}
    assert "cannot be run in another way" in session.handle(command)[0]["message"]
    assert session.handle({"do": "page"})[0]["type"] == "page"
    assert session.handle({"do": "journal"})[0]["type"] == "problem"


def test_where_reasons_did_not_travel_the_journal_has_the_word(laces: Path) -> None:
    """Alice's rules look at records that stay where they are; from the journal nobody sees why."""
    rules = laces / "rules.lacegram"
    rules.write_text(
        "Good(V) :- Have(G), Field(G,'App',_,'notes/good'), Field(G,'Signed-By',_,V).\n"
        "SelectHave(P) :- Have(P), Field(P,'App',_,'notes/message'), Good(V).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), Good(V).\n"
    )
    for who in ("alice", "bob"):
        run("add", f"//notes-demo//notes/good//{who}", "--text", "", "--lace", who)
    arguments = ("--select", str(rules), "--expose", "everything")
    run("sync", "bob", "--lace", "alice", "--journal", "j.jsonl", *arguments)
    recording = real_journal("j.jsonl", None).recording
    (scene,) = recording["scenes"]
    mine = scene["pair"].index("here")
    policy = recording["policies"][scene["frames"][-1]["policies"][mine]]
    sent = [hash for hash in policy["may_send"] if hash in policy["verdicts"]["send"]]
    assert sent
    for hash in sent:
        assert policy["verdicts"]["send"][hash]["allowed"] is True
        assert policy["verdicts"]["send"][hash]["layer"] == "the journal"


def test_a_journal_that_breaks_off_is_shown_as_far_as_it_goes(laces: Path) -> None:
    run("sync", "bob", "--lace", "alice", "--journal", "j.jsonl")
    lines = (laces / "j.jsonl").read_text().splitlines()
    for cut in (len(lines) // 2, len(lines) - 3):
        broken = [*lines[:cut], lines[cut][:30]]
        story = retelling.retold(broken, "j")["scenario"]["story"]
        assert "The journal ends in the middle" in story
    step = json.loads(lines[5])
    step["effects"] = [{"type": "Close"}]
    other = [*lines[:5], json.dumps(step), *lines[6:]]
    story = retelling.retold(other, "j")["scenario"]["story"]
    assert "From line 6 on this engine does something else" in story


@pytest.mark.parametrize(
    ("line", "path", "value"),
    [(0, ("side", "index"), None), (0, ("side", "parameters", "answer_at_once"), "x"),
     (4, ("input",), {"type": "PeerTuples", "facts": [["Hello"], []]}),
     (4, ("input",), {"type": "PeerModule", "id": 1.5, "content": {"text": "x"}})],
)  # fmt: skip
def test_what_no_engine_writes_is_refused_or_shown_up_to_there(
    laces: Path, line: int, path: tuple[str, ...], value: object
) -> None:
    run("sync", "bob", "--lace", "alice", "--journal", "j.jsonl")
    lines = (laces / "j.jsonl").read_text().splitlines()
    content = json.loads(lines[line])
    place = content
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    lines[line] = json.dumps(content)
    try:
        recording = retelling.retold(lines, "j")
    except EncodingError as error:
        assert "no engine writes" in error.message or "line 1" in error.message
    else:
        assert fault_of(recording, ["shape", "Recording"], KNOWN) is None


@pytest.mark.parametrize("lines", [[], ["{}"], ['{"journal": 99}'], ["nonsense"]])
def test_what_is_no_journal_is_refused(lines: list[str]) -> None:
    with pytest.raises(EncodingError):
        retelling.retold(lines, "j")


def test_rules_that_end_an_exchange_are_shown_as_they_came(laces: Path) -> None:
    run("sync", "bob", "--lace", "alice", "--journal", "j.jsonl")
    lines = (laces / "j.jsonl").read_text().splitlines()
    for number, line in enumerate(lines):
        step = json.loads(line)
        if step.get("input", {}).get("type") == "PeerModule":
            step["input"]["content"] = {"text": "no rules :-"}
            lines[number] = json.dumps(step)
    recording = retelling.retold(lines, "j")
    there = next(peer for peer in recording["scenario"]["peers"] if peer["id"] == "there")
    assert there["rules"] == "no rules :-"
    assert there["checked"]["ok"] is False
    assert fault_of(recording, ["shape", "Recording"], KNOWN) is None
