"""Safety, names by role, stratification."""

from __future__ import annotations

import pytest
from lacegrams import codes, derive, run
from showing import showing

from lace.datalog.ast import Predicate
from lace.datalog.roles import Role
from lace.errors import Code, Severity
from lace.rules import check_lacegram
from lace.vocabulary import EXPOSE, PLAIN, RUNTIME_FACTS, SELECTOR

UNSAFE = [Code.LACEGRAM_UNSAFE]
ANONYMOUS = [Code.LACEGRAM_ANONYMOUS]


UNSAFE_RULES = {
    "A(P,V) :- Field(P,'Group',_,'u').": UNSAFE,
    "A(_) :- Have(P).": ANONYMOUS,
    "A(P) :- Have(P), X != 'a'.": UNSAFE,
    "A(P) :- Have(P), IntCompare(X,'<','1').": UNSAFE,
    "A(P) :- Have(P), LexCompare('a','<',X).": UNSAFE,
    "A(P) :- Have(P), TextShape(P,'a','',X).": UNSAFE,
    "A(K) :- TextShape(K,'a','','').": UNSAFE * 2,
    "A(P) :- Have(P), _ != 'a'.": ANONYMOUS,
    "A(P) :- Have(P), TextShape(_,'a','','').": ANONYMOUS,
    "A(P) :- Have(P), IntCompare(_,'<','1').": ANONYMOUS,
    "A(P) :- Have(P), LexCompare('a','<',_).": ANONYMOUS,
    "A(P) :- Have(P), Cardinality(B(P),'<',_).": ANONYMOUS,
    "A(P) :- Have(P), not B(P,Z).": UNSAFE,
    "A(Q) :- Have(P), Cardinality(B(Q),'>','0').": UNSAFE * 2,
    "A(P) :- Have(P), Cardinality(B(P,Q),'>','0'), Q != 'x'.": UNSAFE * 2,
    "A(P) :- Have(P), Cardinality(B(P),'>',N).": UNSAFE,
    "A(P) :- Have(P), Cardinality(B(Q),'>','0'), not C(Q).": UNSAFE * 2,
    "A(P) :- Have(P), Cardinality(B(Q),'>','0'), Cardinality(C(Q),'>','0').": UNSAFE * 2,
    "A(X) :- true, LexCompare(X,'>','a').": UNSAFE * 2,
}
UNSAFE_SHOW = {
    "A(P,V) :- Field(P,'Group',_,'u').": "030-SAFE-01",
    "A(_) :- Have(P).": "030-SAFE-02",
    "A(P) :- Have(P), X != 'a'.": "030-SAFE-03",
    "A(P) :- Have(P), IntCompare(X,'<','1').": "030-SAFE-03",
    "A(P) :- Have(P), LexCompare('a','<',X).": "030-SAFE-03",
    "A(P) :- Have(P), TextShape(P,'a','',X).": "030-SAFE-03",
    "A(K) :- TextShape(K,'a','','').": "030-TXT-01 030-SAFE-03",
    "A(P) :- Have(P), _ != 'a'.": "030-SAFE-04",
    "A(P) :- Have(P), TextShape(_,'a','','').": "030-SAFE-04",
    "A(P) :- Have(P), IntCompare(_,'<','1').": "030-SAFE-04",
    "A(P) :- Have(P), LexCompare('a','<',_).": "030-SAFE-04",
    "A(P) :- Have(P), not B(P,Z).": "030-SAFE-05",
    "A(Q) :- Have(P), Cardinality(B(Q),'>','0').": "030-SAFE-07",
    "A(P) :- Have(P), Cardinality(B(P,Q),'>','0'), Q != 'x'.": "030-SAFE-08",
    "A(P) :- Have(P), Cardinality(B(P),'>',N).": "030-CARD-12",
    "A(P) :- Have(P), Cardinality(B(Q),'>','0'), not C(Q).": "030-SAFE-08",
    "A(P) :- Have(P), Cardinality(B(Q),'>','0'), Cardinality(C(Q),'>','0').": "030-SAFE-08",
    "A(X) :- true, LexCompare(X,'>','a').": "030-SAFE-10",
}


@pytest.mark.parametrize(
    ("rule", "expected"),
    showing({rule: (rule, expected) for rule, expected in UNSAFE_RULES.items()}, UNSAFE_SHOW),
)
def test_unsafe_rules(rule: str, expected: list[Code]) -> None:
    assert codes(rule) == expected


@pytest.mark.req("030-SAFE-06", "030-SAFE-09", "030-SAFE-11", "030-SAFE-12")
@pytest.mark.parametrize(
    "rule",
    [
        "A(P) :- Have(P), not Field(P,'Role',_,_).",
        "A(P) :- Have(P), Cardinality(B(P,Q),'<','2').",
        "A(P) :- Have(P), Cardinality(B(Q,Q),'<','2').",
        "A(P) :- TextShape(K,'l','',''), Field(P,'Name',_,K).",
        "A(P) :- Have(P), N(M), Cardinality(B(P,_),'>',M).",
    ],
)
def test_safe_rules(rule: str) -> None:
    assert codes(rule) == []


@pytest.mark.req("030-SAFE-06")
def test_a_wildcard_under_negation() -> None:
    facts = ["Have('a')", "Have('b')", "Field('a','Role','0','x')"]
    assert derive("A(P) :- Have(P), not Field(P,'Role',_,_).", facts) == {"A('b')"}


@pytest.mark.req("030-RSV-01", "030-RSV-02")
@pytest.mark.parametrize(
    "head", ["Have(P)", "Field(P,P,P,P)", "RecordLink(P,P,P,P,P)", "BlobHash(P,P)", "PlexHash(P,P)"]
)
def test_record_facts_are_not_defined(head: str) -> None:
    assert codes(f"{head} :- B(P).") == [Code.LACEGRAM_SHADOW]


