"""What a peer advertises to a large lake is a table: rules compare advertisements, none is held."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from exchanges import NOW
from rooms import room_records, write_bundle
from sides import Participant

from lace.driving.connection import Connection
from lace.driving.pair import interlace
from lace.errors import LimitExceeded
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, advertise
from lace.interlace.machine import Side
from lace.interlace.parameters import Parameters
from lace.interlace.runs import KEY
from lace.lake import adverts as adverts_module
from lace.lake import answers as answers_module
from lace.lake import facts as facts_module
from lace.lake import peer as peer_module
from lace.lake.adverts import StagedAdverts
from lace.lake.answers import LakeAnswers
from lace.lake.ingest import ingest
from lace.lake.ordered import OrderedNames, changes
from lace.lake.peer import LakeStore, lake_answers
from lace.lake.plan import PlanOverLake
from lace.lake.reading import local_frame
from lace.lake.tables import Lake
from lace.limits import LAKE
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.origin import Operand, Origin, SourceLabel
from lace.policy.own import evaluate_own
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.facts import fields
from lace.record.model import Record
from lace.recordstore.memory import MemoryStore
from lace.rules import MemorySource
from lace.vocabulary import SELECT_ADVERTISED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = room_records(120, seed=31, members=4, chain=1)
SELECTED = Exposure(default="selected")
SMALL = Parameters(list_up_to=2, sketch_from=4, list_at_once=8, answer_at_once=20)


def lake_of(spark: SparkSession, root: Path, records: list[Record]) -> Lake:
    lake = Lake.open(spark, str(root), create=True)
    ingest(lake, [str(write_bundle(root.with_suffix(".records"), records))])
    return lake


def large(lake: Lake, module: PolicyModule, parameters: Parameters = SMALL) -> LakeAnswers:
    side = Side(index=0, module=module, parameters=parameters)
    answers = lake_answers(LakeStore(lake), side, SELECTED)
    assert isinstance(answers, LakeAnswers)
    return answers


def plan_of(module: PolicyModule) -> ExchangePlan:
    left, right = (Operand(index=n, module=module, origin=Origin(f"O.{n}")) for n in (0, 1))
    return ExchangePlan((left, right))


def embedded(index: int, records: list[Record], module: PolicyModule) -> Participant:
    store = MemoryStore()
    store.save(records)
    return Participant(store, Side(index=index, module=module), SELECTED)


def stored(side: Participant) -> set[str]:
    return {entry.hash for entry in side.store.read(0, 10**6)}  # type: ignore[arg-type]


def received(side: Connection) -> list[str]:
    told = side.told if isinstance(side, Participant) else side.events()
    (found,) = [event.result for event in told if isinstance(event, m.FixedPoint)]
    return sorted(found.received)


SAME_TAG = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'notes-demo').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Signed-By',_,V), "
    "AdvertisedField(G,S,'App',_,'notes/member'), AdvertisedField(G,S,'Member',_,V).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Tag',_,T), "
    "AdvertisedField(Q,S,'Tag',_,T), AdvertisedField(Q,S,'App',_,'other').\n",
)


@pytest.mark.parametrize("most", [1 << 30, 5000], ids=["held", "staged"])
def test_what_a_peer_advertises_goes_to_spark_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """However many patterns of however many rules of both operands ask for it."""
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:60])
    plan = plan_of(SAME_TAG)
    schema = plan.required_fields
    peer = plan.operands[1].source_label
    adverts = {r.hash: advertise(r.hash, peer, fields(r), schema) for r in RECORDS}
    source = MemorySource(f for a in adverts.values() for f in a.facts())
    selected = evaluate_own(SAME_TAG.program, source).rows(SELECT_ADVERTISED)
    sent: list[int] = []
    held = local_frame

    def counted(session: SparkSession, table: pa.Table) -> DataFrame:
        sent.append(table.nbytes)
        return held(session, table)

    monkeypatch.setattr(facts_module, "local_frame", counted)
    monkeypatch.setattr(adverts_module, "HELD_BYTES", most)
    said = StagedAdverts(lake.root)
    if most == 5000:
        said.say_as_here(r.hash for r in RECORDS[:60])
    else:  # as an exchange would make them
        said.say(adverts[r.hash] for r in RECORDS[:60])
    said.say(adverts[r.hash] for r in RECORDS[60:])
    assert said.memory < most
    over = PlanOverLake(
        snapshot=lake.snapshot(), plan=plan, index=0, exposure=SELECTED, adverts=said,
        schema=schema,
    )  # fmt: skip
    # What its rules may do follows from how many facts they see.
    known = sum(len(advert.facts()) for advert in adverts.values())
    assert over._advertised(over._facts(None)) >= known
    asked = over.may_request()
    here = lake.snapshot().hashes()
    assert set(asked) - here == {row[0] for row in selected} - here
    assert list(asked) == sorted(set(asked))
    many = [size for size in sent if size > 500]
    # Two predicates, or none of them where the workers read them.
    assert len(many) == (2 if most > 5000 else 0), sent
    asked.close()
    over.close()
    said.close()
    assert list(tmp_path.glob("lake/staged/*")) == []


@pytest.mark.parametrize("most", [1, 700, 1 << 30], ids=["written", "now and then", "held"])
def test_the_last_word_counts_wherever_it_lies(
    spark: SparkSession, tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adverts_module, "HELD_BYTES", most)
    peer = SourceLabel("V.peer")
    said, expected = StagedAdverts(str(tmp_path)), dict[str, Advertisement | None]()
    assert not said
    chance = random.Random(most)
    for number in range(8):
        some = sorted({f"n{chance.randrange(6)}" for _ in range(2)})
        match chance.randrange(3):
            case 0:
                words = ("Tag", 0, f"x{number}"), ("Tag", 1, "'"), ("Z", 0, "")
                adverts = [Advertisement(name, peer, words[: number % 4]) for name in some]
                said.say(adverts)
                expected |= {advert.record: advert for advert in adverts}
            case 1:
                said.say_as_here(some)
                expected |= dict.fromkeys(some)
            case _:
                said.withdraw(some)
                for name in some:
                    expected.pop(name, None)
        assert said.memory < most
        found = said.find(spark, {*some, *expected}, peer)
        assert found == {name: advert for name, advert in expected.items() if advert}
    assert said.are_written == (most < 1 << 30)
    rows = {row.hash: row.fields for row in said.frame(spark).collect()}
    assert {
        name: None if f is None else tuple((x.name, int(x["index"]), x.value) for x in f)
        for name, f in rows.items()
    } == {name: None if advert is None else advert.fields for name, advert in expected.items()}
    said.close()
    assert not said
    assert list(tmp_path.glob("staged/*")) == []


def test_names_in_order_are_compared_as_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    before = OrderedNames()
    for _ in range(4):
        names = [f"n{chance.randrange(40)}" for _ in range(30)]
        frame = spark.createDataFrame([(name,) for name in names], "hash string").repartition(3)
        written = OrderedNames.of_frame(frame, str(tmp_path))
        assert list(written) == list(OrderedNames.of(names)) == sorted(set(names))
        then, now = set(before), set(names)
        expected = sorted({(n, True) for n in now - then} | {(n, False) for n in then - now})
        assert list(changes(before, written)) == expected
        before.close()
        before = written
    before.close()
    none = spark.createDataFrame([], "hash string")
    nothing = OrderedNames.of_frame(none, str(tmp_path))
    assert list(nothing) == []
    nothing.close()
    assert list(tmp_path.glob("staged/*")) == []


# --- rules that compare advertisements ---

FOLLOWING = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'notes-demo').\n"
    "SelectAdvertised(P,S) :- AdvertisedField(P,S,'Tag',_,T), AdvertisedField(Q,S,'Tag',_,T), "
    "AdvertisedField(Q,S,'Name',_,N), AdvertisedField(P,S,'Name',_,M), N != M.\n"
    "SelectAdvertised(P,S) :- Linked(P,S).\n"
    "Linked(P,S) :- AdvertisedField(P,S,'App',_,'notes/member').\n"
    "Linked(P,S) :- AdvertisedField(P,S,'Signed-By',_,V), AdvertisedField(G,S,'Member',_,V), "
    "Linked(G,S).\n"
)
"""What is wanted hangs on what else is offered, in a recursion too."""
GIVING = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Tag',_,'t1').\n"
    "SelectHave(P) :- Have(P), Field(P,'Tag',_,T), Advertised(Q,S), AdvertisedField(Q,S,'Tag',_,T), "
    "not Same(P,Q).\n"
    "Same(P,P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
"""What is given hangs on what the peer offers."""


@pytest.mark.parametrize(
    ("module", "held"),
    [
        pytest.param(FOLLOWING, 1 << 30, id="asking-held"),
        pytest.param(FOLLOWING, 20_000, id="asking-now and then", marks=pytest.mark.long),
        pytest.param(FOLLOWING, 1, id="asking-written"),
        pytest.param(GIVING, 1 << 30, id="giving-held"),
        pytest.param(GIVING, 20_000, id="giving-now and then", marks=pytest.mark.long),
        pytest.param(GIVING, 1, id="giving-written", marks=pytest.mark.long),
    ],
)
def test_rules_that_compare_advertisements_end_as_in_a_lace(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: PolicyModule,
    held: int,
) -> None:
    """Wherever the advertisements lie, both sides end up as two laces would."""
    monkeypatch.setattr(peer_module, "MIRRORED", 0)
    monkeypatch.setattr(adverts_module, "HELD_BYTES", held)
    here, there = RECORDS[10:80], [*RECORDS[:20], *RECORDS[50:130]]
    lake = lake_of(spark, tmp_path / "lake", here)
    answers = large(lake, module)
    given = Side(index=0, module=module, parameters=SMALL)
    side = Connection(given, lambda _side: answers)
    other = embedded(1, there, module)
    interlace(side, other, NOW)
    left, right = (embedded(n, r, module) for n, r in enumerate((here, there)))
    interlace(left, right, NOW)
    assert received(left)
    assert lake.snapshot().hashes() == stored(left)
    assert stored(other) == stored(right)
    assert (received(side), received(other)) == (received(left), received(right))
    assert lake.snapshot().version.rows == len(stored(left))
    answers.close()
    assert list(tmp_path.glob("lake/staged/*")) == []


def test_what_a_peer_advertises_is_not_held(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times as much is no more to hold, but for 33 bytes for each record to ask for."""
    monkeypatch.setattr(peer_module, "MIRRORED", 0)
    monkeypatch.setattr(adverts_module, "HELD_BYTES", 20_000)
    small = Parameters(put_at_once=8)
    held: list[int] = []
    for size in (30, 120):
        lake = lake_of(spark, tmp_path / f"lake{size}", RECORDS[:size])
        answers = large(lake, FOLLOWING, small)
        plan = plan_of(FOLLOWING)
        schema, peer = plan.required_fields, plan.operands[1].source_label
        answers.recall(m.Recall(None, plan, schema))
        more = room_records(size, seed=77, members=4)
        said = tuple(advertise(r.hash, peer, fields(r), schema) for r in more)
        as_here = tuple(r.hash for r in RECORDS[:size])
        asked = m.Evaluate(plan=plan, schema=schema, runtime=(), advertised=said, adopted=as_here)
        wanted = 0
        for part in answers.evaluate(asked):
            wanted += len(part.requestable)
            assert len(part.requestable) <= small.put_at_once
            assert len(part.sendable) <= size
        assert wanted > size // 2
        said_table = answers._said
        assert said_table is not None
        held.append(answers.memory - KEY * wanted - said_table.memory)
        answers.close()
    assert held[1] <= held[0]


