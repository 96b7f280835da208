"""why and why-not: which rules and records decide, and which layer stands in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import lace_inside as lace
from hosting import hosting
from meeting import Host
from small_room import room
from terminal import on_a_terminal
from wires import store_of

import lace as api
from lace.api.reasons import Question
from lace.crypto.keys import demo_key
from lace.keyring import Keyring

PREFIX = "//notes-demo//notes//"
ALICE, BOB, MALLORY = map(demo_key, ("alice", "bob", "mallory"))
ROOM = room(PREFIX, authority=ALICE.verifier)


def sealed(app: str, name: str, key: api.SigningKey, **fields: str) -> api.Record:
    plex = api.build_plex(
        group="notes-demo", app=app, name=name, tai="1700000000:000000000",
        extras=list(fields.items()), data=b"x",
    )  # fmt: skip
    return api.seal(plex, key)


GRANT = sealed("notes/member", "member/bob", ALICE, Member=BOB.verifier, Role="writer")
NOTE = sealed("notes/message", "msg/1", BOB, Title="Hi")
STRAY = sealed("notes/message", "msg/2", MALLORY)


@pytest.mark.req("000-NOT-01", "000-NOT-02", "000-NOT-05")
def test_a_note_is_here_by_its_grant_and_a_stray_one_lacks_it() -> None:
    with api.open(records=[GRANT, NOTE, STRAY]) as local:
        why = api.explain(local, NOTE.hash, ROOM)
        assert why.allowed
        assert why.question is Question.HERE
        assert why.evidence == (GRANT.hash,)
        assert why.proof is not None
        assert why.rule(why.proof.rule or "").startswith("SelectHave(P) :-")
        not_so = api.explain(local, STRAY.hash, ROOM)
        assert not_so.obstacle is not None
        assert not_so.obstacle.name == "my rules"
        assert any(refusal.failed_atom == "Member(V)" for refusal in not_so.refusals)


def test_towards_a_peer_each_layer_is_named() -> None:
    with api.open(records=[GRANT, NOTE], key=ALICE) as local:
        peer = BOB.verifier

        def layers(**changes: Any) -> list[tuple[str, bool | None]]:
            made = api.explain(
                local, NOTE.hash, ROOM, peer=peer, **({"their_policy": ROOM} | changes)
            )
            return [(step.name, step.passed) for step in made.steps]

        names = ["here", "my rules", "the view", "their rules", "the lowering"]
        assert layers() == [(name, True) for name in names]
        hidden = [*zip(names, (True, True, False, None, None), strict=True)]
        assert layers(expose="none") == hidden
        refused = [*zip(names, (True, True, True, False, None), strict=True)]
        assert layers(their_policy="//notes-demo//other//") == refused
        strange = "SelectHave(P) :- Have(P), Peer('x').\nSelectAdvertised(P,S) :- Advertised(P,S)."
        assert layers(their_policy=strange) == refused
        here = f"SelectHave(P) :- Have(P), Peer('{peer}'), Here('{ALICE.verifier}').\n"
        here += "SelectAdvertised(P,S) :- Advertised(P,S)."
        assert layers(their_policy=here) == [(name, True) for name in names]


def test_what_is_not_here_is_explained_as_it_is_offered() -> None:
    with api.open(records=[GRANT]) as local:
        nothing = api.explain(local, NOTE.hash, ROOM)
        assert [(s.name, s.passed) for s in nothing.steps] == [("here", False), ("my rules", None)]
        unheard = api.explain(local, NOTE.hash, ROOM, their_policy=ROOM)
        assert unheard.obstacle is not None
        assert unheard.obstacle.name == "advertised"
        offered = api.explain(local, NOTE.hash, ROOM, their_policy=ROOM, offered=NOTE)
        assert offered.allowed
        assert offered.question is Question.REQUEST
        assert GRANT.hash in offered.evidence
        stray = api.explain(local, STRAY.hash, ROOM, their_policy=ROOM, offered=STRAY)
        assert stray.obstacle is not None
        assert stray.obstacle.name == "my rules"


# --- the commands ---


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    for name in ("alice", "bob"):
        Keyring().add(name, demo=True)
    done = lace("init", "a", "--key", "alice", "--select", PREFIX, "--room", "alice", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "a" / "lace.toml").open("a") as settings:
        settings.write('reads = "anyone"\n')
    with api.open(tmp_path / "a" / "records.lace", records=[GRANT, NOTE, STRAY]):
        pass
    return tmp_path


def told(*arguments: str | Path, cwd: Path) -> tuple[int, dict[str, Any]]:
    done = lace(*arguments, cwd=cwd)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_the_commands_answer_by_hash_place_and_file(home: Path) -> None:
    where = home / "a"
    for record in (NOTE.hash, "//notes-demo//notes/message//msg/1", f"////{NOTE.hash}"):
        code, entry = told("why", record, cwd=where)
        assert (code, entry["allowed"], entry["evidence"]) == (0, True, [GRANT.hash])
        assert {rule["rule"].split("(")[0] for rule in entry["rules"]} >= {"SelectHave", "Member"}
    code, entry = told("why-not", STRAY.hash, cwd=where)
    assert (code, entry["allowed"]) == (6, False)
    other = sealed("notes/message", "msg/3", MALLORY)
    (home / "other.records").write_bytes(other.raw)
    code, entry = told("why-not", home / "other.records", cwd=where)
    assert (code, entry["question"]) == (6, "request")
    assert entry["refusals"]
    code, entry = told("why-not", other.hash, cwd=where)
    assert entry["steps"][0] == {
        "layer": "here", "passed": False, "detail": "it is not stored here",
    }  # fmt: skip
    (home / "two.records").write_bytes(other.raw + NOTE.raw)
    assert lace("why", "//notes-demo//notes/message//msg/9", cwd=where).returncode == 6
    for wrong in ("nothing", str(home / "two.records")):
        assert lace("why", wrong, cwd=where).returncode == 2


def test_a_peer_is_a_name_a_verifier_or_an_address(home: Path) -> None:
    where = home / "a"
    settings = where / "lace.toml"
    peer = (
        f'[peers.bob]\naddress = "tcp:127.0.0.1:1"\nexpect = "{BOB.verifier}"\n'
        'select = "//notes-demo//other//"\n'
    )
    settings.write_text(settings.read_text() + peer)
    for text in ("bob", BOB.verifier):
        code, entry = told("why-not", NOTE.hash, "--peer", text, cwd=where)
        assert code == 6
        assert [s["layer"] for s in entry["steps"] if s["passed"] is False] == ["their rules"]
    for text in ("alice", "tcp:127.0.0.1:1"):  # a name of the keyring; an address
        done = lace("why", NOTE.hash, "--peer", text, cwd=where)
        assert done.returncode == 0
        assert b"taken to be what you select" in done.stderr
    code, entry = told("why", NOTE.hash, "--peer", "bob", "--theirs", PREFIX, cwd=where)
    assert code == 0
    code, entry = told(
        "why", NOTE.hash, "--peer", "bob", "--theirs", PREFIX, "--expose", "none", cwd=where
    )
    assert [s["layer"] for s in entry["steps"] if s["passed"] is False] == ["the view"]
    assert lace("why", NOTE.hash, "--peer", "nobody", cwd=where).returncode == 2
    assert lace("why", NOTE.hash, "--peer", "alice", "--ask", cwd=where).returncode == 2


def test_a_peer_can_be_asked_for_what_is_not_here(home: Path) -> None:
    where = home / "a"
    other = sealed("notes/message", "msg/3", MALLORY)
    with hosting(Host(store_of([other]), stays=False)) as address:
        code, entry = told("why-not", other.hash, "--peer", address, "--ask", cwd=where)
        assert (code, entry["question"]) == (6, "request")
        assert [s["layer"] for s in entry["steps"] if s["passed"] is False] == ["my rules"]
        missing = sealed("notes/message", "msg/4", MALLORY)
        done = lace("why-not", missing.hash, "--peer", address, "--ask", cwd=where)
        assert done.returncode == 6
        assert b"the peer does not give it" in done.stderr
    assert lace("get", other.hash, cwd=where).returncode == 6  # nothing was stored


def test_on_a_terminal_it_is_told_in_words(home: Path) -> None:
    where = home / "a"
    why = on_a_terminal("why", NOTE.hash, cwd=where)
    assert f"{NOTE.hash} //notes-demo//notes/message//msg/1" in why
    assert "✓ my rules" in why
    assert "this record: Group = notes-demo, App = notes/message, Signed-By = bob" in why
    assert f"{GRANT.hash} //notes-demo//notes/member//member/bob" in why
    why_not = on_a_terminal("why-not", STRAY.hash, cwd=where)
    assert "✗ my rules" in why_not
    assert "the rule that came closest" in why_not
    assert "fails at Member(V,'writer')" in why_not


def test_facts_about_no_record_are_told_too(home: Path) -> None:
    """A proof may rest on the time, or on who is here and who is the peer."""
    where = home / "a"
    rules = (
        "SelectHave(P) :- Have(P), TickTAI(T), Here(V).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    why = on_a_terminal("why", NOTE.hash, "--select", rules, cwd=where, exit=0)
    assert "TickTAI('" in why
    assert "Here('alice')" in why
    peer = f"SelectHave(P) :- Have(P), Peer('{BOB.verifier}').\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    why = on_a_terminal(
        "why", NOTE.hash, "--peer", "bob", "--theirs", peer, cwd=where, exit=0
    )  # fmt: skip
    assert "Peer('bob')" in why


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(shell: str, tmp_path: Path) -> None:
    done = lace("completion", shell, cwd=tmp_path)
    assert done.returncode == 0
    assert b"_LACE_COMPLETE" in done.stdout


def test_completion_answers_a_shell() -> None:
    words = {"_LACE_COMPLETE": "bash_complete", "COMP_WORDS": "lace why", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "lace"], env=os.environ | words, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [b"plain,why", b"plain,why-not"]
    words = {"_LACE_COMPLETE": "bash_complete", "COMP_WORDS": "lace sync --ex", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "lace"], env=os.environ | words, capture_output=True, check=False
    )
    assert done.stdout.split() == [b"plain,--expect", b"plain,--expose"]
