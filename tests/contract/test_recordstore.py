"""What every record store must do. A store joins by being added to ``STORES``, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import forge
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from links import link_of
from small_limits import hold_to

from lace.clock import unix_ns
from lace.crypto import SigningKey
from lace.datalog.ast import Predicate
from lace.datalog.evaluate import evaluate
from lace.errors import Code, Status, UsageError
from lace.ids import RecordHash
from lace.record import Plex, Record, build_blob, build_plex, facts, fields, seal
from lace.recordstore import (
    MemoryStore,
    RecordStore,
    SqliteStore,
    StoredRecord,
    StoreRecordId,
)
from lace.recordstore.base import LinkChange, LinkMemory
from lace.recordstore.mirror import MirroredStore
from lace.rules import check_lacegram, compile_program
from lace.urc import Coordinate, HashAddress, parse_urc
from lace.vocabulary import FIELD, HAVE, RECORD_FACTS

STORES: dict[str, Callable[[Path], RecordStore]] = {
    "memory": lambda _folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "records.lace"),
    "mirror": lambda _folder: MirroredStore(lambda _changes: None),
}
BEGINNING = StoreRecordId(0)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordStore]:
    made = STORES[request.param](tmp_path)
    yield made
    made.close()


def plex(name: str = "k", second: int = 1, data: bytes = b"", **extras: str) -> Plex:
    return build_plex(
        group="g",
        app="a",
        name=name,
        tai=f"{second:010d}:{0:09d}",
        extras=extras.items(),
        data=data,
    )


def place(text: str) -> Coordinate:
    parsed = parse_urc(text)
    assert isinstance(parsed, Coordinate)
    return parsed


def test_saving_is_idempotent_and_says_so(store: RecordStore) -> None:
    one, two = build_blob(b"1"), plex()
    assert [o.status for o in store.save([one, two, one])] == [
        Status.ACCEPTED,
        Status.ACCEPTED,
        Status.DUPLICATE,
    ]
    assert [o.status for o in store.save([two])] == [Status.DUPLICATE]
    assert store.count() == 2


@pytest.mark.req("110-URC-03", "110-IDX-03")
def test_what_was_saved_is_loaded_byte_for_byte(store: RecordStore) -> None:
    records: list[Record] = [
        build_blob(bytes(range(256))),
        plex(Título="Grüße"),
        seal(plex(), forge.KEY),
    ]
    store.save(records)
    for record in records:
        loaded = store.load(record.hash)
        assert loaded == record
        assert type(loaded) is type(record)
        assert store.has(record.hash)
    missing = build_blob(b"nowhere").hash
    assert store.load(missing) is None
    assert not store.has(missing)


def test_many_are_loaded_in_the_order_asked_and_up_to_so_many_bytes(store: RecordStore) -> None:
    blobs = [build_blob(b"%d" % number * 100) for number in range(1200)]
    store.save(blobs[::-1])
    missing = build_blob(b"nowhere").hash
    hashes = [blob.hash for blob in blobs]
    assert store.load_all([], 100) == []
    assert store.load_all([*hashes[:2], missing, *hashes[2:]], 10**9) == [
        *blobs[:2], None, *blobs[2:],
    ]  # fmt: skip
    two = len(blobs[0].raw) + len(blobs[1].raw)
    assert store.load_all([hashes[0], missing, *hashes[1:]], two) == [blobs[0], None, blobs[1]]
    assert store.load_all(hashes, two + 1) == blobs[:3]
    assert store.load_all(hashes, 1) == blobs[:1]  # at least one, however large it is
    assert store.load_all([missing, missing], 1) == [None, None]
    assert store.load_all([hashes[1], hashes[0], hashes[1]], 10**9) == [*blobs[1::-1], blobs[1]]


def test_reads_are_bounded_and_in_the_order_of_saving(store: RecordStore) -> None:
    blobs = [build_blob(b"%d" % i) for i in range(10)]
    assert store.high_water() == 0
    store.save(blobs[:5])
    store.save(blobs[5:])
    seen: list[StoredRecord] = []
    after = BEGINNING
    while batch := store.read(after, 3):
        assert len(batch) <= 3
        seen += batch
        after = batch[-1].id
    assert [stored.hash for stored in seen] == [blob.hash for blob in blobs]
    assert [stored.id for stored in seen] == sorted({stored.id for stored in seen})
    assert seen[-1].id == store.high_water()
    assert store.read(store.high_water(), 3) == []


@pytest.mark.req(
    "110-TIP-01", "110-TIP-02", "110-IDX-01", "110-URC-05", "110-VER-01", "110-VER-02", "110-VER-03"
)
def test_versions_come_with_the_raw_tip_first(store: RecordStore) -> None:
    bob = SigningKey(b"b" * 32)
    early, late = plex(second=1), [plex(second=2, data=b"%d" % i) for i in range(3)]
    sealed = [seal(early, forge.KEY), seal(late[0], bob)]
    store.save(
        [late[1], sealed[0], early, late[0], sealed[1], late[2], plex("other"), build_blob(b"k")]
    )
    newest = sorted([*late, sealed[1]], key=lambda r: r.hash, reverse=True)
    oldest = sorted([early, sealed[0]], key=lambda r: r.hash, reverse=True)
    everything = [record.hash for record in [*newest, *oldest]]
    assert store.versions(place("//g//a//k"), 100) == everything
    assert store.versions(place("//g//a//k"), 2) == everything[:2]
    assert store.versions(place("//g//a//nothing"), 100) == []
    assert set(store.versions(place("//g//a//k/|/seal"), 100)) == {s.hash for s in sealed}
    assert store.versions(place(f"//g//a//k/|/seal/{bob.verifier}"), 9) == [sealed[1].hash]
    exact = f"//g//a//k/|/plex/{early.tai}/{early.hash}"
    assert store.versions(place(exact), 9) == [early.hash]
    assert store.versions(place(exact.replace(early.tai, late[0].tai)), 9) == []
    wrong = f"//g//a//k/|/seal/{forge.KEY.verifier}/{sealed[1].tai}/{sealed[1].hash}"
    assert store.versions(place(wrong), 9) == []


@pytest.mark.req("030-EVAL-07", "020-FAC-01", "110-IDX-02")
def test_tips_are_the_newest_of_each_place_under_a_prefix(store: RecordStore) -> None:
    def at(app: str, name: str, second: int, group: str = "g") -> Record:
        return build_plex(
            group=group, app=app, name=name, tai=f"{second:010d}:{0:09d}", data=bytes([second])
        )

    old, new = at("a", "n/1", 1), at("a", "n/1", 5)
    tie = [
        at("a", "t", 3),
        build_plex(group="g", app="a", name="t", tai=f"{3:010d}:{0:09d}", data=b"other"),
    ]
    others = [
        at("a", "n/2", 2),
        at("a", "n0", 4),
        at("a/b", "n/1", 6),
        at("a0", "x", 7),
        at("a", "n/1", 8, "h"),
    ]
    store.save([old, new, *tie, *others, build_blob(b"no place")])
    tip = max(tie, key=lambda record: record.hash)

    def found(text: str | None) -> list[RecordHash]:
        parsed = None if text is None else parse_urc(text)
        assert not isinstance(parsed, Coordinate | HashAddress)
        return [hash for _, hash in store.tips(parsed)]

    assert found("//g//a//n/") == [others[0].hash, new.hash]
    assert found("//g//a//") == [r.hash for r in (others[0], tip, others[1], new, others[2])]
    assert found("//g//a/b//") == [others[2].hash]
    assert found("//g//nothing//") == []
    assert len(found(None)) == 7
    store.forget([new.hash])
    assert found("//g//a//n/") == [old.hash, others[0].hash]
    store.forget([old.hash])
    assert found("//g//a//n/") == [others[0].hash]


def test_a_snapshot_shows_the_facts_of_its_moment(store: RecordStore) -> None:
    first, later = plex("a", Tag="x"), plex("b")
    store.save([first])
    with store.snapshot() as snapshot:
        store.save([later])
        assert set(snapshot.iterate(HAVE)) == {(first.hash,)}
        store.forget([first.hash])
        assert set(snapshot.query(FIELD, first.hash, "Tag")) == {(first.hash, "Tag", "0", "x")}
        assert snapshot.high_water == 1
    with store.snapshot() as snapshot:
        assert set(snapshot.iterate(HAVE)) == {(later.hash,)}


links = st.sampled_from(["evidence B.x.H9", f"a b {build_blob(b'x').hash}", "nothing"])


def made_of(name: str, link: str, sealed: bool) -> Record:
    extras = [("+Link", link), ("Tag", "1"), ("Tag", "2")]
    made = build_plex(group="g", app="a", name=name, tai=f"{1:010d}:{0:09d}", extras=extras)
    return seal(made, forge.KEY, aux=forge.AUX) if sealed else made


records = st.one_of(
    st.binary(max_size=4).map(build_blob),
    st.builds(made_of, st.sampled_from(["k", "l/m"]), links, st.booleans()),
)


@pytest.mark.req("030-SRC-04", "020-FAC-02", "110-AUT-05")
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(records, max_size=8), st.sets(st.integers(0, 7)), st.data())
def test_snapshots_are_fact_sources(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[Record],
    forgotten: set[int],
    data: st.DataObject,
) -> None:
    """Every way of asking gives what the records' own facts say."""
    for make in STORES.values():
        with closing(make(tmp_path_factory.mktemp("store"))) as store:
            check_facts(store, made, forgotten, data)


