"""Counters of a server, and their text form for Prometheus on a local port."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Final

from lace.serving.answering_port import Answer, answer_at

_TYPE: Final = "text/plain; version=0.0.4"

METRICS: Final = {
    "lace_connections": ("gauge", "Connections that are open."),
    "lace_waiting": ("gauge", "Connections that wait for a place before a lake."),
    "lace_memory_bytes": (
        "gauge",
        "Memory of all connections, in bytes: data that waits, facts, tables of what is offered.",
    ),
    "lace_store_records": ("gauge", "Records in the store."),
    "lace_connections_total": ("counter", "Connections that were accepted."),
    "lace_refused_total": ("counter", "Connections that were turned away."),
    "lace_ended_total": ("counter", "Exchanges that ended, by how they ended (how, code)."),
    "lace_bytes_received_total": ("counter", "Bytes that came from peers."),
    "lace_bytes_sent_total": ("counter", "Bytes that were sent to peers."),
    "lace_records_saved_total": ("counter", "Records of peers that were stored."),
    "lace_records_rejected_total": ("counter", "Records of peers that were not valid."),
    "lace_records_refused_total": ("counter", "Valid records of peers that no quota had room for."),
    "lace_records_quarantined_total": (
        "counter",
        "Records of the store that were found changed, and put aside.",
    ),
    "lace_fixed_points_total": ("counter", "Fixed points that were reached."),
    "lace_rules_waiting": ("gauge", "Evaluations of peers' rules that wait for a process."),
    "lace_rules_evaluated": ("gauge", "Evaluations of peers' rules that were begun."),
    "lace_rules_stopped": (
        "gauge",
        "Processes that were ended because rules of a peer took too much time or memory.",
    ),
    "lace_watch_failures_total": (
        "counter",
        "Times that a look at the store or at memory failed; each is soon repeated.",
    ),
    "lace_watch_restarts_total": (
        "counter",
        "Times that what looks at the store or at memory ended and was begun again.",
    ),
}


@dataclass(slots=True)
class Metrics:
    """Numbers that only grow, and numbers that are read when they are asked for."""

    counts: Counter[str] = field(default_factory=Counter)
    gauges: dict[str, Callable[[], float]] = field(default_factory=dict)
    """Numbers of this process. The event loop reads them, which changes what they count."""
    stored: dict[str, Callable[[], float]] = field(default_factory=dict)
    """Numbers of a store or of files. A thread reads them, since that may take long."""
    known: Mapping[str, tuple[str, str]] = field(default_factory=lambda: METRICS)
    """Kind and meaning of each name that is told."""

    def add(self, name: str, number: int = 1, **labels: str) -> None:
        self.counts[with_labels(name, labels)] += number

    def values(self) -> dict[str, float]:
        """Return the numbers of this process as they are now."""
        return {name: gauge() for name, gauge in self.gauges.items()} | self.counts

    def text(self, values: Mapping[str, float] | None = None) -> str:
        """Return values, by default those of now, and stored numbers, in the form of Prometheus."""
        found = dict(self.values() if values is None else values)
        found |= {name: read() for name, read in self.stored.items()}
        lines: list[str] = []
        for name, (kind, help) in self.known.items():
            lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
            keys = sorted(key for key in found if key.partition("{")[0] == name)
            lines += [f"{key} {found[key]}" for key in keys] or [f"{name} 0"]
        return "\n".join(lines) + "\n"


def with_labels(name: str, labels: Mapping[str, str]) -> str:
    """Return the name of a number that is one of several."""
    if not labels:
        return name
    inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in sorted(labels.items()))
    return f"{name}{{{inside}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


async def serve_metrics(metrics: Metrics, port: int) -> asyncio.Server:
    """Answer GET /metrics on a port of this machine, and of no other."""

    async def answer(request: bytes, _address: str) -> Answer:
        if not request.startswith((b"GET /metrics ", b"GET /metrics?")):
            return Answer("404 Not Found", _TYPE, "see /metrics\n")
        values = metrics.values()
        return Answer("200 OK", _TYPE, await asyncio.to_thread(metrics.text, values))

    return await answer_at(port, answer)


@contextmanager
def metrics_at(metrics: Metrics, port: int) -> Iterator[int]:
    """Answer on a port from a thread of its own while the block runs; gives the port."""
    loop = asyncio.new_event_loop()
    try:
        server = loop.run_until_complete(serve_metrics(metrics, port))
    except BaseException:
        loop.close()
        raise
    thread = Thread(target=loop.run_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
