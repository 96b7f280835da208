"""Sketches: what honest cells find, what hostile cells cost, and the same bytes with and without numpy."""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Callable, Collection
from itertools import accumulate, pairwise

import numpy as np
import pytest
from blake3 import blake3
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lace.errors import Code, ProtocolError
from lace.interlace import sketch as module
from lace.interlace.sketch import (
    CELL_BYTES,
    MOST_CELLS,
    Decoder,
    Difference,
    Sketch,
    names_of,
    sketch_key,
)

MOST_STEPS = 30
"""For each cell, whatever the cells hold."""
NAMES = st.integers(0, 2**64 - 1)
SETS = st.frozensets(NAMES, max_size=60)


def some(count: int, chance: random.Random) -> list[int]:
    return [chance.getrandbits(64) for _ in range(count)]


def cell(*names: int, sign: int = 1) -> tuple[int, int, int]:
    """Return the sums of a cell that holds names, each ``sign`` times."""
    return (
        sign * len(names) % 2**16,
        sign * sum(map(module._check, names)) % 2**24,
        sign * sum(names) % 2**64,
    )


def packed(cells: Collection[tuple[int, int, int]]) -> bytes:
    return b"".join(
        count.to_bytes(2, "big") + check.to_bytes(3, "big") + name.to_bytes(8, "big")
        for count, check, name in cells
    )


def meet(own: Collection[int], theirs: Collection[int]) -> tuple[Difference | None, int, int]:
    """Ask as the decoder says; return what it finds, the questions, and the cells."""
    sketch, peer = Sketch(own), Sketch(theirs)
    decoder = Decoder(sketch, own, most=MOST_CELLS)
    have = questions = 0
    while (want := decoder.wanted()) is not None:
        assert have < want <= MOST_CELLS
        decoder.add(have, peer.cells(have, want))
        have, questions = want, questions + 1
        found = decoder.decode()
        assert decoder.steps <= MOST_STEPS * questions * have
        if found is not None:
            return found, questions, have
    return None, questions, have


# --- keys and names ---


def test_a_key_is_that_of_its_texts_in_their_places() -> None:
    nonces, hellos, plan = ("n0", "n1"), ("1:0", "2:0"), "E.plan.H3"
    texts = b"".join(bytes([0, 0, 0, len(t)]) + t.encode() for t in (*nonces, *hellos, plan))
    key = sketch_key(nonces, hellos, plan)
    assert key == blake3(b"lace-advertisement-sketch/v1" + texts).digest()
    others = [
        sketch_key(("n1", "n0"), hellos, plan),
        sketch_key(("n0n", "1"), hellos, plan),
        sketch_key(("", "n0n1"), hellos, plan),
        sketch_key(("n0", "n11"), (":0", "2:0"), plan),
        sketch_key(nonces, ("2:0", "1:0"), plan),
        sketch_key(nonces, ("1:0", "2:0E"), plan[1:]),
        sketch_key(nonces, hellos, plan + " "),
    ]
    assert len({key, *others}) == len(others) + 1


def test_a_name_depends_on_key_and_digest() -> None:
    key, leaf = bytes(range(32)), bytes(reversed(range(32)))
    (made,) = names_of(key, [leaf])
    assert made == int.from_bytes(blake3(leaf, key=key).digest()[:8], "big")
    assert len({made, *names_of(leaf, [leaf]), *names_of(key, [key])}) == 3
    leaves = [blake3(bytes([number])).digest() for number in range(9)]
    each = [names_of(key, [leaf])[0] for leaf in leaves]
    assert list(names_of(key, iter(leaves))) == each
    assert not names_of(key, [])


@pytest.mark.parametrize("name", [-1, 2**64])
def test_a_name_has_64_bits(name: int) -> None:
    with pytest.raises(OverflowError):
        Sketch([name])


# --- cells ---


def test_a_name_lies_in_one_cell_of_each_block() -> None:
    name = 0x0123456789ABCDEF
    found = np.frombuffer(Sketch([name]).cells(0, MOST_CELLS), dtype=">u2, V11")["f0"]
    bounds = [0, *accumulate([8, *(8 << block for block in range(13))])]
    assert bounds[-1] == MOST_CELLS
    assert [found[start:stop].sum() for start, stop in pairwise(bounds)] == [1] * 14


