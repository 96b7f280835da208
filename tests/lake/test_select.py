"""Rules over a lake derive what they derive over the same records in memory; and say why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lacegrams import run
from on_spark import run_on_spark
from pyspark.sql import functions as F  # noqa: N812
from rooms import AUTHORITY, PREFIX, key, room_records, write_bundle
from small_room import room

from lace.datalog.ast import Predicate
from lace.datalog.evaluate import evaluate
from lace.datalog.explain import Explainer, Proof
from lace.datalog.program import RuleProgram
from lace.datalog.source import Fact
from lace.errors import Code, LaceError, LimitExceeded
from lace.lake import evaluate as evaluate_module
from lace.lake.evaluate import LAKE_LIMITS, evaluate_on_spark
from lace.lake.facts import FrameFacts, LakeFacts
from lace.lake.here import evaluate_here, explain_here
from lace.lake.ingest import ingest
from lace.lake.placing import Placement, Where, lines, plan
from lace.lake.plan import PlanOverLake
from lace.lake.select import explain, select
from lace.lake.tables import Lake, Snapshot
from lace.policy.lowering import ENCRYPTED, STANDARD, Lowering
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.origin import Operand, Origin
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.facts import facts
from lace.rules import MemorySource, check_lacegram, compile_program
from lace.selectors import hashes, selector, with_support
from lace.vocabulary import SELECT_HAVE, TICK_TAI

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = room_records(250, seed=3, members=5)
CHAIN = room_records(40, seed=4, members=12, chain=1)
EVERYTHING = [*RECORDS, *CHAIN]


@pytest.fixture(scope="module")
def snapshot(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    folder = tmp_path_factory.mktemp("lake")
    lake = Lake.open(spark, str(folder / "lake"), create=True)
    ingest(lake, [str(write_bundle(folder / "a.records", EVERYTHING))])
    return lake.snapshot()


@pytest.fixture(scope="module")
def source() -> MemorySource:
    return MemorySource(fact for record in EVERYTHING for fact in facts(record))


def program_of(text: str) -> RuleProgram:
    return compile_program(check_lacegram(text).lacegram)


MODULES: dict[str, PolicyModule] = {
    "a whole app": selector(PREFIX),
    "a field": selector(PREFIX, {"Tag": "t1"}),
    "a coordinate": selector("//notes-demo//notes//t/1"),
    "a name prefix": selector("//notes-demo//notes/message//t/"),
    "one hash": hashes([RECORDS[30].hash, "S.0000000000000000000000000000000000000000000.H3"]),
    "a room": room(PREFIX, authority=AUTHORITY.verifier, revocation_app="revoked"),
    "delegation": room(PREFIX, authority=AUTHORITY.verifier, delegation=True, revocation_app="revoked"),
    "support": with_support(selector(PREFIX, {"Tag": "t2"})),
}  # fmt: skip

PROGRAMS = {
    "promoted fields bind": "A(P,G,T) :- Have(P), Field(P,'Group',_,G), Field(P,'TAI',I,T), Field(P,'Data-Length',_,I).\nA(P,L,I) :- Field(P,'Data-Length',I,L), IntCompare(L,'>','60').",
    "a promoted field at another index": "A(P) :- Field(P,'Group','1',_).",
    "other fields bind": "A(P,T,I) :- Have(P), Field(P,'Tag',I,T), Field(P,'App',_,'notes').",
    "two values of one field": "A(P,T,U) :- Field(P,'Tag','0',T), Field(P,'Tag','1',U), T != U.",
    "one value in two fields": "A(P,V) :- Field(P,'Member',_,V), Field(Q,'Signed-By',_,V), Have(Q).",
    "a field name from a variable": "A(N,V) :- Field(P,N,_,V), Field(P,'Type',_,'B').",
    "any record": "A(V) :- Field(_,'Tag',_,V).",
    "a constant record": f"A(N,V) :- Field('{RECORDS[0].hash}',N,_,V).\nA(G,'x') :- Field('{RECORDS[0].hash}','Group',_,G).",
    "links and embedded records": "A(P,T) :- RecordLink(P,'Reply+Link',_,'to',T), Have(T).\nA(P,B) :- BlobHash(P,B).\nA(P,B) :- PlexHash(P,B), Field(P,'App',_,'other').",
    "absent fields": "A(P) :- Have(P), not Field(P,'Group',_,_).\nA(P) :- Have(P), Field(P,'App',_,'other'), not Field(P,'Tag',_,'t1').",
    "counts of fields": "A(P) :- Have(P), Cardinality(Field(P,'Tag',_,_),'>=','2').",
    "who wrote most": "S(V,P) :- Field(P,'Signed-By',_,V).\nA(V) :- S(V,_), Cardinality(S(V,_),'>','40').",
    "reply chains": "A(P,Q) :- RecordLink(P,_,_,_,Q).\nA(P,R) :- A(P,Q), RecordLink(Q,_,_,_,R).",
    "shapes": "A(P,N) :- Field(P,'Name',_,N), TextShape(N,'t','/','12').\nA(P,N) :- Field(P,'Name',_,N), TextShape(N,'t/1','','5').",
    "a test on a value of another relation": "M(V,T) :- Have(G), Field(G,'Member',_,V), Field(G,'TAI',_,T).\nA(P) :- Have(P), Field(P,'Signed-By',_,V), Field(P,'TAI',_,S), M(V,T), LexCompare(S,'>=',T).",
    "nothing there": "A(P) :- Have(P), Nope(P).",
}  # fmt: skip


@pytest.mark.req("030-EVAL-01", "110-COO-01")
@pytest.mark.parametrize("name", MODULES)
def test_selectors_select_the_same_records(
    snapshot: Snapshot, source: MemorySource, name: str
) -> None:
    module = MODULES[name]
    expected = {row[0] for row in evaluate(module.program, source).rows(SELECT_HAVE)}
    assert expected
    found = select(snapshot, module.program)
    assert {row.hash for row in found.hashes().collect()} == expected
    records = found.records().select("hash").collect()
    here = {record.hash for record in EVERYTHING}
    assert sorted(row.hash for row in records) == sorted(expected & here)


@pytest.mark.parametrize("placement", [Placement(), Placement(rows=0)], ids=["placed", "frames"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_derive_the_same_facts(
    snapshot: Snapshot, source: MemorySource, name: str, placement: Placement
) -> None:
    program = program_of(PROGRAMS[name])
    found = evaluate_on_spark(program, LakeFacts(snapshot), placement=placement)
    expected = evaluate(program, source)
    for predicate in program.derived:
        assert set(found.rows(predicate)) == set(expected.rows(predicate))


@pytest.mark.parametrize("name", [*MODULES, *PROGRAMS])
def test_without_spark_the_same_is_derived(
    snapshot: Snapshot, source: MemorySource, name: str
) -> None:
    program = MODULES[name].program if name in MODULES else program_of(PROGRAMS[name])
    alone = Snapshot(None, snapshot.version)
    found, expected = evaluate_here(alone, program, program.derived), evaluate(program, source)
    for predicate in program.derived:
        assert set(found.rows(predicate)) == set(expected.rows(predicate))


fields = st.sampled_from(["Group", "App", "Tag", "Type", "TAI", "Signed-By", "Member", "Name"])
values = st.sampled_from(
    ["'notes'", "'other'", "'t1'", "'S'", "'P'", "X", "X", "Y", "_", f"'{key(3).verifier}'"]
)
indexes = st.sampled_from(["_", "_", "'0'", "'1'", "Y"])
atoms = st.one_of(
    st.builds("Field(P,'{}',{},{})".format, fields, indexes, values),
    st.just("Have(P)"),
    st.builds("RecordLink({},_,_,{},P)".format, st.sampled_from(["Q", "_"]), values),
)
more = st.one_of(
    st.just(""),
    st.builds(", not Field(P,'{}',_,{})".format, fields, st.sampled_from(["'t1'", "_", "'0'"])),
    st.builds(", Cardinality(Field(P,'Tag',_,_),'{}','1')".format, st.sampled_from(["<", ">="])),
)


@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(body=st.lists(atoms, min_size=1, max_size=3), rest=more)
def test_random_rules_derive_the_same_facts(
    snapshot: Snapshot, source: MemorySource, body: list[str], rest: str
) -> None:
    program = program_of(f"A(P) :- {', '.join(body)}{rest}.")
    found = evaluate_on_spark(program, LakeFacts(snapshot), placement=Placement(rows=0))
    predicate = Predicate("A", 1)
    expected = set(evaluate(program, source).rows(predicate))
    assert set(found.rows(predicate)) == expected
    assert set(evaluate_here(snapshot, program, [predicate]).rows(predicate)) == expected


def test_given_facts_stand_beside_the_lake(snapshot: Snapshot, source: MemorySource) -> None:
    program = program_of("A(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(N), LexCompare(T,'<',N).")
    tick = ("TickTAI", "1700000000:000000100")
    predicate = Predicate("A", 1)
    found = select(snapshot, program, predicate=predicate, given=[tick])
    here = MemorySource(fact for record in EVERYTHING for fact in facts(record))
    here.add(tick)
    expected = {row[0] for row in evaluate(program, here).rows(predicate)}
    assert {row.hash for row in found.hashes().collect()} == expected
    assert source.count(TICK_TAI) == 0
    with pytest.raises(LaceError) as caught:
        LakeFacts(snapshot, [("Have", "x")])
    assert caught.value.code is Code.LACEGRAM_SHADOW


# --- recursion by Spark itself ---

FRAMES_ONLY = Placement(rows=0, recursive_rows=0)


@pytest.mark.req("030-EVAL-01", "030-STR-05")
@pytest.mark.parametrize(
    ("rules", "facts"),
    [
        ("A(X,Y) :- E(X,Y).\nA(X,Z) :- A(X,Y), A(Y,Z).", [f"E('{i}','{i + 1}')" for i in range(9)]),
        ("A(X) :- B(X).\nA(Y) :- C(X), E(X,Y).\nC(Y) :- A(X), E(X,Y).", ["B('0')", "E('0','1')", "E('1','2')", "E('2','0')"]),
        ("A() :- B().\nA() :- A(), C().", ["B()", "C()"]),
        ("A(X) :- A(X).", []),
        ("R(X) :- S(X).\nR(Y) :- R(X), E(X,Y).\nA(X) :- N(X), not R(X).", ["S('0')", "E('0','1')", "N('1')", "N('2')"]),
    ],
    ids=["doubling", "mutual", "no values", "nothing", "below a negation"],
)  # fmt: skip
def test_recursion_in_frames(spark: SparkSession, rules: str, facts: list[str]) -> None:
    assert spark is not None
    found = run_on_spark(rules, facts, placement=FRAMES_ONLY)
    expected = run(rules, facts)
    for predicate in expected.program.derived:
        assert set(found.rows(predicate)) == set(expected.rows(predicate))


# --- limits ---

CHAIN_FACTS = [f"E('{i}','{i + 1}')" for i in range(6)]
CLOSURE = "N('0') :- true.\nN(Y) :- N(X), E(X,Y).\nA(X) :- N(X)."
PRODUCT = "A(X,Y,Z) :- B(X), B(Y), B(Z)."


@pytest.mark.req("030-LIM-01", "030-LIM-04", "030-LIM-06")
@pytest.mark.parametrize("placement", [FRAMES_ONLY, Placement()], ids=["frames", "placed"])
@pytest.mark.parametrize(
    ("limit", "rules", "facts"),
    [
        ({"derived_facts": 4}, CLOSURE, CHAIN_FACTS),
        ({"derived_facts": 10}, "A(X,Y) :- B(X), B(Y).", [f"B('{i}')" for i in range(4)]),
        ({"derived_facts": 10}, "C(X,Y) :- B(X), B(Y).\nA(X) :- C(X,_).", [f"B('{i}')" for i in range(4)]),
        ({"iterations": 3}, CLOSURE, CHAIN_FACTS),
        ({"work": 50}, PRODUCT, [f"B('{i}')" for i in range(20)]),
        ({"base_facts": 3}, CLOSURE, CHAIN_FACTS),
    ],
    ids=["facts", "product", "facts in between", "rounds", "work", "base"],
)  # fmt: skip
def test_a_limit_stops_with_an_error_that_names_it(
    spark: SparkSession, limit: dict[str, int], rules: str, facts: list[str], placement: Placement
) -> None:
    assert spark is not None
    (name,) = limit
    limits = replace(LAKE_LIMITS, **limit)
    with pytest.raises(LimitExceeded) as caught:
        list(run_on_spark(rules, facts, limits=limits, placement=placement).all_facts())
    assert (caught.value.limit, caught.value.configured) == (name, limit[name])
    assert caught.value.observed > limit[name]


@pytest.mark.req("030-LIM-02")
def test_a_lake_may_be_larger_than_a_memory() -> None:
    assert LAKE_LIMITS.base_facts >= 2**36
    assert LAKE_LIMITS.derived_facts >= 2**34


# --- why ---


@pytest.mark.parametrize("name", ["a field", "a room", "delegation", "support"])
def test_proofs_are_those_of_the_embedded_engine(
    snapshot: Snapshot, source: MemorySource, name: str
) -> None:
    program = MODULES[name].program
    explainer = Explainer(evaluate(program, source))
    selected = sorted(explainer.evaluation.rows(SELECT_HAVE))
    for row in (selected[0], selected[-1]):
        assert explain(snapshot, program, row) == explainer.why(SELECT_HAVE, row)
        here = explain_here(Snapshot(None, snapshot.version), program, row, predicate=SELECT_HAVE)
        assert here == explainer.why(SELECT_HAVE, row)
    other = next(r.hash for r in EVERYTHING if (r.hash,) not in set(selected))
    refused = explain(snapshot, program, (other,))
    assert not isinstance(refused, Proof)
    expected = explainer.why_not(SELECT_HAVE, (other,))
    assert [(r.id, r.failed_atom) for r in refused] == [(r.id, r.failed_atom) for r in expected]


def test_negated_and_counted_facts_are_followed(snapshot: Snapshot, source: MemorySource) -> None:
    """A slice without the revocations would prove too much."""
    rules = (
        "Gone(V) :- Have(P), Field(P,'App',_,'notes/revoked'), Field(P,'Member',_,V).\n"
        "In(V) :- Have(P), Field(P,'App',_,'notes/member'), Field(P,'Member',_,V), not Gone(V).\n"
        "Wrote(V,P) :- Field(P,'Signed-By',_,V), Field(P,'App',_,'notes').\n"
        "A(P) :- Have(P), Field(P,'Signed-By',_,V), In(V), Cardinality(Wrote(V,_),'>','8').\n"
    )
    program = program_of(rules)
    explainer = Explainer(evaluate(program, source))
    predicate = Predicate("A", 1)
    rows = set(explainer.evaluation.rows(predicate))
    signed = [(r.hash,) for r in EVERYTHING if r.hash.startswith("S.")]
    held = next(row for row in signed if row in rows)
    others = [row for row in signed if row not in rows][:3]
    assert explain(snapshot, program, held, predicate=predicate) == explainer.why(predicate, held)
    for row in others:
        refused = explain(snapshot, program, row, predicate=predicate)
        assert not isinstance(refused, Proof)


TRANSITIVE = program_of("Reach(X,Y) :- Edge(X,Y).\nReach(X,Z) :- Reach(X,Y), Edge(Y,Z).")


def edges(spark: SparkSession, count: int) -> DataFrame:
    """Return chains of three edges each."""
    start = F.col("id")
    end = start + F.when(start % 4 < 3, 1).otherwise(10_000)
    return spark.range(count).select(
        start.cast("string").alias("c0"), end.cast("string").alias("c1")
    )


@pytest.mark.parametrize("sent", [0, 200_000], ids=["much", "little"])
def test_much_that_is_new_in_a_round_is_not_sent_to_every_worker(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    around: list[DataFrame] = []
    broadcast = F.broadcast

    def counted(frame: DataFrame) -> DataFrame:
        around.append(frame)
        return broadcast(frame)

    monkeypatch.setattr(F, "broadcast", counted)
    facts = FrameFacts(spark, {Predicate("Edge", 2): edges(spark, 80)})
    placement = Placement(rows=0, recursive_rows=0, sent_rows=sent)
    found = evaluate_on_spark(TRANSITIVE, facts, placement=placement)
    assert len(found.rows(Predicate("Reach", 2))) == 20 * (4 + 3 + 2 + 1)
    assert bool(around) == bool(sent)


def test_rounds_are_written_down_where_workers_can_be_lost(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate_module, "is_local", lambda _spark: False)
    facts = FrameFacts(spark, {Predicate("Edge", 2): edges(spark, 40)}, root=str(tmp_path))
    held = persistent(spark)
    found = evaluate_on_spark(TRANSITIVE, facts, placement=Placement(rows=0, recursive_rows=0))
    assert len(found.rows(Predicate("Reach", 2))) == 10 * (4 + 3 + 2 + 1)
    assert list(tmp_path.glob("staged/*/*"))
    assert persistent(spark) <= held
    found.close()
    assert list(tmp_path.glob("staged/*")) == []


def persistent(spark: SparkSession) -> set[int]:
    """Return what Spark holds until it is told not to."""
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


def test_what_an_evaluation_keeps_is_given_back(snapshot: Snapshot) -> None:
    spark = snapshot.spark
    module = MODULES["support"]
    plan = ExchangePlan((
        Operand(index=0, module=module, origin=Origin("O.left")),
        Operand(index=1, module=module, origin=Origin("O.right")),
    ))  # fmt: skip
    before = persistent(spark)
    over = PlanOverLake(
        snapshot=snapshot,
        plan=plan,
        index=0,
        exposure=Exposure(default="selected"),
        schema=plan.required_fields,
        placement=Placement(rows=0),
    )
    assert over.may_send().count()
    assert persistent(spark) - before
    over.close()
    assert persistent(spark) <= before
    with select(snapshot, module.program, placement=Placement(rows=0)) as chosen:
        assert chosen.records().count()
        assert persistent(spark) - before
    assert persistent(spark) <= before


LOWERINGS = {
    "standard": STANDARD,
    "encrypted": ENCRYPTED,
    "a record apart": Lowering(
        "apart", f"MaySend(P) :- o0_SelectHave(P), o1_SelectHave(P), P != '{RECORDS[31].hash}'."
    ),
    "any other": Lowering(
        "other",
        "Any() :- o0_SelectHave(P), o1_SelectHave(P).\n"
        "MaySend(P) :- o0_SelectHave(P), o1_SelectHave(P), Any().",
    ),
}


def planned(
    snapshot: Snapshot, names: tuple[str, str], exposure: Exposure, lowering: Lowering,
    *runtime: Fact,
) -> PlanOverLake:  # fmt: skip
    left, right = (
        Operand(index=index, module=MODULES[name], origin=Origin(f"O.{index}"))
        for index, name in enumerate(names)
    )
    plan = ExchangePlan((left, right), lowering)
    return PlanOverLake(snapshot=snapshot, plan=plan, index=0, exposure=exposure, runtime=runtime)


ENCRYPTED_HERE = ("TransportEncrypted",)
SOME = module_from_text("AllowQueryRecord('O.1',P) :- Have(P), Field(P,'Tag',_,_).", Facet.EXPOSE)
PLANS = {
    **{
        " and ".join(names): (names, Exposure(default="selected"), STANDARD)
        for names in [("a whole app", "a field"), ("a room", "a room"), ("support", "a name prefix"),
                      ("delegation", "a field")]
    },
    **{
        f"to a peer that sees {default}": (("a room", "a field"), Exposure(default=default), STANDARD)
        for default in ("everything", "none")
    },
    "to a peer that sees some": (("a room", "a field"), Exposure(modules=(SOME,)), STANDARD),
    **{
        f"{name}": (("a whole app", "a field"), Exposure(default="selected"), lowering)
        for name, lowering in LOWERINGS.items()
    },
}  # fmt: skip


@pytest.mark.req("040-LOW-01", "040-LOW-04", "040-LOW-06")
@pytest.mark.parametrize("name", PLANS)
def test_what_may_be_sent_is_the_same_with_joins_and_without(
    snapshot: Snapshot, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, exposure, lowering = PLANS[name]
    for runtime in ((), (ENCRYPTED_HERE,)):
        found = []
        for is_joined in (False, True):
            with monkeypatch.context() as patched:
                if is_joined:
                    patched.setattr(PlanOverLake, "_visible_rows", lambda *_: None)
                over = planned(snapshot, names, exposure, lowering, *runtime)
                found.append(sorted(row.hash for row in over.may_send().select("hash").collect()))
                over.close()
        assert found[0] == found[1]
        nothing = name == "to a peer that sees none" or (name == "encrypted" and not runtime)
        assert bool(found[0]) != nothing


@pytest.mark.parametrize("names", [("a whole app", "a field"), ("a room", "a room")])
def test_where_one_look_decides_nothing_is_joined(
    snapshot: Snapshot, names: tuple[str, str]
) -> None:
    over = planned(snapshot, names, Exposure(default="selected"), STANDARD)
    found = over.may_send()
    assert found.count()
    assert "Join" not in found._jdf.queryExecution().toString()
    over.close()


@pytest.mark.parametrize("name", ["a whole app", "a field", "a room"])
def test_a_count_reads_no_hashes(snapshot: Snapshot, name: str) -> None:
    with select(snapshot, MODULES[name].program) as chosen:
        count = chosen.hashes().groupBy().count()._jdf.queryExecution().executedPlan().toString()
        listed = chosen.hashes()._jdf.queryExecution().executedPlan().toString()
    assert "FileScan" in count
    assert "hash:string" not in count
    assert "hash:string" in listed


def test_a_plan_is_a_value_and_nothing_runs_before_it_is_asked_for(snapshot: Snapshot) -> None:
    started = snapshot.spark.sparkContext.statusTracker()
    jobs = len(started.getJobIdsForGroup(None))
    for name, module in MODULES.items():
        found = select(snapshot, module.program)
        assert found.evaluation.plan == plan(module.program, [SELECT_HAVE]), name
        assert found.evaluation.plan == select(snapshot, module.program).evaluation.plan
    assert len(started.getJobIdsForGroup(None)) == jobs
    assert select(snapshot, MODULES["a room"].program).hashes().count()
    assert len(started.getJobIdsForGroup(None)) > jobs


def test_a_plan_says_where_and_why() -> None:
    rules = (
        "Member(V) :- Have(P), Field(P,'App',_,'notes/member'), Field(P,'Member',_,V).\n"
        "Trusts(V,W) :- Member(V), Have(P), Field(P,'Signed-By',_,V), Field(P,'Member',_,W).\n"
        "Reach(V) :- Member(V).\nReach(W) :- Reach(V), Trusts(V,W).\n"
        "Late(N) :- TickTAI(N).\n"
        "Plain(P) :- Have(P), Field(P,'Group',_,'notes-demo').\n"
        "A(P) :- Have(P), Field(P,'Signed-By',_,V), Reach(V), not Late(V).\n"
        "B(P) :- Plain(P), A(P).\n"
    )
    steps = {
        str(step.component.predicates[0]): step
        for step in plan(program_of(rules), [Predicate("B", 1)])
    }
    assert {name: (step.where, step.otherwise) for name, step in steps.items()} == {
        "Member/1": (Where.JOINS, None),
        "Trusts/2": (Where.JOINS, None),
        "Reach/1": (Where.HERE, Where.ROUNDS),
        "Late/1": (Where.HERE, None),
        "Plain/1": (Where.FILTER, None),
        "A/1": (Where.FILTER, Where.JOINS),
        "B/1": (Where.HERE, Where.JOINS),
    }
    assert "Member/1, Trusts/2" in steps["Reach/1"].why
    assert "Reach/1" in steps["A/1"].why
    assert list(steps)[-1] == "B/1"
    said = "\n".join(lines(steps.values()))
    assert "Reach/1: on the driver, else round by round on Spark" in said
    assert "Reach(W) :- Reach(V), Trusts(V,W)." in said
    assert len(plan(program_of(rules), [Predicate("Plain", 1)])) == 1


def test_paths_lead_to_lakes(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake.open(spark, f"file://{tmp_path}/lake", create=True)
    bundle = write_bundle(tmp_path / "a.records", RECORDS[:5])
    assert ingest(lake, [f"file://{bundle}"]).records == 5
    assert lake.snapshot().records.count() == 5
    assert len(list(lake.snapshot().load({RECORDS[0].hash}))) == 1
