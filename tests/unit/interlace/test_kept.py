"""A table that stays where it is kept is read when it is looked at, and held by nobody."""

from __future__ import annotations

import random

import pytest
from elsewhere import Elsewhere

from lace import b64a
from lace.interlace.groups import GROUP
from lace.interlace.partition import Partitions
from lace.interlace.reconcile import Alike
from lace.interlace.sketch import Decoder, NamesHere, Sketch, add_cells, whole_blocks

KEY = b"k" * 32


def entries(count: int, seed: int) -> dict[str, bytes]:
    chance = random.Random(seed)
    return {f"S.{b64a.encode(chance.randbytes(32))}.H3": chance.randbytes(64) for _ in range(count)}


def held(digests: dict[str, bytes]) -> Partitions:
    made = Partitions(2, standard=1)
    made.put(digests)
    return made


def test_what_does_not_change_is_not_read() -> None:
    digests = entries(300, 1)
    elsewhere = Elsewhere(held(digests))
    table, plain = Partitions.from_kept(2, 1, elsewhere), held(digests)
    assert len(table.group_runs(0)) == GROUP
    assert table.check == plain.check
    assert table.expected().check == plain.expected().check
    assert table.differing(table.copy()) == []
    assert elsewhere.read == []
    assert table.memory == 0
    gone, come = list(digests)[:2], entries(2, 2)
    for one in (table, plain):
        one.mark()
        one.remove(gone)
        one.put(come)
    assert set(elsewhere.read) == set(table.changed()) == set(plain.changed())
    assert table.check == plain.check
    assert table.expected().check == plain.expected().check
    assert 0 < table.memory < plain.memory
    assert table.differing(Partitions.from_kept(2, 1, Elsewhere(held(digests)))) == table.changed()
    for column in (0, 1):
        names, all_of = table.names(KEY, column), NamesHere(KEY, plain.items(column))
        assert len(names) == len(all_of)
        assert names.cells(3, 300) == all_of.cells(3, 300)
        was = NamesHere(KEY, held(digests).items(column))
        wanted = [*was._names, *all_of._names, 5]
        assert names.find(wanted) == all_of.find(wanted)
    assert list(table.summaries(1)) == list(plain.summaries(1))


def test_records_of_a_table_but_for_some() -> None:
    digests = entries(20, 3)
    without = frozenset(list(digests)[:3])
    alike = Alike(held(digests), without)
    assert len(alike) == 17
    assert set(alike) == digests.keys() - without
    assert all((hash in alike) == (hash not in without) for hash in digests)
    assert "S.x.H3" not in alike


@pytest.mark.parametrize("sign", [1, -1])
def test_cells_of_sets_add_up(sign: int) -> None:
    chance = random.Random(4)
    one, other = ([chance.getrandbits(64) for _ in range(n)] for n in (700, 90))
    both = Sketch([*one, *other]).cells(0, 512)
    first, second = (Sketch(names).cells(0, 512) for names in (one, other))
    assert (add_cells(first, second) if sign > 0 else both) == (
        both if sign > 0 else add_cells(add_cells(both, second, -1), second)
    )
    assert add_cells(both, second, -1) == first


def test_blocks_are_whole() -> None:
    assert [whole_blocks(n) for n in (0, 1, 8, 9, 16, 17, 4096, 4097, 65536)] == [
        0, 8, 8, 16, 16, 32, 4096, 8192, 65536,
    ]  # fmt: skip


def test_a_decoder_that_cannot_look_up_names_finds_the_same() -> None:
    chance = random.Random(5)
    common, ours, theirs = ([chance.getrandbits(64) for _ in range(n)] for n in (500, 20, 30))
    own, peer = [*common, *ours], Sketch([*common, *theirs])
    for known in (own, None):
        decoder = Decoder(Sketch(own), known, most=1024)
        decoder.add(0, peer.cells(0, 512))
        found = decoder.decode()
        assert found is not None
        assert (found.ours, found.theirs) == (frozenset(ours), frozenset(theirs))
