"""A connection is driven as its docstring says: by anyone who can carry bytes."""

from __future__ import annotations

import inspect
import select
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
from wires import EVERYTHING, OPEN, ends, hashes, nonce, notes, run, store_of

from lace.answering.store import StoreAnswers
from lace.clock import tai_now
from lace.crypto import SigningKey
from lace.driving import connection as connection_module
from lace.driving.connection import Connection
from lace.errors import Code
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS, Limits
from lace.record import build_blob
from lace.recordstore.base import RecordStore
from lace.recordstore.sqlite import SqliteStore
from lace.stream.binding import Endpoint

KEY, OTHER = SigningKey(b"\x0d" * 32), SigningKey(b"\x0e" * 32)


def connection_of(
    store: RecordStore, *, accepting: bool, limits: Limits = DEFAULT_LIMITS
) -> Connection:
    endpoint = Endpoint(
        accepting=accepting, nonce=nonce(), addresses=("here",), key=KEY if accepting else OTHER
    )
    return Connection.over(
        endpoint, EVERYTHING, lambda side: StoreAnswers.of(store, side, OPEN, limits), limits=limits
    )


def drive(
    connection: Connection,
    stream: socket.socket,
    tell: Callable[[m.Event], None] = lambda _event: None,
    take: int = 65536,
) -> m.Closed | m.Aborted:
    """Run an exchange over a socket, in this thread, in the words of the docstring."""
    stream.setblocking(False)
    unsent, timer, deadline = bytearray(), None, 0.0
    while True:
        unsent += b"".join(connection.data_to_send())
        for event in connection.events():
            tell(event)
        if connection.ended is not None:
            break
        if connection.timer != timer:
            timer = connection.timer
            deadline = monotonic() + (timer.seconds if timer is not None else 10**6)
        wait = 0.0 if connection.has_work else max(0.0, deadline - monotonic())
        readable, writable, _ = select.select([stream], [stream] if unsent else [], [], wait)
        if writable:
            del unsent[: stream.send(unsent)]
        if connection.has_work:
            connection.work(tai_now())
        elif readable:
            if data := stream.recv(take):
                connection.receive_data(data, tai_now())
            else:
                connection.receive_eof(tai_now())
        elif not writable and timer is not None:
            connection.receive_timer(timer, tai_now())
    stream.settimeout(30)
    stream.sendall(unsent)
    stream.shutdown(socket.SHUT_WR)
    while stream.recv(take):
        pass
    return connection.ended


@pytest.mark.req("060-TRN-05", "060-TRN-01")
@pytest.mark.parametrize("take", [1000, 65536])
def test_two_laces_converge_over_a_pair_of_sockets(take: int, tmp_path: Path) -> None:
    """Signed records, and more bytes at once than both buffers have room for, both ways."""
    records = [*notes(120, key=KEY), *(build_blob(bytes([n]) * 700_000) for n in range(3))]
    others = [*notes(120, start=60, key=KEY), *(build_blob(b"%d" % n * 600_000) for n in range(3))]
    here, there = socket.socketpair()
    told: list[m.Event] = []
    with (
        SqliteStore(tmp_path / "one") as one,
        SqliteStore(tmp_path / "other") as other,
        ThreadPoolExecutor(1) as thread,
        here,
        there,
    ):
        one.save(records)
        other.save(others)
        accepting = connection_of(one, accepting=True)
        running = thread.submit(drive, accepting, here, told.append, take)
        ended = drive(connection_of(other, accepting=False), there, take=take)
        theirs = running.result(60)
        assert hashes(one) == hashes(other) == {record.hash for record in [*records, *others]}
    for end, peer in ((ended, KEY), (theirs, OTHER)):
        assert isinstance(end, m.Closed), end
        assert end.ending is m.Ending.FIXED_POINT
        assert end.result.peer == peer.verifier
    assert sum(isinstance(event, m.RecordSaved) for event in told) == len(theirs.result.received)
    assert told[-1] == theirs


@pytest.mark.req("050-ERR-11")
def test_its_timer_is_kept_by_the_driver(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    with SqliteStore(tmp_path / "one") as store, here, there:
        connection = connection_of(
            store, accepting=True, limits=replace(DEFAULT_LIMITS, phase_timeout=1)
        )
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(drive, connection, here)
            while there.recv(1000):  # says nothing, and takes what it is sent
                pass
            there.close()
            ended = running.result(30)
    assert isinstance(ended, m.Aborted)
    assert ended.code is Code.INTERLACE_TIMEOUT


def test_the_docstring_names_what_there_is_to_call() -> None:
    text = inspect.getdoc(connection_module) or ""
    called = (
        "data_to_send", "events", "ended", "has_work", "work", "receive_data", "receive_eof",
        "receive_timer", "timer", "sent", "receive",
    )  # fmt: skip
    for name in called:
        assert f"connection.{name}" in text or f"``{name}``" in text
        assert hasattr(Connection, name) or name == "ended"
    assert "timer.seconds" in text


def sketches(*nonces: str) -> list[bytes]:
    """Return the cells that two laces say who differ a little, on a connection with these nonces."""
    common = notes(100)
    stores = [store_of([*common, *notes(3, start=200 + 10 * side)]) for side in (0, 1)]
    both = ends(
        stores[0], stores[1],
        accepting={"nonce": nonces[0]}, connecting={"nonce": nonces[1]},
    )  # fmt: skip
    run(*both)
    assert hashes(stores[0]) == hashes(stores[1])
    said = bytes(both[0].sent + both[1].sent).splitlines()
    return [line for line in said if line.startswith(b"AdvertisementSketch(")]


def test_the_names_in_sketches_depend_on_the_nonces_of_both_sides() -> None:
    """Whoever chooses records, or one nonce, cannot choose their names."""
    first, second, third = nonce(), nonce(), nonce()
    said = sketches(first, second)
    assert said
    assert sketches(first, second) == said
    assert sketches(first, third) != said
    assert sketches(third, second) != said
    assert sketches(second, first) != said
