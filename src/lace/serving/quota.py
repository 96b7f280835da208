"""How much a server takes from whom: bytes and records, a day and in all, and the room on the disk.

A verifier that the policy names has an account of its own. Everybody else has that of the network
address: keys cost nothing, addresses do. Of IPv6 it is the network of 64 bits that one site has.
What was taken is kept in the store's file, so that a new start does not begin anew.

Room is reserved before records are stored, and what was not stored comes back: many connections at
once never take more than a quota says.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import IPv6Address, IPv6Network, ip_address
from pathlib import Path
from threading import Condition
from typing import Final

from lace.answering.store import StoreAnswers
from lace.clock import tai_now
from lace.errors import Code, Outcome, Status, StoreError
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.limits import FIXED, MIB
from lace.policy.foreign import Job
from lace.record.model import Record
from lace.recordstore.base import RecordStore
from lace.recordstore.sqlite import SqliteStore
from lace.serving.grants import Quota, ServePolicy
from lace.tai import NS_PER_SECOND, Tai, to_ns

_DAY: Final = 86_400 * NS_PER_SECOND
_SITE_BITS: Final = 64
_EVERYBODY: Final = ""
READ_ONLY: Final = b" read-only"
"""What the link is told apart by on which nothing was asked for."""


Save = Callable[[Sequence[Record]], list[Outcome[Record]]]
"""Stores records, and says of each what became of it."""


@dataclass(slots=True)
class _Account:
    """What was taken from one, or from all."""

    day: int = 0
    day_bytes: int = 0
    day_records: int = 0
    bytes: int = 0
    records: int = 0

    def on(self, day: int) -> _Account:
        if day != self.day:
            self.day, self.day_bytes, self.day_records = day, 0, 0
        return self

    def add(self, bytes: int, records: int) -> None:
        self.day_bytes += bytes
        self.day_records += records
        self.bytes += bytes
        self.records += records

    def give_back(self, day: int, bytes: int, records: int) -> None:
        """Take less than was reserved on a day."""
        self.bytes -= bytes
        self.records -= records
        if day == self.day:  # else that day is over here, with all that was reserved on it
            self.day_bytes -= bytes
            self.day_records -= records

    def over(self, quota: Quota, bytes: int) -> str | None:
        """Return which quota one more record of this size would exceed, or None."""
        for most, have, what in (
            (quota.mib_per_day * MIB, self.day_bytes + bytes, f"{quota.mib_per_day} MiB a day"),
            (quota.records_per_day, self.day_records + 1, f"{quota.records_per_day} records a day"),
            (quota.mib * MIB, self.bytes + bytes, f"{quota.mib} MiB in all"),
            (quota.records, self.records + 1, f"{quota.records} records in all"),
        ):
            if have > most:
                return what
        return None


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room for records that are stored next, on the account of a peer and on that of all."""

    who: str
    day: int
    records: Sequence[Record]
    """Those for which there was room."""
    why: str
    """What stood in the way of more; empty if nothing did."""

    @property
    def size(self) -> int:
        return sum(len(record.raw) for record in self.records)


