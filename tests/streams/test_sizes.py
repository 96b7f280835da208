"""Exchanges of a real size: what a scale model cannot show."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from meeting import client, within
from servers import policy, served
from wires import hashes, notes

from lace.crypto import SigningKey
from lace.interlace import messages as m
from lace.policy.view import Exposure
from lace.record import Record
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector

SIZE, DIFFERENCES = 100_000, 500
MODULE = selector("//g//notes//")
EVERYONE = '[[allow]]\nwho = "anyone"\nsync = ["//g//notes//"]\n'


@dataclass(frozen=True)
class Laces:
    """Two files that have much in common, and what each has alone."""

    one: Path
    other: Path
    expected: frozenset[str]


@pytest.fixture(scope="session")
def laces(tmp_path_factory: pytest.TempPathFactory) -> Laces:
    """Make one file of unsigned records, copy it, and add something to each."""
    folder = tmp_path_factory.mktemp("sizes")
    one, other = folder / "one.lace", folder / "other.lace"
    everything: list[Record] = notes(SIZE)
    with SqliteStore(one) as store:
        for start in range(0, SIZE, 5000):
            store.save(everything[start : start + 5000])
    shutil.copy(one, other)
    for number, path in enumerate((one, other)):
        added = notes(DIFFERENCES, start=SIZE + number * DIFFERENCES)
        with SqliteStore(path) as store:
            store.save(added)
        everything += added
    return Laces(one, other, frozenset(record.hash for record in everything))


@pytest.mark.long
@pytest.mark.req("050-COR-08", "050-REC-02", "050-CUR-01", "060-TRN-01")
def test_a_hundred_thousand_records_converge_over_tcp(laces: Laces) -> None:
    keys = SigningKey(b"\x0d" * 32), SigningKey(b"\x0e" * 32)

    async def work() -> None:
        with (
            SqliteStore(laces.one) as one,
            SqliteStore(laces.other) as other,
            ThreadPoolExecutor(1) as worker,
        ):
            async with served(one, policy(EVERYONE), key=keys[0]) as server:
                results = []
                for _ in range(2):  # the second one knows nothing but what the file remembers
                    near = client(
                        other, module=MODULE, exposure=Exposure(default="selected"), key=keys[1],
                        worker=worker,
                    )  # fmt: skip
                    exchange = await near.dial(server.address)
                    ended = await exchange.run()
                    assert isinstance(ended, m.Closed), ended
                    assert ended.ending is m.Ending.FIXED_POINT
                    results.append((ended.result, exchange.traffic))
                fixed = await server.until("fixed-point", 2)
            assert hashes(one) == hashes(other) == laces.expected
        (first, traffic), (second, little) = results
        assert len(first.received) == len(first.sent) == fixed[0]["received"] == DIFFERENCES
        assert first.rejected == first.not_available == ()
        # What differs is found by summaries: a listing of everything would take 15 MB each way.
        assert traffic.bytes_in + traffic.bytes_out < 5_000_000
        assert second.received == second.sent == ()
        assert not second.cursor_updated
        assert little.bytes_in + little.bytes_out < 10_000

    within(work(), 900)
