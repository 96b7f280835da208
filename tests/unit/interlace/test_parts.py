"""The parts of an exchange that need no machine: blocks, adverts, partitions, hello, ticks."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import forge
import pytest
from command import lace
from hypothesis import given
from hypothesis import strategies as st

from lace import b64a, tai
from lace.crypto.native import digest
from lace.errors import Code, ProtocolError
from lace.ids import Verifier
from lace.interlace import facts as blocks
from lace.interlace import runs
from lace.interlace.advertise import Advertisement, advertise, digests_of, gather
from lace.interlace.facts import PREDICATES, block, decimal, parse_block
from lace.interlace.negotiate import (
    WIRE_LIMITS,
    Agreement,
    Hello,
    intersect_fields,
    link_id,
    negotiate,
    parse_hello,
)
from lace.interlace.partition import Partitions
from lace.interlace.runs import DIGEST, KEY, entry_size, in_order, merged
from lace.interlace.summary import (
    EMPTY,
    Summary,
    check_listing,
    merkle_root,
    parse_summary,
    payload,
)
from lace.interlace.tick import Ticking
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import module_from_text
from lace.policy.origin import Party, SourceLabel, label_operands
from lace.policy.plan import ExchangePlan
from lace.record import build_plex, fields
from lace.tai import Tai

ANY = frozenset(PREDICATES)
ALICE = SourceLabel("V.OEL2sxn4GhPnCm_bU7hnAPU0Q0gVS8KxFlNg3zfHT2O.H3")
PLEX = build_plex(group="u", app="ding", name="links/1", tai="1640995200:000000000", data=b"hello")
SCHEMA = frozenset(("App", "Group", "Name", "Type"))
ADVERT = advertise(PLEX.hash, ALICE, fields(PLEX), SCHEMA)


def refuses(action: object) -> Code:
    with pytest.raises(ProtocolError) as caught:
        action()  # type: ignore[operator]
    return caught.value.code


# --- blocks ---


@pytest.mark.req("050-BLK-01", "050-BLK-02", "050-BLK-03", "050-BLK-04", "050-BLK-05")
@pytest.mark.parametrize(
    "content",
    [
        b"HelloTAI('e\xcc\x81')\n", b"HelloTAI(X)\n", b"HelloTAI(1)\n", b"HelloTAI('a').\n",
        b"HelloAllAdvertisedFields\n", b"HelloTAI('a')\r\n", b"# x\n", b"HelloTAI('\\n')\n",
        b"HelloLimit('a', 'b')\n", b"Foo('a')\n", b"HelloTAI()\n", b"HelloTAI('a')", b"HelloTAI('\xff')\n",
    ],
)  # fmt: skip
def test_malformed_blocks(content: bytes) -> None:
    assert refuses(lambda: parse_block(content, ANY)) is Code.INTERLACE_BLOCK


@pytest.mark.req("050-BLK-03", "050-BLK-06")
def test_blocks() -> None:
    content = b"HelloAllAdvertisedFields()\nHelloTAI('a')\n\nHelloTAI('a')\n"
    assert parse_block(content, ANY) == [("HelloAllAdvertisedFields",), ("HelloTAI", "a")]
    assert block([("HelloLimit", "it's", "\\")]) == b"HelloLimit('it\\'s','\\\\')\n"
    assert parse_block(b"", ANY) == []
    assert refuses(lambda: parse_block(content, frozenset({"MayRequest"}))) is Code.INTERLACE_PHASE
    small = replace(DEFAULT_LIMITS, max_fact_block_size=10)
    assert refuses(lambda: parse_block(content, ANY, small)) is Code.INTERLACE_BLOCK_SIZE


@given(st.text(st.sampled_from("0123456789-+ x"), max_size=5))
def test_decimals_are_canonical(text: str) -> None:
    value = decimal(text)
    assert (value is not None and str(value) == text) or value is None
    assert (value is None) is not (text.isdigit() and (text == "0" or text[0] != "0"))


# --- advertisements ---


@pytest.mark.req("050-ARC-02", "050-ARC-03", "050-ARC-04", "050-ARC-05", "050-ADF-01", "050-SCH-07")
def test_the_advertisement_of_an_independent_program() -> None:
    assert ADVERT.canonical().decode().splitlines() == [
        f"Advertised('{PLEX.hash}','{ALICE}')",
        f"AdvertisedField('{PLEX.hash}','{ALICE}','App','0','ding')",
        f"AdvertisedField('{PLEX.hash}','{ALICE}','Group','0','u')",
        f"AdvertisedField('{PLEX.hash}','{ALICE}','Name','0','links/1')",
        f"AdvertisedField('{PLEX.hash}','{ALICE}','Type','0','P')",
    ]
    assert b64a.encode(ADVERT.digest()) == "mj5ZQyphg472Zi6kk~4sXinPl6uH6V9R2lb_iPlrRnh"


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8) | st.sampled_from(
    ["'", "\\", "\\'", "')\\nAdvertised('"]
)


@given(
    st.lists(st.dictionaries(st.tuples(texts, st.integers(0, 11)), texts, max_size=4), max_size=5),
    st.lists(texts, max_size=3),
)
def test_digests_of_many_are_those_of_each(
    described: list[dict[tuple[str, int], str]], sources: list[str]
) -> None:
    labels = [SourceLabel(source) for source in sources]
    records = {
        f"P.{number}.H3": [(*field, value) for field, value in found.items()]
        for number, found in enumerate(described)
    }
    expected = {
        record: b"".join(advertise(record, label, found, None).digest() for label in labels)
        for record, found in records.items()
    }
    in_order = [(record, tuple(sorted(found))) for record, found in records.items()]
    assert digests_of(in_order, labels) == expected


def test_two_values_of_one_place_are_in_order_whoever_says_them_first() -> None:
    """No record has such fields; a peer may say so all the same."""
    begin = ("Advertised", PLEX.hash, "s")
    values = [("AdvertisedField", PLEX.hash, "s", "A", "0", value) for value in ("x", "ä", "w")]
    found = [gather([begin, *said], SourceLabel("s")) for said in permutations(values)]
    assert all(one == found[0] for one in found)


@pytest.mark.req("050-ARC-03", "050-SCH-04", "050-SCH-05")
def test_fields_are_ordered_by_name_and_number() -> None:
    values = [("Tag", i, str(i)) for i in (10, 2, 0)] + [("A", 0, "a"), ("group", 0, "x")]
    advert = advertise("P.a.H9", ALICE, values, frozenset({"Tag", "A", "Group"}))
    assert [(name, index) for name, index, _ in advert.fields] == [
        ("A", 0),
        ("Tag", 0),
        ("Tag", 2),
        ("Tag", 10),
    ]
    assert advertise("P.a.H9", ALICE, values, frozenset()).facts() == [
        ("Advertised", "P.a.H9", ALICE)
    ]
    assert len(advertise("P.a.H9", ALICE, values, None).fields) == 5


@pytest.mark.req("050-ADF-05", "050-ADF-02", "050-ADF-03")
def test_adverts_are_gathered_and_their_source_is_checked() -> None:
    facts = ADVERT.facts()
    random.Random(1).shuffle(facts)
    assert gather(facts, ALICE) == {PLEX.hash: ADVERT}
    other = SourceLabel("V.other")
    assert refuses(lambda: gather(facts, other)) is Code.INTERLACE_SOURCE
    assert refuses(lambda: gather(ADVERT.facts()[1:], ALICE)) is Code.INTERLACE_BLOCK
    odd = [("Advertised", "P.a.H9", ALICE), ("AdvertisedField", "P.a.H9", ALICE, "A", "01", "x")]
    assert refuses(lambda: gather(odd, ALICE)) is Code.INTERLACE_BLOCK
    assert (
        refuses(lambda: gather([("Advertised", "nothing", ALICE)], ALICE)) is Code.INTERLACE_BLOCK
    )


# --- partitions ---


@pytest.mark.req("050-REC-09", "050-REC-10", "050-REC-11", "050-REC-12")
def test_roots() -> None:
    assert b64a.encode(EMPTY) == "fQB~weQlmPS~bN9N1hgdPaWtNxHyJCBjFLt1pYA6dxd"
    assert merkle_root([]) == EMPTY
    one = merkle_root([ADVERT.digest()])
    assert b64a.encode(one) == "Czk8BxPUxrafFseZusyZgyDs9CeuALpgpWAcuKiv0k8"
    a, b, c = sorted(digest(bytes([i])) for i in range(3))
    leaf = [digest(b"lace-advertisement-leaf/v1" + d) for d in (a, b, c)]

    def node(left: bytes, right: bytes) -> bytes:
        return digest(b"lace-advertisement-node/v1" + left + right)

    assert merkle_root([b, a]) == node(leaf[0], leaf[1])
    assert merkle_root([c, a, b]) == node(node(leaf[0], leaf[1]), node(leaf[2], EMPTY))


def hashes(count: int, seed: int = 0) -> dict[str, bytes]:
    chance = random.Random(seed)
    names = [f"{chance.choice('BPS')}.{b64a.encode(chance.randbytes(32))}.H3" for _ in range(count)]
    return {name: digest(name.encode()) for name in names}


@pytest.mark.req("050-REC-04", "050-REC-05", "050-REC-06", "050-REC-07")
def test_partitions_cover_everything_once() -> None:
    digests = hashes(500)
    made = Partitions.of(digests)
    for length in (0, 1, 2, 3):
        summaries = list(made.summaries(length))
        assert sum(s.count for s in summaries) == 500
        assert [s.prefix for s in summaries] == sorted({payload(h)[:length] for h in digests})
        for summary in summaries[:20]:
            records = list(made.records(summary.prefix))
            assert {payload(r)[:length] for r in records} == {summary.prefix}
            assert summary.root == merkle_root(digests[r] for r in records)
    parent = next(s for s in made.summaries(1) if s.count > 1)
    children = list(made.children(parent.prefix))
    assert sum(child.count for child in children) == parent.count
    assert all(child.prefix[:-1] == parent.prefix and child.count for child in children)
    same = {f"{letter}.{'a' * 42}0.H3": b"x" * 32 for letter in "BPS"}
    assert [s.count for s in Partitions.of(same).summaries(2)] == [3]


@pytest.mark.req("050-REC-02", "050-REC-03")
@given(st.lists(st.tuples(st.integers(0, 19), st.booleans()), max_size=40), st.integers(0, 2))
def test_partitions_kept_up_to_date_equal_those_made_afresh(
    edits: list[tuple[int, bool]], length: int
) -> None:
    names = list(hashes(20, 3))
    made, now = Partitions(), {}
    for number, (index, add) in enumerate(edits):
        name = names[index]
        if add:
            now[name] = digest(b"%d" % number)
            made.put({name: now[name]})
        elif name in now:
            made.remove([name])
            del now[name]
        list(made.summaries(length))
        fresh = Partitions.of(now)
        assert list(made.summaries(length)) == list(fresh.summaries(length))
        assert len(made) == len(now)
        assert made.check == fresh.check
        assert (made.check == Partitions().check) == (not now)


def test_what_moved_is_told_in_the_order_of_its_names() -> None:
    """An order that another process would not have could not be found again in a journal."""
    records = [f"P.00{b64a.encode(bytes([n]) * 31)[1:]}.H3" for n in range(40)]
    table = Partitions.of({record: bytes(32) for record in records})
    (run,) = table.filled()
    assert table.moved(run, b"") == (list(table.records("")), [])
    before = table.run(run)
    table.remove(records)
    assert table.moved(run, before) == (
        [],
        list(Partitions.of(dict.fromkeys(records, bytes(32))).records("")),
    )


def test_a_root_is_that_of_its_definition() -> None:
    """One level at a time, as the definition has it: an empty place is as good as no hash."""
    chance = random.Random(3)
    rows = [[chance.randbytes(32) for _ in range(chance.randrange(12))] for _ in range(200)]

    def plain(digests: list[bytes]) -> bytes:
        level = [digest(b"lace-advertisement-leaf/v1" + leaf) for leaf in sorted(digests)]
        padding = EMPTY
        while len(level) > 1:
            level += [padding] * (len(level) % 2)
            pairs = zip(level[::2], level[1::2], strict=True)
            level = [digest(b"lace-advertisement-node/v1" + a + b) for a, b in pairs]
            padding = digest(b"lace-advertisement-node/v1" + padding + padding)
        return level[0] if level else EMPTY

    assert list(map(plain, rows)) == list(map(merkle_root, rows))


@pytest.mark.req("050-REC-04", "050-REC-13", "050-REC-14")
def test_what_a_peer_says_of_partitions_is_checked() -> None:
    digests = hashes(40)
    summary = next(s for s in Partitions.of(digests).summaries(1) if s.count > 1)
    assert parse_summary(summary.fact()) == summary
    listed = {r: digests[r] for r in digests if payload(r).startswith(summary.prefix)}
    check_listing(summary, listed)
    foreign = next(r for r in digests if not payload(r).startswith(summary.prefix))
    first = next(iter(listed))
    for wrong in (
        {r: d for r, d in listed.items() if r != first},
        listed | {first: b"x" * 32},
        listed | {foreign: digests[foreign]},
    ):
        assert refuses(lambda wrong=wrong: check_listing(summary, wrong)) is Code.INTERLACE_LISTING
    check_listing(Summary("zz", 0, EMPTY), {})
    root = b64a.encode(EMPTY)
    for values in (
        ("a!", "1", root),
        ("a", "01", root),
        ("a", "-1", root),
        ("a", "1", root[:-1]),
        ("a", "1", root + "0"),
    ):
        fact = ("AdvertisementPartition", *values)
        assert refuses(lambda fact=fact: parse_summary(fact)) is Code.INTERLACE_SUMMARY


# --- hello ---

MODULE = module_from_text(
    "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u').\n"
)
PLAN = ExchangePlan(label_operands(Party(index=0, module=MODULE), Party(index=1, module=MODULE)))
HELLO = Hello(plan=PLAN.id, tai=Tai("1640995200:000000000"), tick_interval=10**10)
BOB = Verifier(ALICE)


def agree(mine: Hello = HELLO, theirs: Hello = HELLO, proven: Verifier | None = None) -> Agreement:
    return negotiate(mine, theirs, PLAN, proven, DEFAULT_LIMITS)


@pytest.mark.req("050-BLK-06", "050-HEL-06")
def test_a_hello_reads_back_whatever_the_order() -> None:
    hello = replace(
        HELLO, signer=BOB, fields=frozenset({"Group", "App"}), limits={"max_loop_iterations": 5}
    )
    facts = parse_block(block(hello.facts()), ANY)
    random.Random(2).shuffle(facts)
    assert parse_hello(facts) == hello
    assert parse_hello(HELLO.facts()).fields is None


@pytest.mark.req("050-HEL-06", "050-HEL-10", "050-HEL-14", "050-HEL-15", "050-HEL-16", "050-HEL-13")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("HelloTAI", []), ("HelloTAI", ["yesterday"]), ("HelloTAI", ["164099520:000000000"]),
        ("HelloTAI", ["1640995200:000000000", "1640995201:000000000"]), ("HelloTickInterval", []),
        ("HelloTickInterval", ["0"]), ("HelloTickInterval", ["-1"]), ("HelloTickInterval", ["x"]),
        ("HelloTickInterval", ["9" * 25]), ("HelloExchangePlan", []), ("HelloSigner", ["alice"]),
        ("HelloRecordFormat", ["h3"]),
    ],
)  # fmt: skip
def test_malformed_hellos(name: str, values: list[str]) -> None:
    facts = [fact for fact in HELLO.facts() if fact[0] != name] + [(name, v) for v in values]
    assert refuses(lambda: parse_hello(facts)) is Code.INTERLACE_HELLO


@pytest.mark.req("050-HEL-12", "050-HEL-13", "050-HEL-14")
def test_limits() -> None:
    for text in ("abc", "-1", "", "01"):
        facts = [*HELLO.facts(), ("HelloLimit", "max_loop_iterations", text)]
        assert refuses(lambda facts=facts: parse_hello(facts)) is Code.INTERLACE_HELLO
    hello = parse_hello(
        [*HELLO.facts(), ("HelloLimit", "foo", "1"), ("HelloLimit", "max_loop_iterations", "5")]
    )
    assert hello.limits == {"max_loop_iterations": 5}
    assert agree(theirs=hello).limits["max_loop_iterations"] == 5
    assert (
        agree(theirs=replace(HELLO, limits={"max_loop_iterations": 500})).limits[
            "max_loop_iterations"
        ]
        == 16
    )
    assert set(agree().limits) == WIRE_LIMITS
    coarse = replace(HELLO, limits={"partition_prefix_start": 0})
    assert agree(coarse, coarse).limits["partition_prefix_start"] == 0
    assert agree(HELLO, coarse).limits["partition_prefix_start"] == 2


@pytest.mark.req(
    "050-HEL-01",
    "050-HEL-03",
    "050-HEL-05",
    "050-FMT-01",
    "050-FMT-02",
    "050-SCH-06",
    "050-ADF-06",
    "050-ADF-07",
)
def test_what_cannot_be_agreed_on() -> None:
    assert refuses(lambda: agree(theirs=replace(HELLO, plan="E.other"))) is Code.INTERLACE_PLAN  # type: ignore[arg-type]
    assert refuses(lambda: agree(theirs=replace(HELLO, signer=BOB))) is Code.INTERLACE_SIGNER
    assert refuses(lambda: agree(proven=BOB)) is Code.INTERLACE_SIGNER
    assert agree(theirs=replace(HELLO, signer=BOB), proven=BOB).formats == {"H3"}
    assert agree(theirs=replace(HELLO, formats=frozenset({"H3", "H9"}))).formats == {"H3"}
    for formats in (frozenset({"H9"}), frozenset[str]()):
        assert (
            refuses(lambda f=formats: agree(theirs=replace(HELLO, formats=f)))
            is Code.INTERLACE_FORMAT
        )
    assert (
        refuses(lambda: agree(theirs=replace(HELLO, fields=frozenset({"App"}))))
        is Code.INTERLACE_SCHEMA
    )
    assert agree(theirs=replace(HELLO, fields=frozenset({"Group"}))).fields == frozenset({"Group"})


@pytest.mark.req("050-SCH-01", "050-SCH-02", "050-SCH-03")
def test_field_schemas() -> None:
    assert intersect_fields(frozenset({"Group", "App"}), frozenset({"App", "Name"})) == frozenset(
        {"App"}
    )
    assert intersect_fields(None, frozenset({"Group"})) == frozenset({"Group"})
    assert intersect_fields(frozenset({"Group"}), None) == frozenset({"Group"})
    assert intersect_fields(None, None) is None


@pytest.mark.req("050-HEL-07", "050-HEL-08", "050-HEL-09", "050-HEL-11", "050-RTF-05")
def test_shared_time() -> None:
    later = replace(HELLO, tai=Tai("1640995201:999999999"), tick_interval=3 * 10**10)
    one, two = agree(HELLO, later), agree(later, HELLO)
    assert one == two
    assert (one.start, one.clock_skew_seconds, one.tick_interval) == (later.tai, 1, 3 * 10**10)
    assert one.runtime_facts() == [
        ("ClockSkewSeconds", "1"),
        ("StartTAI", later.tai),
        ("TickTAI", later.tai),
    ]
    assert agree().clock_skew_seconds == 0


@pytest.mark.req("050-LNK-01", "050-LNK-03")
def test_link_ids_are_the_same_on_both_sides() -> None:
    other = forge.KEY.verifier[:-5] + "4.H3"
    assert link_id(BOB, Verifier(other), PLAN.id) == link_id(Verifier(other), BOB, PLAN.id)
    first, second = sorted((BOB, other))
    assert link_id(BOB, Verifier(other), PLAN.id) == digest(f"{first}{second}{PLAN.id}".encode())
    assert not any("Link" in name for name in blocks.PREDICATES)


# --- ticks ---

START = Tai("1640995200:500000000")


@pytest.mark.req("050-TIC-01", "050-TIC-02", "050-TIC-06", "050-TIC-07", "050-TIC-08")
def test_time_moves_when_both_are_ready() -> None:
    state = Ticking.begin(START, 700_000_000)
    assert state.now == state.local_ready == state.peer_ready == START
    state = state.reached(tai.add_ns(START, 5 * 700_000_000 + 1))
    assert (state.local_ready, state.now) == (tai.add_ns(START, 5 * 700_000_000), START)
    state = state.heard(tai.add_ns(START, 3 * 700_000_000))
    assert state.now == "1640995202:600000000"  # carried over seconds
    state = state.heard(tai.add_ns(START, 9 * 700_000_000))
    assert state.now == state.local_ready
    assert state.reached(START).now == state.now
    assert state.reached(Tai("0000000000:000000000")) == state


@pytest.mark.req("050-TIC-04", "050-TIC-05", "050-TIC-06", "050-TIC-12")
def test_invalid_ticks() -> None:
    state = Ticking.begin(START, 10**9).heard(tai.add_ns(START, 2 * 10**9))
    before = state.now
    for ready in (
        "soon",
        tai.add_ns(START, -(10**9)),
        tai.add_ns(START, 10**9),
        tai.add_ns(START, 3 * 10**9 + 1),
    ):
        assert refuses(lambda ready=ready: state.heard(ready)) is Code.INTERLACE_TICK
    assert state.now == before
    assert state.heard(tai.add_ns(START, 2 * 10**9)) == state


# --- commands ---


@pytest.mark.req("050-ARC-01", "050-ARC-05", "050-REC-09")
def test_plumb_advert(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(PLEX.raw + forge.blob() + PLEX.raw)
    options = ("--records", "r", "--source", ALICE, "--fields", "App,Group,Name,Type")
    listed = lace("plumb", "advert", "list", *options, cwd=tmp_path)
    assert listed.returncode == 0
    assert listed.stdout.endswith(ADVERT.canonical())
    done = lace("plumb", "advert", "digests", *options, cwd=tmp_path)
    assert (
        done.stdout.splitlines()[1]
        == f'{{"digest":"mj5ZQyphg472Zi6kk~4sXinPl6uH6V9R2lb_iPlrRnh","hash":"{PLEX.hash}"}}'.encode()
    )
    done = lace("plumb", "advert", "partitions", "--prefix-length", "2", *options, cwd=tmp_path)
    assert (
        done.stdout.splitlines()[1]
        == b"AdvertisementPartition('ty','1','Czk8BxPUxrafFseZusyZgyDs9CeuALpgpWAcuKiv0k8')"
    )
    everything = lace(
        "plumb", "advert", "list", "--records", "r", "--source", "s", "--all-fields", cwd=tmp_path
    )
    assert b"'Data-Length','0','5'" in everything.stdout
    assert (
        lace("plumb", "advert", "list", "--records", "r", "--source", "s", cwd=tmp_path).returncode
        == 2
    )
    (tmp_path / "r").write_bytes(PLEX.raw[:-1] + b"X" + PLEX.raw)
    assert lace("plumb", "advert", "list", *options, cwd=tmp_path).returncode == 3


def test_an_advertisement_is_a_value() -> None:
    assert Advertisement("P.a.H9", ALICE) == Advertisement("P.a.H9", ALICE, ())


@pytest.mark.req("050-REC-06")
def test_records_of_other_formats_are_found_by_their_prefix_and_cost_no_more() -> None:
    """A peer may bring up many of them, and summaries of many partitions that they are not in."""
    chance = random.Random(1)
    names = [f"S.{''.join(chance.choices('abcxyz', k=43))}.H9" for _ in range(300)]
    table = Partitions()
    for start in range(0, 300, 50):
        table.put({name: digest(name.encode()) for name in names[start : start + 50]})
    table.remove(names[:100])
    left = sorted(names[100:], key=lambda name: name[2:])
    assert list(table.records("")) == left
    for prefix in ("a", "ab", "zz", "cx", left[7][2:9]):
        assert list(table.records(prefix)) == [n for n in left if n[2:].startswith(prefix)]
    assert table.copy().summary("a") == table.summary("a")
    looked = 0

    class Counted(str):
        __slots__ = ()

        def startswith(self, *given: object) -> bool:
            nonlocal looked
            looked += 1
            return super().startswith(*given)  # type: ignore[arg-type]

    table._order = [(Counted(name), record) for name, record in table._order]
    for character in "0123456789":
        assert table.summary(f"{character}{character}").count == 0
    assert looked <= 10


@pytest.mark.parametrize("seed", range(20))
def test_entries_are_put_into_a_run_one_by_one_or_all_at_once_to_the_same_end(seed: int) -> None:
    chance = random.Random(seed)
    size = entry_size(2)

    def some(most: int) -> dict[bytes, bytes]:
        return {
            bytes([chance.randrange(40)]).ljust(KEY, b"k"): chance.randbytes(2 * DIGEST)
            for _ in range(chance.randrange(most))
        }

    def text(entries: dict[bytes, bytes]) -> bytes:
        return b"".join(key + digests for key, digests in entries.items())

    for _ in range(50):
        before, fresh = some(60), some(8)
        run, more = in_order(text(before), size), in_order(text(fresh), size)
        wanted = text(dict(sorted((before | fresh).items())))
        assert merged(run, size, more) == wanted
        assert in_order(text(before) + text(fresh), size) == wanted


@pytest.mark.parametrize("size", [entry_size(1), entry_size(2)])
@pytest.mark.parametrize("begins", [256, 4])
def test_numpy_puts_entries_in_the_same_order(
    size: int, begins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashes whose first eight bytes are alike, and records that come twice, count as without."""
    pytest.importorskip("numpy")
    chance = random.Random(size + begins)
    monkeypatch.setattr(runs, "_TO_USE", 2)
    seen = []
    for _ in range(60):
        entries = [
            bytes([chance.randrange(begins)]) * 8 + chance.randbytes(24)
            + chance.choice([b"P", b"S"]) + chance.randbytes(size - KEY)
            for _ in range(chance.randrange(2, 9))
        ]  # fmt: skip
        entries += chance.sample(entries, chance.choice([0, 0, 0, 1]))
        made = in_order(b"".join(entries), size)
        by_key = {entry[:KEY]: entry for entry in entries}
        assert made == b"".join(by_key[key] for key in sorted(by_key))
        seen.append(runs._in_order_by_numpy(b"".join(entries), size, sys.modules["numpy"]))
    assert None in seen
    assert any(seen)


def test_a_run_is_read_the_same_however_long_it_is() -> None:
    chance = random.Random(7)
    for count in (*range(70), 127, 128, 129, 300):
        run = chance.randbytes(count * entry_size(2))
        entries = [run[at : at + entry_size(2)] for at in range(0, len(run), entry_size(2))]
        assert list(runs.cut(run, entry_size(2))) == entries
        for column in range(2):
            start = KEY + DIGEST * column
            assert list(runs.column_of(run, 2, column)) == [e[start:][:DIGEST] for e in entries]
        last = b"".join(entry[:KEY] + entry[-DIGEST:] for entry in entries)
        assert runs.last_digests(run, 2) == last
        assert runs.last_digests(last, 1) == last
