"""Rules for people: tried before they meet anybody, with parameters and in several files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import lace_inside as lace

import lace as api
from lace import blocking
from lace.crypto.keys import demo_key
from lace.errors import Code, LacegramError, PolicyError, UsageError
from lace.keyring import Keyring
from lace.rulefiles import read_rules
from lace.settings import load

ANN, BOB = demo_key("ann").verifier, demo_key("bob").verifier
RULES = """# What the owner signed.
SelectHave(P) :- Have(P), Field(P,'Signed-By',_,'{owner}').
SelectAdvertised(P,S) :- AdvertisedField(P,S,'Signed-By',_,'{owner}').
"""
EMBARGO = """SelectHave(P) :- Have(P), Field(P,'Open',_,T), TickTAI(N), LexCompare(T,'<=',N).
SelectAdvertised(P,S) :- Advertised(P,S).
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    for name in ("ann", "bob"):
        Keyring().add(name, demo=True)
        done = lace("init", name, "--key", name, "--select", "//g//a//", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        lace("add", f"//g//a//{name}", "--text", "x", "--lace", name, cwd=tmp_path)
    (tmp_path / "r.lacegram").write_text(RULES)
    return tmp_path


def tried(*words: str | Path, cwd: Path) -> tuple[list[dict[str, Any]], str]:
    done = lace("try", *words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def test_what_would_be_selected_sent_and_asked_for(home: Path) -> None:
    lace("add", "//g//a//other", "--text", "x", "--key", "bob", "--lace", "ann", cwd=home)
    here, told = tried("r.lacegram", "--set", f"owner={ANN}", "--lace", "ann", cwd=home)
    assert [(row["place"], row["verdict"]) for row in here] == [
        ("//g//a//ann", "selected"), ("//g//a//other", "not selected"),
    ]  # fmt: skip
    assert "Field(P,'Signed-By'" in here[0]["rules"][0]
    assert here[1]["refusals"][0]["failed_atom"].startswith("Field(P,'Signed-By'")
    assert told.endswith("1 of 2 here would be selected\n")
    sent, _ = tried("//g//a//", "--as", "bob", "--expose", "none", "--lace", "ann", cwd=home)
    assert {(row["verdict"], row["obstacle"]) for row in sent} == {("not sent", "the view")}
    sent, told = tried("//g//a//", "--peer", "bob", "--lace", "ann", cwd=home)
    assert [(row["verdict"], row["place"]) for row in sent] == [
        ("sent", "//g//a//ann"), ("sent", "//g//a//other"), ("asked for", "//g//a//bob"),
    ]  # fmt: skip
    assert told.endswith("2 of 2 here would be sent; 1 of 1 offered would be asked for\n")
    for name, count in (("ann", 2), ("bob", 1)):
        with api.open(home / name) as local:
            assert blocking.count(local) == count  # nothing was exchanged
    table = lace(
        "try", "//g//a//", "--peer", "bob", "--table", "--lace", "ann", cwd=home
    ).stdout.decode()
    assert [line[0] for line in table.splitlines()[1:]] == ["→", "→", "←"]
    assert b"Verdict,Place" in lace("try", "//g//a//", "--csv", "--lace", "ann", cwd=home).stdout
    _, told = tried("//g//a//", "--limit", "1", "--lace", "ann", cwd=home)
    assert "1 more with a higher --limit" in told


def test_the_time_is_what_it_is_said_to_be(home: Path) -> None:
    (home / "e.lacegram").write_text(EMBARGO)
    lace("add", "//g//a//soon", "-f", "Open=1800000000:000000000", "--lace", "ann", cwd=home)
    for at, allowed in (("2026-12-31", False), ("2028-01-01", True)):
        rows, _ = tried("e.lacegram", "--at", at, "--lace", "ann", cwd=home)
        assert rows[1]["allowed"] is allowed


def test_on_a_scenario_names_in_braces_are_those_of_the_scenario(home: Path) -> None:
    (home / "s.lacegram").write_text(RULES.replace("{owner}", "{bob}"))
    rows, told = tried("s.lacegram", "--scenario", "notes-room", cwd=home)
    assert {row["allowed"] for row in rows} == {True, False}
    assert "would be selected" in told
    sent, _ = tried("s.lacegram", "--scenario", "notes-room", "--as", "bob", cwd=home)
    assert any(row["verdict"] == "sent" for row in sent)
    assert lace("try", "s.lacegram", "--scenario", "notes-rom", cwd=home).returncode == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("r.lacegram",), b"leave {owner} open"),
        (("r.lacegram", "--set", "owner"), b"NAME=VALUE"),
        (("r.lacegram", "--scenario", "notes-room", "--lace", "ann"), b"not both"),
        (("//g//a//", "--as", "ann", "--peer", "bob"), b"not both"),
        (("//g//a//", "--as", "nobody"), b"nobody is called so"),
        (("//g//a//", "--peer", "./nowhere"), b"does not exist"),
        (("//g//a//", "--at", "noon"), b"is no time"),
        (("missing.lacegram",), b"cannot read"),
    ],
)
def test_what_cannot_be_tried_is_told(home: Path, words: tuple[str, ...], reason: bytes) -> None:
    where = () if "--lace" in words else ("--lace", "ann")
    done = lace("try", *words, *where, cwd=home)
    assert done.returncode in {1, 2}
    assert reason in done.stderr