def check_facts(
    store: RecordStore, made: list[Record], forgotten: set[int], data: st.DataObject
) -> None:
    store.save(made)
    store.forget([made[i].hash for i in forgotten if i < len(made)])
    gone = {made[i].hash for i in forgotten if i < len(made)}
    kept = {record.hash: record for record in made if record.hash not in gone}
    expected: dict[Predicate, set[tuple[str, ...]]] = {p: set() for p in RECORD_FACTS}
    for record in kept.values():
        for name, *values in facts(record):
            expected[Predicate(name, len(values))].add(tuple(values))
    with store.snapshot() as snapshot:
        assert set(snapshot.predicates()) == {p for p, rows in expected.items() if rows}
        for predicate, rows in expected.items():
            assert set(snapshot.iterate(predicate)) == rows
            assert snapshot.count(predicate) == len(rows)
            for row in sorted(rows)[:3]:
                columns = data.draw(st.sets(st.integers(0, predicate.arity - 1)))
                bound = {c: row[c] for c in columns}
                wanted = {r for r in rows if all(r[c] == v for c, v in bound.items())}
                assert set(snapshot.select(predicate, bound)) == wanted
                assert set(snapshot.query(predicate, row[0])) == {r for r in rows if r[0] == row[0]}
        assert list(snapshot.iterate(Predicate("Nope", 1))) == []
        with pytest.raises(UsageError):
            snapshot.query(HAVE, "a", "b")


