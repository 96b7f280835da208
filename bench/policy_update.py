"""One record more, through both selectors, the view and the lowering, against starting afresh."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from small_room import room

from lace import b64a
from lace.crypto.keys import SigningKey
from lace.datalog.source import Fact
from lace.policy.executable import ExchangePolicy
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.rules import LocalFacts
from measure import Effort, Result, Target, race

_AUTHORITY = SigningKey(b"a" * 32).verifier
_UPDATES = 20  # in one round, so that the clock can see them


def run(effort: Effort) -> list[Result]:
    chance = random.Random(4)
    members = [_hash(chance, "V") for _ in range(effort.room_records // 50)]
    module = room("//notes-demo//notes//", authority=_AUTHORITY)
    plan = ExchangePlan(
        label_operands(Party(index=0, module=module), Party(index=1, module=module))
    )
    source = LocalFacts()
    for number in range(effort.room_records):
        for fact in _record(chance, number, members):
            source.add_valid(fact)
    exposure = Exposure(default="selected")
    policy = ExchangePolicy(plan, 0, source, exposure)
    fresh = (list(_note(chance, number, members)) for number in range(10**9))
    policy.apply(next(fresh))

    def update() -> None:
        for _ in range(_UPDATES):
            policy.apply(next(fresh))

    updated, whole = race(
        update, lambda: ExchangePolicy(plan, 0, source, exposure), rounds=effort.room_rounds
    )
    again = ExchangePolicy(plan, 0, source, exposure)
    assert set(again.may_send) == set(policy.may_send)
    assert set(again.visible) == set(policy.visible)
    return [
        Result(
            name="policy: one record added",
            unit="updates/s",
            count=1,
            seconds=updated / _UPDATES,
            floor="full evaluation",
            floor_seconds=whole,
            target=Target(sign=">=", ratio=100),
            notes=(
                f"{effort.room_records:,} records, {len(policy.may_send):,} of them sendable",
                "selectors of both sides, the query view and the lowering are all followed",
            ),
        )
    ]


def _record(chance: random.Random, number: int, members: list[str]) -> Iterator[Fact]:
    if number < len(members):
        fields = {"App": "notes/member", "Signed-By": _AUTHORITY, "Member": members[number]}
        return _facts(_hash(chance, "S"), fields)
    return _note(chance, number, members)


def _note(chance: random.Random, number: int, members: list[str]) -> Iterator[Fact]:
    signer = members[number % len(members)] if number % 2 else "V.stranger"
    fields = {"App": "notes/message", "Signed-By": signer, "Title": f"note {number}"}
    return _facts(_hash(chance, "S"), fields)


def _facts(record: str, fields: dict[str, str]) -> Iterator[Fact]:
    yield "Have", record
    common = {"Type": "S", "Group": "notes-demo", "Name": "n", "TAI": "1640995200:000000000"}
    for name, value in (common | fields).items():
        yield "Field", record, name, "0", value


def _hash(chance: random.Random, letter: str) -> str:
    return f"{letter}.{b64a.encode(chance.randbytes(32))}.H3"
