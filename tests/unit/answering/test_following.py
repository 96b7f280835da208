"""A store is known again by what it said of itself, whatever it has stored and forgotten since."""

from __future__ import annotations

import pytest
from exchanges import note
from small_limits import hold_to

from lace.answering.following import Position, Witness
from lace.recordstore import MemoryStore


def store_of(count: int) -> MemoryStore:
    store = MemoryStore()
    store.save([note(i) for i in range(count)])
    return store


@pytest.mark.parametrize("count", [0, 1, 5, 300])
@pytest.mark.parametrize("gone", [0, 1, 15, 300])
def test_a_store_that_went_on_is_known_again(count: int, gone: int) -> None:
    store = store_of(count)
    store.forget([note(2).hash])
    at = Position.of(store)
    said = Witness.of(store, at)
    store.forget([note(i).hash for i in range(max(0, count - gone), count)])
    store.save([note(i) for i in range(1000, 1010)])
    store.forget([note(1001).hash])
    assert said.is_borne_out(store, at)


@pytest.mark.parametrize("lost", [1, 5, 20])
def test_a_store_that_went_another_way_is_not(lost: int) -> None:
    """It has stored as many records as the other one, or more, and forgotten as often."""
    store, other = store_of(300), store_of(300 - lost)
    at = Position.of(store)
    said = Witness.of(store, at)
    assert not said.is_borne_out(other, at)  # it has not come as far
    other.save([note(i) for i in range(1000, 1000 + lost)])
    assert not said.is_borne_out(other, at)
    other.save([note(2000)])
    other.forget([note(1).hash])
    assert not said.is_borne_out(other, at)


def test_a_store_that_has_forgotten_something_else_is_not() -> None:
    store, other = store_of(30), store_of(30)
    store.forget([note(3).hash])
    other.forget([note(4).hash])
    at = Position.of(store)
    assert not Witness.of(store, at).is_borne_out(other, at)


def test_a_store_that_lost_records_without_a_word_is_not() -> None:
    store, other = store_of(30), store_of(30)
    at = Position.of(store)
    said = Witness.of(store, at)
    other._order = [stored for stored in other._order if stored.hash != note(29).hash]
    assert not said.is_borne_out(other, at)


def test_a_store_that_has_forgotten_much_is_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has forgotten is too long ago to say; a peer must not see that in what is told."""
    hold_to(monkeypatch, forgotten=1)
    store = store_of(30)
    at = Position.of(store)
    said = Witness.of(store, at)
    store.forget([note(29).hash, note(28).hash])
    store.forget([note(1).hash])
    assert store.forgotten(at.forgets) is None
    assert said.is_borne_out(store, at)