class Quotas:
    """What a server has taken from everybody; used from any thread."""

    def __init__(
        self,
        store: RecordStore | None,
        policy: ServePolicy,
        clock: Callable[[], Tai] = tai_now,
        folder: Path | None = None,
    ) -> None:
        """Count for a store; without one that is a file, from now on, with the disk of a folder."""
        self.policy = policy
        self._store = store if isinstance(store, SqliteStore) else None
        self._folder = Path(self._store.path).absolute().parent if self._store else folder
        self._clock = clock
        self._settled = Condition()
        self._unsettled: Counter[str] = Counter()
        """How many reservations each account has that are not settled."""
        self._accounts: defaultdict[str, _Account] = defaultdict(_Account)
        today = self._today()
        for who, day, bytes, records in self._store.taken() if self._store else ():
            for account in (self._accounts[who].on(today), self._accounts[_EVERYBODY].on(today)):
                account.bytes += bytes
                account.records += records
                if day == today:
                    account.day_bytes += bytes
                    account.day_records += records

    def meter(self, host: str, server: Verifier | None) -> Meter:
        """Return what counts for one connection."""
        return Meter(self, host, server=server)

    def reserve(self, who: str, quota: Quota, records: Sequence[Record]) -> Reservation:
        """Reserve room for as many of these records as may be taken, in this order.

        It must be settled, whatever becomes of them. Where there would be room if others stored
        less than they have reserved, this waits until they have settled.
        """
        low = self._disk_is_low()
        if low is not None:
            return Reservation(who, self._today(), (), low)
        with self._settled:
            while True:
                today = self._today()
                fitting, short, why = self._fitting(who, quota, records, today)
                if short is None or not self._unsettled[short]:
                    break
                self._settled.wait()
            made = Reservation(who, today, records[:fitting], why)
            for name in (who, _EVERYBODY) if fitting else ():
                self._accounts[name].on(today).add(made.size, fitting)
                self._unsettled[name] += 1
        return made

    def _fitting(
        self, who: str, quota: Quota, records: Sequence[Record], today: int
    ) -> tuple[int, str | None, str]:
        """Return how many records may be taken, which account has no room for more, and why."""
        total = self.policy.limits.total
        mine, everybody = (replace(self._accounts[name].on(today)) for name in (who, _EVERYBODY))
        for number, record in enumerate(records):
            size = len(record.raw)
            for name, account, most, whose in (
                (who, mine, quota, "one peer"),
                (_EVERYBODY, everybody, total, "all peers"),
            ):
                what = account.over(most, size)
                if what is not None:
                    return number, name, f"{what} are taken from {whose}"
            mine.add(size, 1)
            everybody.add(size, 1)
        return len(records), None, ""

    def settle(self, reserved: Reservation, stored: Sequence[Record]) -> None:
        """Note what was stored of that for which room was reserved; the rest is given back."""
        if not reserved.records:
            return
        size = sum(len(record.raw) for record in stored)
        bytes, records = reserved.size - size, len(reserved.records) - len(stored)
        with self._settled:
            for name in (reserved.who, _EVERYBODY):
                self._accounts[name].give_back(reserved.day, bytes, records)
                self._unsettled[name] -= 1
                if not self._unsettled[name]:
                    del self._unsettled[name]
            self._settled.notify_all()
        if stored and self._store is not None:
            self._store.note_taken(reserved.who, reserved.day, size, len(stored))

    def _today(self) -> int:
        return to_ns(self._clock()) // _DAY

    def _disk_is_low(self) -> str | None:
        if self._folder is None:
            return None
        floor = self.policy.limits.free_mib
        free = shutil.disk_usage(self._folder).free
        return f"less than {floor} MiB are free on the disk" if free < floor * MIB else None


@dataclass(slots=True)
class Meter:
    """Counts what one connection gives, on the account of whoever is at its other end."""

    quotas: Quotas
    host: str
    peer: Verifier | None = None
    """Whom the other end has proven to be, if anybody."""
    refused_bytes: int = 0
    server: Verifier | None = None

    @property
    def takes(self) -> bool:
        """Whether anything of the peer is stored."""
        return self.quotas.policy.accepts(self.peer, self.server)

    def save(self, save: Save, records: Sequence[Record]) -> list[Outcome[Record]]:
        """Store what there is room for; the rest is refused, and too much of it is a failure."""
        policy = self.quotas.policy
        known = self.peer is not None and policy.names(self.peer)
        who = str(self.peer) if known else f"at {site_of(self.host)}"
        reserved = self.quotas.reserve(who, policy.quota_for(self.peer), records)
        taken, why = reserved.records, reserved.why
        rest, new = records[len(taken) :], []
        try:
            outcomes = save(taken)
            pairs = zip(taken, outcomes, strict=True)
            new = [record for record, outcome in pairs if outcome.status is Status.ACCEPTED]
        finally:
            self.quotas.settle(reserved, new)
        self.refused_bytes += sum(len(record.raw) for record in rest)
        if self.refused_bytes > FIXED.refused_bytes:
            raise StoreError(why, code=Code.SERVE_QUOTA)
        refused: Outcome[Record] = Outcome(Status.REFUSED, code=Code.SERVE_QUOTA, detail=why)
        return [*outcomes, *(refused for _ in rest)]


@dataclass(slots=True)
class MeteredAnswers(StoreAnswers):
    """Answers from a store that takes no more from a peer than its quota says."""

    meter: Meter | None = field(default=None)

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        if self.meter is None:
            return StoreAnswers.save(self, records)
        return self.meter.save(partial(StoreAnswers.save, self), records)

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated | Job]:
        """Answer, and ask a peer for nothing of whom nothing is stored."""
        for answer in StoreAnswers.evaluate(self, asked):
            if self._takes or isinstance(answer, Job):
                yield answer
            else:
                yield replace(answer, requestable=frozenset())

    def recall(self, asked: m.Recall) -> m.Recalled:
        return StoreAnswers.recall(self, replace(asked, link=self._name_of(asked.link)))

    def remember(self, told: m.Remember) -> None:
        StoreAnswers.remember(self, replace(told, link=self._name_of(told.link)))

    @property
    def _takes(self) -> bool:
        return self.meter is None or self.meter.takes

    def _name_of(self, link: bytes | None) -> bytes | None:
        """Keep apart how a link stood when nothing was asked for."""
        return link if link is None or self._takes else link + READ_ONLY


def site_of(host: str) -> str:
    """Return what stands for everybody at a network address."""
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host  # a Unix socket, or standard input and output
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Network((address, _SITE_BITS), strict=False))
    return str(address)
