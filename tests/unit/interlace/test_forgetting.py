"""What is forgotten is gone at once, whatever rules still say of it, and stays gone for an exchange."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from exchanges import NOTES, note
from links import KEYS, Meeting, Stores, held, left_over, two_stores
from small_limits import hold_to

from lace.interlace import messages as m
from lace.limits import Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record import Record

#: What a note links to belongs too, whether it is here or not.
LINKED = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
    "SelectHave(T) :- Have(P), Field(P,'App',_,'notes'), RecordLink(P,'+Link',_,_,T).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
#: The first side sends, the second one never does.
ONE_WAY = module_from_text(
    f"SelectHave(P) :- Have(P), Here(V), V != '{KEYS[1].verifier}'.\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
#: Everything is offered, nothing is taken.
OFFER = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'never').\n"
)
EVIDENCE = note(1, app="evidence")


def citing(number: int, target: Record) -> Record:
    return note(number, extras=[("+Link", f"evidence {target.hash}")])


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    with two_stores(request.param, tmp_path) as made:
        yield made


@pytest.mark.req("050-SND-01", "050-STA-06", "050-CUR-03")
@pytest.mark.parametrize("default", ["selected", "everything"])
@pytest.mark.parametrize("others", [0, 30])
def test_what_rules_still_select_is_not_advertised_once_it_is_gone(
    stores: Stores, others: int, default: str
) -> None:
    exposure = Exposure(default=default)  # type: ignore[arg-type]
    more = [note(1000 + i, app="evidence") for i in range(others)]
    cited = [citing(3000 + i, record) for i, record in enumerate(more)]
    stores[0].save([EVIDENCE, citing(2, EVIDENCE), *more, *cited])
    meeting = Meeting(stores, (LINKED, LINKED), stays=True, exposure=exposure)
    assert held(stores[0]) == held(stores[1])
    stores[0].forget([EVIDENCE.hash])
    meeting.wake()
    assert (EVIDENCE.hash,) in meeting.pair.left.local.policy.may_send  # type: ignore[union-attr]
    assert meeting.advertised(0) == meeting.believed(1) == held(stores[0])
    # It is gone on the other side too, which has no reason to ask for it any more.
    stores[1].forget([EVIDENCE.hash])
    meeting.wake()
    assert meeting.change(1, LINKED).idle
    assert meeting.results(1)[-1].not_available == ()
    assert EVIDENCE.hash not in held(stores[1])
    meeting.end()


@pytest.mark.req("050-SND-01", "050-SND-02", "050-COR-08")
def test_the_next_change_in_the_same_partition_goes_through(stores: Stores) -> None:
    """A record that was summarised, but could not be listed, would end an honest exchange."""
    stores[0].save([EVIDENCE, citing(2, EVIDENCE)])
    meeting = Meeting(stores, (LINKED, LINKED), stays=True)
    stores[0].forget([EVIDENCE.hash])
    meeting.wake()
    beside = next(n for n in map(note, range(10**5)) if n.hash[2:4] == EVIDENCE.hash[2:4])
    stores[0].save([beside])
    meeting.wake()
    assert stores[1].has(beside.hash)
    assert meeting.advertised(0) == meeting.believed(1) == held(stores[0])
    meeting.end()


@pytest.mark.req("050-REQ-01", "050-OPN-02")
@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("module", [ONE_WAY, NOTES], ids=["one way", "both ways"])
def test_an_exchange_does_not_bring_back_what_was_forgotten_in_it(
    stores: Stores, module: PolicyModule, remembers: bool
) -> None:
    modules = module, module
    stores[0].save([note(i) for i in range(3)])
    Meeting(stores, modules, remembers=remembers).end()
    meeting = Meeting(stores, modules, remembers=remembers, stays=True)
    stores[1].forget([note(1).hash])
    before = len(meeting.facts(1, "MayRequest"))
    meeting.wake()
    stores[0].save([note(7)])  # the exchange goes on for another reason
    meeting.wake()
    assert meeting.change(1, module).idle
    assert held(stores[1]) == {note(0).hash, note(2).hash, note(7).hash}
    assert [note(1).hash in line for line in meeting.facts(1, "MayRequest")[before:]] == [False]
    # Nothing of what the peer advertises was unlearned for that.
    assert meeting.believed(1) == held(stores[0])
    meeting.end()
    Meeting(stores, modules, remembers=remembers).end()
    assert stores[1].has(note(1).hash)  # the next exchange may
    assert left_over(stores, modules) == [(), ()]


@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("module", [ONE_WAY, NOTES, LINKED], ids=["one way", "both ways", "linked"])
def test_what_is_forgotten_for_good_is_not_asked_for_until_it_is_remembered(
    stores: Stores, module: PolicyModule, remembers: bool
) -> None:
    modules = module, module
    stores[0].save([note(i) for i in range(3)])
    Meeting(stores, modules, remembers=remembers).end()
    stores[1].forget([note(1).hash, note(9).hash], for_good=True)
    for number in (8, 9):  # with something new, and something that never was there
        stores[0].save([note(number)])
        meeting = Meeting(stores, modules, remembers=remembers).end()
        assert not any(
            note(n).hash in line for line in meeting.facts(1, "MayRequest") for n in (1, 9)
        )
        assert held(stores[1]) == {note(n).hash for n in (0, 2, 8)}
        assert meeting.results(1)[-1].rejected == ()
    again = Meeting(stores, modules, remembers=remembers).end()
    assert [len(result.received) for side in (0, 1) for result in again.results(side)] == [0, 0]
    assert stores[1].remember([note(1).hash]) == 1
    Meeting(stores, modules, remembers=remembers).end()
    assert held(stores[1]) == {note(n).hash for n in (0, 1, 2, 8)}
    assert left_over(stores, modules)[0] == ()


def test_what_is_forgotten_for_good_on_its_way_here_is_refused_once(stores: Stores) -> None:
    """What is wanted is kept with the link; what is forgotten for good meanwhile is not."""
    late = note(4)
    stores[0].save([note(1), late])

    def forgetting(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if side == 1 and isinstance(crossing, m.PeerFacts) and b"MayRequest" in crossing.content:
            stores[1].forget([late.hash], for_good=True)
        return [crossing]

    first = Meeting(stores, tamper=forgetting).end()
    assert first.results(1)[-1].rejected == (late.hash,)
    for _ in range(2):
        meeting = Meeting(stores).end()
        assert not any(late.hash in line for line in meeting.facts(1, "MayRequest"))
        assert held(stores[1]) == {note(1).hash}
    stores[1].remember([late.hash])
    Meeting(stores).end()
    assert held(stores[1]) == {note(1).hash, late.hash}


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
@pytest.mark.parametrize("module", [ONE_WAY, NOTES], ids=["one way", "both ways"])
def test_nor_does_it_when_more_is_forgotten_at_once_than_a_store_keeps_track_of(
    stores: Stores, module: PolicyModule, is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_to(monkeypatch, forgotten=3)
    notes = [note(i) for i in range(12)]
    stores[0].save(notes)
    if not is_first:
        Meeting(stores, (module, module)).end()
    meeting = Meeting(stores, (module, module), stays=True)
    if not is_first and module is ONE_WAY:  # so that this side has looked at its records
        stores[1].save([note(50, app="other")])
        meeting.wake()
    stores[1].forget([record.hash for record in notes[:5]])
    meeting.wake()
    stores[0].save([note(60)])
    meeting.wake()
    assert meeting.idle
    assert not held(stores[1]) & {record.hash for record in notes[:5]}
    assert stores[1].has(note(60).hash)
    meeting.end()


@pytest.mark.req("050-CUR-03", "050-REC-02", "050-LIM-04")
@pytest.mark.parametrize("many", [1, 3, 12])
@pytest.mark.parametrize("summaries", [0, 2, 16_384])
@pytest.mark.parametrize("coarse", [True, False])
def test_that_nothing_is_left_is_said_under_any_limit_of_summaries(
    stores: Stores, summaries: int, many: int, coarse: bool
) -> None:
    """A listing of nothing says nothing, and saying nothing says that nothing changed."""
    drafts = [note(i, app="drafts") for i in range(many)]
    stores[0].save(drafts)
    limits = Limits(max_partition_summaries=summaries)
    meeting = Meeting(stores, (OFFER, OFFER), stays=True, limits=limits, coarse=coarse)
    assert meeting.believed(1) == held(stores[0])
    stores[0].forget([draft.hash for draft in drafts[1:]])
    meeting.wake()
    assert meeting.believed(1) == held(stores[0])
    stores[0].forget([drafts[0].hash])
    meeting.wake()
    assert meeting.believed(1) == meeting.advertised(0) == set()
    stores[0].save(drafts)
    meeting.wake()
    assert meeting.believed(1) == held(stores[0])
    meeting.end()
