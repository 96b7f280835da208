"""Whole exchanges, advertisements and roots: the committed vectors, run again byte for byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from retelling import heard, record_of, run_exchange, run_hearing
from showing import showing
from wires import End, run

from lace import b64a
from lace.interlace import messages as m
from lace.interlace.advertise import advertise
from lace.interlace.facts import PREDICATES
from lace.interlace.negotiate import CAPABILITIES
from lace.interlace.partition import Partitions
from lace.interlace.phases import Phase
from lace.interlace.summary import merkle_root
from lace.limits import Limits
from lace.policy.module import module_from_text
from lace.policy.origin import SourceLabel
from lace.policy.view import Exposure
from lace.record import fields
from lace.recordstore import MemoryStore
from lace.stream.binding import Endpoint

VECTORS = Path(__file__).parents[2] / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


GIVEN = load("exchanges.json")
EXCHANGES, RECORDS = GIVEN["exchanges"], GIVEN["records"]
BY_NAME = {case["why"]: case for case in EXCHANGES}
PLAIN = {"module", "records", "limits"}
OVER_A_WIRE = [
    case
    for case in EXCHANGES
    if all(side.keys() == PLAIN and side["limits"].keys() == CAPABILITIES for side in case["sides"])
    and len(set(case["steps"][0]["clocks"])) == 1  # both ends of a wire go by one clock here
]


def why(case: Any) -> str:
    return str(case["why"])


def facts_said(case: Any, side: int) -> list[str]:
    return [
        line
        for phase in case["said"][side]
        for item in phase["items"]
        for line in item.get("facts", ())
    ]


EXCHANGES_SHOW = {
    "nothing on either side": "050-SET-02 050-SET-08 050-HEL-06 050-BND-01",
    "one record each way": "050-DRV-01 050-RES-01 050-BND-01",
    "a rule that asks for any field: all fields are told": "050-ARC-04",
    "the summary of one record is the one that an independent program computed": "050-REC-04",
    "open: a record is stored later, and one that the peer may not know of": "050-OPN-01",
    "open: a record is due at the second tick, when both sides have reached it": "050-TIC-03",
    "open: an operand changes twice, each time with a new plan, and nothing stored is lost": "050-EPO-01",
    "what the peer advertises takes back what was advertised: not available": "050-XFR-02",
    "a sender's budget of one byte: what is deferred is asked for again": "050-XFR-03",
    "one byte more than may be transferred: both sides abort, what was stored stays": "050-LIM-06",
}


@pytest.mark.parametrize("case", showing(EXCHANGES, EXCHANGES_SHOW))
def test_an_exchange_runs_as_it_is_written(case: Any) -> None:
    found = run_exchange(case, RECORDS)
    for side in (0, 1):
        assert found["said"][side] == case["said"][side]
        assert found["events"][side] == case["events"][side]
        assert found["stores"][side] == case["stores"][side]


REFUSALS_SHOW = {
    "no module": "050-SET-06",
    "no operand": "050-SET-02",
    "two operands": "050-SET-02",
    "both sides claim one index": "050-SET-03",
    "an index that there is not": "050-SET-03",
    "an origin that was not assigned": "050-HEL-05",
    "a verifier as origin, not proven": "050-HEL-05",
    "a facet that there is not": "050-SET-07",
    "a module that is not canonical": "050-SET-07",
    "a module that defines MaySend": "050-SET-07 050-STA-05",
    "a module that only selects what is here": "050-SET-07",
    "another plan": "050-HEL-01",
    "no time": "050-HEL-06",
    "no tick interval": "050-HEL-06",
    "two plans": "050-HEL-15",
    "two signers": "050-HEL-15",
    "two times": "050-HEL-15",
    "a tick interval of nothing": "050-HEL-10",
    "a limit that is no number": "050-HEL-14",
    "no record format in common": "050-FMT-02",
    "a signer that was not proven": "050-HEL-03",
    "a field that the plan needs is not offered": "050-SCH-06",
    "a fact that there is not": "050-BLK-05",
    "a fact with a value too many": "050-BLK-05",
    "a claim of being allowed": "050-BLK-05 050-STA-05",
    "advertised in another's name": "050-ADF-05",
    "a tick that is not aligned": "050-TIC-06",
    "a tick before the start": "050-TIC-04",
    "a record that was not asked for": "050-XFR-06 050-ERR-14",
    "a record a second time": "050-XFR-06 050-ERR-14",
    "not available, and was not asked for": "050-XFR-06 050-ERR-14",
    "a record with one bit flipped is rejected, the other arrives": "050-VLD-05 050-ERR-15",
    "a count that is no number": "050-REC-04 050-ERR-09",
    "a root that is no root": "050-REC-04 050-ERR-09",
    "a partition of another length than agreed": "050-REC-08 050-ERR-09",
    "two summaries of one partition": "050-ERR-09",
    "more promised than listed": "050-REC-13 050-ERR-10",
    "another root than that of the listing": "050-REC-13 050-ERR-10",
    "one record less than promised": "050-REC-13 050-ERR-10",
    "another claim than promised": "050-REC-13 050-ERR-10",
}


@pytest.mark.parametrize("case", showing(GIVEN["refusals"], REFUSALS_SHOW))
def test_what_is_refused_is_refused_for_the_reason_that_is_written(case: Any) -> None:
    base = BY_NAME[case["of"]]
    assert case["items"] != base["said"][0][case["phase"]]["items"]
    found = run_hearing(case, base, RECORDS)
    for part in ("phases", "said", "store", "events"):
        assert found[part] == case[part]
    assert [event["code"] for event in found["events"] if "code" in event] == [case["code"]]
    fixed = [event for event in found["events"] if event["event"] == "FixedPoint"]
    assert bool(fixed) is case["code"].startswith("record.")  # a bad record alone ends nothing
    assert not fixed or fixed[0]["rejected-hashes"]


def test_the_vectors_show_every_fact_phase_and_end_of_the_protocol() -> None:
    said = [line for case in EXCHANGES for side in (0, 1) for line in facts_said(case, side)]
    assert {line.partition("(")[0] for line in said} == PREDICATES.keys()
    assert len(OVER_A_WIRE) > 5
    phases = {phase["phase"] for case in EXCHANGES for side in case["said"] for phase in side}
    phases.discard(None)  # of a side that ended in the middle of one
    assert phases == {str(p) for p in Phase} - {"idle", "closed"}
    events = {e["event"] for case in EXCHANGES for side in case["events"] for e in side}
    assert events == {"RecordSaved", "FixedPoint", "Closed", "Aborted"}


@pytest.mark.req("050-COR-02", "050-PRF-01", "050-BLK-07")
@pytest.mark.parametrize("case", OVER_A_WIRE, ids=why)
def test_the_same_crosses_a_stream(case: Any) -> None:
    ends = []
    for index, side in enumerate(case["sides"]):
        store = MemoryStore()
        store.save([record_of(RECORDS[hash]) for hash in side["records"]])
        nonce = case["steps"][0]["nonces"][index]
        connection = Endpoint(accepting=index == 0, nonce=nonce, addresses=("tcp:a:1",))
        end = End(
            connection, store, module_from_text(side["module"]), Exposure(default="selected"),
            Limits(**side["limits"]),
        )  # fmt: skip
        ends.append(end)
    run(ends[0], ends[1], 50)
    for index in (0, 1):
        told = [
            given
            for phase in case["said"][index]
            for given in (*map(heard, phase["items"]), m.PeerPhaseEnd())
        ]
        assert joined(ends[1 - index].inputs) == joined(told)


def joined(inputs: Sequence[m.Input]) -> list[m.Input]:
    """Return inputs with neighbouring blocks made one."""
    made: list[m.Input] = []
    for given in inputs:
        last = made[-1] if made else None
        if isinstance(given, m.PeerFacts) and isinstance(last, m.PeerFacts):
            made[-1] = m.PeerFacts(last.content + given.content)
        elif isinstance(given, m.PeerModule | m.PeerFacts | m.PeerRecord | m.PeerPhaseEnd):
            made.append(given)
    return made


# --- advertisements and roots ---


@pytest.mark.req("050-ARC-02", "050-ARC-03", "050-ARC-04", "050-ARC-05", "050-SCH-05", "050-SCH-07")
@pytest.mark.parametrize("case", load("advertisements.json")["advertisements"], ids=why)
def test_advertisements(case: Any) -> None:
    record = record_of(case["record"])
    schema = None if case["schema"] is None else frozenset(case["schema"])
    made = advertise(record.hash, SourceLabel(case["source"]), fields(record), schema)
    assert made.canonical().decode().splitlines() == case["canonical"]
    assert b64a.encode(made.digest()) == case["digest"]


@pytest.mark.req("050-REC-09", "050-REC-10", "050-REC-11", "050-REC-12")
@pytest.mark.parametrize(
    "case", load("advertisements.json")["roots"], ids=lambda c: len(c["digests"])
)
def test_roots(case: Any) -> None:
    digests = [b64a.decode(text) for text in case["digests"]]
    assert b64a.encode(merkle_root(digests)) == case["root"]
    assert b64a.encode(merkle_root(reversed(digests))) == case["root"]


@pytest.mark.parametrize("case", load("advertisements.json")["tables"], ids=why)
def test_tables(case: Any) -> None:
    digests = {record: b64a.decode(text) for record, text in case["digests"].items()}
    assert b64a.encode(Partitions.of(digests).check) == case["check"]
    one_by_one = Partitions()
    for record in sorted(digests, reverse=True):
        one_by_one.put({record: digests[record]})
        assert one_by_one.check
    assert b64a.encode(one_by_one.check) == case["check"]


@pytest.mark.req("050-SET-08", "050-HEL-01", "050-ARC-05", "050-REC-09", "050-REC-11")
def test_the_vectors_hold_what_an_independent_program_computed() -> None:
    given = load("independent.json")
    plan, advert = given["plan"], given["advertisement"]
    case = BY_NAME["the exchange plan is the one that an independent program computed"]
    for side, origin in enumerate(plan["origins"]):
        assert case["sides"][side]["module"] == plan["module"]
        said = facts_said(case, side)
        assert said[0] == f"ExchangeOperand('{side}','{plan['module_id']}','{origin}','selector')"
        assert said[1] == f"HelloExchangePlan('{plan['id']}')"
    case = BY_NAME["the summary of one record is the one that an independent program computed"]
    payload = given["plex"]["hash"].split(".")[1]
    summary = f"AdvertisementPartition('{payload[:2]}','1','{advert['root']}')"
    assert summary in facts_said(case, 0)
    vectors = load("advertisements.json")
    first = vectors["advertisements"][0]
    assert (first["source"], first["schema"]) == (given["key"]["verifier"], advert["fields"])
    assert first["digest"] == advert["digest"]
    assert vectors["roots"][0] == {"digests": [], "root": advert["empty_root"]}