NAMES = [
    "Type",
    "Group",
    "App",
    "Name",
    "TAI",
    "Signed-By",
    "Signature",
    "Data-Length",
    "Tag",
    "Ö",
    "No",
]


@pytest.mark.parametrize(
    "names", [None, [], *([name] for name in NAMES), NAMES[:6], NAMES], ids=str
)
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_a_snapshot_yields_records_with_their_fields(
    store: RecordStore, names: list[str] | None, at_once: int
) -> None:
    chosen = None if names is None else frozenset(names)
    tagged = build_plex(
        group="g", app="a", name="k", tai=f"{3:010d}:{0:09d}",
        extras=[("Tag", "b"), ("Tag", "a"), ("Zone", "z"), ("Ö", "'ö'")],
    )  # fmt: skip
    gone, later = plex("gone", Tag="t"), plex("later")
    kept = [build_blob(b"1"), plex(), tagged, seal(plex("s", Tag="x"), forge.KEY), build_blob(b"2")]
    store.save([*kept, gone])
    store.forget([gone.hash])
    with store.snapshot() as snapshot:
        store.save([later])
        batches = list(snapshot.fields(chosen, at_once))
    assert all(0 < len(batch) <= at_once for batch in batches)
    found = [entry for batch in batches for entry in batch]
    assert len(found) == len(kept)
    assert dict(found) == {record.hash: tuple(sorted(fields(record, chosen))) for record in kept}


