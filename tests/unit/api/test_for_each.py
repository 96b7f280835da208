"""Iterating over what is selected, while records come and go, and while the lace is closed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import forge
import pytest
from exchanges import AUTHORITY, BOB, note
from small_room import room

import lace
from lace import blocking
from lace.api.handles import store_of
from lace.ids import RecordHash
from lace.policy.module import module_from_text
from lace.recordstore.base import RecordStore

ROOM = room("//g//notes//", authority=AUTHORITY.verifier)
UNLESS_BUSY = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes'), not Busy().\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    "Busy() :- Have(P), Field(P,'App',_,'busy').\n"
)
NOTES = "//notes-demo//notes//"
Complaints = list[dict[str, Any]]


def made(app: str, name: str, signer: lace.SigningKey, *extras: tuple[str, str]) -> lace.Record:
    plex = lace.build_plex(group="g", app=app, name=name, tai=f"{1:010d}:{0:09d}", extras=extras)
    return lace.seal(plex, signer, aux=forge.AUX)


GRANT = made("notes/member", "bob", AUTHORITY, ("Member", BOB.verifier))


def message(number: int) -> lace.Record:
    return made("notes/message", f"x{number}", BOB)


def run(test: Callable[[Complaints], Awaitable[None]]) -> None:
    """Run a test to its end, and fail if anything was left to complain in the background."""
    complaints: Complaints = []

    async def all_of_it() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))
        async with asyncio.timeout(30):
            await test(complaints)
        for _ in range(5):  # what was scheduled on leaving gets its turn
            await asyncio.sleep(0)

    asyncio.run(all_of_it())
    assert complaints == []


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "notes.lace"


async def wait_for_a_watcher(store: RecordStore) -> None:
    while not store._listeners._listeners:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)


@pytest.mark.req("000-API-07")
def test_what_belongs_only_by_forgotten_evidence_is_not_yielded(place: Path | None) -> None:
    async def test(_complaints: Complaints) -> None:
        with lace.open(place, records=[GRANT, message(1)]) as local:
            store, seen = store_of(local), []
            async with aclosing(lace.for_each(local, ROOM)) as records:
                async for record in records:
                    seen.append(record.hash)
                    if len(seen) == 2:
                        store.forget([GRANT.hash])
                        store.save([message(2)])
                        # Only this one is left to wait for.
                        other = lace.SigningKey(b"o" * 32)
                        again = made("notes/member", "o", AUTHORITY, ("Member", other.verifier))
                        store.save([again])
                    if len(seen) == 3:
                        break
            selected = {record.hash for record in await lace.list(local, ROOM)}
            assert set(seen[:2]) == {GRANT.hash, message(1).hash}
            assert set(seen[2:]) == selected
            assert message(2).hash not in seen

    run(test)


@pytest.mark.req("000-API-07")
def test_what_is_forgotten_before_its_turn_is_passed_over(place: Path | None) -> None:
    async def test(_complaints: Complaints) -> None:
        with lace.open(place, records=[note(i) for i in range(5)]) as local:
            seen: list[str] = []
            async with aclosing(lace.for_each(local, NOTES)) as records:
                async for record in records:
                    seen.append(record.hash)
                    if len(seen) == 1:
                        store_of(local).forget([note(1).hash, note(2).hash])
                        store_of(local).save([note(2)])  # gone, and here again
                    if len(seen) == 4:
                        store_of(local).forget([note(0).hash])
                        store_of(local).save([note(0), note(9)])  # each is yielded once
                    if len(seen) == 5:
                        break
            assert sorted(seen) == sorted(note(i).hash for i in (0, 2, 3, 4, 9))

    run(test)


@pytest.mark.req("000-API-07")
def test_what_is_forgotten_while_it_is_read_is_passed_over(
    place: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read in another thread, and the present goes on meanwhile."""

    async def test(_complaints: Complaints) -> None:
        with lace.open(place, records=[note(1), note(2)]) as local:
            store = store_of(local)
            real, gone = store.load, []

            def load(hash: RecordHash) -> lace.Record | None:
                found = real(hash)
                if hash in {note(1).hash, note(3).hash}:
                    gone.append(hash)
                    store.forget([hash])
                return found

            monkeypatch.setattr(store, "load", load)
            seen: list[str] = []
            async with aclosing(lace.for_each(local, NOTES)) as records:
                async for record in records:
                    seen.append(record.hash)
                    if len(seen) == 1:
                        store.save([note(3), note(4)])
                    else:
                        break
            assert seen == [note(2).hash, note(4).hash]
            assert gone == [note(1).hash, note(3).hash]

    run(test)


