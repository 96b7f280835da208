"""What is known of a link survives accidents: lost, copied, shared or outdated, it is never wrong."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from exchanges import NOTES, by_partitions, note
from links import EVERYTHING, GRANTED, KEYS, SELECTED, TAG, Meeting, held, left_over
from small_limits import hold_to

from lace.answering.warm import WarmLinks
from lace.errors import Code, StoreError
from lace.interlace import messages as m
from lace.interlace.parameters import Parameters
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import Facet, module_from_text
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore, SqliteStore
from lace.recordstore.base import LinkChange, RecordStore

OFFERED = note(1, extras=TAG)
GRANT = note(2, app="grant", extras=TAG)
MODULES = GRANTED, EVERYTHING
ALL = EVERYTHING, EVERYTHING
TAGGED = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Tag',_,'t0').\n"
    "SelectAdvertised(P,S) :- AdvertisedField(P,S,'Tag',_,'t0').\n"
)
ANY_FIELD = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Tag',_,'t0').\n"
    "SelectAdvertised(P,S) :- AdvertisedField(P,S,_,_,'t0').\n"
)
#: Looks at all records together.
FEW = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Tag',_,'t0'), Cardinality(Have(_),'<','1000').\n"
    "SelectAdvertised(P,S) :- AdvertisedField(P,S,'Tag',_,'t0').\n"
)


class Busy(MemoryStore):
    """A store that cannot be written to while another process holds it."""

    is_busy = False

    def keep_link(self, key: bytes, change: LinkChange) -> bool:
        if self.is_busy:
            raise StoreError("another process holds the file", code=Code.STORE_LOCKED)
        return super().keep_link(key, change)


def meet(
    here: RecordStore, there: RecordStore, warm: WarmLinks | None, key: int = 1, **options: object
) -> Meeting:
    return Meeting((here, there), MODULES, keys=(0, key), warm=(warm, None), **options)  # type: ignore[arg-type]


def gets_what_is_wanted_later(here: RecordStore, there: RecordStore, warm: WarmLinks) -> None:
    """The offer was heard in an earlier exchange; now there is a reason to take it."""
    meeting = meet(here, there, warm, stays=True)
    assert meeting.believed(0) == meeting.advertised(1)
    here.save([GRANT])
    meeting.wake()
    assert here.has(OFFERED.hash)
    assert meeting.believed(0) == meeting.advertised(1) == held(there)
    assert meeting.believed(1) == meeting.advertised(0) == held(here)
    meeting.end()
    assert left_over((here, there), MODULES) == [(), ()]


@pytest.mark.req("050-CUR-01", "050-COR-08", "050-REC-02")
@pytest.mark.parametrize("is_warm", [False, True], ids=["started again", "still running"])
@pytest.mark.parametrize("accident", ["none", "busy", "busy later", "evicted", "lost"])
def test_what_was_offered_is_known_after_an_accident(
    accident: str, is_warm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there, other = Busy(), MemoryStore(), MemoryStore()
    there.save([OFFERED])
    warm = WarmLinks()
    here.is_busy = accident == "busy"
    meet(here, there, warm).end()
    here.is_busy = False
    match accident:
        case "busy later":  # the change is not kept, what was kept before is
            here.is_busy = True
            there.save([note(3)])
            meet(here, there, warm).end()
            here.is_busy = False
        case "evicted":
            with monkeypatch.context() as patch:
                hold_to(patch, links=1)  # stands for 10,000 other links
                meet(here, other, warm, 2).end()
            meet(here, there, warm).end()
        case "lost":
            here._links.clear()
    gets_what_is_wanted_later(here, there, warm if is_warm else WarmLinks())


@pytest.mark.req("050-CUR-01", "050-COR-08")
def test_two_programs_may_use_one_file_and_one_link(tmp_path: Path) -> None:
    """What one has at hand is older than what the other one kept: what was kept counts."""
    there, warm = MemoryStore(), WarmLinks()
    there.save([note(i, app="drafts") for i in range(20)])
    with SqliteStore(tmp_path / "s") as one, SqliteStore(tmp_path / "s") as other:
        meet(one, there, warm).end()
        there.save([OFFERED])
        meet(other, there, WarmLinks()).end()
        again = meet(one, there, warm).end()
        for question in ("ListAdvertisementPartition", "NarrowAdvertisementPartition"):
            assert again.facts(0, question) == []  # the other program has heard it all
        gets_what_is_wanted_later(one, there, warm)
        meet(other, there, WarmLinks()).end()


@pytest.mark.req("050-CUR-01", "050-COR-08", "050-REQ-01")
@pytest.mark.parametrize("is_warm", [False, True])
def test_two_peers_may_share_a_key(is_warm: bool) -> None:
    """Nobody is asked for what the other one has offered."""
    other = note(3, extras=TAG)
    here, first, second = MemoryStore(), MemoryStore(), MemoryStore()
    first.save([OFFERED])
    second.save([other])
    warm = WarmLinks() if is_warm else None
    stays = meet(here, first, warm, stays=True)
    meet(here, second, warm).end()
    stays.end()
    again = meet(here, first, warm, stays=True)
    assert again.believed(0) == held(first) == {OFFERED.hash}
    here.save([GRANT])
    again.wake()
    assert again.facts(0, "MayRequest") == [f"MayRequest('{OFFERED.hash}')"]
    assert again.results(0)[-1].not_available == ()
    again.end()
    meet(here, second, warm).end()
    assert held(here) == {OFFERED.hash, GRANT.hash, other.hash}
    assert left_over((here, second), MODULES) == [(), ()]


def contents(path: Path) -> list[tuple[bytes, ...]]:
    """Return what a file keeps of links."""
    with closing(sqlite3.connect(path)) as file:
        return [
            *file.execute("SELECT key, head FROM link_memory ORDER BY key"),
            *file.execute("SELECT name, data FROM link_part ORDER BY link, name"),
        ]


@pytest.mark.req("050-CUR-01", "050-COR-08")
@pytest.mark.parametrize("basis", ["the same", "another"])
def test_what_another_exchange_has_kept_meanwhile_is_not_lost(basis: str, tmp_path: Path) -> None:
    """Two devices of one key: one stays, the other one comes again and again."""
    here, first, second = SqliteStore(tmp_path / "s"), MemoryStore(), MemoryStore()
    limits = DEFAULT_LIMITS if basis == "the same" else by_partitions(DEFAULT_LIMITS)
    with here:
        for store in (here, first, second):
            store.save([note(i) for i in range(300)])
        Meeting((here, second), ALL, limits=limits).end()
        stays = Meeting((here, first), ALL, stays=True)
        for i in range(3):
            here.save([note(1000 + i)])
            before = contents(tmp_path / "s")
            stays.wake()
            assert stays.believed(0) == held(first) == held(here)
            kept = contents(tmp_path / "s")
            assert kept[0] != before[0]  # what was kept last is how the link stands
            again = Meeting((here, second), ALL, limits=limits).end()
            assert held(second) == held(here)
            if basis == "the same":
                assert len(set(kept) - set(before)) < 10  # and little of it was written
                for question in ("ListAdvertisementPartition", "NarrowAdvertisementPartition"):
                    assert again.facts(0, question) == []
        stays.end()
        assert contents(tmp_path / "s")
    assert left_over((first, second), ALL) == [(), ()]


@pytest.mark.req("050-CUR-01", "050-COR-08")
def test_what_is_kept_in_pages_that_cannot_be_read_ends_one_exchange(tmp_path: Path) -> None:
    """They cannot be freed either. Whoever opens the file next begins from nothing."""
    there, path = MemoryStore(), tmp_path / "s"
    with SqliteStore(path) as here:
        here.save([note(i) for i in range(50)])
        Meeting((here, there), ALL).end()
        here.save([note(60)])
        (root,) = here._one("SELECT rootpage FROM sqlite_schema WHERE name = 'link_part'", ())
        (size,) = here._one("PRAGMA page_size", ())
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    with SqliteStore(path, read_only=True) as here:
        Meeting((here, there), ALL).end()
    there.forget([note(3).hash])
    with SqliteStore(path) as here:
        last = Meeting((here, there), ALL).pair.sides[0].ended
        assert isinstance(last, m.Aborted)
        assert last.code == Code.STORE_CORRUPT
    for _ in range(2):
        with SqliteStore(path) as here:
            Meeting((here, there), ALL).end()
            assert held(here) == held(there) == {note(i).hash for i in (*range(50), 60)}


@pytest.mark.req("050-COR-08", "050-REQ-01")
@pytest.mark.parametrize("reads", [False, True], ids=["written", "only read"])
@pytest.mark.parametrize("told", ["what is remembered", "all fields", "columns", "all at once"])
def test_a_record_that_has_changed_on_the_disk_ends_no_exchange(
    told: str, reads: bool, tmp_path: Path
) -> None:
    """It was told of before anybody read its bytes. So it is listed; then it is gone."""
    there, path = MemoryStore(), tmp_path / "s"
    records = [note(i, extras=TAG) for i in range(30)]
    spoilt = records[-1].hash
    module = {"all at once": FEW, "all fields": ANY_FIELD}.get(told, TAGGED)
    modules = module, module
    with SqliteStore(path) as here:
        here.save(records)
        if told in {"what is remembered", "all fields"}:
            Meeting((here, there), modules).end()
            there = MemoryStore()  # the peer has lost everything
    with closing(sqlite3.connect(path)) as file:
        bad = "CAST(replace(CAST(raw AS TEXT), 'Tag: t0', 'Tag: t1') AS BLOB)"
        file.execute(f"UPDATE record SET raw = {bad} WHERE hash = ?", (spoilt,))
        file.commit()
    small = Parameters(note_up_to=10)  # stands for 20,000 records, as large stores have
    with SqliteStore(path, read_only=reads) as here:
        for missing in ((spoilt,), (), ()):
            last = Meeting((here, there), modules, parameters=small).end()
            assert last.results(1)[-1].not_available == missing
            assert held(there) == held(here) == {r.hash for r in records} - {spoilt}
        if not reads:
            assert here.quarantined() == [spoilt]
    if reads:
        there.save(records)
        with SqliteStore(path, read_only=True) as here:
            here.load(records[-1].hash)
            for _ in range(2):  # it cannot be stored, so it is not asked for
                Meeting((here, there), modules, parameters=small).end()


@pytest.mark.req("050-CUR-01", "050-COR-08")
@pytest.mark.parametrize("what", ["parts", "some part", "heads"])
def test_what_is_damaged_where_nothing_can_be_written_ends_no_exchange(
    what: str, tmp_path: Path
) -> None:
    """It stays as it is, so it would end each exchange with whoever opens the file."""
    there, path = MemoryStore(), tmp_path / "s"
    with SqliteStore(path) as here:
        here.save([note(i) for i in range(50)])
        Meeting((here, there), ALL).end()
        here.save([note(60)])
    spoil = {
        "parts": "UPDATE link_part SET data = CAST(data || x'00' AS BLOB)",
        "some part": "UPDATE link_part SET data = x'00' WHERE name = (SELECT max(name) FROM link_part)",
        "heads": "UPDATE link_memory SET head = x'7b7d'",
    }
    with closing(sqlite3.connect(path)) as file:
        assert file.execute(spoil[what]).rowcount
        file.commit()
    for _ in range(2):
        with SqliteStore(path, read_only=True) as here:
            Meeting((here, there), ALL).end()
            Meeting((here, there), ALL).end()
            assert held(there) == held(here)
        there.forget([note(3).hash, note(60).hash])
    with SqliteStore(path) as here:
        for _ in range(2):
            last = Meeting((here, there), ALL).pair.sides[0].ended
            assert not isinstance(last, m.Aborted) or last.code == Code.STORE_LINK
        Meeting((here, there), ALL).end()
        assert held(there) == held(here)


@pytest.mark.req("050-CUR-01", "050-COR-08")
@pytest.mark.parametrize("source", ["server", "client"])
def test_a_store_may_be_copied_to_the_other_side(source: str, tmp_path: Path) -> None:
    """To seed it, or to move house: what it remembers of the link is of the other side then."""
    takes = module_from_text(
        f"SelectHave(P) :- Have(P), Here('{KEYS[1].verifier}').\n"
        f"SelectAdvertised(P,S) :- Advertised(P,S), Peer('{KEYS[1].verifier}').\n"
    )
    modules = takes, EVERYTHING
    paths = {name: tmp_path / name for name in ("server", "client")}
    with SqliteStore(paths["server"]) as server, SqliteStore(paths["client"]) as client:
        client.save([note(i) for i in range(3)])
        Meeting((server, client), modules).end()
        assert server.count() == 3
    target = "client" if source == "server" else "server"
    for path in tmp_path.glob(f"{target}*"):
        path.unlink()
    shutil.copy(paths[source], paths[target])
    with SqliteStore(paths["server"]) as server, SqliteStore(paths["client"]) as client:
        client.save([note(10)])
        for _ in range(3):
            meeting = Meeting((server, client), modules).end()
            assert held(server) == held(client) == {note(i).hash for i in (0, 1, 2, 10)}
            assert meeting.believed(0) == meeting.advertised(1) == held(client)
        assert meeting.worked == [False, False]


SERVES = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
DIALS = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes'), Ready('yes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    "Ready('yes') :- Have(Q), Field(Q,'App',_,'key').\n"
)


@pytest.mark.req("050-CUR-01", "050-COR-08")
@pytest.mark.parametrize("remembers", ["nothing", "in the store", "at hand"])
@pytest.mark.parametrize("keys", [(0, 0), (0, 1)], ids=["one key", "two keys"])
def test_two_devices_may_change_their_roles(keys: tuple[int, int], remembers: str) -> None:
    """The plan and the keys are the same, and yet each has the other operand now."""
    one, other = MemoryStore(), MemoryStore()
    one.save([*(note(i) for i in range(3)), note(9, app="key")])
    warm = (WarmLinks(), WarmLinks()) if remembers == "at hand" else (None, None)
    modules = SERVES, DIALS
    Meeting((one, other), modules, keys=keys, warm=warm).end()
    assert other.count() == 0  # it is not ready
    if remembers == "nothing":
        for store in (one, other):
            store._links.clear()
    if remembers == "at hand":
        other.save([note(77, app="other")])
    back = keys[1], keys[0]
    Meeting((other, one), modules, keys=back, warm=(warm[1], warm[0])).end()
    assert held(other) >= {note(i).hash for i in range(3)}
    assert left_over((other, one), modules, keys=back) == [(), ()]


@pytest.mark.req("040-MOD-07", "050-CUR-01")
@pytest.mark.parametrize("remembers", ["nothing", "in the store", "at hand"])
def test_another_exposure_counts_from_the_next_exchange_on(remembers: str) -> None:
    """It is no part of the plan: the link is the same, and what is shown is not."""
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(i) for i in range(12)])
    warm = (WarmLinks(), WarmLinks()) if remembers == "at hand" else None
    only = Exposure((
        module_from_text(
            "AllowQueryRecord(V,P) :- Have(P), Peer(V), Field(P,'Name',_,'n/20').", Facet.EXPOSE
        ),
    ))  # fmt: skip

    def exchange(exposure: Exposure) -> tuple[Meeting, Iterable[object]]:
        meeting = Meeting(
            stores, (NOTES, NOTES), exposure=(exposure, SELECTED), warm=warm,
            remembers=remembers != "nothing",
        ).end()  # fmt: skip
        return meeting, {meeting.results(side)[-1].plan for side in (0, 1)}

    wide, plan = exchange(SELECTED)
    assert wide.advertised(0) == held(stores[0]) == held(stores[1])
    stores[0].save([note(20), note(21)])
    narrow, same = exchange(only)
    assert same == plan
    assert narrow.advertised(0) == narrow.believed(1) == {note(20).hash}
    assert stores[1].has(note(20).hash)
    assert not stores[1].has(note(21).hash)
    again, _ = exchange(SELECTED)
    assert again.advertised(0) == held(stores[0]) == held(stores[1])
    assert isinstance(again.pair.left.told[-1], m.Closed)
