"""Reading rules: syntax, diagnostics, canonical text, identifiers, annotations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lacegrams import codes, derive, run
from programs import programs
from showing import showing

from lace.datalog.canonical import canonical_lacegram, parse_lacegram_id, rule_id
from lace.datalog.parse import parse_canonical, parse_lacegram
from lace.errors import Code, EncodingError, LacegramError
from lace.limits import Limits
from lace.rules import check_lacegram
from lace.urc import parse_urc

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "lacegrams.json").read_text())


INVALID_SHOW = {
    "anonymous in the head": "030-EX-04",
    "unbound variable in the head": "030-EX-04",
    "anonymous in TextShape": "030-EX-04",
    "defines a record fact": "030-EX-04",
    "mutual negation": "030-EX-04",
    "counts itself": "030-EX-04",
    "underscore name as a term": "030-EX-04 030-SYN-10",
    "Prefix": "030-EX-04 030-EQ-05",
    "Prefix as a head": "030-EQ-05",
    "equality": "030-EX-04 030-EQ-01",
    "double equality": "030-EQ-01",
    "equality with a constant": "030-EQ-01",
    "less-than sign": "030-SYN-16",
    "a bare word as a body atom": "030-SYN-16",
    "an exclamation mark": "030-SYN-16",
    "two rules on a line": "030-SYN-02",
    "no full stop": "030-SYN-03",
    "no arrow": "030-SYN-03",
    "no body": "030-SYN-05",
    "empty body": "030-SYN-05",
    "no parentheses": "030-SYN-04",
    "digit first in a name": "030-SYN-06",
    "name not ASCII": "030-SYN-06",
    "dot in a name": "030-SYN-06",
    "two underscores first": "030-SYN-07",
    "underscore and digit": "030-SYN-07",
    "lower-case term": "030-SYN-08",
    "hyphen in a variable": "030-SYN-08",
    "tilde in a variable": "030-SYN-08",
    "unknown escape": "030-SYN-12",
    "unknown escape x": "030-SYN-12",
    "backslash before the closing quote": "030-SYN-12",
    "line break in a constant": "030-SYN-13",
    "carriage return in a constant": "030-SYN-13",
    "unterminated constant": "030-SYN-15",
    "double quotes": "030-SYN-15",
    "bare number": "030-SYN-15 030-VAL-05",
    "bare index": "030-SYN-15 030-VAL-05",
    "not true": "030-SYN-17",
    "not before an inequality": "030-SYN-17",
    "not before a comparison": "030-SYN-17",
    "nested term": "030-SYN-24",
    "built-in as a head": "030-SYN-26",
    "true as a head": "030-SYN-26",
    "not as a head": "030-SYN-26",
    "IntCompare with =": "030-INT-05",
    "IntCompare with !=": "030-INT-05",
    "IntCompare with nothing": "030-INT-05",
    "operator is a variable": "030-INT-06",
    "LexCompare with =": "030-LEX-08",
    "delimiters are a variable": "030-TXT-02",
    "bound is no integer": "030-CARD-09",
    "Cardinality with =": "030-CARD-10",
    "counts a built-in": "030-CARD-11",
    "counts a term": "030-CARD-11",
}


@pytest.mark.parametrize("case", showing(VECTORS["invalid"], INVALID_SHOW))
def test_invalid_texts(case: dict[str, str]) -> None:
    found = check_lacegram(case["text"]).errors
    assert [d.code for d in found] == [case["code"]]
    assert all(d.message and d.hint for d in found)
    with pytest.raises(LacegramError) as caught:
        _ = check_lacegram(case["text"]).lacegram
    assert caught.value.code == case["code"]


VALID_SHOW = {
    "one rule": "030-CAN-02 030-ANN-06",
    "a selector module": "030-CAN-08",
    "blanks everywhere": "030-CAN-02 030-CAN-03 030-CAN-04",
    "no blanks at all": "030-CAN-02 030-CAN-03",
    "over several lines": "030-CAN-04",
    "escapes": "030-CAN-06 030-SYN-11",
    "empty constant and every built-in": "030-SYN-14 030-SYN-25",
    "sorted by bytes, duplicates dropped": "030-CAN-05",
    "equals sign in a constant": "030-EQ-03",
    "constants on both sides of !=": "030-EQ-04 030-SYN-22",
}


@pytest.mark.parametrize("case", showing(VECTORS["valid"], VALID_SHOW))
def test_valid_texts(case: dict[str, str]) -> None:
    lacegram = check_lacegram(case["text"]).lacegram
    assert lacegram.text == case["canonical"]
    if "lacegram" in case:
        assert lacegram.id == case["lacegram"]
    if "rule" in case:
        assert lacegram.rule_ids == (case["rule"],)
    assert parse_canonical(case["canonical"].encode()).id == lacegram.id


@pytest.mark.req("030-CAN-07")
@given(programs())
def test_canonical_text_is_a_fixed_point(text: str) -> None:
    once = check_lacegram(text).lacegram
    again = parse_canonical(once.text.encode())
    assert again.text == once.text
    assert again.id == once.id
    assert again.rules == once.rules


@pytest.mark.req("030-CAN-05", "030-EVAL-03")
def test_order_and_duplicates_do_not_change_the_id_but_names_do() -> None:
    one = "A(X) :- B(X).\nC(X) :- B(X).\n"
    two = "C(X) :- B(X).\nA(X) :- B(X).\nC(X) :- B(X).\n"
    renamed = "A(Y) :- B(Y).\nC(X) :- B(X).\n"
    ids = [check_lacegram(text).lacegram.id for text in (one, two, renamed)]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.req("030-CAN-01", "030-CAN-04", "030-CAN-12")
@pytest.mark.parametrize(
    "text",
    [
        "A(X):-B(X).\n",
        "A(X) :- B(X).",
        "A(X) :- B(X). \n",
        "A(X) :- B(X).\n\n",
        "\nA(X) :- B(X).\n",
        "C(X) :- B(X).\nA(X) :- B(X).\n",
        "A(X) :- B(X).\nA(X) :- B(X).\n",
        "A(X) :- B( X).\n",
        "A(X) :- B(X),C(X).\n",
        "A(X)  :- B(X).\n",
        "# x\nA(X) :- B(X).\n",
        "#:json {}\nA(X) :- B(X).\n",
        "A(X) :- B(X).\r\n",
        "A(X) :-\n B(X).\n",
    ],
)
def test_other_spellings_are_not_canonical(text: str) -> None:
    with pytest.raises(LacegramError):
        parse_canonical(text.encode())


@pytest.mark.req("030-CAN-09", "030-CAN-10", "030-CAN-11")
def test_lacegram_ids_are_no_other_ids() -> None:
    id = check_lacegram("Selected(P) :- Have(P).\n").lacegram.id
    assert parse_lacegram_id(id) == id
    for other in (f"{id}.H3", id.replace("R.", "Q."), id.replace("R.", "E."), id[2:], id[:-1]):
        with pytest.raises(EncodingError):
            parse_lacegram_id(other)
    for record in (f"////{id}", f"////{id}.H3"):
        with pytest.raises(EncodingError):
            parse_urc(record)


@pytest.mark.req("030-SYN-01")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"A('\xc3\x28') :- true.\n", Code.TEXT_UTF8),
        ("A('e\u0301') :- true.\n", Code.TEXT_NFC),
        ("# e\u0301\nA('x') :- true.\n", Code.TEXT_NFC),
        ("A('\u0378') :- true.\n", Code.TEXT_UNASSIGNED),
        ("A('\ud800') :- true.\n", Code.TEXT_UTF8),
    ],
)
def test_text_that_is_no_text(text: str | bytes, code: Code) -> None:
    assert codes(text) == [code]
    assert codes(text, form="core") == [code]


@pytest.mark.req("030-SYN-01", "030-SYN-27")
def test_the_place_of_a_bad_byte_is_told() -> None:
    (problem,) = check_lacegram(b"A('x') :- true.\nB('\xff') :- true.\n").errors
    assert (problem.line, problem.column) == (2, 4)


@pytest.mark.req("030-SYN-02")
def test_core_text_has_one_rule_a_line_and_no_comments() -> None:
    assert codes("A(X) :-\n B(X).\n", form="core") == [Code.LACEGRAM_ONE_LINE]
    assert codes("# x\nA(X) :- B(X).\n", form="core") == [Code.LACEGRAM_COMMENT]
    assert codes("\nA(X) :- B(X).\n\n", form="core") == []
    assert codes("A(X) :-\n B(X),\n\n C(X).\n") == []


@pytest.mark.req("030-SYN-27")
def test_every_problem_is_reported_with_its_place() -> None:
    text = "A(X) :- B(X).\nA(1) :- true.\nC(X) :- D(X)\nE(X) :- F(X), x.\nG(Y) :- H(X).\n"
    found = [(d.line, d.column, d.code) for d in check_lacegram(text).errors]
    assert found == [
        (2, 3, Code.LACEGRAM_TERM),
        (3, 13, Code.LACEGRAM_FULL_STOP),
        (4, 16, Code.LACEGRAM_SYNTAX),
        (5, 1, Code.LACEGRAM_UNSAFE),
    ]


@pytest.mark.req("030-SYN-27")
def test_suggestions() -> None:
    hints = {d.hint for d in check_lacegram("A(P) :- Hav(P), Have(P,Q).\n").diagnostics}
    assert "Did you mean Have?" in hints
    assert "Have has 1 arguments." in hints


@pytest.mark.req("030-ANN-01", "030-ANN-05")
def test_comments_and_notes_change_no_id() -> None:
    plain = check_lacegram("A(X) :- B(X).\n").lacegram
    noted = check_lacegram('# c\n#:json {"label":"x"}\n# d\nA(X) :- B(X).\n# e\n').lacegram
    assert noted.id == plain.id
    assert noted.rule_ids == plain.rule_ids


@pytest.mark.req("030-ANN-03", "030-ANN-04", "030-ANN-07")
def test_notes_merge_and_belong_to_the_rule_that_follows() -> None:
    text = (
        '#:json {"a":1,"b":1}\n# between\n#:json {"b":2}\nA(X) :-\n  B(X).\n'
        'C(X) :- B(X).\n#:json {"c":3}\nA(X) :- B(X).\n'
    )
    lacegram = check_lacegram(text).lacegram
    assert lacegram.lines == ("A(X) :- B(X).", "C(X) :- B(X).")
    assert lacegram.notes == {rule_id("A(X) :- B(X)."): {"a": 1, "b": 2, "c": 3}}


@pytest.mark.req("030-ANN-02", "030-ANN-10")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("#:json [1]\nA(X) :- B(X).\n", Code.LACEGRAM_NOTE),
        ("#:json {bad\nA(X) :- B(X).\n", Code.LACEGRAM_NOTE),
        ("#:json\nA(X) :- B(X).\n", Code.LACEGRAM_NOTE),
        ('#:json {"a":"e\u0301"}\nA(X) :- B(X).\n', Code.TEXT_NFC),
        ("#:json " + "[" * 100_000 + "\nA(X) :- B(X).\n", Code.LACEGRAM_NOTE),
        ("A(X) :- B(X).\n#:json {}\n", Code.LACEGRAM_NOTE_ALONE),
        ("A(X) :-\n#:json {}\nB(X).\n", Code.LACEGRAM_COMMENT),
        ("A(X) :-\n# c\nB(X).\n", Code.LACEGRAM_COMMENT),
    ],
)
def test_bad_notes(text: str, code: Code) -> None:
    assert code in codes(text)


@pytest.mark.req("030-ANN-08")
def test_notes_are_invisible_to_rules() -> None:
    assert derive('#:json {"label":"x"}\nA(X) :- label(X).\n') == set()


@pytest.mark.req("030-ANN-09")
def test_compiled_rules_keep_the_id_of_their_source() -> None:
    program = run("A(X) :- B(X).\n").program
    assert [rule.id for rule in program.rules] == list(program.lacegram.rule_ids)


@pytest.mark.req("030-EQ-02", "030-EQ-06")
def test_equality_never_becomes_canonical_text() -> None:
    parsed = parse_lacegram("A(X) :- B(X), X = 'a'.\n")
    assert parsed.rules == []
    with pytest.raises(LacegramError):
        _ = parsed.lacegram


@pytest.mark.req("030-LIM-05", "030-LIM-07", "030-VAL-03")
def test_limits_of_texts() -> None:
    many = "".join(f"A('{i}') :- true.\n" for i in range(256))
    assert codes(many) == []
    assert codes("A('1') :- true.\n" * 2 + "B('1') :- true.\n", limits=Limits(rules=2)) == [
        Code.LACEGRAM_LIMIT
    ]
    wide = f"A({','.join(['X'] * 8)}) :- B(X).\n"
    assert codes(wide) == []
    assert codes(wide, limits=Limits(arity=7)) == [Code.LACEGRAM_LIMIT]
    assert codes(f"A('{'a' * 1024}') :- true.\n") == []
    assert codes(f"A('{'é' * 600}') :- true.\n") == [Code.LACEGRAM_LIMIT]
    assert codes("A('x') :- true.\n", limits=Limits(lacegram_bytes=5)) == [Code.LACEGRAM_TOO_LONG]


@given(st.text(st.sampled_from("AaX_x'\\(),.:-!=<>#\n \"1é{}\t\r"), max_size=40))
def test_any_text_is_answered(text: str) -> None:
    checked = check_lacegram(text)
    if checked.errors:
        assert all(d.line >= 1 and d.column >= 1 for d in checked.errors)
    else:
        assert parse_canonical(checked.lacegram.text.encode()).id == checked.lacegram.id


def test_the_empty_program() -> None:
    lacegram = check_lacegram("").lacegram
    assert lacegram.text == ""
    assert canonical_lacegram(()).id == lacegram.id
    assert list(run("").facts()) == []