def test_why_takes_the_folder_of_a_peer(home: Path) -> None:
    done = lace("why", "//g//a//ann", "--peer", "../bob", cwd=home / "ann")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["question"] == "send"
    assert b"not known" not in done.stderr
    with api.open(home / "bob") as bob:
        (theirs,) = blocking.list(bob)
    ask = lace("why-not", theirs.hash, "--peer", "./bob", "--lace", "ann", cwd=home)
    assert json.loads(ask.stdout)["question"] == "request"
    assert ask.returncode == 0
    wrong = lace("why", "//g//a//ann", "--peer", "./nobody", cwd=home / "ann")
    assert (wrong.returncode, b"does not exist" in wrong.stderr) == (2, True)


def test_parameters_fill_constants_and_nothing_else() -> None:
    made = api.module_from_text(RULES, owner=ANN)
    assert made == api.module_from_text(RULES.replace("{owner}", ANN))
    tricky = api.module_from_text(RULES, owner="it's \\ {owner}").text
    assert "'it\\'s \\\\ {owner}'" in tricky
    assert "{owner}" in api.module_from_text(RULES).text  # a text without parameters is as it is
    for given, reason in (
        ({"other": "x"}, "leave {owner} open"),
        ({"owner": ANN, "more": "x"}, "no {more}"),
        ({"owner": "a\nb"}, "cannot be used"),
    ):
        with pytest.raises(PolicyError, match=reason):
            api.module_from_text(RULES, **given)  # type: ignore[arg-type]
    with pytest.raises(PolicyError) as caught:
        api.module_from_text(RULES, other="x")
    assert caught.value.code is Code.POLICY_PARAMETER
    everywhere = "SelectHave(P) :- Have(P), not Field(P,'{a}',_,_), Cardinality(Field(P,'{a}',_,_),'<','2'), TextShape(P,'{a}','','{a}'), P != '{a}', LexCompare(P,'<','{a}').\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    assert "{a}" not in api.module_from_text(everywhere, a="v").text


def test_a_value_that_is_a_name_here_is_told_to_be_text(home: Path) -> None:
    (home / "of.lacegram").write_text(
        "SelectHave(P) :- Have(P), Field(P,'Signed-By',_,'{owner}').\n"
        "SelectAdvertised(P,S) :- AdvertisedField(P,S,'Signed-By',_,'{owner}').\n"
    )
    words = ("of.lacegram", "--lace", "ann", "--set")
    rows, told = tried(*words, "owner=ann", cwd=home)
    assert not any(row["allowed"] for row in rows)
    verifier = lace("keyring", "show", "ann", cwd=home).stdout.decode().strip()
    assert f"rules take it for text: {verifier} is whom it means" in told
    rows, told = tried(*words, f"owner={verifier}", cwd=home)
    assert rows[0]["allowed"]
    assert "text" not in told


def test_settings_have_parameters(home: Path) -> None:
    done = lace(
        "init", "p", "--select", "r.lacegram", "--set", f"owner={ANN}", "--key", "ann", cwd=home
    )
    assert done.returncode == 0, done.stderr
    assert load(home / "p").module() == api.module_from_text(RULES, owner=ANN)
    assert lace("init", "q", "--select", "r.lacegram", cwd=home).returncode in {1, 2}
    assert not (home / "q" / "lace.toml").exists()
    shown = lace("policy", "show", "r.lacegram", "--set", f"owner={BOB}", cwd=home).stdout
    assert BOB.encode() in shown


def test_rules_in_several_files(home: Path) -> None:
    (home / "rules").mkdir()
    (home / "rules" / "main.lacegram").write_text(
        '#:include "parts/members.lacegram"\nSelectHave(P) :- Have(P), Member(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n'
    )
    (home / "rules" / "parts").mkdir()
    part = home / "rules" / "parts" / "members.lacegram"
    part.write_text(
        "#:include \"again.lacegram\"\n#:include \"again.lacegram\"\nMember(P) :- Field(P,'Signed-By',_,'{owner}').\n"
    )
    (part.parent / "again.lacegram").write_text("# nothing\n")
    module = api.module_from_file(home / "rules" / "main.lacegram", owner=ANN)
    assert f"Member(P) :- Field(P,'Signed-By',_,'{ANN}')." in module.text
    done = lace("init", "p", "--select", "rules/main.lacegram", "--set", f"owner={ANN}", cwd=home)
    assert done.returncode == 0, done.stderr
    assert load(home / "p").module() == module  # it brought along what it includes
    part.write_text("Member(P) :- Have(P), P = 'x'.\n")
    wrong = lace("check", "rules/main.lacegram", cwd=home)
    assert wrong.returncode == 1
    assert b"members.lacegram:1:25: error" in wrong.stderr
    with pytest.raises(LacegramError, match=r"members\.lacegram"):
        api.module_from_file(home / "rules" / "main.lacegram", owner=ANN)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('#:include "r.lacegram"', "includes itself"),
        ('#:include "../r.lacegram"', "not in the folder"),
        ('#:include "/etc/passwd"', "not in the folder"),
        ("#:include r.lacegram", "write #:include"),
        ('#:include "missing"', "cannot read"),
    ],
)
def test_what_cannot_be_included(tmp_path: Path, line: str, reason: str) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (tmp_path / "r.lacegram").write_text("")
    (folder / "r.lacegram").write_text(f"{line}\n")
    with pytest.raises(UsageError, match=reason):
        read_rules(folder / "r.lacegram")


def test_includes_have_limits(tmp_path: Path) -> None:
    for number in range(80):
        (tmp_path / f"{number}").write_text(f'#:include "{number + 1}"\n')
    with pytest.raises(UsageError, match="more than 64"):
        read_rules(tmp_path / "0")
    (tmp_path / "large").write_text("#" * (1 << 20) + "\n#")
    with pytest.raises(LacegramError, match="longer than"):
        api.module_from_file(tmp_path / "large")
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_rules(tmp_path / "bytes")
