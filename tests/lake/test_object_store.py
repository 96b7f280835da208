"""A lake in an object store: a real server that speaks S3, started for these tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyarrow import fs
from rooms import PREFIX, TEST_SETTINGS, room_records

from lace.cli.root import run
from lace.errors import Status
from lace.lake.delta import Conflict, DeltaLog
from lace.lake.forget import forget
from lace.lake.here import evaluate_here
from lace.lake.maintain import maintain
from lace.lake.peer import LakeStore
from lace.lake.places import filesystem
from lace.lake.tables import Lake
from lace.selectors import selector
from lace.vocabulary import SELECT_HAVE

RECORDS = room_records(60, seed=99)
HASHES = sorted(record.hash for record in RECORDS)


SERVER = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.disable(logging.CRITICAL)
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%s" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """In a process of its own: libraries that wait for it hold Python still meanwhile."""
    command = [sys.executable, "-c", SERVER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{sum(map(ord, request.node.name))}"
    place = server.partition("://")[2]
    system = fs.S3FileSystem(
        endpoint_override=place, scheme="http", region="us-east-1", allow_bucket_creation=True
    )
    system.create_dir(name)
    return f"s3://{name}"


def hashes(lake: Lake) -> list[str]:
    return sorted(record.hash for record in lake.snapshot().read_all())


def test_a_lake_without_spark(bucket: str, capfd: pytest.CaptureFixture[str]) -> None:
    lake = Lake.open(None, f"{bucket}/x.lake", create=True)
    store = LakeStore(lake)
    store.save(RECORDS[:30])
    store.save(RECORDS[20:])
    assert hashes(Lake.open(None, f"{bucket}/x.lake")) == HASHES
    rows = evaluate_here(lake.snapshot(), selector(PREFIX).program, [SELECT_HAVE]).rows(SELECT_HAVE)
    assert run(["lake", "select", f"{bucket}/x.lake", PREFIX, "--count"]) == 0
    assert capfd.readouterr().out == f"{len(rows)}\n"
    query = ("SELECT count(*) AS n FROM wide", "--engine", "duckdb")
    assert run(["lake", "sql", f"{bucket}/x.lake", *query]) == 0
    assert capfd.readouterr().out == f'{{"n":{len(HASHES)}}}\n'
    forget(lake, HASHES[:5])
    assert [o.status for o in store.save([r for r in RECORDS if r.hash == HASHES[0]])] == [
        Status.REFUSED
    ]
    assert hashes(lake) == HASHES[5:]
    maintain(lake)
    maintain(lake, retain_hours=0)
    assert len(lake.records_log.version().files) == 1
    assert hashes(lake) == HASHES[5:]
    system, path = filesystem(f"{lake.root}/records/data")
    there = system.get_file_info(fs.FileSelector(path))
    assert len([info for info in there if info.type == fs.FileType.File]) == 1


def test_writers_at_the_same_time(bucket: str) -> None:
    """A commit is a put that fails if somebody else was quicker."""
    root = f"{bucket}/x.lake"
    Lake.open(None, root, create=True)

    def write(number: int) -> None:
        LakeStore(Lake.open(None, root)).save(RECORDS[number::6])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    lake = Lake.open(None, root)
    assert hashes(lake) == HASHES
    assert lake.records_log.version().number == 6
    log = DeltaLog(lake.records_log.root, lake.records_log.schema)
    with pytest.raises(Conflict):
        log.commit([], work="w", step=1, expected=3, note={})


SCRIPT = f"""
import os, sys
SETTINGS = {TEST_SETTINGS!r}
from lace.lake import ingest
from lace.lake.session import SparkOptions, open_session
from lace.lake.tables import Lake
spark = open_session(SparkOptions(master="local[2]", memory="1g", quick_start=True, settings=SETTINGS))
lake = Lake.open(spark, sys.argv[1], create=True)
run_step, steps = ingest.run_step, []
def dying(*given):
    steps.append(run_step(*given))
    if len(sys.argv) > 3:
        os._exit(9)
    return steps[-1]
ingest.run_step = dying
done = ingest.ingest(lake, [sys.argv[2]], step_bytes=1)
print(done.records, done.duplicates, done.quarantined, done.skipped_steps, lake.snapshot().records.count())
"""


@pytest.mark.long
def test_bundles_from_a_store_into_a_lake_there_killed_and_resumed(bucket: str) -> None:
    """Spark has no jars for S3 here: the workers read and write, and delta-rs commits."""
    system, path = filesystem(f"{bucket}/in")
    for name, some in {"a": RECORDS[:40], "b": RECORDS[30:]}.items():
        with system.open_output_stream(f"{path}/{name}.records") as file:
            file.write(b"".join(record.raw for record in some) + b"?")
    command = [sys.executable, "-c", SCRIPT, f"{bucket}/x.lake", f"{bucket}/in"]
    killed = subprocess.run(
        [*command, "die"], check=False, capture_output=True, text=True, env=os.environ
    )
    assert killed.returncode == 9, killed.stderr[-3000:]
    assert 0 < len(hashes(Lake.open(None, f"{bucket}/x.lake"))) < len(RECORDS)
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == f"{len(RECORDS) - 40} 10 1 1 {len(RECORDS)}\n"
    lake = Lake.open(None, f"{bucket}/x.lake")
    assert hashes(lake) == HASHES
    assert lake.quarantine_log.version().rows == 2