@pytest.mark.req("000-API-07")
def test_what_a_forgotten_record_kept_away_is_yielded(place: Path | None) -> None:
    async def test(_complaints: Complaints) -> None:
        with lace.open(place, records=[note(1), note(1, app="busy")]) as local:

            async def first() -> str:
                async with aclosing(lace.for_each(local, UNLESS_BUSY)) as records:
                    async for record in records:
                        return record.hash
                raise AssertionError("it ended")

            task = asyncio.create_task(first())
            await wait_for_a_watcher(store_of(local))
            assert not task.done()
            store_of(local).forget([note(1, app="busy").hash])
            assert await task == note(1).hash

    run(test)


def test_it_may_be_left_inside_the_block_of_its_lace(place: Path | None) -> None:
    async def test(_complaints: Complaints) -> None:
        async with lace.open(place, records=[note(1)]) as local:
            async for record in lace.for_each(local, NOTES):
                assert record.hash == note(1).hash
                break

    run(test)


@pytest.mark.parametrize("first", ["cancelled", "closed"])
def test_it_may_be_cancelled_and_its_lace_closed_in_any_order(
    place: Path | None, first: str
) -> None:
    async def test(_complaints: Complaints) -> None:
        local = lace.open(place, records=[note(1)])
        seen: list[str] = []

        async def watch() -> None:
            async for record in lace.for_each(local, NOTES):
                seen.append(record.hash)  # noqa: PERF401 (it never ends by itself)

        task = asyncio.create_task(watch())
        await wait_for_a_watcher(store_of(local))
        if first == "closed":
            local.close()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        local.close()
        assert seen == [note(1).hash]

    run(test)


def test_a_lace_that_is_closed_while_it_is_watched_is_said_to_be_closed(tmp_path: Path) -> None:
    async def test(_complaints: Complaints) -> None:
        local = lace.open(tmp_path / "notes.lace", records=[note(1)])

        async def watch() -> None:
            async for _record in lace.for_each(local, NOTES):
                pass

        task = asyncio.create_task(watch())
        await wait_for_a_watcher(store_of(local))
        local.close()
        with pytest.raises(lace.UsageError, match="this lace was closed"):
            await task

    run(test)


@pytest.mark.parametrize("closes", ["left", "right", "both"])
def test_laces_may_be_closed_while_they_interlace(closes: str) -> None:
    async def test(_complaints: Complaints) -> None:
        left, right = lace.open(records=[note(1)]), lace.open()
        live = await lace.open_interlace(right, left, NOTES)
        await live.fixed_point()
        for name, local in (("left", left), ("right", right)):
            if closes in {name, "both"}:
                local.close()
        await live.close()
        assert isinstance([event async for event in live][-1], lace.Closed)

    run(test)


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_a_script_iterates_too(tmp_path: Path, in_a_loop: bool) -> None:
    """Each record once, also one that comes meanwhile; leaving the loop leaves no thread behind."""

    def script() -> list[str]:
        before = threading.active_count()
        with lace.open(tmp_path / "n.lace") as local:
            blocking.store(local, [note(1)])
            came: list[str] = []
            for record in blocking.for_each(local, NOTES):
                came.append(record.hash)
                if len(came) == 2:
                    break
                blocking.store(local, [note(2)])
        assert threading.active_count() == before
        return came

    async def cell() -> list[str]:
        return script()

    assert (asyncio.run(cell()) if in_a_loop else script()) == [note(1).hash, note(2).hash]


def test_a_script_that_waits_can_be_interrupted(tmp_path: Path) -> None:
    """As with Ctrl-C: what waits in another thread does not hold up the one that wants to stop."""
    program = (
        "import lace, sys\n"
        "from lace import blocking\n"
        "with lace.open(sys.argv[1]) as local:\n"
        "    print('waiting', flush=True)\n"
        "    for record in blocking.for_each(local, '//g//notes//'):\n"
        "        print(record)\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "n.lace")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline() == b"waiting\n"
        ran.send_signal(signal.SIGINT)
        _, told = ran.communicate(timeout=30)
    assert ran.returncode != 0
    assert told.strip().endswith(b"KeyboardInterrupt")


def test_results_are_short_to_look_at() -> None:
    with lace.open(records=[note(1), note(2)]) as local, lace.open() as other:
        result = blocking.sync(other, local, NOTES)
        assert repr(result) == (
            "<InterlaceResult 2 received, 0 sent, 0 rejected, 2 offered, peer None>"
        )
        table = lace.Projection.of([note(number) for number in range(200)], ["Name"])
        assert repr(table) == str(table)
        assert len(repr(table).splitlines()) < 120
