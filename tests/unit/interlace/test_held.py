"""What a machine says that it holds is no less than what it holds."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from exchanges import NOTES, NOW, aborted, note, participant
from traffic import Tap

from lace import b64a
from lace.codes import Code
from lace.crypto.native import digest
from lace.driving.pair import interlace
from lace.interlace import messages as m
from lace.interlace.hearing import Hearing, Terms
from lace.interlace.partition import Partitions
from lace.interlace.phases import Phase, Phases
from lace.interlace.places import Listed
from lace.limits import DEFAULT_LIMITS
from lace.policy.origin import SourceLabel
from lace.tai import Tai

SOURCE = SourceLabel("Opq_x")
COUNT = 300


def grown(make: Callable[[], object]) -> int:
    """Return how many bytes it takes to hold what is made."""
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        del made


def hearing(phase: Phase) -> Hearing:
    return Hearing(participant(0, [], NOTES).machine._side, Phases(phase))


def heard(lines: list[str], phase: Phase) -> Hearing:
    made = hearing(phase)
    terms = Terms(lambda name: getattr(DEFAULT_LIMITS, name), SOURCE)
    for at in range(0, len(lines), 10):
        made.take(m.PeerFacts("".join(lines[at : at + 10]).encode()), terms)
    return made


def field(number: int, value: str, name: str = "n") -> str:
    return f"AdvertisedField('P.{number:04d}.X','{SOURCE}','{name}','{number}','{value}')\n"


def name(number: int) -> str:
    return f"P.{b64a.encode(digest(str(number).encode()))}.H3"


LINES = {
    "short": [field(n, "v") for n in range(COUNT)],
    "long": [field(n, f"{n}" + "v" * 1000, "n" * 1000) for n in range(COUNT)],
    "accents": [field(n, f"{n}" + "é" * 500) for n in range(COUNT)],
    "signs": [field(n, f"{n}" + "雪" * 330) for n in range(COUNT)],
    "one sign of four bytes": [field(n, f"{n}𐍈" + "v" * 1000) for n in range(COUNT)],
    "records": [f"Advertised('{name(n)}','{SOURCE}')\n" for n in range(COUNT)],
    "records with long fields": [
        f"Advertised('{name(n)}','{SOURCE}')\n"
        f"AdvertisedField('{name(n)}','{SOURCE}','{n}{'n' * 500}','0','{n}{'v' * 500}')\n"
        for n in range(COUNT)
    ],
    "questions": [f"ListAdvertisementItems('{n:04d}{'0' * 956}')\n" for n in range(COUNT)],
}


@pytest.mark.parametrize("kind", LINES)
def test_what_a_phase_has_said_counts_with_its_length(kind: str) -> None:
    phase = Phase.ASK if kind == "questions" else Phase.ADVERTISE
    lines = LINES[kind]
    counted = heard(lines, phase).memory
    nothing = grown(lambda: hearing(phase))
    assert counted >= 0.95 * (grown(lambda: heard(lines, phase)) - nothing)
    assert counted <= 10 * sum(map(len, lines))


@pytest.mark.parametrize("length", [3, 100, 1000])
def test_names_of_other_formats_count_with_their_length(length: int) -> None:
    def made() -> Partitions:
        table = Partitions()
        for n in range(COUNT):
            table.put({f"P.{n:04d}{'a' * length}.X": digest(b"x")})
        return table

    table = made()
    assert table.memory >= grown(made) - grown(Partitions)
    table.put({f"P.0000{'a' * length}.X": digest(b"y")})  # it is there
    table.remove(list(table.records("")))
    assert table.memory == 0


@pytest.mark.parametrize("length", [3, 43, 1000])
def test_names_that_have_places_count_with_their_length(length: int) -> None:
    def made() -> Listed:
        listed = Listed(COUNT)
        listed.add(f"P.{n:04d}{'a' * length}.X" for n in range(COUNT))
        return listed

    listed = made()
    counted = listed.memory
    assert counted >= grown(made) - grown(lambda: Listed(COUNT))
    listed.add([f"P.0000{'a' * length}.X"])
    assert listed.memory == counted
    listed.add(["P.b.X"])  # one too many
    assert (len(listed), listed.memory) == (0, 0)


def test_a_machine_holds_what_was_said_until_it_has_ended() -> None:
    """An exchange that was ended may stay for a while, until its peer has gone."""
    held: list[int] = []

    def change(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if side == 1 and isinstance(crossing, m.PeerFacts) and b"Advertised(" in crossing.content:
            source = crossing.content.split(b"'")[3].decode()
            long = "".join(LINES["long"]).replace(SOURCE, source)
            return [crossing, m.PeerFacts(long.encode())]  # fields of no record
        return [crossing]

    left, right = participant(0, []), participant(1, [note(1)])
    receive = left.machine.receive

    def listen(given: m.Input, now: Tai) -> list[m.Effect]:
        effects = receive(given, now)
        held.append(left.machine.held)
        return effects

    left.machine.receive = listen  # type: ignore[method-assign]
    interlace(left, right, NOW, Tap(change))
    assert aborted(left) is Code.INTERLACE_BLOCK
    assert max(held) >= sum(map(len, LINES["long"])) + COUNT * 300
    assert held[-1] < 10_000
