"""What every evaluator must derive. An engine joins by being added to ``ENGINES``, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from lacegrams import run
from showing import showing

from lace.datalog.ast import Predicate
from lace.datalog.source import parse_facts
from lace.errors import Code, LacegramError, LimitExceeded
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.view import QueryView
from lace.rules import MemorySource
from lace.text import fact_line

Engine = Callable[..., set[str]]


def memory(rules: str, facts: str | Iterable[str] = (), **options: object) -> set[str]:
    """Evaluate in this process; return every derived fact as a fact line."""
    result = run(rules, facts, **options)  # type: ignore[arg-type]
    return {fact_line(p.name, row) for p, row in result.facts()}


def spark(rules: str, facts: str | Iterable[str] = (), **options: object) -> set[str]:
    """Evaluate on Spark: rules as DataFrames, recursion here while it is small."""
    from on_spark import run_on_spark

    from lace.lake.placing import Placement

    placement = Placement(rows=0)  # else all of these small cases would be taken here
    result = run_on_spark(rules, facts, placement=placement, **options)  # type: ignore[arg-type]
    return {fact_line(p.name, row) for p, row in result.all_facts()}


def spark_and_memory(rules: str, facts: str | Iterable[str] = (), **options: object) -> set[str]:
    """Evaluate on Spark as it comes: what is small is taken here."""
    from on_spark import run_on_spark

    result = run_on_spark(rules, facts, **options)  # type: ignore[arg-type]
    return {fact_line(p.name, row) for p, row in result.all_facts()}


ENGINES: list[Engine] = [memory, spark, spark_and_memory]


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.__name__)
def derive(request: pytest.FixtureRequest) -> Callable[..., set[str]]:
    """Return a function that gives the derived facts of one name."""
    engine: Engine = request.param
    if engine is not memory:
        request.getfixturevalue("spark")

    def of(
        rules: str, facts: str | Iterable[str] = (), name: str = "A", **options: object
    ) -> set[str]:
        return {f for f in engine(rules, facts, **options) if f.startswith(f"{name}(")}

    return of


Derive = Callable[..., set[str]]

CASES = {
    "values join only when identical": (
        "A(X) :- B(X), C(X).", ["B('1')", "B('a')", "C('01')", "C('A')"], set()),
    "numbers in columns are text": (
        "A(G) :- Field(P,'Group','0',G).",
        ["Field('p','Group','0','u')", "Field('p','Group','1','v')"], {"A('u')"}),
    "anonymous terms are independent": ("A('y') :- E(_,_).", ["E('a','b')"], {"A('y')"}),
    "a body is a conjunction": (
        "A(X) :- B(X), C(X).", ["B('1')", "B('2')", "C('2')", "C('3')"], {"A('2')"}),
    "rules are a union": ("A(X) :- B(X).\nA(X) :- C(X).", ["B('1')", "C('2')"], {"A('1')", "A('2')"}),
    "an unknown predicate is empty": ("A(X) :- B(X), Nope(X).", ["B('1')"], set()),
    "an unknown predicate is absent": ("A(X) :- B(X), not Nope(X).", ["B('1')"], {"A('1')"}),
    "name and arity identify": (
        "A(X) :- B(X).\nA(X,Y) :- B(X,Y).", ["B('1')", "B('1','2')"], {"A('1')", "A('1','2')"}),
    "constants in heads": ("A('k',P) :- Have(P).", ["Have('p')"], {"A('k','p')"}),
    "a repeated variable is one value": ("A(X) :- E(X,X).", ["E('a','a')", "E('a','b')"], {"A('a')"}),
    "true beside other atoms": ("A(X) :- true, B(X).", ["B('1')"], {"A('1')"}),
    "bodiless": ("A('x') :- true.", [], {"A('x')"}),
    "zero arity": ("A() :- B().\n", ["B()"], {"A()"}),
    "zero arity absent": ("A() :- C(), not B().\n", ["C()"], {"A()"}),
    "duplicates collapse": ("A('x') :- B(_).\nA('x') :- C(_).", ["B('1')", "B('2')", "C('3')"], {"A('x')"}),
    "escapes": ("A('a\\'b\\\\c') :- true.", [], {"A('a\\'b\\\\c')"}),
    "a star with two values of a field": (
        "A(P,T) :- Have(P), Field(P,'Tag',_,T), Field(P,'Group',_,'u').",
        ["Have('p')", "Field('p','Tag','0','x')", "Field('p','Tag','1','y')",
         "Field('p','Group','0','u')"], {"A('p','x')", "A('p','y')"}),
    "a star needs presence only when asked": (
        "A(P) :- Field(P,'Group',_,'u').\nB(P) :- Have(P), Field(P,'Group',_,'u').",
        ["Field('p','Group','0','u')"], {"A('p')"}),
    "one value in two fields": (
        "A(P) :- Field(P,'From',_,X), Field(P,'To',_,X).",
        ["Field('p','From','0','a')", "Field('p','To','0','a')", "Field('q','From','0','a')",
         "Field('q','To','0','b')"], {"A('p')"}),
    "a field name from a variable": (
        "A(N) :- Wanted(N), Field(P,N,_,'u').", ["Wanted('Group')", "Field('p','Group','0','u')"],
        {"A('Group')"}),
    "two records": (
        "A(P,Q) :- Field(P,'Group',_,G), Field(Q,'Group',_,G), P != Q.",
        ["Field('p','Group','0','u')", "Field('q','Group','0','u')", "Field('r','Group','0','v')"],
        {"A('p','q')", "A('q','p')"}),
    "advertisements are a star on two keys": (
        "A(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u').",
        ["Advertised('p','s')", "AdvertisedField('p','s','Group','0','u')",
         "AdvertisedField('p','t','Group','0','u')"], {"A('p','s')"}),
    "advertisements are no record facts": (
        "A(P) :- Field(P,'Group',_,_).", ["AdvertisedField('p','s','Group','0','u')"], set()),
    "links": (
        "A(T) :- Have(P), RecordLink(P,'+Link',_,'evidence',T).",
        ["Have('p')", "RecordLink('p','+Link','0','evidence','t')",
         "RecordLink('p','+Link','1','other','u')"], {"A('t')"}),
    "blocked signers": (
        "Blocked(V) :- Have(P), Field(P,'Group',_,'keys'), Field(P,'App',_,'blocked'), Field(P,'Name',_,V).\n"
        "A(P) :- Have(P), Field(P,'Signed-By',_,V), not Blocked(V).",
        ["Have('k')", "Field('k','Group','0','keys')", "Field('k','App','0','blocked')",
         "Field('k','Name','0','mallory')", "Have('p')", "Field('p','Signed-By','0','mallory')",
         "Have('q')", "Field('q','Signed-By','0','alice')"], {"A('q')"}),
    "links selection": (
        "A(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), Field(P,'Name',_,K), TextShape(K,'links/','','').",
        [f"{fact}" for p, g, n in (("1", "u", "links/1"), ("2", "u", "other/1"), ("3", "v", "links/1"))
         for fact in (f"Have('{p}')", f"Field('{p}','Group','0','{g}')",
                      f"Field('{p}','App','0','ding')", f"Field('{p}','Name','0','{n}')")],
        {"A('1')"}),
    "count at least": ("A(P) :- Have(P), Cardinality(B(P,_),'>=','3').",
        ["Have('p')", "B('p','1')", "B('p','2')", "B('p','3')"], {"A('p')"}),
    "count more": ("A(P) :- Have(P), Cardinality(B(P,_),'>','3').",
        ["Have('p')", "B('p','1')", "B('p','2')", "B('p','3')"], set()),
    "counts by group": ("A(P) :- Have(P), Cardinality(B(P,Q),'<','2').",
        ["Have('p')", "Have('q')", "B('p','1')", "B('p','2')", "B('q','1')"], {"A('q')"}),
    "a repeated local variable": ("A('y') :- Cardinality(E(X,X),'<','2').",
        ["E('a','a')", "E('a','b')"], {"A('y')"}),
    "nothing counts as zero": ("A('y') :- Cardinality(Nope(X),'<','1').", [], {"A('y')"}),
    "duplicate derivations count once": (
        "B(X) :- C(X).\nB(X) :- D(X).\nA('y') :- Cardinality(B(_),'<=','1').", ["C('1')", "D('1')"],
        {"A('y')"}),
    "constants filter a count": ("A(P) :- Have(P), Cardinality(Field(P,'Tag',_,_),'>=','2').",
        ["Have('p')", "Field('p','Tag','0','x')", "Field('p','Tag','1','x')", "Have('q')",
         "Field('q','Tag','0','x')", "Field('q','Other','0','x')"], {"A('p')"}),
    "a huge bound": ("A('y') :- Cardinality(B(_),'<','1" + "0" * 30 + "').", ["B('1')"], {"A('y')"}),
    "a negative bound": ("A('y') :- Cardinality(B(_),'>','-1').\nA('n') :- Cardinality(B(_),'<','-1').",
        [], {"A('y')"}),
    "a bound from a fact": ("A(N) :- M(N), Cardinality(B(_),'>=',N).",
        ["M('1')", "M('2')", "M('x')", "M('01')", "B('1')"], {"A('1')", "A('01')"}),
    "counting zero arity": ("A('y') :- Cardinality(B(),'>','0').", ["B()"], {"A('y')"}),
    "a count sees a complete recursion": (
        "N(X) :- Start(X).\nN(Y) :- N(X), E(X,Y).\nA('y') :- Cardinality(N(_),'>=','6').",
        ["Start('0')", *[f"E('{i}','{i + 1}')" for i in range(5)]], {"A('y')"}),
    "mutual recursion ends": (
        "A(X) :- B(X).\nA(Y) :- C(X), E(X,Y).\nC(Y) :- A(X), E(X,Y).",
        ["B('0')", "E('0','1')", "E('1','2')", "E('2','0')"], {"A('0')", "A('1')", "A('2')"}),
    "every family of base facts": (
        "A('h') :- Have(_).\nA('a') :- Advertised(_,_).\nA('r') :- TickTAI(_).\nA('v') :- CanQueryRecord(_,_).\nA('l') :- Mine(_).",
        ["Have('p')", "Advertised('p','s')", "TickTAI('1')", "CanQueryRecord('v','p')", "Mine('x')"],
        {"A('h')", "A('a')", "A('r')", "A('v')", "A('l')"}),
    "no name has power": ("A(P) :- MaySend(P).\nMaySend(P) :- Have(P).", ["Have('p')"], {"A('p')"}),
    "more atoms than Python nests loops": (
        "A(X0) :- " + ", ".join(f"E(X{i},X{i + 1})" for i in range(30)) + ".",
        ["E('a','b')", "E('b','a')"], {"A('a')", "A('b')"}),
}  # fmt: skip


CASES_SHOW = {
    "values join only when identical": "030-VAL-04",
    "numbers in columns are text": "030-VAL-05",
    "anonymous terms are independent": "030-SYN-09",
    "a body is a conjunction": "030-SYN-18",
    "rules are a union": "030-SYN-19",
    "an unknown predicate is empty": "030-SYN-20",
    "an unknown predicate is absent": "030-SYN-20 030-STR-06",
    "name and arity identify": "030-SYN-21",
    "constants in heads": "030-SYN-22",
    "a repeated variable is one value": "030-SYN-23",
    "true beside other atoms": "030-SYN-25",
    "bodiless": "030-SYN-05 030-SYN-25",
    "duplicates collapse": "030-EVAL-04",
    "escapes": "030-SYN-11",
    "advertisements are no record facts": "030-FACT-09",
    "links": "030-EX-02",
    "blocked signers": "030-EX-03 030-STR-06",
    "links selection": "030-EX-01",
    "count at least": "030-CARD-01",
    "count more": "030-CARD-01",
    "counts by group": "030-CARD-02 030-CARD-03",
    "a repeated local variable": "030-CARD-04",
    "nothing counts as zero": "030-CARD-05",
    "duplicate derivations count once": "030-CARD-06",
    "constants filter a count": "030-CARD-07",
    "a huge bound": "030-CARD-09",
    "counting zero arity": "030-CARD-11",
    "a count sees a complete recursion": "030-STR-07",
    "mutual recursion ends": "030-EVAL-08",
    "every family of base facts": "030-FACT-02",
    "no name has power": "030-FACT-05",
}


@pytest.mark.parametrize(("rules", "facts", "expected"), showing(CASES, CASES_SHOW))
def test_cases(derive: Derive, rules: str, facts: list[str], expected: set[str]) -> None:
    assert derive(rules, facts) == expected


@pytest.mark.req("030-EVAL-01", "030-STR-05")
def test_closure_of_a_chain(derive: Derive) -> None:
    facts = [f"E('{i:03}','{i + 1:03}')" for i in range(99)]
    rules = "A(X,Y) :- E(X,Y).\nA(X,Z) :- A(X,Y), E(Y,Z)."
    assert len(derive(rules, facts)) == 4950


@pytest.mark.req("030-CARD-13")
def test_the_newest_hundred(derive: Derive) -> None:
    facts = []
    for i in range(150):
        facts += [
            f"Have('p{i:03}')",
            f"Field('p{i:03}','Group','0','u')",
            f"Field('p{i:03}','App','0','ding')",
            f"Field('p{i:03}','Name','0','links/{i}')",
            f"Field('p{i:03}','TAI','0','{i // 2:04}')",
        ]
    rules = (
        "Before(P,Q) :- Candidate(P,T), Candidate(Q,T), LexCompare(Q,'>',P).\n"
        "Before(P,Q) :- Candidate(P,TP), Candidate(Q,TQ), LexCompare(TQ,'>',TP).\n"
        "Candidate(P,T) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'),\n"
        "  Field(P,'Name',_,K), TextShape(K,'links/','',''), Field(P,'TAI',_,T).\n"
        "A(P) :- Candidate(P,T), Cardinality(Before(P,Q),'<','100').\n"
    )
    expected = {f"A('p{i:03}')" for i in range(50, 150)}
    assert derive(rules, facts) == expected
    assert derive(rules, facts, outputs=[Predicate("A", 1)]) == expected


@pytest.mark.req("030-FACT-01")
def test_there_are_base_facts_and_derived_facts_only() -> None:
    result = run("A(X) :- B(X).", "B('1')")
    derived = set(result.facts())
    base = {(p, row) for p in result.source.predicates() for row in result.source.iterate(p)}
    assert derived == {(Predicate("A", 1), ("1",))}
    assert base == {(Predicate("B", 1), ("1",))}


@pytest.mark.req("030-FACT-03", "030-STR-08", "030-EVAL-07")
def test_a_result_belongs_to_its_snapshot() -> None:
    source = MemorySource(parse_facts("TickTAI('a')"))
    rules = "A(T) :- TickTAI(T).\nN('x') :- TickTAI(_), not B('x')."
    first = run(rules, source=source)
    source.discard(("TickTAI", "a"))
    source.add(("TickTAI", "b"))
    source.add(("B", "x"))
    assert first.rows(Predicate("A", 1)) == {("a",)}
    assert first.rows(Predicate("N", 1)) == {("x",)}
    second = run(rules, source=source)
    assert second.rows(Predicate("A", 1)) == {("b",)}
    assert second.rows(Predicate("N", 1)) == set()


@pytest.mark.req("030-FACT-04", "030-EVAL-05", "030-EVAL-06")
def test_evaluation_reads_its_source_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("evaluation looked outside")

    source = MemorySource(parse_facts("Advertised('p','s')\nTickTAI('1')"))
    before = {p: set(source.iterate(p)) for p in source.predicates()}
    for name in ("time.time", "time.time_ns", "socket.socket.connect", "os.urandom"):
        monkeypatch.setattr(name, forbidden)
    result = run("A(P) :- Advertised(P,_), Have(P).\nB(T) :- TickTAI(T).", source=source)
    assert result.rows(Predicate("A", 1)) == set()
    assert {p: set(source.iterate(p)) for p in source.predicates()} == before


@pytest.mark.req(
    "030-FACT-06", "030-FACT-07", "030-FACT-08", "030-FACT-10", "030-CARD-08", "030-SRC-04"
)
def test_rules_see_what_their_source_shows_and_no_more() -> None:
    facts = [f"Have('p{i}')" for i in range(10)] + ["Field('p9','X','0','1')", "Seen('p9')"]
    source = MemorySource(parse_facts("\n".join(facts)))
    rules = (
        "A(P) :- Have(P).\n"
        "N(P) :- Seen(P), not Field(P,'X',_,_).\n"
        "C('more than three') :- Cardinality(Have(_),'>','3').\n"
    )
    whole = run(rules, source=source)
    part = run(rules, source=QueryView(source, {"p0", "p1", "p2"}))
    assert len(whole.rows(Predicate("A", 1))) == 10
    assert part.rows(Predicate("A", 1)) == {("p0",), ("p1",), ("p2",)}
    assert whole.rows(Predicate("N", 1)) == set()
    assert part.rows(Predicate("N", 1)) == {("p9",)}
    assert len(whole.rows(Predicate("C", 1))) == 1
    assert part.rows(Predicate("C", 1)) == set()


def test_a_predicate_with_rules_has_no_base_facts() -> None:
    with pytest.raises(LacegramError) as caught:
        run("A(X) :- B(X).", "A('1')\nB('1')")
    assert caught.value.code is Code.LACEGRAM_SHADOW


CHAIN = [f"E('{i}','{i + 1}')" for i in range(10)]
CLOSURE = "N('0') :- true.\nN(Y) :- N(X), E(X,Y)."


@pytest.mark.req("030-LIM-01", "030-LIM-04", "030-LIM-06")
@pytest.mark.parametrize(
    ("limit", "rules", "facts"),
    [
        ({"derived_facts": 10}, CLOSURE, CHAIN),
        ({"derived_facts": 10}, "A(X,Y) :- B(X), B(Y).", [f"B('{i}')" for i in range(4)]),
        ({"iterations": 5}, CLOSURE, CHAIN),
        ({"work": 10}, CLOSURE, CHAIN),
        ({"work": 100}, "A(X,Y,Z) :- B(X), B(Y), B(Z).", [f"B('{i}')" for i in range(20)]),
        ({"work": 50}, "C(P,Q) :- B(P), B(Q).\nA(P) :- B(P), Cardinality(C(P,_),'>','9').", [f"B('{i}')" for i in range(20)]),
    ],
    ids=["facts", "product", "rounds", "work", "work in a product", "work in a count"],
)  # fmt: skip
def test_a_limit_stops_with_an_error_that_names_it(
    limit: dict[str, int], rules: str, facts: list[str]
) -> None:
    with pytest.raises(LimitExceeded) as caught:
        run(rules, facts, limits=replace(DEFAULT_LIMITS, **limit), outputs=[Predicate("A", 1)])
    (name,) = limit
    assert caught.value.limit == name
    assert caught.value.configured == limit[name]
    assert caught.value.observed > limit[name]


@pytest.mark.req("030-LIM-01", "030-LIM-04", "030-LIM-06")
def test_at_the_limit_all_is_well() -> None:
    limits = replace(DEFAULT_LIMITS, derived_facts=11, iterations=11)
    assert len(run(CLOSURE, CHAIN, limits=limits).rows(Predicate("N", 1))) == 11


@pytest.mark.req("030-LIM-06")
def test_a_chain_of_a_thousand_steps() -> None:
    facts = [f"E('{i}','{i + 1}')" for i in range(1000)]
    assert len(run(CLOSURE, facts).rows(Predicate("N", 1))) == 1001


@pytest.mark.req("030-LIM-02", "030-LIM-03", "030-LIM-04", "030-LIM-05", "030-LIM-06", "030-LIM-07", "030-LIM-08")  # fmt: skip
def test_defaults_are_at_least_the_specified_ones() -> None:
    limits = Limits()
    assert limits.base_facts >= 2**20
    assert limits.runtime_facts >= 2**20
    assert limits.derived_facts >= 2**18
    assert limits.rules >= 256
    assert limits.iterations >= 1000
    assert limits.arity >= 8
    assert limits.value_bytes >= 1024


@pytest.mark.req("030-LIM-07", "030-LIM-08")
def test_wide_rows_and_long_values_work(derive: Derive) -> None:
    long = "é" * 512
    values = ",".join(f"'{i}'" for i in range(7)) + f",'{long}'"
    variables = ",".join(f"X{i}" for i in range(8))
    assert derive(f"A({variables}) :- B({variables}).", [f"B({values})"]) == {f"A({values})"}