@pytest.mark.parametrize(
    "values",
    [
        {}, {"Type": "B"}, {"Type": "P"}, {"Data-Length": "1"}, {"Group": "g"}, {"App": "b"},
        {"Tag": "a"}, {"Tag": "b", "Name": "k"}, {"Group": "g", "App": "a", "Signed-By": "S"},
        {"Signed-By": "S"}, {"Tag": "x", "Zone": "z"}, {"Zone": "z", "Type": "P"}, {"No": "x"},
        {"TAI": f"{3:010d}:{0:09d}"}, {"Name": "k", "Data-Length": "0"},
    ],
    ids=str,
)  # fmt: skip
def test_a_snapshot_finds_records_by_their_fields(
    store: RecordStore, values: dict[str, str]
) -> None:
    wanted = {name: forge.KEY.verifier if v == "S" else v for name, v in values.items()}
    tagged = build_plex(
        group="g", app="b", name="k", tai=f"{3:010d}:{0:09d}",
        extras=[("Tag", "b"), ("Tag", "a"), ("Zone", "z")],
    )  # fmt: skip
    kept = [build_blob(b"1"), plex(), tagged, seal(plex("s", Tag="x"), forge.KEY), plex(Tag="x")]
    gone = plex("gone", Tag="b")
    store.save([*kept, gone])
    store.forget([gone.hash])
    with store.snapshot() as snapshot:
        store.save([plex("k", 9, Tag="b", Zone="z")])
        found = [record.hash for record in snapshot.having(wanted)]
    assert len(found) == len(set(found))
    assert set(found) == {
        record.hash
        for record in kept
        if wanted.items() <= {(name, value) for name, _, value in fields(record)}
    }


@pytest.mark.parametrize("count", [0, 3, 1100])
def test_a_snapshot_knows_what_was_present(store: RecordStore, count: int) -> None:
    blobs = [build_blob(b"%d" % i) for i in range(count)]
    store.save(blobs)
    store.forget([blobs[0].hash] if blobs else [])
    later = build_blob(b"later")
    asked = [*(blob.hash for blob in blobs), later.hash, build_blob(b"never").hash]
    with store.snapshot() as snapshot:
        store.save([later])
        assert snapshot.present(asked) == {blob.hash for blob in blobs[1:]}


def test_a_record_is_found_by_the_id_it_was_stored_under(store: RecordStore) -> None:
    records = [plex(second=i) for i in range(1, 8)]
    store.save(records)
    first = store.read(StoreRecordId(0), 1)[0].id
    store.forget([records[2].hash])
    ids = [first - 1, first, first + 2, first + 6, first + 7]
    assert store.stored_under(ids) == {first: records[0].hash, first + 6: records[6].hash}
    assert store.stored_under([]) == {}


@pytest.mark.parametrize("count", [0, 3, 200])
def test_a_snapshot_yields_what_came_after_a_record(store: RecordStore, count: int) -> None:
    blobs = [build_blob(b"%d" % i) for i in range(count)]
    store.save(blobs)
    store.forget([blob.hash for blob in blobs[1:2]])
    left = blobs[:1] + blobs[2:]
    with store.snapshot() as snapshot:
        store.save([build_blob(b"later")])
        for id in (0, 1, 2, count, count + 1):
            found = [record.hash for record in snapshot.after(StoreRecordId(id), {})]
            assert found == [blob.hash for blob in left if blobs.index(blob) >= id]
        if count:
            hand: dict[str, Record] = {blob.hash: blob for blob in blobs[::2]}
            hand[build_blob(b"never").hash] = blobs[0]
            assert [r.hash for r in snapshot.after(BEGINNING, hand)] == [b.hash for b in left]
            reading = snapshot.after(BEGINNING, {})
            next(reading)
            store.forget([blobs[-1].hash])
            assert [r.hash for r in reading] == [blob.hash for blob in left[1:]]


