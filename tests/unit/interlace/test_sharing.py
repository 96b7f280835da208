"""Tables that changed in the same way share what they hold; nothing else can tell that they do."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Mapping
from weakref import ref

import pytest
from wires import NOW, OPEN, End, hashes, nonce, notes, store_of

from lace import b64a
from lace.answering.crowd import Crowds
from lace.answering.store import StoreAnswers
from lace.crypto.native import digest
from lace.interlace import messages as m
from lace.interlace.groups import Group, empty_group
from lace.interlace.partition import Partitions
from lace.record import Record
from lace.recordstore import MemoryStore
from lace.stream.binding import Endpoint


def record(number: int) -> str:
    """Return a name of a record; some lie close together, and some have another format."""
    place = b64a.encode(digest(b"%d" % (number % 7)))[:2]
    rest = b64a.encode(digest(b"%d" % number))[2:]
    return f"P.{place}{rest}.{'H9' if number % 5 == 0 else 'H3'}"


def leaf(number: int) -> bytes:
    return digest(b"leaf %d" % number)


def state(table: Partitions) -> object:
    runs = range(64**2)
    return (
        table.check, len(table), table.memory, table.changed(), table.summary(""),
        list(table.records("")), [table.content(run) for run in runs if table.content(run)[0]],
    )  # fmt: skip


def changed_apart(group: Group, runs: Mapping[int, bytes]) -> Group:
    """Return what ``Group.changed`` does, for one table alone."""
    made = Group(list(group.runs), list(group.contents), None)
    for place, run in runs.items():
        made.runs[place], made.contents[place] = run, None
    return made


def history(seed: int) -> list[object]:
    """Change some tables in ways that are often the same; return what each was in between."""
    chance = random.Random(seed)
    tables = [Partitions() for _ in range(4)]
    found: list[object] = []
    for _ in range(60):
        numbers = sorted(chance.sample(range(40), chance.randrange(1, 4)))
        salt = chance.randrange(2)
        some = [table for table in tables if chance.random() < 0.6]
        match chance.randrange(6):
            case 0 | 1 | 2:
                for table in some:
                    table.put({record(n): leaf(n * 2 + salt) for n in numbers})
            case 3:
                for table in some:
                    table.remove([record(n) for n in numbers])
            case 4:
                tables[chance.randrange(4)] = chance.choice(tables).copy()
            case _:
                for table in some:
                    table.mark()
        found += map(state, tables if chance.random() < 0.5 else some)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_tables_that_share_are_what_they_are_alone(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = history(seed)
    monkeypatch.setattr(Group, "changed", changed_apart)
    assert shared == history(seed)


def test_tables_share_for_as_long_as_anybody_has_it() -> None:
    one, other = Partitions(), Partitions()
    for table in (one, other):
        table.put({record(n): leaf(n) for n in (1, 2, 8)})
        table.put({record(3): leaf(3)})
    assert all(a is b for a, b in zip(one._groups, other._groups, strict=True))
    other.put({record(4): leaf(4)})
    assert sum(a is not b for a, b in zip(one._groups, other._groups, strict=True)) == 1
    filled = [ref(group) for group in one._groups if group is not empty_group(64)]
    assert filled
    del one, other, table
    gc.collect()
    assert not any(group() for group in filled)


def world(seed: int) -> list[bytes]:
    """Let peers come and stay while things happen; return what a server says to each."""
    chance = random.Random(seed)
    store, crowds = store_of(notes(12)), Crowds()
    pairs: list[tuple[End, End, list[int]]] = []

    def come() -> None:
        number = len(pairs)
        held = store_of(notes(chance.choice([0, 0, 0, 3]), start=chance.choice([0, 40])))
        here, there = (
            End(Endpoint(accepting=accepts, nonce=b64a.encode(bytes([letter, number]) * 16),
                         addresses=("tcp:here:1",)), kept, stays=True)
            for accepts, letter, kept in ((True, 1, store), (False, 2, held))
        )  # fmt: skip
        side = here.binding.side(here.module)
        here.__dict__["local"] = StoreAnswers.of(store, side, OPEN, crowds=crowds)
        pairs.append((here, there, [0, 0]))
        assert not here.connection.closed
        assert not there.connection.closed

    def settle() -> None:
        moves = True
        while moves:
            moves = False
            for here, there, read in pairs:
                for way, (end, other) in enumerate(((there, here), (here, there))):
                    chunk = bytes(other.sent[read[way] :])
                    read[way] += len(chunk)
                    if chunk and not end.closed:
                        moves = True
                        end.take(chunk)

    def happen(what: Callable[[], object], to_whom: MemoryStore) -> None:
        what()
        crowds.advance()
        for here, there, _ in pairs:
            for end in (here, there):
                if end.store is to_whom and not end.closed:
                    end.give(m.Woken())

    for _ in range(3):
        come()
    settle()
    fresh: list[Record] = notes(60, start=100)
    for _ in range(25):
        match chance.randrange(6):
            case 0:
                come()
            case 1 | 2:
                some = [fresh.pop() for _ in range(chance.randrange(1, 3))]
                happen(lambda some=some: store.save(some), store)  # type: ignore[misc]
            case 3:
                known = sorted(hashes(store))
                gone = chance.sample(known, 1)
                happen(lambda gone=gone: store.forget(gone), store)  # type: ignore[misc]
            case 4:
                peer = chance.choice(pairs)[1]
                assert isinstance(peer.store, MemoryStore)
                happen(lambda peer=peer: peer.store.save([fresh.pop()]), peer.store)  # type: ignore[misc]
            case _:
                settle()
    settle()
    assert all(here.connection.idle for here, _, _ in pairs)
    return [bytes(here.sent) for here, _, _ in pairs]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_shared_changes_no_byte(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = world(seed)
    monkeypatch.setattr(Group, "changed", changed_apart)
    assert shared == world(seed)


def test_members_who_were_told_the_same_hold_it_once() -> None:
    store, crowds = store_of(notes(30)), Crowds()
    pairs = []
    for _ in range(3):
        here, there = (
            End(Endpoint(accepting=accepts, nonce=nonce(), addresses=("tcp:here:1",)), held,
                stays=True)
            for accepts, held in ((True, store), (False, MemoryStore()))
        )  # fmt: skip
        side = here.binding.side(here.module)
        here.__dict__["local"] = StoreAnswers.of(store, side, OPEN, crowds=crowds)
        pairs.append((here, there))
        read = [0, 0]
        while not (here.connection.idle and there.connection.idle):
            for way, (end, other) in enumerate(((there, here), (here, there))):
                chunk = bytes(other.sent[read[way] :])
                read[way] += len(chunk)
                if chunk:
                    end.connection.receive_data(chunk, NOW)
                    end._pass_on()
    own, peers = zip(*(here.connection.machine.tables for here, _ in pairs), strict=True)
    for tables in (own, peers):
        assert len({id(group) for table in tables for group in table._groups}) <= 64
        assert {len(table) for table in tables} == {30}
