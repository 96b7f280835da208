"""How one table of what may be sent differs from another."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from lace.interlace import messages as m
from lace.interlace.partition import Partitions

_ANSWER: Final = 5000  # records in one part of an answer


def moved(now: Partitions, before: Partitions, runs: Collection[int]) -> Iterator[tuple[str, str]]:
    """Yield each record of some partitions whose entry is new, or second each that is gone."""
    for run in runs:
        came, gone = now.moved(run, before.run(run))
        yield from ((record, "") for record in came)
        yield from (("", record) for record in gone)


def differences(now: Partitions, before: Partitions) -> Iterator[m.Evaluated]:
    """Yield how one table differs from another, in parts."""
    come: dict[str, bytes] = {}
    for run in now.differing(before):
        came, gone = now.moved(run, before.run(run))
        for record in came:
            come[record] = now.find(record) or b""
        unsendable = frozenset(gone).difference(came)
        if unsendable:
            yield m.Evaluated(unsendable=unsendable)
        if len(come) >= _ANSWER:
            yield m.Evaluated(sendable=come)
            come = {}
    if come:
        yield m.Evaluated(sendable=come)