def test_the_order_of_two_records_depends_on_them_alone(store: RecordStore) -> None:
    """Else what is done with some of them could tell of the others."""

    def order() -> list[str]:
        with store.snapshot() as snapshot:
            entries = [
                hash for batch in snapshot.fields(frozenset(["Tag"]), 2) for hash, _ in batch
            ]
        return [hash for hash in entries if hash in {record.hash for record in kept}]

    kept = [plex(f"{i}", Tag="t") if i % 2 else plex(f"{i}") for i in range(6)]
    store.save(kept)
    before = order()
    others = [plex(f"{i}x") for i in range(6)]
    store.save([*others, build_blob(b"1")])
    store.forget([other.hash for other in others[::2]])
    assert order() == before


def test_rules_run_on_a_snapshot(store: RecordStore) -> None:
    grant, note = plex("grant", Member="bob"), plex("note", By="bob")
    store.save([grant, note, plex("spam", By="eve")])
    program = compile_program(check_lacegram(
        "Member(V) :- Have(G), Field(G,'Member',_,V).\n"
        "A(N) :- Have(N), Field(N,'By',_,V), Member(V).\n"
    ).lacegram)  # fmt: skip
    with store.snapshot() as snapshot:
        assert evaluate(program, snapshot).rows(Predicate("A", 1)) == {(note.hash,)}


def test_forgetting_is_local_and_ids_are_not_used_again(store: RecordStore) -> None:
    one, two = build_blob(b"1"), plex()
    store.save([one, two])
    before = store.high_water()
    assert store.forget([one.hash, two.hash, one.hash, RecordHash("B.x.H3")]) == 2
    assert store.count() == 0
    assert store.versions(place("//g//a//k"), 9) == []
    assert store.high_water() == before
    assert [o.status for o in store.save([one])] == [Status.ACCEPTED]
    assert store.read(before, 9) == [StoredRecord(StoreRecordId(before + 1), one.hash)]


def test_what_is_forgotten_for_good_is_not_stored_until_it_is_remembered(
    store: RecordStore,
) -> None:
    one, two, three, never = build_blob(b"1"), plex(), build_blob(b"3"), build_blob(b"never here")
    store.save([one, two])
    assert store.kept_out([one.hash]) == set()
    assert store.forget([one.hash, two.hash, never.hash, one.hash], for_good=True) == 2
    assert store.forget([one.hash], for_good=True) == 0
    names = [r.hash for r in (one, two, three, never)]
    assert store.kept_out(names) == {one.hash, two.hash, never.hash}
    assert store.all_kept_out() == sorted((one.hash, two.hash, never.hash))
    heard: list[StoredRecord] = []
    store.subscribe(heard.extend)
    saved = store.save([one, three, never])
    assert [o.status for o in saved] == [Status.REFUSED, Status.ACCEPTED, Status.REFUSED]
    assert [(o.value, o.code) for o in saved[::2]] == [(None, Code.STORE_FORGOTTEN)] * 2
    assert [stored.hash for stored in heard] == [three.hash]
    assert (store.count(), store.has(one.hash), store.versions(place("//g//a//k"), 9)) == (
        1,
        False,
        [],
    )
    before = store.forgets()
    assert store.remember([one.hash, three.hash, one.hash]) == 1
    assert store.forgotten(before) == [one.hash]  # so that exchanges look at it again
    assert store.remember([one.hash]) == 0
    assert store.forgets() == before + 1
    assert store.all_kept_out() == sorted((two.hash, never.hash))
    assert [o.status for o in store.save([one, two])] == [Status.ACCEPTED, Status.REFUSED]


def test_standing_is_the_newest_record_and_how_often_anything_was_forgotten(
    store: RecordStore,
) -> None:
    def agrees() -> bool:
        return store.standing() == (store.high_water(), store.forgets())

    one, two = build_blob(b"1"), build_blob(b"2")
    assert store.standing() == (0, 0)
    store.save([one, two])
    assert store.standing() == (2, 0)
    store.forget([two.hash])
    assert agrees()
    assert store.standing() == (2, 1)
    store.forget([one.hash], for_good=True)
    store.remember([one.hash])
    store.save([one])
    assert agrees()
    assert store.standing() == (3, 3)


