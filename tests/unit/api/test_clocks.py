"""Time moves in exchanges of applications, however they are driven."""

from __future__ import annotations

import asyncio

import pytest
from exchanges import AUTHORITY, BOB, note
from links import later

import lace
from lace.api import interlaces
from lace.api.handles import store_of
from lace.policy.module import Facet, module_from_text
from lace.tai import Tai

NOTES = "//notes-demo//notes//"
UNTIL_20 = module_from_text(
    f"AllowQueryRecord(V,P) :- Have(P), Peer(V), TickTAI(T), LexCompare(T,'<','{later(20)}').",
    Facet.EXPOSE,
)


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> Tai:
        return later(self.seconds)


@pytest.mark.req("050-TIC-09", "000-API-10")
def test_by_hand_an_exposure_ends_when_its_time_is_over() -> None:
    with (
        lace.open(records=[note(1)], key=AUTHORITY) as left,
        lace.open(key=BOB) as right,
    ):
        clock = Clock()
        stepped = lace.SteppedInterlace(left, right, NOTES, expose=UNTIL_20, clock=clock)

        def step(seconds: float = 0) -> None:
            clock.seconds += seconds
            for _ in range(200):
                stepped.try_next_event()

        step()
        assert store_of(right).has(note(1).hash)
        for _ in range(5):
            step(4.9)
        store_of(left).save([note(2)])
        step()
        assert not store_of(right).has(note(2).hash)
        stepped.close()


@pytest.mark.req("050-TIC-09", "000-API-08")
def test_an_open_interlace_ends_an_exposure_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(interlaces, "tai_now", clock)
    monkeypatch.setattr(interlaces, "_POLL_SECONDS", 0.01)

    async def test() -> None:
        with (
            lace.open(records=[note(1)], key=AUTHORITY) as left,
            lace.open(key=BOB) as right,
        ):
            live = await lace.open_interlace(
                left, right, NOTES, expose=UNTIL_20, their_expose="selected"
            )
            assert (await live.fixed_point()).sent == (note(1).hash,)
            clock.seconds = 25
            await live.fixed_point()  # a tick was reached
            await lace.store(left, [note(2)])
            await lace.store(right, [note(3)])  # this one still comes
            while not store_of(left).has(note(3).hash):
                await asyncio.sleep(0.01)
            assert not store_of(right).has(note(2).hash)
            await live.close()

    asyncio.run(asyncio.wait_for(test(), 30))
