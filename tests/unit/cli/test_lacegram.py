"""Commands about rules: the plumbing contract, and what people see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import lace

RULES = """\
# who may write
#:json {"label":"members"}
Member(V) :-
  Have(G), Field(G,'Member',_,V).

Selected(P) :- Have(P), Field(P,'Signed-By',_,V), Member(V).
"""
FACTS = """\
Have('p')
Have('g')
Field('g','Member','0','v')
Field('p','Signed-By','0','v')
"""
MEMBER = "U.UEx3TYvhru2pnTYgCDSK~bces4RXazbqG98OOXW8KaO"
SELECTED = "U.HAyzDfSWJcUGiNBorUPZF6RJLXf4q1owk9EBMDKXrg4"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules").write_text(RULES)
    (tmp_path / "facts").write_text(FACTS)
    (tmp_path / "bad").write_text("A(X) :- B(Y).\nC(P) :- Hav(P), P = 'x'.\n")
    return tmp_path


def objects(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def plumb(folder: Path, *arguments: str, stdin: str = "") -> tuple[int, bytes]:
    done = lace("plumb", "lacegram", *arguments, cwd=folder, stdin=stdin)
    assert b"Traceback" not in done.stderr
    return done.returncode, done.stdout


@pytest.mark.req("030-SYN-27")
def test_check(folder: Path) -> None:
    code, output = plumb(folder, "check", "bad")
    assert code == 1
    assert [(d["code"], d["line"], d["column"], d["severity"]) for d in objects(output)] == [
        ("lacegram.unsafe", 1, 1, "error"),
        ("lacegram.unknown-predicate", 1, 9, "warning"),
        ("lacegram.equality", 2, 19, "error"),
    ]
    assert sorted(objects(output)[0]) == ["code", "column", "hint", "line", "message", "severity"]
    assert plumb(folder, "check", "rules") == (0, b"")
    assert plumb(folder, "check", "-", stdin="MaySend(P) :- Have(P).\n") == (0, b"")
    code, output = plumb(
        folder, "check", "-", "--role", "selector", stdin="MaySend(P) :- Have(P).\n"
    )
    assert (code, objects(output)[0]["code"]) == (1, "lacegram.reserved")


@pytest.mark.req("030-CAN-04", "030-ANN-07")
def test_canon_and_id(folder: Path) -> None:
    code, output = plumb(folder, "canon", "rules")
    lines = output.decode().splitlines()
    assert (code, lines) == (0, [
        "Member(V) :- Have(G), Field(G,'Member',_,V).",
        "Selected(P) :- Have(P), Field(P,'Signed-By',_,V), Member(V).",
    ])  # fmt: skip
    code, output = plumb(folder, "id", "rules")
    assert objects(output) == [
        {
            "lacegram": "R.j6kfIlNau1pQzHMPzHmSgW~AJ0inKO6JfDwh6_~px10",
            "rules": [
                {"id": MEMBER, "line": lines[0], "notes": {"label": "members"}},
                {"id": SELECTED, "line": lines[1], "notes": {}},
            ],
        }
    ]
    for command in ("canon", "id", "strata"):
        code, output = plumb(folder, command, "bad")
        assert code == 1
        assert {d["severity"] for d in objects(output)} == {"error"}


@pytest.mark.req("030-STR-06")
def test_strata(folder: Path) -> None:
    rules = "B(X) :- E(X,_).\nA(X) :- E(X,_), not B(X).\nA(X,Y) :- E(X,Y).\n"
    code, output = plumb(folder, "strata", "-", stdin=rules)
    assert (code, output.decode().splitlines()) == (0, [
        '{"predicate":"A/1","stratum":1}',
        '{"predicate":"A/2","stratum":0}',
        '{"predicate":"B/1","stratum":0}',
    ])  # fmt: skip


@pytest.mark.req("030-EVAL-01", "030-LIM-01")
def test_eval(folder: Path) -> None:
    code, output = plumb(folder, "eval", "rules", "--facts", "facts")
    assert (code, output) == (0, b"Member('v')\nSelected('p')\n")
    for name in ("Selected", "Selected/1"):
        arguments = ("eval", "rules", "--facts", "facts", "--predicate", name)
        assert plumb(folder, *arguments) == (0, b"Selected('p')\n")
    assert plumb(folder, "eval", "rules", "--facts", "facts", "--predicate", "Nope") == (0, b"")
    limited = ("eval", "rules", "--facts", "facts", "--limits", '{"derived_facts":0}')
    code, output = plumb(folder, *limited)
    assert (code, objects(output)[0]["limit"]) == (5, "derived_facts")
    (folder / "facts").write_text("Have('p')\nHave(p)\nMember(\n")
    code, output = plumb(folder, "eval", "rules", "--facts", "facts")
    assert (code, [d["line"] for d in objects(output)]) == (1, [2, 3])
    (folder / "facts").write_text("Member('x')\n")
    code, output = plumb(folder, "eval", "rules", "--facts", "facts")
    assert (code, objects(output)[0]["code"]) == (1, "lacegram.shadow")


@pytest.mark.parametrize(
    "limits", ["[]", "{", '{"x":1}', '{"work":"1"}', '{"work":true}', '{"work":-1}']
)
def test_bad_limits(folder: Path, limits: str) -> None:
    done = lace("plumb", "lacegram", "check", "rules", "--limits", limits, cwd=folder)
    assert done.returncode == 2
    assert b"--limits" in done.stderr


@pytest.mark.req("030-EVAL-09")
def test_why(folder: Path) -> None:
    code, output = plumb(folder, "why", "rules", "--facts", "facts", "--fact", "Selected('p')")
    (proof,) = objects(output)
    assert code == 0
    assert (proof["fact"], proof["rule"]) == ("Selected('p')", SELECTED)
    assert [(p["fact"], p["rule"]) for p in proof["because"]] == [
        ("Have('p')", None),
        ("Field('p','Signed-By','0','v')", None),
        ("Member('v')", MEMBER),
    ]
    assert output.startswith(b'{"because":[{"because":[],"fact":')
    code, output = plumb(folder, "why", "rules", "--facts", "facts", "--fact", "Selected('g')")
    assert code == 6
    assert objects(output) == [
        {
            "fact": "Selected('g')",
            "rules": [
                {"bindings": {"P": "g"}, "failed_atom": "Field(P,'Signed-By',_,V)", "id": SELECTED}
            ],
        }
    ]
    done = lace("plumb", "lacegram", "why", "rules", "--facts", "facts", "--fact", "no", cwd=folder)
    assert done.returncode == 1
    assert b"fact.malformed" in done.stderr


def test_check_shows_people_where_and_how_to_mend_it(folder: Path) -> None:
    done = lace("check", "bad", "rules", cwd=folder)
    text = done.stderr.decode()
    assert done.returncode == 1
    assert "bad:2:19: error: '=' is not part of the language [lacegram.equality]" in text
    assert "    2 | C(P) :- Hav(P), P = 'x'.\n" in text
    assert text.splitlines()[
        text.splitlines().index("    2 | C(P) :- Hav(P), P = 'x'.") + 1
    ].endswith("  ^")
    assert "rules: 2 rules, 0 warnings, R." in done.stdout.decode()


def test_fmt_keeps_comments_and_order(folder: Path) -> None:
    messy = (
        '# first\n\n\nB( X ):-C(X) .\n  # second\n#:json {"a":1}\nA(X) :-\n  D(X),\n'
        f"  not E(X,'{'x' * 90}').\n\n# last\n"
    )
    expected = (
        '# first\n\nB(X) :- C(X).\n# second\n#:json {"a":1}\nA(X) :-\n  D(X),\n'
        f"  not E(X,'{'x' * 90}').\n\n# last\n"
    )
    path = folder / "messy"
    path.write_text(messy)
    assert lace("fmt", path).stdout.decode() == expected
    assert path.read_text() == messy
    before = plumb(folder, "id", "messy")
    assert lace("fmt", "--write", path).returncode == 0
    assert path.read_text() == expected
    assert lace("fmt", path).stdout.decode() == expected
    assert plumb(folder, "id", "messy") == before
    broken = lace("fmt", "--write", folder / "bad")
    assert broken.returncode == 1
    assert (folder / "bad").read_text().startswith("A(X) :- B(Y).")


def test_check_tells_the_role_by_what_is_defined(folder: Path) -> None:
    """A selector may use advertisements and runtime facts; to doubt them would be a false alarm."""
    selector = (
        "SelectHave(P) :- Have(P), Here(V), Field(P,'Signed-By',_,V).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'g'), Peer(S).\n"
    )
    expose = "AllowQueryRecord(V,P) :- Have(P), Peer(V), TransportEncrypted().\n"
    for name, text in (("selector", selector), ("expose", expose), ("plain", RULES)):
        (folder / name).write_text(text)
        done = lace("check", name, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert b"0 warnings" in done.stdout, done.stderr
        assert lace("fmt", name, cwd=folder).stdout
    # What a selector may not do is an error without being asked for.
    (folder / "selector").write_text(selector + "MaySend(P) :- Have(P).\n")
    done = lace("check", "selector", cwd=folder)
    assert done.returncode == 1
    assert b"no selector module may define MaySend/1" in done.stderr
    assert lace("check", "selector", "--role", "plain", cwd=folder).returncode == 0


def test_what_is_wrong_can_be_had_as_objects(tmp_path: Path) -> None:
    (tmp_path / "r.lacegram").write_text("A(X) :- B(X), X = 'x'.\nC(X) :- B(X).\n")
    done = lace("check", "--json", "r.lacegram", cwd=tmp_path)
    *found, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert (found[0]["line"], found[0]["code"], found[0]["severity"]) == (
        1,
        "lacegram.equality",
        "error",
    )
    assert (last["errors"], last["id"]) == (1, None)
    (tmp_path / "r.lacegram").write_text("C(X) :- B(X).\n")
    fine = json.loads(lace("check", "--json", "r.lacegram", cwd=tmp_path).stdout.splitlines()[-1])
    assert (fine["rules"], fine["errors"]) == (1, 0)
    assert fine["id"].startswith("R.")


def test_check_tells_an_author_what_a_peer_would_refuse(folder: Path) -> None:
    rest = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    dear = "# all pairs of pairs\nBig(P) :- Have(P), Have(Q), Have(R), Have(T).\n"
    (folder / "dear").write_text(dear + rest)
    assert lace("check", "dear", cwd=folder).returncode == 0
    done = lace("check", "--role", "foreign", "dear", cwd=folder)
    assert done.returncode == 1
    text = done.stderr.decode()
    assert "dear:2:1: error: Big/1: 4 parts that share no variable, at most 3" in text
    assert "[lacegram.cost]" in text
    (folder / "cheap").write_text(rest)
    assert lace("check", "--role", "foreign", "cheap", cwd=folder).returncode == 0
    (folder / "half").write_text("SelectHave(P) :- Have(P).\n")
    done = lace("check", "--role", "foreign", "half", cwd=folder)
    assert done.returncode == 1
    assert b"[policy.export]" in done.stderr


FEEDBACK = """\
Wanted(P) :- Advertised(P,_).
SelectHave(P) :- Have(P), not Wanted(P).
SelectHave(P) :- Have(P), AdvertisedField(P,_,'App',_,'a').
SelectAdvertised(P,S) :- Advertised(P,S).
"""


def test_rules_that_offer_by_what_the_peer_offers_are_warned_of(folder: Path) -> None:
    (folder / "feedback").write_text(FEEDBACK)
    done = lace("check", "feedback", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr  # a warning is no error
    *found, last = objects(done.stdout)
    assert [(d["code"], d["severity"], d["line"], d["column"]) for d in found] == [
        ("policy.feedback", "warning", 3, 27),
        ("policy.feedback", "warning", 1, 14),
    ]
    assert ["never come to rest" in d["message"] for d in found] == [False, True]
    assert last["warnings"] == 2
    apart = FEEDBACK.replace("not Wanted(P)", "Field(P,'Group',_,'g')")
    apart = apart.replace("AdvertisedField(P,_,'App',_,'a')", "Field(P,'App',_,'a')")
    (folder / "apart").write_text(apart)
    assert objects(lace("check", "apart", "--json", cwd=folder).stdout)[-1]["warnings"] == 0