def test_what_is_forgotten_may_come_back_if_nothing_else_is_said(store: RecordStore) -> None:
    one = build_blob(b"1")
    store.save([one])
    store.forget([one.hash])
    assert (store.all_kept_out(), store.kept_out([one.hash])) == ([], set())
    assert [o.status for o in store.save([one])] == [Status.ACCEPTED]


def test_listeners_hear_of_what_is_new_until_they_stop(store: RecordStore) -> None:
    heard: list[StoredRecord] = []
    stop = store.subscribe(heard.extend)
    one = build_blob(b"1")
    store.save([one, one])
    store.save([one])
    stop()
    store.save([build_blob(b"2")])
    assert [stored.hash for stored in heard] == [one.hash]


def test_a_listener_that_ends_again_ends_nobody_else(store: RecordStore) -> None:
    heard: list[StoredRecord] = []
    one, other = store.subscribe(heard.extend), store.subscribe(heard.extend)
    one()
    one()
    store.save([build_blob(b"1")])
    assert [stored.hash for stored in heard] == [build_blob(b"1").hash]
    store.close()
    one()
    other()


def test_a_save_that_fails_keeps_nothing_of_itself(store: RecordStore) -> None:
    def failing() -> Iterator[Record]:
        yield build_blob(b"1")
        raise RuntimeError("the source of records broke")

    with pytest.raises(RuntimeError):
        store.save(failing())
    assert store.count() == 0
    store.save([build_blob(b"1")])
    assert store.count() == 1


@pytest.mark.req("050-CUR-01")
def test_what_is_known_of_a_link_is_one_value(store: RecordStore) -> None:
    assert link_of(store, b"link") is None
    store.keep_link(b"link", LinkChange(b"one", {b"a": b"1", b"b": b"2"}))
    store.keep_link(b"other", LinkChange(b"two", {}))
    assert link_of(store, b"link") == LinkMemory(b"one", {b"a": b"1", b"b": b"2"})
    assert link_of(store, b"other") == LinkMemory(b"two", {})
    change = LinkChange(b"three", {b"b": b"3", b"c": b"4"}, frozenset((b"a", b"none")), b"one")
    store.keep_link(b"link", change)
    assert link_of(store, b"link") == LinkMemory(b"three", {b"b": b"3", b"c": b"4"})
    store.keep_link(b"link", LinkChange(b"four", {b"d": b"5"}))  # begins from nothing
    assert link_of(store, b"link") == LinkMemory(b"four", {b"d": b"5"})


def test_parts_of_a_link_are_read_together_as_they_are_one_by_one(store: RecordStore) -> None:
    parts = {b"%c%d" % (kind, n): b"%d" % n for kind in b"apt" for n in range(700)}
    store.keep_link(b"other", LinkChange(b"head", {b"a9": b"of another"}))
    store.keep_link(b"link", LinkChange(b"head", parts))
    kept = store.link(b"link")
    assert kept is not None
    names = [*list(parts)[::2], b"a9999", b""]
    assert kept.some(names) == {name: parts[name] for name in names if name in parts}
    assert kept.some([]) == {}
    for begin in (b"p", b"t", b"t6", b"u"):
        assert kept.beginning(begin) == {n: d for n, d in parts.items() if n.startswith(begin)}
    kept.hold()
    assert kept.some(names) == {name: parts[name] for name in names if name in parts}
    assert kept.beginning(b"a") == {n: d for n, d in parts.items() if n.startswith(b"a")}


@pytest.mark.req("050-CUR-01")
def test_a_change_that_begins_from_something_else_is_not_made(store: RecordStore) -> None:
    """Two processes that know different things of a link do not mix them."""
    assert store.keep_link(b"link", LinkChange(b"one", {b"a": b"1"}))
    assert not store.keep_link(b"link", LinkChange(b"two", {b"b": b"2"}, base=b"another"))
    assert link_of(store, b"link") == LinkMemory(b"one", {b"a": b"1"})
    assert not store.keep_link(b"none", LinkChange(b"three", {b"c": b"3"}, base=b"one"))
    assert link_of(store, b"none") is None
    assert store.keep_link(b"link", LinkChange(b"four", {b"d": b"4"}))
    assert link_of(store, b"link") == LinkMemory(b"four", {b"d": b"4"})