@pytest.mark.req("030-RSV-02")
def test_another_arity_is_another_predicate() -> None:
    assert codes("Have(P,Q) :- B(P,Q).") == []


@pytest.mark.req("030-RSV-03")
def test_exchange_facts_are_not_defined_by_shared_modules() -> None:
    assert codes("Advertised(P,S) :- Have(P), Here(S).", SELECTOR) == [Code.LACEGRAM_SHADOW]
    assert codes("AdvertisedField(P,P,P,P,P) :- Have(P).", SELECTOR) == [Code.LACEGRAM_SHADOW]
    for predicate in RUNTIME_FACTS:
        head = f"{predicate.name}({'P' if predicate.arity else ''})"
        assert codes(f"{head} :- Have(P).", SELECTOR) == [Code.LACEGRAM_SHADOW]
    assert codes("Peer(P) :- Have(P).", PLAIN) == []


@pytest.mark.req("030-RSV-04")
def test_a_profile_can_reserve_prefixes() -> None:
    strict = Role(name="strict", base=frozenset(), undefinable_prefixes=("zz_",))
    assert codes("zz_A(X) :- B(X).", strict) == [Code.LACEGRAM_RESERVED]
    assert codes("zz_A(X) :- B(X).") == []


@pytest.mark.req("030-RSV-05")
@pytest.mark.parametrize(
    "head",
    [
        "MaySend(P)", "MayRequest(P)", "CanQueryRecord(P,P)", "MaySend(P,P)", "AllowQueryRecord(P,P)",
        "AllowAnything(P)", "o0_x(P)", "o1_x(P)",
    ],
)  # fmt: skip
def test_a_selector_does_not_define_enforcement(head: str) -> None:
    (problem,) = check_lacegram(f"{head} :- Have(P).", SELECTOR).errors
    assert problem.code is Code.LACEGRAM_RESERVED
    assert head.partition("(")[0] in problem.message
    assert codes(f"{head} :- Have(P).") == []


@pytest.mark.req("030-RSV-05")
def test_a_selector_does_not_even_mention_enforcement() -> None:
    for atom in ("MaySend(P)", "not MayRequest(P)", "Cardinality(CanQueryRecord(P,_),'>','0')"):
        assert codes(f"SelectHave(P) :- Have(P), {atom}.", SELECTOR) == [Code.LACEGRAM_RESERVED]


@pytest.mark.req("030-RSV-06")
def test_who_may_define_what_goes_by_role() -> None:
    selector = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    assert codes(selector, SELECTOR) == []
    assert set(codes(selector, EXPOSE)) == {Code.LACEGRAM_RESERVED}
    expose = "AllowQueryRecord(V,P) :- Have(P), Peer(V).\n"
    assert codes(expose, EXPOSE) == []
    assert codes(expose, SELECTOR) == [Code.LACEGRAM_RESERVED]


@pytest.mark.req("030-RSV-07", "030-SYN-07")
def test_underscore_names_stay_local() -> None:
    text = "SelectHave(P) :- _x(P).\n_x(P) :- Have(P).\n"
    assert set(codes(text, SELECTOR)) == {Code.LACEGRAM_LOCAL}
    assert codes(text) == []


@pytest.mark.req("030-STR-01", "030-STR-02", "030-STR-03", "030-STR-04")
@pytest.mark.parametrize(
    ("rules", "cycle"),
    [
        ("A(P) :- C(P), not A(P).", "A/1 → not A/1"),
        ("A(P) :- C(P), not B(P).\nB(P) :- C(P), not A(P).", "A/1 → not B/1 → not A/1"),
        (
            "A(P) :- B(P).\nB(P) :- C(P).\nC(P) :- Have(P), not A(P).",
            "C/1 → not A/1 → B/1 → C/1",
        ),
        ("A(P) :- Candidate(P), Cardinality(A(Q),'<','100').", "A/1 → count of A/1"),
    ],
)
def test_unstratified_programs_name_their_cycle(rules: str, cycle: str) -> None:
    (problem,) = check_lacegram(rules).errors
    assert problem.code is Code.LACEGRAM_UNSTRATIFIED
    assert cycle in problem.message


@pytest.mark.req("030-STR-05", "030-STR-06")
def test_strata() -> None:
    program = run("Path(X,Y) :- E(X,Y).\nPath(X,Z) :- Path(X,Y), E(Y,Z).\nN(X) :- E(X,X), not Path(X,X).\nM(X) :- E(X,X), Cardinality(N(Y),'>','0').\n").program  # fmt: skip
    strata = {str(p): c.stratum for c in program.components for p in c.predicates}
    assert strata == {"Path/2": 0, "N/1": 1, "M/1": 2}
    recursive = {str(p) for c in program.components if c.recursive for p in c.predicates}
    assert recursive == {"Path/2"}


@pytest.mark.req("030-STR-09")
def test_advice_on_negation_without_a_universe() -> None:
    def advice(rule: str) -> list[Code]:
        return [
            d.code
            for d in check_lacegram(rule).diagnostics
            if d.severity is Severity.WARNING and d.code is Code.LACEGRAM_UNBOUNDED
        ]

    assert advice("A('x') :- not B('x').") == [Code.LACEGRAM_UNBOUNDED]
    assert advice("A(P) :- Have(P), not B(P).") == []


def test_a_deep_program_is_stratified_without_recursion() -> None:
    lines = "".join(f"A{i}(X) :- A{i + 1}(X).\n" for i in range(900))
    assert codes(lines) == []
    assert run(lines, "A900('x')").rows(Predicate("A0", 1)) == {("x",)}