@settings(max_examples=examples(60))
@given(
    names=st.lists(NAMES, max_size=30), cuts=st.lists(st.integers(0, 400), min_size=2, max_size=6)
)
def test_any_cut_of_the_cells_is_the_same_whenever_it_is_made(
    names: list[int], cuts: list[int]
) -> None:
    whole = Sketch(names).cells(0, 400)
    lying = [
        [name for name in names for block in range(7) if module._place(name, block) == place]
        for place in range(400)
    ]
    assert whole == packed([cell(*there) for there in lying])
    sketch = Sketch(reversed(names))
    for start, stop in pairwise(cuts):
        if start < stop:
            made = sketch.cells(start, stop)
            assert made == whole[start * CELL_BYTES : stop * CELL_BYTES]


@settings(max_examples=examples(40))
@given(names=st.lists(st.one_of(NAMES, st.sampled_from([0, 1, 2**63, 2**64 - 1])), min_size=1))
def test_numpy_makes_the_same_bytes(names: list[int]) -> None:
    plain, quick = module._Plain(names), module._Numpy(array("Q", names), np)
    for block in range(8):
        assert plain.block(block) == quick.block(block)


def test_numpy_makes_the_same_bytes_in_all_cells() -> None:
    names = some(70_000, random.Random(1))  # so that a count goes beyond 16 bits
    names += names[:1] * 2**16
    quick, plain = Sketch(names), Sketch(names, plain=True)
    assert isinstance(quick._maker, module._Numpy)
    assert isinstance(plain._maker, module._Plain)
    assert quick.cells(0, MOST_CELLS) == plain.cells(0, MOST_CELLS)


def test_without_numpy_cells_are_made_in_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    names = some(60_000, random.Random(2))
    expected = Sketch(names).cells(0, 64)
    monkeypatch.setitem(sys.modules, "numpy", None)  # what Python takes for not installed
    sketch = Sketch(names)
    assert isinstance(sketch._maker, module._Plain)
    assert sketch.cells(0, 64) == expected


def test_numpy_is_not_loaded_for_few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numpy")
    assert isinstance(Sketch(range(49_999))._maker, module._Plain)
    assert "numpy" not in sys.modules
    monkeypatch.setitem(sys.modules, "numpy", np)
    assert isinstance(Sketch(range(499))._maker, module._Plain)
    assert isinstance(Sketch(range(500))._maker, module._Numpy)


@pytest.mark.parametrize(("start", "stop"), [(-1, 8), (0, 0), (8, 8), (9, 8), (0, MOST_CELLS + 1)])
def test_cells_that_there_are_not_cannot_be_asked_for(start: int, stop: int) -> None:
    with pytest.raises(ProtocolError, match=f"cells {start} to {stop} ") as caught:
        Sketch([1]).cells(start, stop)
    assert caught.value.code is Code.INTERLACE_SUMMARY


# --- differences ---


@settings(max_examples=examples(300))
@given(common=SETS, theirs=SETS, ours=SETS)
def test_the_difference_is_found_with_few_questions(
    common: frozenset[int], theirs: frozenset[int], ours: frozenset[int]
) -> None:
    own, peer = common | ours, common | theirs
    found, questions, cells = meet(own, peer)
    assert found == Difference(theirs=peer - own, ours=own - peer)
    assert questions <= 4
    assert cells <= max(256, 5 * len(own ^ peer))


def test_a_thousand_differences_of_up_to_500_names() -> None:
    chance = random.Random(3)
    common = some(50, chance)
    many = 0
    for _ in range(examples(1000)):
        theirs, ours = some(chance.randint(0, 250), chance), some(chance.randint(0, 250), chance)
        found, questions, cells = meet(common + ours, common + theirs)
        assert found == Difference(theirs=frozenset(theirs), ours=frozenset(ours))
        size = len(theirs) + len(ours)
        assert questions <= (1 if size <= 40 else 5)
        assert cells <= max(200, 4 * size)
        many += questions > 2
    assert many <= examples(1000) // 20


