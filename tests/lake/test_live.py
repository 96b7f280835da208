"""An exchange that stays open flows into a lake: each record once, over stops and crashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rooms import PREFIX, room_records
from servers import Process, process

from lace.cli.root import run
from lace.errors import Code, LakeError
from lace.interlace import messages as m
from lace.lake import peersource as live_module
from lace.lake.peersource import LiveSource
from lace.lake.stream import LakeStream
from lace.lake.tables import Lake
from lace.record.model import Versioned
from lace.record.split import Frame, split_records
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = [r for r in room_records(120, seed=41) if isinstance(r, Versioned) and r.app != "other"]
NAMES = [record.hash for record in RECORDS]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Process, SqliteStore]]:
    """``lace serve`` with a store that others write to as well."""
    with SqliteStore(tmp_path / "n.lace") as store:
        store.save(RECORDS[:30])
        with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", "--select", PREFIX) as server:
            yield server, store


def source(server: Process, checkpoint: Path) -> LiveSource:
    return LiveSource(address=server.address, checkpoint=str(checkpoint), module=selector(PREFIX))


def until(holds: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
    for _ in range(2000):
        meanwhile()
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never came")


def hashes(lake: Lake) -> list[str]:
    return sorted(row.hash for row in lake.snapshot().records.select("hash").collect())


@pytest.mark.req("060-TRN-01")
def test_what_a_peer_stores_flows_into_the_lake(
    spark: SparkSession, tmp_path: Path, served: tuple[Process, SqliteStore]
) -> None:
    server, store = served
    checkpoint = tmp_path / "checkpoint"
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    done: list[int] = []

    def stream(live: LiveSource) -> LakeStream:
        return LakeStream(
            lake, live.folder, live.checkpoint, origin=str(live.address),
            on_batch=lambda batch: done.append(batch.result.records),
        )  # fmt: skip

    with source(server, checkpoint) as live:
        flowing = stream(live)
        flowing.start(interval="0 seconds")
        live.start()
        until(lambda: sum(done) == 30, live.drain)
        store.save(RECORDS[30:50])  # while the exchange is open
        until(lambda: sum(done) == 50, live.drain)
        live.stop()
        assert live.ended() is None or isinstance(live.ended(), m.Closed)
        flowing.stop()
    assert hashes(lake) == sorted(NAMES[:50])
    store.save(RECORDS[50:])  # while nobody listens
    with source(server, checkpoint) as live:
        assert isinstance(live.sync(), m.Closed)
        assert live.drain() == len(RECORDS) - 50  # and nothing a second time
        flowing = stream(live)
        flowing.start()
        assert flowing.wait(120)
    assert hashes(lake) == sorted(NAMES)
    assert sum(done) == len(RECORDS)
    other = LakeStream(lake, live.folder, live.checkpoint, origin="tcp:example.com:4790")
    with pytest.raises(LakeError) as caught:
        other.start()
    assert caught.value.code is Code.LAKE_STREAM


def test_a_source_that_dies_writes_each_record_into_one_bundle(
    tmp_path: Path, served: tuple[Process, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, store = served
    checkpoint = tmp_path / "checkpoint"
    monkeypatch.setattr(live_module, "BUNDLE_BYTES", 2000)

    class Crash(BaseException):
        pass

    calls: list[int] = []

    def dying(_file: int) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise Crash

    with source(server, checkpoint) as live:
        assert isinstance(live.sync(), m.Closed)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", dying)
            with pytest.raises(Crash):
                live.drain()
    store.save(RECORDS[30:40])
    with source(server, checkpoint) as live:
        live.sync()
        live.drain()
        assert live.drain() == 0
        bundles = sorted(Path(live.folder).glob("*.records"))
        raws = [bundle.read_bytes() for bundle in bundles]
        frames = [f for f in split_records(raws) if isinstance(f, Frame)]
        assert len(bundles) > 3
        assert sorted(f.raw for f in frames) == sorted(r.raw for r in RECORDS[:40])
        assert not [p for p in Path(live.folder).iterdir() if p not in bundles]


def test_a_peer_that_is_away_is_waited_for_and_a_source_can_be_stopped_meanwhile(
    tmp_path: Path, served: tuple[Process, SqliteStore]
) -> None:
    server, _ = served
    waits: list[str] = []
    with source(server, tmp_path / "checkpoint") as live:
        live.retry = lambda _seconds, why: waits.append(why)
        server.stop()
        live.start()
        until(lambda: bool(waits), lambda: None)
        assert live.ended() is None
        live.stop()
        assert live.ended() is None
        assert live.drain() == 0


def test_the_command(
    spark: SparkSession,
    tmp_path: Path,
    served: tuple[Process, SqliteStore],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert spark is not None
    server, _ = served
    monkeypatch.chdir(tmp_path)
    address = str(server.address)

    def call(*arguments: str) -> tuple[int, str]:
        code = run(["lake", "stream", "x.lake", *arguments, "--checkpoint", "c"])
        out, err = capfd.readouterr()
        return code, out + err

    code, told = call(address, "--select", PREFIX, "--once")
    assert code == 0
    assert told.startswith("batch 0: 30 new, 0 duplicates, 0 put aside, ")
    assert call(address, "--select", PREFIX, "--once") == (0, "")
    code, said = call(address)
    assert (code, "a peer needs --select" in said) == (2, True)
    code, said = call("folder", "--select", PREFIX)
    assert (code, "is for a peer" in said) == (2, True)
    code, said = call("folder", "--once")
    assert (code, "[lake.stream]" in said) == (1, True)
    code, said = call(address, "--select", PREFIX, "--interval", "often")
    assert (code, "often" in said, "Traceback" in said) == (1, True, False)
    server.stop()
    code, said = call(address, "--select", PREFIX, "--once")
    assert (code, "[transport.connect]" in said) == (4, True)


@pytest.mark.long
def test_ctrl_c_ends_the_command_in_order(
    tmp_path: Path, served: tuple[Process, SqliteStore], spark: SparkSession
) -> None:
    """Ctrl-C while it runs: what was received until then is in the lake."""

    server, _ = served
    command = [
        sys.executable, "-m", "lace", "lake", "stream", "x.lake", str(server.address),
        "--select", PREFIX, "--checkpoint", "c", "--interval", "1 second",
    ]  # fmt: skip
    with (
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as ran,
    ):
        assert ran.stdout is not None
        assert pool.submit(ran.stdout.readline).result(120).startswith("batch 0: ")
        ran.send_signal(signal.SIGINT)
        assert ran.wait(120) == 0
    assert hashes(Lake.open(spark, str(tmp_path / "x.lake"))) == sorted(NAMES[:30])