@pytest.mark.req("050-CUR-01")
def test_what_is_kept_for_a_link_is_dropped_if_it_is_still_the_same(store: RecordStore) -> None:
    store.keep_link(b"link", LinkChange(b"one", {b"a": b"1"}))
    store.keep_link(b"other", LinkChange(b"one", {b"b": b"2"}))
    store.drop_link(b"link", b"another")
    assert link_of(store, b"link") == LinkMemory(b"one", {b"a": b"1"})
    store.drop_link(b"link", b"one")
    store.drop_link(b"none", b"one")
    assert link_of(store, b"link") is None
    assert link_of(store, b"other") == LinkMemory(b"one", {b"b": b"2"})
    store.keep_link(b"link", LinkChange(b"one", {}))
    assert link_of(store, b"link") == LinkMemory(b"one", {})


@pytest.mark.req("050-STA-06")
def test_what_was_forgotten_is_told_in_order(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [plex(second=i) for i in range(1, 8)]
    store.save(records)
    hashes = [record.hash for record in records]
    start = store.forgets()
    assert store.forgotten(start) == []
    store.forget([hashes[0], hashes[1]])
    store.forget([hashes[0]])  # it is not here any more
    store.forget([hashes[2]])
    assert store.forgets() == start + 2
    told = store.forgotten(start)
    assert told is not None
    assert (set(told[:2]), told[2:]) == (set(hashes[:2]), [hashes[2]])
    assert store.forgotten(start + 1) == [hashes[2]]
    assert store.forgotten_then(start) is None
    assert store.forgotten_then(start + 1) == min(hashes[:2])
    assert store.forgotten_then(start + 2) == hashes[2]
    store.save(records[:1])
    store.forget([hashes[0]])
    assert store.forgotten(start + 2) == [hashes[0]]
    hold_to(monkeypatch, forgotten=2)
    store.forget([hashes[3]])
    store.forget([hashes[4]])
    assert store.forgotten(start) is None  # too long ago
    assert store.forgotten(store.forgets() - 1) == [hashes[4]]


def test_what_is_remembered_of_links_has_a_limit(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_to(monkeypatch, links=3)
    links = (b"a", b"b", b"c", b"d")
    for link in links[:3]:
        store.keep_link(link, LinkChange(b"head", {b"x": b"text"}))
    store.keep_link(b"a", LinkChange(b"used", {}, base=b"head"))
    store.keep_link(b"d", LinkChange(b"one more", {}))
    assert [link for link in links if link_of(store, link)] == [b"a", b"c", b"d"]
    hold_to(monkeypatch, links=3, link_bytes=5000)
    store.keep_link(b"d", LinkChange(b"more", {b"x": b"x" * 4990}, base=b"one more"))
    assert [link for link in links if link_of(store, link)] == [b"d"]
    store.keep_link(b"d", LinkChange(b"most", {b"y": b"x" * 4990}, base=b"more"))
    assert link_of(store, b"d") is None  # more than there is room for
    store.keep_link(b"d", LinkChange(b"less", {b"y": b"x"}))
    assert link_of(store, b"d") == LinkMemory(b"less", {b"y": b"x"})


def test_a_link_that_is_looked_at_is_used(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if nothing new is kept of it, as of a friend who comes each day."""
    hold_to(monkeypatch, links=3)
    links = (b"a", b"b", b"c", b"d")
    for link in links[:3]:
        store.keep_link(link, LinkChange(b"head", {}))
    a_day_later = unix_ns() + 24 * 3600 * 10**9
    monkeypatch.setattr("lace.recordstore.sqlite_links.unix_ns", lambda: a_day_later)
    kept = store.link(b"a")
    assert kept is not None
    kept.close()
    store.keep_link(b"d", LinkChange(b"head", {}))
    assert [link for link in links if link_of(store, link)] == [b"a", b"c", b"d"]