@pytest.mark.parametrize("size", [2_000, 30_000])
def test_large_differences_are_found(size: int) -> None:
    chance = random.Random(size)
    common, theirs, ours = (some(size // 2, chance) for _ in range(3))
    found, questions, cells = meet(common + ours, common + theirs)
    assert found == Difference(theirs=frozenset(theirs), ours=frozenset(ours))
    assert questions <= 3
    assert cells <= 2.6 * size


def test_equal_sets_differ_by_nothing() -> None:
    names = some(1000, random.Random(4))
    assert meet(names, names[::-1]) == (Difference(frozenset(), frozenset()), 1, 128)


def test_a_known_number_saves_a_question() -> None:
    chance = random.Random(5)
    own = some(100, chance)
    more = some(5_000, chance)
    decoder = Decoder(Sketch(own), set(own), most=MOST_CELLS, at_least=len(more))
    want = decoder.wanted()
    assert want == 8_776  # 1.75 a difference and 24, to the next 8
    decoder.add(0, Sketch(own + more).cells(0, want))
    assert decoder.decode() == Difference(theirs=frozenset(more), ours=frozenset())


@settings(max_examples=examples(60))
@given(cuts=st.lists(st.integers(1, 40), min_size=8, max_size=20))
def test_cells_may_come_in_any_pieces(cuts: list[int]) -> None:
    own, peer = frozenset(range(0, 9000, 1000)), frozenset(range(2000, 9500, 500))
    cells = Sketch(peer).cells(0, 40 * 20)
    decoder = Decoder(Sketch(own), own, most=MOST_CELLS)
    found = None
    for start, stop in pairwise(accumulate(cuts, initial=0)):
        decoder.add(start, cells[start * CELL_BYTES : stop * CELL_BYTES])
        now = decoder.decode()
        assert now in (None, Difference(theirs=peer - own, ours=own - peer))
        assert found is None or now == found  # what was found stays
        found = now


def test_fewer_cells_than_the_first_block_tell_nothing() -> None:
    """A name may lie beyond them, so that equal cells do not mean equal sets."""
    own = Sketch([])
    for count in range(8):
        decoder = Decoder(own, [], most=MOST_CELLS)
        if count:
            decoder.add(0, bytes(count * CELL_BYTES))
        assert decoder.decode() is None
    decoder.add(7, bytes(CELL_BYTES))
    assert decoder.decode() == Difference(frozenset(), frozenset())


# --- how much to ask for ---


@pytest.mark.parametrize("size", [0, 100, 1_000, 10_000])
def test_the_estimate_is_near(size: int) -> None:
    chance = random.Random(size)
    common = some(500, chance)
    for part in (0, size // 3, size):
        theirs, ours = some(part, chance), some(size - part, chance)
        decoder = Decoder(Sketch(common + ours), common + ours, most=MOST_CELLS)
        assert decoder.estimate() == 0
        for start, stop in ((0, 8), (8, 128), (128, 1000)):
            decoder.add(start, Sketch(common + theirs).cells(start, stop))
            margin = {8: 0.9, 128: 0.4, 1000: 0.15}[stop]
            assert abs(decoder.estimate() - size) <= margin * size


@pytest.mark.parametrize(
    ("counts", "differences"),
    [
        ([0] * 8, 0),
        ([3, -3, 0, 0, 0, 0, 0, 0], 20),  # 2 · (8 · 3)² / 7 / 8
        ([5] * 8, 40),  # so many more names has one side, though the cells are alike
        ([-5] * 8, 40),
        ([0] * 8 + [4] + [0] * 7, 9),  # blocks that do not have the same sum
    ],
)
def test_the_estimate_is_that_of_the_counts(counts: list[int], differences: int) -> None:
    decoder = Decoder(Sketch([]), [], most=MOST_CELLS)
    decoder.add(0, packed([(count % 2**16, 0, 0) for count in counts]))
    assert decoder.estimate() == differences


def test_questions_grow_until_the_limit() -> None:
    own = Sketch([])
    decoder = Decoder(own, [], most=1000)
    have, asked = 0, []
    while (want := decoder.wanted()) is not None:
        asked.append(want)
        decoder.add(have, bytes((want - have) * CELL_BYTES))  # nothing to estimate by
        have = want
    assert asked == [128, 192, 256, 320, 400, 504, 632, 792, 992, 1000]


@pytest.mark.parametrize("most", [0, 7])
def test_a_limit_below_the_first_block_asks_for_nothing(most: int) -> None:
    assert Decoder(Sketch([]), [], most=most).wanted() is None


def test_the_limit_of_sketches_is_the_most_that_is_asked_for() -> None:
    assert Decoder(Sketch([]), [], most=2**40, at_least=50_000).wanted() == MOST_CELLS


@pytest.mark.parametrize("size", [2_000, 300_000])
def test_nothing_more_is_asked_for_when_it_cannot_be_enough(size: int) -> None:
    """Also when there are more names in a cell than its count can tell."""
    names = some(size, random.Random(6))
    most = 1024 if size == 2_000 else MOST_CELLS
    decoder = Decoder(Sketch([]), [], most=most)
    decoder.add(0, Sketch(names).cells(0, 128))
    assert decoder.decode() is None
    assert decoder.wanted() is None


# --- what is not honest ---


def refused(decoder: Decoder, start: int, cells: bytes) -> str:
    with pytest.raises(ProtocolError) as caught:
        decoder.add(start, cells)
    assert caught.value.code is Code.INTERLACE_SUMMARY
    return str(caught.value)


def test_cells_in_a_wrong_place_or_number_are_refused() -> None:
    decoder = Decoder(Sketch([]), [], most=16)
    assert "0 bytes" in refused(decoder, 0, b"")
    assert "12 bytes" in refused(decoder, 0, bytes(CELL_BYTES - 1))
    assert "27 bytes" in refused(decoder, 0, bytes(2 * CELL_BYTES + 1))
    assert "from 1 on" in refused(decoder, 1, bytes(CELL_BYTES))
    assert "17 cells" in refused(decoder, 0, bytes(17 * CELL_BYTES))
    decoder.add(0, bytes(9 * CELL_BYTES))
    assert "from 9 on" in refused(decoder, 0, bytes(CELL_BYTES))
    assert "at most 16" in refused(decoder, 9, bytes(8 * CELL_BYTES))
    assert "from -1 on" in refused(decoder, -1, bytes(CELL_BYTES))
    decoder.add(9, bytes(7 * CELL_BYTES))
    assert decoder.decode() == Difference(frozenset(), frozenset())


def random_cells(size: int, chance: random.Random) -> bytes:
    return chance.randbytes(size * CELL_BYTES)


def single_counts(size: int, chance: random.Random) -> bytes:
    """Each cell counts as one name, and none is."""
    return packed([(chance.choice((1, 0xFFFF)), 1, chance.getrandbits(64)) for _ in range(size)])


def as_many_as_fit(size: int, chance: random.Random) -> bytes:
    return Sketch(some(int(size / 1.6), chance)).cells(0, size)


def too_many(size: int, chance: random.Random) -> bytes:
    return Sketch(some(4 * size, chance)).cells(0, size)


def loops(size: int, chance: random.Random) -> bytes:
    """Each name lies only in its last cell, so taking it out of the others puts it there."""
    cells = [(0, 0, 0)] * size
    for name in some(size, chance):
        last = max(place for block in range(14) if (place := module._place(name, block)) < size)
        cells[last] = cell(name)
    return packed(cells)


def there_and_back(size: int, chance: random.Random) -> bytes:
    """One cell says that the peer has a name, and another one that it has not."""
    cells = [(0, 0, 0)] * size
    for name in some(size, chance):
        first, second = (module._place(name, block) for block in (1, 2))
        cells[first], cells[second] = cell(name), cell(name, sign=-1)
    return packed(cells)


def one_name_everywhere(size: int, chance: random.Random) -> bytes:
    return packed([cell(chance.getrandbits(64))] * size)


def all_zero(size: int, _chance: random.Random) -> bytes:
    return bytes(size * CELL_BYTES)


def all_ones(size: int, _chance: random.Random) -> bytes:
    return b"\xff" * size * CELL_BYTES


@pytest.mark.parametrize(
    "make",
    [
        random_cells, single_counts, as_many_as_fit, too_many, loops, there_and_back,
        one_name_everywhere, all_zero, all_ones,
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [32, 1000, 16_384])
@pytest.mark.parametrize("own", [0, 300])
def test_hostile_cells_cost_a_bounded_number_of_steps(
    make: Callable[[int, random.Random], bytes], size: int, own: int
) -> None:
    chance = random.Random(size)
    names = frozenset(some(own, chance))
    decoder = Decoder(Sketch(names), names, most=size)
    decoder.add(0, make(size, chance))
    found = decoder.decode()
    assert size <= decoder.steps <= MOST_STEPS * size
    assert decoder.estimate() >= 0
    assert decoder.wanted() is None
    if found is None:
        assert make is not as_many_as_fit or size < 1000 or own > size // 10
    else:
        assert len(found.theirs) + len(found.ours) <= size
        assert found.ours <= names
        assert not found.theirs & names


def test_the_most_cells_cost_a_bounded_number_of_steps() -> None:
    chance = random.Random(7)
    decoder = Decoder(Sketch([]), [], most=MOST_CELLS)
    decoder.add(0, as_many_as_fit(MOST_CELLS, chance))
    found = decoder.decode()
    assert found is not None
    assert len(found.theirs) == int(MOST_CELLS / 1.6)
    assert decoder.steps <= MOST_STEPS * MOST_CELLS


@settings(max_examples=examples(300))
@given(
    own=st.frozensets(st.integers(0, 40), max_size=20),
    cells=st.lists(
        st.one_of(
            st.builds(cell, st.integers(0, 40)),
            st.builds(cell, st.integers(0, 40), sign=st.just(-1)),
            st.builds(cell, st.integers(0, 40), st.integers(0, 40)),
            st.tuples(st.integers(0, 2**16 - 1), st.integers(0, 2**24 - 1), NAMES),
        ),
        min_size=1,
        max_size=64,
    ),
    changed=st.booleans(),
)
def test_any_cells_end_within_their_steps(
    own: frozenset[int], cells: list[tuple[int, int, int]], changed: bool
) -> None:
    """Names that the cells may rightly hold, in places where they may or may not lie."""
    data = packed(cells)
    if changed:  # cells of one's own with a few others over them
        data = Sketch(own).cells(0, len(cells) + 8) + data
    size = len(data) // CELL_BYTES
    decoder = Decoder(Sketch(own), own, most=size)
    decoder.add(0, data)
    found = decoder.decode()
    assert decoder.steps <= MOST_STEPS * size
    if found is not None:
        assert found.ours <= own
        assert not found.theirs & own
        # What is returned explains the cells: they are those of the set that follows.
        assert Sketch(own - found.ours | found.theirs).cells(0, size) == data


@pytest.mark.parametrize(
    ("own", "cells"),
    [
        ({5}, lambda: Sketch([5, 5]).cells(0, 16)),  # what this side has is said to be new
        (set(), lambda: packed([cell(5, sign=-1)] * 16)),  # what it has not is said to be missing
    ],
)
def test_a_name_is_of_the_side_that_it_is_said_to_be_of(
    own: set[int], cells: Callable[[], bytes]
) -> None:
    decoder = Decoder(Sketch(own), own, most=16)
    decoder.add(0, cells())
    assert decoder.decode() is None
    assert decoder.steps <= MOST_STEPS * 16


@pytest.mark.parametrize("rest", [(2, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_every_sum_has_to_come_out(rest: tuple[int, int, int]) -> None:
    decoder = Decoder(Sketch([]), [], most=16)
    decoder.add(0, packed([(0, 0, 0)] * 15 + [rest]))
    assert decoder.decode() is None


@settings(max_examples=examples(200))
@given(
    bits=st.integers(1, 16),
    common=st.integers(0, 60),
    theirs=st.integers(0, 60),
    ours=st.integers(0, 60),
    seed=st.integers(0, 2**32),
)
def test_names_that_collide_give_nothing_or_what_their_cells_say(
    bits: int, common: int, theirs: int, ours: int, seed: int
) -> None:
    """Two advertisements under one name are more than a set can hold; a digest has to decide."""
    chance = random.Random(seed)
    both = [chance.getrandbits(bits) for _ in range(common)]
    own = both + [chance.getrandbits(bits) for _ in range(ours)]
    peer = both + [chance.getrandbits(bits) for _ in range(theirs)]
    sketch = Sketch(own)
    decoder = Decoder(sketch, own, most=1024)
    have = 0
    while (want := decoder.wanted()) is not None:
        decoder.add(have, Sketch(peer).cells(have, want))
        have = want
        found = decoder.decode()
        if found is not None:
            assert found.ours <= set(own)
            assert not found.theirs & set(own)
            if len(set(own)) == len(own) and len(set(peer)) == len(peer):
                assert found == Difference(frozenset(peer) - set(own), frozenset(own) - set(peer))
            break
    assert decoder.steps <= MOST_STEPS * 1024 * 20
