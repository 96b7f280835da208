"""Rules of strangers over a lake: what Spark does for them follows from what they see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from meeting import client, within
from rooms import write_bundle
from wires import notes

from lace.crypto import SigningKey
from lace.errors import Code, LimitExceeded
from lace.interlace import messages as m
from lace.lake import peer
from lace.lake.ingest import ingest
from lace.lake.peer import LakeStore
from lace.lake.plan import PlanOverLake
from lace.lake.serve import LakeHost
from lace.lake.tables import Lake
from lace.limits import DEFAULT_LIMITS, LAKE, Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.origin import Operand, Origin
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.build import build_plex
from lace.record.model import Record
from lace.recordstore import MemoryStore
from lace.selectors import selector
from lace.serving.grants import selector_policy
from lace.transport.address import parse_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SELECTED = Exposure(default="selected")
PLACE = selector("//g//notes//")
REST = "SelectAdvertised(P,S) :- Advertised(P,S).\n"
SMALL = replace(DEFAULT_LIMITS, peer_work=2000, peer_work_per_fact=10)
MANY_TAGS = [("Tag", f"t{number}") for number in range(20)]


def note(number: int, app: str = "notes", extras: list[tuple[str, str]] | None = None) -> Record:
    return build_plex(
        group="g", app=app, name=f"n/{number % 7}", tai=f"{1_700_000_000 + number}:000000000",
        extras=extras or [], data=b"",
    )  # fmt: skip


RULES = {
    "pairs": "Both(P,Q) :- Have(P), Have(Q).\nSelectHave(P) :- Both(P,Q), P != Q.\n",
    "triples by a field": (
        "N(P,X) :- Field(P,'Name',_,X).\n"
        "SelectHave(P) :- N(P,X), N(Q,X), N(R,X), P != Q, Q != R.\n"
    ),
    "lists of one record": (
        "T(P,A,B,C) :- Field(P,'Tag',_,A), Field(P,'Tag',_,B), Field(P,'Tag',_,C).\n"
        "SelectHave(P) :- T(P,A,B,C), A != B, B != C.\n"
    ),
    "any fields of one record": (
        "T(P,A,B,C) :- Field(P,_,_,A), Field(P,_,_,B), Field(P,_,_,C).\n"
        "SelectHave(P) :- T(P,A,B,C), A != B, B != C.\n"
    ),
}  # fmt: skip


def lake_of(spark: SparkSession, folder: Path, records: list[Record]) -> Lake:
    lake = Lake.open(spark, str(folder), create=True)
    ingest(lake, [str(write_bundle(folder.with_suffix(".records"), records))])
    return lake


def over(lake: Lake, theirs: PolicyModule, limits: Limits = SMALL) -> PlanOverLake:
    plan = ExchangePlan((
        Operand(index=0, module=PLACE, origin=Origin("O.left")),
        Operand(index=1, module=theirs, origin=Origin("O.right")),
    ))  # fmt: skip
    return PlanOverLake(
        snapshot=lake.snapshot(), plan=plan, index=0, exposure=SELECTED, peer_limits=limits
    )


def sent(lake: Lake, text: str, limits: Limits = SMALL) -> int | str:
    """Return how many records rules of a peer leave to be sent, or what stopped them."""
    asked = over(lake, module_from_text(text + REST), limits)
    try:
        return asked.may_send().count()
    except LimitExceeded as error:
        return f"{error.limit} {error.configured}"
    finally:
        asked.close()


@pytest.fixture(scope="module")
def lakes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Lake]:
    """Two lakes that show the same; one of them hides more than that."""
    folder = tmp_path_factory.mktemp("strangers")
    shown = [note(n, extras=MANY_TAGS if n < 3 else None) for n in range(60)]
    hidden = [note(n, app="hidden", extras=MANY_TAGS) for n in range(100, 180)]
    return [lake_of(spark, folder / "few", shown), lake_of(spark, folder / "all", shown + hidden)]


@pytest.mark.parametrize("name", RULES)
def test_rows_are_counted_before_they_are_made_and_by_what_is_seen(
    lakes: list[Lake], name: str
) -> None:
    ends = [sent(lake, RULES[name]) for lake in lakes]
    assert ends[0] == ends[1]  # what is hidden cannot be measured
    assert str(ends[0]).startswith("work ")


def test_with_more_to_spend_they_come_to_their_end(lakes: list[Lake]) -> None:
    generous = replace(SMALL, peer_work=10**8)
    assert sent(lakes[0], RULES["lists of one record"], generous) == 3
    assert sent(lakes[0], RULES["triples by a field"], generous) == 60


def test_work_grows_with_what_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    """Rules that look at each record once pass at any size; pairs of all do not."""
    lake = lake_of(spark, tmp_path / "lake", [note(n) for n in range(300)])
    tiny = replace(SMALL, peer_work=1, peer_work_per_fact=20)
    plain = "N(P,X) :- Field(P,'Name',_,X).\nSelectHave(P) :- N(P,'n/3').\n"
    assert sent(lake, plain, tiny) == len([n for n in range(300) if n % 7 == 3])
    assert str(sent(lake, RULES["pairs"], tiny)).startswith("work ")


def test_rules_with_too_many_joins_are_not_given_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = lake_of(spark, tmp_path / "lake", [note(n) for n in range(3)])
    joins = "".join(
        f"SelectHave(P) :- Field(P,'Name',_,X), Field(Q,'Name',_,X), Field(Q,'App',_,'a{n}').\n"
        for n in range(LAKE.peer_joins)
    )
    assert sent(lake, joins) == f"peer_joins {LAKE.peer_joins}"
    places = "".join(f"SelectHave(P) :- Field(P,'Name',_,'n/{n}').\n" for n in range(300))
    assert sent(lake, places) == 3  # one look at a record decides: that is no join


TEXTS = {
    "pairs": (RULES["pairs"], Code.LIMIT_EXCEEDED),
    "four that share nothing": (
        "SelectHave(P) :- Have(P), Have(Q), Have(R), Have(S), P != Q, Q != R, R != S.\n",
        Code.LACEGRAM_COST,
    ),
    "24 KB of joins": (
        "D(P,X) :- Field(P,'x',_,X).\n"
        + "".join(
            f"A{n}(V0) :- "
            + ", ".join(f"D(V{k},V{(k * 7 + n) % k})" for k in range(1, 21))
            + ".\n"
            for n in range(60)
        )
        + "SelectHave(P) :- Have(P).\n",
        Code.LACEGRAM_COST,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_serving_lake_refuses_dear_rules_with_a_code_and_serves_others(
    spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "MIRRORED", 0)
    text, code = TEXTS[name]
    lake = lake_of(spark, tmp_path / "lake", notes(300))
    limits = replace(DEFAULT_LIMITS, peer_work=min(100_000, DEFAULT_LIMITS.peer_work))
    if code is Code.LIMIT_EXCEEDED:
        limits = replace(limits, peer_work=20_000, peer_work_per_fact=5)
    host = LakeHost(
        LakeStore(lake), PLACE, SELECTED, policy=selector_policy(PLACE), limits=limits,
        key=SigningKey(b"\x0a" * 32),
    )  # fmt: skip
    mine, honest = MemoryStore(), MemoryStore()

    async def meet() -> list[m.Closed | m.Aborted]:
        async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
            place = parse_address(address)
            return [
                await client(mine, module=module_from_text(text + REST), exposure=SELECTED).sync(place),
                await client(honest, module=PLACE, exposure=SELECTED).sync(place),
            ]  # fmt: skip

    hostile, fine = within(meet(), 120)
    assert isinstance(hostile, m.Aborted), hostile
    assert str(code) in hostile.detail, hostile
    assert mine.count() == 0
    assert isinstance(fine, m.Closed), fine
    assert honest.count() == 300
