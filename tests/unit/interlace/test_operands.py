"""Selectors that change: at any moment, also back, and whatever was known of the link before."""

from __future__ import annotations

import pytest
from exchanges import NOTES, NOW, note
from links import EVERYTHING, GRANTED, TAG, Meeting, copied, held, left_over

from lace.answering.warm import WarmLinks
from lace.interlace import messages as m
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore
from lace.selectors import selector

TASKS = selector("//notes-demo//tasks//")
#: Offers notes, takes nothing.
NOTES_ONLY_OUT = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'never').\n"
)
#: Offers tasks only to a peer that advertises a note.
SHY = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'tasks'), Advertised(Q,S),"
    " AdvertisedField(Q,S,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
OPEN = Exposure(default="everything")


def plans(meeting: Meeting) -> list[object]:
    return [meeting.results(side)[-1].plan for side in (0, 1)]


def agree(meeting: Meeting) -> None:
    """Fail unless each side knows exactly what the other one advertises, and that is all it has."""
    assert meeting.idle, [side.told[-1] for side in meeting.pair.sides]
    for side, connection in enumerate(meeting.pair.sides):
        policy = connection.local.policy
        if policy is not None:
            sendable = {row[0] for row in policy.may_send} & held(connection.store)
            assert meeting.advertised(side) == sendable
        assert meeting.believed(side) == meeting.advertised(1 - side)


@pytest.mark.req("050-EPO-01", "050-EPO-02", "050-COR-08")
@pytest.mark.parametrize("is_warm", [False, True], ids=["from the store", "at hand"])
@pytest.mark.parametrize("changes", [0, 1])
def test_an_exchange_that_began_with_nothing_to_do_may_change_its_operand(
    changes: int, is_warm: bool
) -> None:
    warm = (WarmLinks(), WarmLinks()) if is_warm else None
    stores = MemoryStore(), MemoryStore()
    stores[0].save([*(note(i) for i in range(20)), *(note(i, app="tasks") for i in range(3))])
    Meeting(stores, warm=warm).end()
    meeting = Meeting(stores, stays=True, warm=warm)
    before = plans(meeting)
    said = [len(meeting.facts(side, "ExchangeOperand")) for side in (0, 1)]
    meeting.change(changes, EVERYTHING)
    agree(meeting)
    after = plans(meeting)
    assert after[0] == after[1]
    assert after[0] not in before
    assert [len(meeting.facts(side, "ExchangeOperand")) for side in (0, 1)] == [
        number + 1 for number in said
    ]
    assert stores[1].count() == 20  # the other side still selects notes alone
    meeting.change(1 - changes, EVERYTHING)
    agree(meeting)
    assert held(stores[0]) == held(stores[1])
    assert stores[1].count() == 23
    meeting.end()


@pytest.mark.req("050-EPO-02", "050-CUR-01")
@pytest.mark.parametrize("steps", range(8))
def test_what_was_known_under_one_plan_is_not_known_under_another(steps: int) -> None:
    """As a server does, which changes its operand as soon as a peer has proven who it is."""
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(1, app="tasks")])
    stores[1].save([note(2)])
    modules = NOTES_ONLY_OUT, EVERYTHING
    Meeting(stores, modules, exposure=OPEN).end()
    stores[1].forget([note(2).hash])  # it has no notes any more
    stores[0].save([note(9, app="other", group="x")])

    def change(stores: tuple[MemoryStore, MemoryStore]) -> Meeting:
        meeting = Meeting(stores, modules, exposure=OPEN, stays=True, runs=False)
        if not steps:
            meeting.pair.give(0, m.OperandChanged(SHY), NOW)
        meeting.pair.start(NOW)
        for number in range(1, steps + 1):
            meeting.pair.step(NOW)
            if number == steps:
                meeting.pair.give(0, m.OperandChanged(SHY), NOW)
        meeting.pair.run(NOW)
        return meeting

    fresh = copied(stores[0]), copied(stores[1])
    for chosen in (stores, fresh):
        meeting = change(chosen)
        agree(meeting)
        assert meeting.believed(0) == set()
        assert not chosen[1].has(note(1, app="tasks").hash)  # nobody advertised a note
        meeting.end()


