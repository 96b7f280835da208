"""A lake over Spark Connect holds and gives what it does over Spark in the same process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import over_connect
import pyspark
import pytest
from rooms import AUTHORITY, PREFIX, room_records, write_bundle
from small_room import room

from lace.datalog.evaluate import evaluate
from lace.interlace.advertise import advertise
from lace.interlace.partition import Partitions
from lace.lake.java import find_java
from lace.policy.origin import SourceLabel
from lace.record.facts import facts, fields
from lace.rules import MemorySource
from lace.selectors import selector
from lace.vocabulary import SELECT_HAVE

RECORDS = room_records(120, seed=71)
SECONDS = 240
SPARK = Path(pyspark.__file__).parent


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Run a server of Spark Connect until the block ends; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.port": str(port), "spark.ui.enabled": "false",
        "spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }  # fmt: skip
    command = [
        str(SPARK / "bin/spark-submit"), "--master", "local[2]",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
    ]  # fmt: skip
    environment = os.environ | {
        "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    with (
        (folder / "server.log").open("wb") as log,
        subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log) as server,
    ):
        try:
            for _ in range(SECONDS * 10):
                with socket.socket() as probe:
                    if not probe.connect_ex(("127.0.0.1", port)):
                        break
                assert server.poll() is None, (folder / "server.log").read_text()[-2000:]
                time.sleep(0.1)
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()


@pytest.mark.long
@pytest.mark.spark
def test_a_lake_is_the_same_over_spark_connect(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "a.records", RECORDS)
    bundle.write_bytes(bundle.read_bytes() + b"?")
    write_bundle(tmp_path / "b.records", RECORDS[:9])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for name in ("SPARK_HOME", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        environment.pop(name, None)
    with connect_server(tmp_path) as address:
        command = [sys.executable, str(over_connect.__file__), address, str(tmp_path)]
        ran = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            check=False,
            text=True,
            timeout=2 * SECONDS,
        )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    source = MemorySource(fact for record in RECORDS for fact in facts(record))
    module = room(PREFIX, authority=AUTHORITY.verifier, revocation_app="revoked")
    chosen = {
        name: sorted(row[0] for row in evaluate(rules.program, source).rows(SELECT_HAVE))
        for name, rules in (("place", selector(PREFIX)), ("room", module))
    }
    selected = chosen["room"]
    assert found["is remote"]
    assert found["ingest"] == [len(RECORDS), 1]
    assert found["again"] == 9
    assert found["selected"] == selected
    assert found["exported"] == len(selected)
    digests: dict[str, bytes] = {
        r.hash: advertise(r.hash, SourceLabel("V.x"), fields(r), None).digest()
        for r in RECORDS
        if r.hash in selected
    }
    expected = Partitions.of(digests).summaries(2)
    assert found["summaries"] == [[s.prefix, s.count, s.root.hex()] for s in expected if s.count]
    for name, hashes in chosen.items():
        assert found[f"{name}, 100000 held"] == hashes
        assert found[f"{name}, 0 held"] == hashes
    assert found["forgotten"] == 2
    assert found["left"] == sorted({r.hash for r in RECORDS} - set(selected[:2]))
