"""A selection that follows its store is at each moment what an evaluation from scratch selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import forge
import pytest
from effort import examples
from exchanges import AUTHORITY, BOB, EVE, note
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from links import EVERYTHING, copied, held
from small_limits import hold_to
from small_room import room

from lace.answering.selection import Selection
from lace.crypto import SigningKey
from lace.errors import LimitExceeded
from lace.limits import Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.record import Record, build_plex, seal
from lace.recordstore import MemoryStore, SqliteStore
from lace.recordstore.base import RecordStore
from lace.recordstore.memory import MemorySnapshot
from lace.selectors import selector, with_support

ROOM = room("//g//notes//", authority=AUTHORITY.verifier, delegation=True, revocation_app="ended")
LINKED = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes/message').\n"
    "SelectHave(T) :- Have(P), Field(P,'App',_,'notes/message'), RecordLink(P,_,_,_,T).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
UNLESS_BUSY = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes/message'), not Busy().\n"
    "Busy() :- Have(P), Field(P,'App',_,'notes/ended').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
MODULES = {
    "everything": EVERYTHING, "prefix": selector("//g//notes/message//"), "room": ROOM,
    "links": LINKED, "support": with_support(selector("//g//notes/message//")),
    "unless": UNLESS_BUSY,
}  # fmt: skip


def made(app: str, name: str, signer: SigningKey, *extras: tuple[str, str]) -> Record:
    plex = build_plex(group="g", app=app, name=name, tai=f"{1:010d}:{0:09d}", extras=extras)
    return seal(plex, signer, aux=forge.AUX)


GRANT = made("notes/member", "bob", AUTHORITY, ("Member", BOB.verifier))
PASSED_ON = made("notes/member", "eve", BOB, ("Member", EVE.verifier))
ENDED = made("notes/ended", "bob", AUTHORITY, ("Member", BOB.verifier))
FIRST = made("notes/message", "1", BOB)
SECOND = made("notes/message", "2", EVE, ("+Link", f"evidence {FIRST.hash}"))
THIRD = made("notes/message", "3", BOB, ("+Link", f"evidence {PASSED_ON.hash}"))
RECORDS = [GRANT, PASSED_ON, ENDED, FIRST, SECOND, THIRD, note(1), note(2, app="other")]
DEED = st.tuples(st.sampled_from(["save", "forget"]), st.sets(st.integers(0, 7), min_size=1))
Deed = tuple[str, set[int]]

STORES: dict[str, Callable[[Path], RecordStore]] = {
    "memory": lambda _folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "s.lace"),
}


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordStore]:
    opened = STORES[request.param](tmp_path)
    yield opened
    opened.close()


def do(store: RecordStore, deed: Deed) -> None:
    kind, numbers = deed
    chosen = [RECORDS[number] for number in sorted(numbers)]
    if kind == "save":
        store.save(chosen)
    else:
        store.forget([record.hash for record in chosen])


@pytest.mark.req("000-API-07", "050-STA-06")
def test_evidence_that_was_forgotten_counts_no_longer(store: RecordStore) -> None:
    store.save([GRANT, FIRST])
    selection = Selection(store, ROOM)
    assert selection.hashes() == {GRANT.hash, FIRST.hash}
    store.forget([GRANT.hash])
    store.save([THIRD])
    assert selection.update() == set()
    assert selection.hashes() == set()
    assert selection.records() == []
    assert FIRST.hash not in selection
    store.save([GRANT])
    assert selection.update() == {GRANT.hash, FIRST.hash, THIRD.hash}
    assert {record.hash for record in selection.records()} == selection.hashes()


@pytest.mark.req("000-API-07")
def test_a_record_may_be_selected_before_it_is_here_and_after_it_is_gone(
    store: RecordStore,
) -> None:
    store.save([SECOND])
    selection = Selection(store, LINKED)
    assert selection.hashes() == {SECOND.hash}  # FIRST is selected, and is not here
    store.save([FIRST])
    assert selection.update() == {FIRST.hash}
    store.forget([FIRST.hash])
    assert selection.update() == set()
    assert FIRST.hash not in selection
    store.save([FIRST])
    assert selection.update() == {FIRST.hash}


def test_what_was_forgotten_may_make_others_belong(store: RecordStore) -> None:
    store.save([ENDED, FIRST])
    selection = Selection(store, UNLESS_BUSY)
    assert selection.hashes() == set()
    store.forget([ENDED.hash])
    assert selection.update() == {FIRST.hash}


def test_a_limit_that_stops_an_update_leaves_everything_as_it_was(store: RecordStore) -> None:
    store.save([note(i) for i in range(3)])
    selection = Selection(store, EVERYTHING, Limits(own_derived_facts=5))
    store.save([note(i) for i in range(3, 9)])
    store.forget([note(0).hash])
    for _ in range(2):
        with pytest.raises(LimitExceeded):
            selection.update()
        assert selection.hashes() == {note(i).hash for i in range(3)}
    store.forget([note(i).hash for i in range(5, 9)])
    assert selection.update() == {note(3).hash, note(4).hash}
    assert selection.hashes() == held(store)


@pytest.mark.req("000-API-07")
@pytest.mark.parametrize("name", sorted(MODULES))
@pytest.mark.parametrize("kept", [100_000, 2], ids=["all kept", "few kept"])
@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(turns=st.lists(st.lists(DEED, max_size=4), min_size=1, max_size=6))
def test_after_an_update_it_is_as_if_evaluated_from_scratch(
    monkeypatch: pytest.MonkeyPatch, name: str, kept: int, turns: list[list[Deed]]
) -> None:
    """Also when so much was forgotten that the store no longer knows what."""
    hold_to(monkeypatch, forgotten=kept)
    follow(MemoryStore(), MODULES[name], turns)


@pytest.mark.req("000-API-07")
@pytest.mark.parametrize("name", sorted(MODULES))
@settings(
    max_examples=examples(8),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(turns=st.lists(st.lists(DEED, max_size=4), min_size=1, max_size=4))
def test_the_same_in_a_file(
    tmp_path_factory: pytest.TempPathFactory, name: str, turns: list[list[Deed]]
) -> None:
    with SqliteStore(tmp_path_factory.mktemp("s") / "s.lace") as store:
        follow(store, MODULES[name], turns)


def follow(store: RecordStore, module: PolicyModule, turns: list[list[Deed]]) -> None:
    selection = Selection(store, module)
    for deeds in turns:
        before = selection.hashes()
        for deed in deeds:
            do(store, deed)
        came = selection.update()
        fresh = Selection(store, module).hashes()
        assert selection.hashes() == fresh
        assert came == fresh - before
        assert {record.hash for record in RECORDS if record.hash in selection} == fresh
        assert selection.update() == set()


class Meanwhile(MemoryStore):
    """A store that others change just after a snapshot was taken."""

    def __init__(self, module: PolicyModule) -> None:
        super().__init__()
        self._module = module
        self.deeds: list[Deed] = []
        self.selected: set[str] = set()
        """By an evaluation of the moment at which the last snapshot was taken."""

    def snapshot(self) -> MemorySnapshot:
        taken = super().snapshot()
        self.selected = Selection(copied(self), self._module).hashes()
        deeds, self.deeds = self.deeds, []
        for deed in deeds:
            do(self, deed)
        return taken


@pytest.mark.req("000-API-07")
@pytest.mark.parametrize("name", sorted(MODULES))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(turns=st.lists(st.tuples(DEED, st.lists(DEED, max_size=3)), min_size=1, max_size=5))
def test_it_is_of_one_moment_whatever_others_do_meanwhile(
    name: str, turns: list[tuple[Deed, list[Deed]]]
) -> None:
    store = Meanwhile(MODULES[name])
    selection = Selection(store, MODULES[name])
    for first, meanwhile in turns:
        do(store, first)
        store.deeds = list(meanwhile)
        selection.update()
        if not store.deeds:  # it had reason to look
            assert selection.hashes() == store.selected
        store.deeds = []
        selection.update()
        assert selection.hashes() == Selection(copied(store), MODULES[name]).hashes()