@pytest.mark.req("050-EPO-01", "050-EPO-02", "050-EPO-04")
@pytest.mark.parametrize("changes", [0, 1])
@pytest.mark.parametrize("steps", range(12))
def test_a_selector_may_be_changed_back_at_any_moment(steps: int, changes: int) -> None:
    stores = MemoryStore(), MemoryStore()
    meeting = Meeting(stores, stays=True)
    stores[1].save([note(1)])
    meeting.wake()
    assert stores[0].has(note(1).hash)
    there_and_back(meeting, changes, TASKS, NOTES, steps)
    agree(meeting)
    assert meeting.believed(0) == {note(1).hash}
    stores[0].forget([note(1).hash])
    stores[1].save([note(2)])
    meeting.wake()
    agree(meeting)
    assert stores[0].has(note(2).hash)
    meeting.end()


@pytest.mark.req("050-EPO-02", "050-EPO-04", "050-COR-08")
@pytest.mark.parametrize("changes", [0, 1])
@pytest.mark.parametrize("steps", range(12))
def test_what_is_wanted_only_later_is_still_known_after_a_change_and_back(
    steps: int, changes: int
) -> None:
    stores = MemoryStore(), MemoryStore()
    offered = note(1, extras=TAG)
    stores[1].save([offered])
    modules = GRANTED, EVERYTHING
    meeting = Meeting(stores, modules, stays=True)
    there_and_back(meeting, changes, TASKS, modules[changes], steps)
    agree(meeting)
    assert not stores[0].has(offered.hash)
    stores[0].save([note(2, app="grant", extras=TAG)])
    meeting.wake()
    agree(meeting)
    assert stores[0].has(offered.hash)
    meeting.end()
    assert left_over(stores, modules) == [(), ()]


def there_and_back(
    meeting: Meeting, side: int, there: PolicyModule, back: PolicyModule, steps: int
) -> None:
    """Change an operand, and change it back after so many deliveries."""
    meeting.pair.give(side, m.OperandChanged(there), NOW)
    for _ in range(steps):
        meeting.pair.step(NOW)
    meeting.change(side, back)


@pytest.mark.req("050-EPO-04", "050-CUR-01")
@pytest.mark.parametrize("proven", [True, False], ids=["remembers", "remembers nothing"])
@pytest.mark.parametrize("changes", [0, 1])
def test_the_same_operand_again_costs_a_summary_and_no_listing(changes: int, proven: bool) -> None:
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(i) for i in range(30)])
    stores[1].save([note(i, app="drafts") for i in range(30)])
    never = module_from_text(
        "SelectHave(P) :- Have(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'never').\n"
    )
    meeting = Meeting(stores, (never, never), stays=True, remembers=proven)
    crossed, plan = len(meeting.crossed), plans(meeting)
    meeting.change(changes, never)
    agree(meeting)
    assert plans(meeting) == plan
    said = [c.content for _, c in meeting.crossed[crossed:] if isinstance(c, m.PeerFacts)]
    assert not [content for content in said if b"Advertised(" in content]
    tables = [content for content in said if content.startswith(b"AdvertisementTable(")]
    assert [content.count(b"\n") for content in tables] == [1, 1]
    assert not [content for content in said if b"Partition(" in content]
    assert not meeting.results(changes)[-1].cursor_updated
    meeting.end()


@pytest.mark.req("050-EPO-04", "050-CUR-03")
@pytest.mark.parametrize("coarse", [True, False])
@pytest.mark.parametrize("changes", [0, 1])
@pytest.mark.parametrize("rest", [0, 1, 12])
def test_the_same_operand_again_tells_of_all_that_is_left(
    rest: int, changes: int, coarse: bool
) -> None:
    stores = MemoryStore(), MemoryStore()
    drafts = [note(i, app="drafts") for i in range(30)]
    stores[0].save(drafts)
    never = module_from_text(
        "SelectHave(P) :- Have(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'never').\n"
    )
    meeting = Meeting(stores, (never, never), stays=True, coarse=coarse)
    stores[0].forget([draft.hash for draft in drafts[rest:]])
    meeting.change(changes, never)  # it is heard of in the same phase
    agree(meeting)
    assert meeting.believed(1) == held(stores[0])
    meeting.end()
