"""What tables take together: what they share counts once, and each holder has its part of it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from effort import examples

from lace.crypto.native import digest
from lace.interlace.partition import Partitions
from lace.interlace.shares import memory_of, shares_of


def table_of(*names: str) -> Partitions:
    made = Partitions(2)
    made.put({f"P.{digest_name(name)}.H3": digest(name.encode()) * 2 for name in names})
    return made


def digest_name(name: str) -> str:
    from lace import b64a

    return b64a.encode(digest(name.encode()))


def held(tables: Sequence[Partitions]) -> int:
    """Return what the entries of these tables take, each run once however many have it."""
    runs = {
        id(run): len(run) for table in tables for group in table.shared_groups
        for run in group.runs if run is not None
    }  # fmt: skip
    return sum(runs.values())


def test_copies_count_once_and_what_each_has_of_its_own_counts_for_it() -> None:
    one = table_of(*map(str, range(500)))
    assert memory_of([one]) == one.memory
    copies = [one.copy() for _ in range(10)]
    assert memory_of(copies) == one.memory
    assert shares_of([[copy] for copy in copies]) == [one.memory // 10] * 10
    assert memory_of([*copies, table_of("x")]) == one.memory + table_of("x").memory
    assert shares_of([[one], [table_of("x")]]) == [one.memory, table_of("x").memory]


def test_a_large_group_among_many_that_are_shared_counts_in_full() -> None:
    """Names can be chosen so that all of a table lies in one group."""
    many = (name for name in map(str, range(100_000)) if digest_name(name).startswith("a"))
    names = [next(many) for _ in range(500)]
    one, other = table_of(), table_of(*names)
    assert shares_of([[one], [other]]) == [0, other.memory]


def test_records_of_other_formats_are_shared_with_nobody() -> None:
    one = Partitions(2)
    one.put({"P.other.H9": digest(b"x") * 2})
    assert memory_of([one, one.copy()]) == 2 * one.memory > 0


@pytest.mark.parametrize("seed", range(examples(30)))
def test_the_parts_of_all_are_the_whole(seed: int) -> None:
    chance = random.Random(seed)
    tables = [table_of(*map(str, range(100)))]
    for number in range(20):
        made = chance.choice(tables).copy()
        made.put({f"P.{digest_name(f'{number}')}.H3": digest(b"y") * 2})
        tables.append(made)
    holders: list[list[Partitions]] = [[] for _ in range(5)]
    for table in tables:
        chance.choice(holders).append(table)
    whole = memory_of(tables)
    assert abs(sum(shares_of(holders)) - whole) <= len(holders)
    assert held(tables) <= whole <= sum(table.memory for table in tables)
