"""A real Spark cluster on this machine: one master, three workers, each a process of its own.

The whole pipeline is submitted to it. Tasks that take long are begun a second time elsewhere, and
one worker is killed in the middle of the work. The results are compared with those of a local run,
and each record must be in the lake once.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from lace.crypto.keys import SigningKey
from lace.lake.java import find_java
from lace.lake.tables import Lake
from lace.record.build import build_plex, seal
from lace.tai import from_ns

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
SELECTOR = "//notes-demo//notes//"
START_NS = 1_700_000_000_000_000_000
MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
SECONDS = 120
# Begin a second copy of nearly every task: whatever both write, one of them may count.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "0ms",
    "spark.speculation.efficiency.enabled": "false",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    records = parser.parse_args().records
    with tempfile.TemporaryDirectory(prefix="lace-cluster-") as name:
        folder = Path(name)
        print(f"making {records:,} signed records in 8 bundles")
        make_bundles(folder / "in", records)
        with cluster(folder) as (master, workers):
            print(f"a cluster at {master}, workers {', '.join(str(w.pid) for w in workers)}")
            remote = run(folder, "remote.lake", master, killed=workers[1])
        local = run(folder, "local.lake", "local[2]", killed=None)
        same = remote == local
        for made in ("remote.lake", "local.lake"):
            lake = Lake.open(None, str(folder / made))
            there = [record.hash for record in lake.snapshot().read_all()]
            print(f"  {made}: {len(there):,} records, {len(set(there)):,} different ones")
            same = same and len(there) == len(set(there)) == records
    print("the results are the same" if same else "THE RESULTS DIFFER")
    return 0 if same else 1


def make_bundles(folder: Path, records: int) -> None:
    folder.mkdir()
    key = SigningKey(b"k" * 32)
    for bundle in range(8):
        with (folder / f"{bundle}.records").open("wb") as file:
            for number in range(bundle, records, 8):
                plex = build_plex(
                    group="notes-demo",
                    app="notes/message",
                    name=f"m/{number}",
                    tai=from_ns(START_NS + number),
                    data=b"%d" % number,
                )
                file.write(seal(plex, key).raw)


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a master and three workers; end them, by their ids, when the block is done.

    Each worker has an address of its own: a task is begun a second time on another host only.
    """
    environment = os.environ | {
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_NO_DAEMONIZE": "1",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(kind: str, *arguments: str) -> Path:
        log = folder / f"{kind.lower()}-{len(started)}.log"
        command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
        with log.open("wb") as out:
            started.append(subprocess.Popen(command, stdout=out, stderr=out, env=environment))
        return log

    try:
        log = start("Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = wait_for(log, MASTER_AT)
        for number in range(3):
            work = str(folder / f"work-{number}")
            log = start(
                "Worker", "--host", f"127.0.0.{number + 1}", "--cores", "1", "--memory", "1g",
                "--webui-port", "0", "--work-dir", work, master,
            )  # fmt: skip
            wait_for(log, re.compile(r"Successfully registered with master (\S+)"))
        yield master, started[1:]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def wait_for(log: Path, pattern: re.Pattern[str]) -> str:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = pattern.search(log.read_text("utf-8", "replace"))
        if found:
            return found.group(1)
        time.sleep(0.2)
    raise SystemExit(f"no sign of life within {SECONDS} seconds:\n{log.read_text()}")


PIPELINE = """
import sys
from lace.cli.root import run
name, *options = sys.argv[1:]
for arguments in (
    ["ingest", name, "in"],
    ["select", name, "SELECTOR"],
    ["summarize", name, "SELECTOR", "--source", "V.x", "--all-fields"],
):
    if run(["lake", *arguments, *options]):
        sys.exit(1)
    sys.stdout.flush()
""".replace("SELECTOR", SELECTOR)


def run(
    folder: Path, name: str, master: str, *, killed: subprocess.Popen[bytes] | None
) -> list[str]:
    """Run the pipeline in one session; return the lines that it printed."""
    settings = {"spark.driver.host": "127.0.0.1"}
    events = folder / f"{name}.events"
    if killed is not None:
        events.mkdir()
        settings |= SPECULATION | {
            "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
        }  # fmt: skip
    options = ["--master", master, "--memory", "1g"]
    options += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command = [sys.executable, "-c", PIPELINE, name, *options]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    if killed is not None:
        while process.poll() is None and not list(folder.glob(f"{name}/staged/*/*.parquet")):
            time.sleep(0.05)  # until the first task writes
        print(f"killing worker {killed.pid} in the middle of the work")
        killed.kill()
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"the pipeline ended with {process.returncode}")
    if killed is not None:
        told = b"".join(file.read_bytes() for file in events.rglob("*") if file.is_file())
        twice, lost = told.count(b'"Speculative":true'), told.count(b"ExecutorLostFailure")
        print(f"  {twice} tasks ran a second time, {lost} were lost with their worker")
        if not twice:
            raise SystemExit("no task ran a second time: this shows nothing")
    lines = out.splitlines()
    print(f"  {name}: {lines[0]}, {len(lines):,} lines in all")
    return lines


if __name__ == "__main__":
    sys.exit(main())