def test_a_peer_that_advertises_without_end_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "MIRRORED", 0)
    monkeypatch.setattr(answers_module, "LAKE", replace(LAKE, peer_adverts=30))
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:10])
    answers, plan = large(lake, FOLLOWING), plan_of(FOLLOWING)
    schema, peer = plan.required_fields, plan.operands[1].source_label
    answers.recall(m.Recall(None, plan, schema))
    said = [advertise(r.hash, peer, fields(r), schema) for r in RECORDS[10:41]]
    first = m.Evaluate(plan=plan, schema=schema, runtime=(), advertised=tuple(said[:30]))
    assert frozenset[str]().union(*(part.requestable for part in answers.evaluate(first)))
    more = m.Evaluate(plan=plan, schema=schema, runtime=(), advertised=tuple(said[30:]))
    with pytest.raises(LimitExceeded, match="peer_adverts"):
        list(answers.evaluate(more))
    answers.close()


def test_what_came_by_another_way_is_asked_for_and_stored_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "MIRRORED", 0)
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:20])
    store, answers = LakeStore(lake), large(lake, FOLLOWING)
    plan = plan_of(FOLLOWING)
    schema, peer = plan.required_fields, plan.operands[1].source_label
    answers.recall(m.Recall(None, plan, schema))
    said = tuple(advertise(r.hash, peer, fields(r), schema) for r in RECORDS[20:60])
    parts = list(
        answers.evaluate(m.Evaluate(plan=plan, schema=schema, runtime=(), advertised=said))
    )
    wanted = sorted(frozenset[str]().union(*(part.requestable for part in parts)))
    by_hash = {str(r.hash): r for r in RECORDS}
    assert {o.status for o in store.save([by_hash[wanted[0]]])} == {"accepted"}
    parts = list(answers.evaluate(m.Evaluate(plan=plan, schema=schema, runtime=())))
    assert frozenset[str]().union(*(part.unrequestable for part in parts)) == {wanted[0]}
    outcomes = answers.save([by_hash[wanted[0]], by_hash[wanted[1]]])
    assert [o.status for o in outcomes] == ["duplicate", "accepted"]
    assert lake.snapshot().version.rows == 22
    answers.close()
