"""A mirrored store put back from what it told is the store that told it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from links import link_of

from lace.record import build_blob
from lace.recordstore.base import LinkChange, StoreRecordId
from lace.recordstore.mirror import Change, Key, MirroredStore, Table


@dataclass
class Keeper:
    """Keeps what it is told, as a database would: what is gone must have been there."""

    rows: dict[tuple[Table, Key], bytes | int] = field(default_factory=dict)

    def __call__(self, changes: list[Change]) -> None:
        for table, key, value in changes:
            if value is None:
                del self.rows[table, key]
            else:
                self.rows[table, key] = value

    def reopened(self) -> MirroredStore:
        store = MirroredStore(self)
        before = dict(self.rows)
        store.restore((table, key, value) for (table, key), value in reversed(before.items()))
        assert self.rows == before  # nothing is told a second time
        return store


LINKS = (b"one", b"two")


def state(store: MirroredStore) -> object:
    return (
        store.read(StoreRecordId(0), 1000),
        store.high_water(),
        store.forgets(),
        store.all_kept_out(),
        {key: link_of(store, key) for key in LINKS},
    )


names = st.sampled_from([b"", b"a", b"b", b"c"])
steps = st.one_of(
    st.tuples(st.just("save"), st.lists(st.integers(0, 9), max_size=3)),
    st.tuples(st.just("forget"), st.lists(st.integers(0, 9), max_size=3)),
    st.tuples(st.just("for good"), st.lists(st.integers(0, 9), max_size=3)),
    st.tuples(st.just("remember"), st.lists(st.integers(0, 9), max_size=3)),
    st.tuples(
        st.just("link"),
        st.sampled_from(LINKS),
        st.binary(max_size=2),
        st.dictionaries(names, st.binary(max_size=2), max_size=3),
        st.frozensets(names, max_size=2),
        st.sampled_from(["new", "based", "stale"]),
    ),
)


@given(st.lists(steps, max_size=20))
def test_what_was_told_can_be_put_back_at_any_moment(story: list[tuple[object, ...]]) -> None:
    keeper = Keeper()
    store = MirroredStore(keeper)
    for step in story:
        match step:
            case "save", list() as numbers:
                store.save(build_blob(b"%d" % number) for number in numbers)
            case "forget", list() as numbers:
                store.forget(build_blob(b"%d" % number).hash for number in numbers)
            case "for good", list() as numbers:
                hashes = [build_blob(b"%d" % number).hash for number in numbers]
                store.forget(hashes, for_good=True)
            case "remember", list() as numbers:
                store.remember(build_blob(b"%d" % number).hash for number in numbers)
            case "link", bytes() as key, bytes() as head, dict() as put, frozenset() as gone, base:
                before = store.link(key)
                old = None if base == "new" or before is None else before.head
                store.keep_link(
                    key, LinkChange(head, put, gone, b"other" if base == "stale" else old)
                )
        reopened = keeper.reopened()
        assert state(reopened) == state(store)
        for stored in store.read(StoreRecordId(0), 1000):
            assert reopened.load(stored.hash) == store.load(stored.hash)


def test_an_id_is_not_used_again_after_a_reload() -> None:
    keeper = Keeper()
    store = MirroredStore(keeper)
    store.save([build_blob(b"1"), build_blob(b"2")])
    store.forget([build_blob(b"2").hash])
    reopened = keeper.reopened()
    reopened.save([build_blob(b"3")])
    assert [stored.id for stored in reopened.read(StoreRecordId(0), 9)] == [1, 3]
    assert reopened.forgotten(0) is None  # what was forgotten before is too long ago
