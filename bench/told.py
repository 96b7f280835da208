"""Sides of an exchange in processes of their own: told what to do line by line, and what they use.

A script that is started again by ``process`` is told its part by ``--part``. It answers each line
of its standard input with one line of JSON, and ends with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

Json = dict[str, Any]
Side = tuple[IO[str], IO[str]]
"""What it is told, and what it answers."""


@contextmanager
def process(script: str, part: str, *more: str) -> Iterator[Side]:
    """Run a script as one side for as long as the block runs."""
    command = [sys.executable, script, "--part", part, *more]
    with subprocess.Popen(  # noqa: S603 (ours)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            yield running.stdin, running.stdout
        finally:
            running.stdin.close()  # and it ends


def tell(side: Side, *words: object) -> Json:
    """Have a side do something; return what it answers."""
    side[0].write(" ".join(map(str, words)) + "\n")
    side[0].flush()
    return hear(side)


def hear(side: Side) -> Json:
    line = side[1].readline()
    if not line:
        sys.exit("a side ended; what it said stands above")
    answered: Json = json.loads(line)
    return answered


async def answer(ways: dict[str, Callable[..., Awaitable[Json]]]) -> None:
    """In a side: answer each line, a name and numbers, until there are no more."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        name, *numbers = line.split()
        print(json.dumps(await ways[name](*map(int, numbers))), flush=True)


def java() -> str:
    """Return the process of Java that this one started."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if f"PPid:\t{os.getpid()}\n" in status.read_text() and b"java" in command:
                return status.parent.name
        except OSError:
            continue
    raise RuntimeError("there is no Java")


def cpu_seconds(of: str) -> float:
    """Return the CPU seconds of a process and of what it has started and waited for."""
    fields = Path("/proc", of, "stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def cpu_of_all() -> float:
    """Return the CPU seconds of this process and of all that it has started, directly or not."""
    parents: dict[str, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[stat.parent.name] = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
    total = 0.0
    for one in parents:
        up = one
        while up in parents and up != str(os.getpid()):
            up = parents[up]
        if up == str(os.getpid()):
            try:
                total += cpu_seconds(one)
            except OSError:
                continue  # it has just ended
    return total


def peak_mib(of: str = "self") -> float:
    """Return the most memory that a process has had so far, as far as the system tells."""
    status = Path("/proc", of, "status")
    if status.exists():  # that of the process alone; the other also counts what it was made from
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
