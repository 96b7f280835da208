"""The developer surface: open, get, list, store, sync, open_interlace, for_each, and by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hosting import hosting
from meeting import Host
from wires import store_of as wires_store

import lace
from lace import blocking
from lace.api.handles import store_of
from lace.driving.pair import interlace
from lace.errors import Code
from lace.interlace.messages import Ending
from lace.recordstore import MemoryStore
from lace.tai import Tai

NOTES = "//notes-demo//notes//"
KIND = lace.RecordKind(
    group="notes-demo", app="notes/message", fields=("Title",), required=("Title",)
)
BOB = lace.SigningKey(b"b" * 32)


def note(number: int, data: str = "hello") -> lace.Record:
    return lace.build_plex(
        group="notes-demo",
        app="notes/message",
        name=f"m/{number}",
        tai=f"{number:010d}:{0:09d}",
        extras=[("Title", f"note {number}")],
        data=data.encode(),
    )


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


@pytest.mark.req("000-API-01", "000-API-04", "000-API-05", "000-API-18", "000-REC-06")
def test_a_lace_is_opened_with_one_call_and_lists_without_a_peer(tmp_path: Path) -> None:
    async def test() -> None:
        async with lace.open(tmp_path / "notes.lace", records=[KIND, note(1)]) as local:
            made = local.kind("notes/message").build("m/2", "hi", {"Title": "two"}, key=BOB)
            assert isinstance(made, lace.Seal)
            (outcome,) = await lace.store(local, [made])
            assert outcome.status is lace.Status.ACCEPTED
            assert [r.hash for r in await lace.list(local, NOTES)] == [note(1).hash, made.hash]
        async with lace.open(tmp_path / "notes.lace") as again:
            assert len(await lace.list(again, NOTES)) == 2

    run(test)


def test_a_folder_is_opened_with_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    bob = lace.Keyring().add("bob", demo=True)
    (tmp_path / "rules").write_text(lace.selector(NOTES).text)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lace.toml").write_text(
            'key = "bob"\nselect = "file:../rules"\nexpose = "everything"\n'
            '[peers.server]\naddress = "tcp:127.0.0.1:4790"\n'
            f'expect = "{bob.verifier}"\ntrust = "server.pem"\n'
        )
        lace.open(tmp_path / name / "records.lace").close()
    other = lace.build_plex(group="g", app="a", name="n", tai=Tai("0000000001:000000000"))
    for path in (tmp_path / "here", tmp_path / "here" / "lace.toml"):
        with lace.open(path, records=[note(1), other]) as here:
            assert here.key == bob.key
            assert here.exposure.default == "everything"
            assert here.peers["server"].expected == bob.verifier
            assert here.peers["server"].trust == tmp_path / "here" / "server.pem"
            assert blocking.list(here) == [note(1)]
            assert [row["Name"] for row in blocking.table(here, columns=["Name"])] == ["m/1"]
            assert lace.explain(here, note(1).hash).allowed
            assert not lace.explain(here, other.hash).allowed
    with lace.open(tmp_path / "here" / "records.lace") as file, lace.open() as memory:
        assert len(blocking.list(file, NOTES)) == 1
        for bare in (file, memory):
            assert (bare.key, bare.policy) == (None, None)
            with pytest.raises(lace.UsageError, match="nothing says which records belong"):
                blocking.list(bare)
    with lace.open(tmp_path / "here", key=BOB) as here, lace.open(tmp_path / "there") as there:
        assert here.key == BOB
        assert blocking.sync(here, there).sent == (note(1).hash,)
        assert blocking.list(there) == [note(1)]


def test_a_folder_without_settings_is_no_lace(tmp_path: Path) -> None:
    with pytest.raises(lace.UsageError, match=r"is no lace: it has no lace\.toml") as caught:
        lace.open(tmp_path)
    assert caught.value.code is Code.SETTINGS_MISSING
    assert "lace init" in caught.value.hint


def test_blocking_calls_work_where_a_loop_runs_already(tmp_path: Path) -> None:
    """A notebook has such a loop."""

    async def test() -> None:
        with lace.open(tmp_path / "a") as here, lace.open() as there:
            assert blocking.store(here, [note(1)])[0].ok
            assert blocking.list(here, NOTES) == [note(1)]
            assert blocking.get(here, f"////{note(1).hash}") == note(1)
            assert blocking.sync(here, there, NOTES).sent == (note(1).hash,)
            with pytest.raises(lace.UsageError):
                blocking.get(here, NOTES)
            assert len(blocking.table(there, NOTES)) == 1

    run(test)


def test_the_loop_goes_on_while_a_store_is_read(tmp_path: Path) -> None:
    """What takes long is done in the handle's own thread."""

    async def test() -> None:
        async with lace.open(tmp_path / "a", records=[note(1), note(2)]) as local:
            inner = store_of(local)
            threads: set[str] = set()
            for name in ("load", "save", "snapshot"):
                real = getattr(inner, name)

                def noted(*given: object, real: Callable[..., object] = real) -> object:
                    threads.add(threading.current_thread().name)
                    return real(*given)

                setattr(inner, name, noted)
            assert len(await lace.list(local, NOTES)) == 2
            assert await lace.get(local, f"////{note(1).hash}") == note(1)
            assert (await lace.store(local, [note(3)]))[0].ok
            each = lace.for_each(local, NOTES)
            assert isinstance(each, AsyncGenerator)
            async with aclosing(each):
                await anext(each)
            assert threads
            assert all(name.startswith("lace") for name in threads), threads

    run(test)


def test_a_wrong_type_gets_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    named: Any = lace.Keyring().add("alice", demo=True)
    wrong: Any = 5
    keyed: list[Callable[[], object]] = [
        lambda: lace.open(key=named),
        lambda: lace.connect("tcp:127.0.0.1:1", key=named),
        lambda: KIND.build("m/1", fields={"Title": "x"}, key=named),
    ]
    for call in keyed:
        with pytest.raises(lace.UsageError, match="key is a SigningKey, not a NamedKey") as caught:
            call()
        assert ".key" in caught.value.hint
    with lace.open() as local:
        calls: list[tuple[Callable[[], object], str]] = [
            (lambda: blocking.list(wrong, NOTES), "a lace or a peer, not an int"),
            (lambda: blocking.get(wrong, f"////{note(1).hash}"), "a lace or a peer, not an int"),
            (lambda: blocking.store(wrong, [note(1)]), "a lace or a peer, not an int"),
            (lambda: blocking.sync(local, wrong, NOTES), "a lace or a peer, not an int"),
            (lambda: blocking.sync(wrong, local, NOTES), "a lace, not an int"),
            (lambda: blocking.list(local, wrong), "a policy is"),
            (lambda: blocking.store(local, [wrong]), "a record or bytes, not an int"),
            (lambda: lace.explain(wrong, note(1).hash, NOTES), "a lace, not an int"),
        ]
        for call, sentence in calls:
            with pytest.raises(lace.UsageError, match=sentence):
                call()


def test_a_peer_is_given_by_its_address_too() -> None:
    host = Host(wires_store([note(1)]), stays=False)
    with hosting(host) as address, lace.open() as local:
        assert blocking.sync(local, address, NOTES).received == (note(1).hash,)
        with pytest.raises(lace.LaceError, match="nobody"):
            blocking.sync(local, "nobody", NOTES)
    with hosting(host) as address:
        peer = lace.connect(address)
        named = lace.Lace(_store=MemoryStore(), peers={"server": peer})
        assert len(blocking.sync(named, "server", NOTES).received) == 1


@pytest.mark.parametrize("name", [None, "a.lace"])
def test_a_closed_lace_says_so(tmp_path: Path, name: str | None) -> None:
    local = lace.open(None if name is None else tmp_path / name, records=[note(1)])
    assert repr(local) == f"<Lace {'in memory' if name is None else tmp_path / name}>"
    assert {local: 1}[local] == 1
    local.close()
    local.close()  # once more does no harm
    assert "closed" in repr(local)
    calls: list[Callable[[], object]] = [
        lambda: blocking.list(local, NOTES),
        lambda: blocking.get(local, f"////{note(1).hash}"),
        lambda: blocking.store(local, [note(2)]),
        lambda: blocking.sync(local, local, NOTES),
        lambda: lace.explain(local, note(1).hash, NOTES),
    ]
    for call in calls:
        with pytest.raises(lace.UsageError, match="was closed") as caught:
            call()
        assert caught.value.code is Code.STORE_CLOSED


@pytest.mark.req("000-REC-06")
def test_kinds_hold_records_to_their_fields() -> None:
    for fields in ({}, {"Title": "x", "Colour": "red"}):
        with pytest.raises(lace.UsageError) as caught:
            KIND.build("m/1", fields=fields)
        assert caught.value.code is Code.RECORD_KIND
    with lace.open(records=[KIND]) as local, pytest.raises(lace.UsageError, match="notes/message"):
        local.kind("tasks")


@pytest.mark.req("110-EVT-01", "110-VER-01", "110-TIP-01", "110-TIP-02", "110-TIP-03", "110-URC-03")
def test_get_gives_the_tip_of_what_is_selected() -> None:
    async def test() -> None:
        with lace.open() as local:
            versions = [
                lace.build_plex(group="g", app="a", name="n", tai=f"{i:010d}:{0:09d}", data=data)
                for i, data in ((1, b"old"), (3, b"x"), (3, b"y"), (2, b"z"))
            ]
            await lace.store(local, versions)
            tip = await lace.get(local, "//g//a//n")
            newest = max(versions, key=lambda record: (record.tai, record.hash))
            assert tip == newest
            exact = await lace.get(local, f"////{versions[0].hash}")
            assert exact == versions[0]
            assert await lace.get(local, "//g//a//other") is None
            with pytest.raises(lace.UsageError, match="prefix"):
                await lace.get(local, "//g//a//n/")

    run(test)


@pytest.mark.req("110-EVT-03", "110-EVT-04", "110-AUT-04", "000-NOT-06")
def test_store_says_of_each_record_what_became_of_it() -> None:
    async def test() -> None:
        signed = KIND.build("m/1", "x", {"Title": "t"}, key=BOB)
        broken = signed.raw.replace(b"Title: t", b"Title: u")
        with lace.open() as local:
            outcomes = await lace.store(local, [note(1), note(1).raw, broken, b"nonsense"])
        assert [outcome.status for outcome in outcomes] == [
            lace.Status.ACCEPTED,
            lace.Status.DUPLICATE,
            lace.Status.REJECTED,
            lace.Status.REJECTED,
        ]
        assert outcomes[2].code is Code.RECORD_HASH_MISMATCH

    run(test)


@pytest.mark.req("000-SYN-01", "000-API-14", "000-API-16", "100-DX-02", "050-OPS-01", "050-OPS-02")
def test_sync_converges_two_laces_on_what_both_select() -> None:
    async def test() -> None:
        private = lace.build_plex(group="diary", app="d", name="1", tai=f"{1:010d}:{0:09d}")
        with (
            lace.open(records=[note(1), private]) as left,
            lace.open(records=[note(2)], key=BOB) as right,
        ):
            heard: list[object] = []
            result = await lace.sync(left, right, NOTES, listen=heard.append)
            assert result.received == (note(2).hash,)
            assert result.sent == (note(1).hash,)
            assert result.peer == BOB.verifier
            assert [r.hash for r in await lace.list(right, NOTES)] == [note(1).hash, note(2).hash]
            assert await lace.list(right, "//diary//d//") == []
            kinds = [type(event).__name__ for event in heard]
            assert kinds == ["RecordSaved", "FixedPoint", "Closed"]

    run(test)


@pytest.mark.req("000-SYN-01")
def test_each_side_exposes_for_itself() -> None:
    async def test() -> None:
        with lace.open(records=[note(1)]) as left, lace.open(records=[note(2)]) as right:
            result = await lace.sync(left, right, NOTES, their_expose="none")
            assert result.received == ()  # our rules see nothing there, so nothing is sent to us
            assert result.sent == (note(1).hash,)
            live = await lace.open_interlace(left, right, NOTES, expose="selected")
            assert (await live.fixed_point()).received == (note(2).hash,)
            await live.close()

    run(test)


@pytest.mark.req("000-API-09")
def test_an_open_interlace_says_when_it_tries_again_and_closes_at_once() -> None:
    async def test() -> None:
        waits: list[tuple[float, str]] = []
        with lace.open() as local:
            peer = lace.connect("tcp:127.0.0.1:1")
            live = await lace.open_interlace(
                local, peer, NOTES, retry=lambda seconds, why: waits.append((seconds, why))
            )
            while not waits:
                await asyncio.sleep(0.01)
            await live.close()
            assert [event async for event in live] == [
                lace.Closed(Ending.ASKED, lace.InterlaceResult())
            ]
        seconds, why = waits[0]
        assert 0 < seconds <= 0.5
        assert "127.0.0.1:1" in why

    run(test)


@pytest.mark.req("000-SYN-01", "050-EVL-03")
def test_an_exchange_that_ends_early_raises_with_what_was_done() -> None:
    async def test() -> None:
        with (
            lace.open(records=[note(1)], limits=lace.Limits(derived_facts=0)) as left,
            lace.open() as right,
        ):
            with pytest.raises(lace.InterlaceAborted) as caught:
                await lace.sync(left, right, NOTES)
            assert caught.value.code is Code.LIMIT_EXCEEDED
            assert caught.value.blame == "local"
            assert caught.value.result.received == ()
            assert caught.value.to_dict()["blame"] == "local"

    run(test)


@pytest.mark.req("000-API-06", "000-API-08", "000-API-09", "110-EVT-05", "050-OPN-02")
def test_an_open_interlace_tells_what_comes_and_ends_cleanly() -> None:
    async def test() -> None:
        with lace.open(records=[note(1)]) as left, lace.open() as right:
            live = await lace.open_interlace(right, left, NOTES)
            assert (await live.fixed_point()).received == (note(1).hash,)
            await lace.store(left, [note(2)])
            event = await live.next_event()
            assert isinstance(event, lace.RecordSaved)
            assert event.hash == note(2).hash
            await lace.store(right, [note(3)])
            while len(await lace.list(left, NOTES)) < 3:
                await asyncio.sleep(0.01)
            await live.close()
            rest = [event async for event in live]
            assert isinstance(rest[-1], lace.Closed)
            assert await live.next_event() is None

    run(test)


@pytest.mark.req("050-EPO-01")
def test_an_open_interlace_may_go_on_with_another_selector() -> None:
    async def test() -> None:
        other = lace.build_plex(group="tasks", app="t", name="1", tai=f"{1:010d}:{0:09d}")
        with lace.open(records=[note(1), other]) as left, lace.open() as right:
            everything = lace.module_from_text(
                "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
            )
            async with await lace.open_interlace(
                right, left, NOTES, their_policy=everything
            ) as live:
                await live.fixed_point()
                live.change(everything)
                result = await live.fixed_point()
                assert result.received == (other.hash,)

    run(test)


@pytest.mark.req("000-API-07")
def test_for_each_gives_what_is_there_and_then_what_comes_each_once() -> None:
    async def test() -> None:
        with lace.open(records=[note(1), note(2)]) as local:
            seen: list[str] = []
            async for record in lace.for_each(local, NOTES):
                seen.append(record.hash)
                if len(seen) == 2:
                    await lace.store(local, [note(1), note(3)])
                    await lace.store(
                        local,
                        [lace.build_plex(group="x", app="y", name="z", tai=f"{1:010d}:{0:09d}")],
                    )
                if len(seen) == 3:
                    break
            assert seen == [note(i).hash for i in (1, 2, 3)]

    run(test)


@pytest.mark.req("000-API-07")
def test_for_each_sees_what_another_process_stores(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "shared.lace"
        with lace.open(path) as local, lace.open(path) as elsewhere:
            await lace.store(elsewhere, [note(1)])
            async for record in lace.for_each(local, NOTES):
                if record.hash == note(2).hash:
                    break
                await lace.store(elsewhere, [note(2)])

    run(test)


@pytest.mark.req("000-API-10", "000-API-11", "000-API-12")
def test_by_hand_it_moves_a_step_at_a_time_and_comes_to_the_same() -> None:
    def events() -> tuple[list[object], list[int]]:
        with lace.open(records=[note(i) for i in range(20)]) as left, lace.open() as right:
            stepped = lace.SteppedInterlace(
                right, left, NOTES, clock=lambda: Tai("1700000000:000000000")
            )
            told: list[object] = []
            sizes: list[int] = []
            for _ in range(60):
                event = stepped.try_next_event()
                sizes.append(store_of(right).count())
                if event is not None:
                    told.append(event)
            blocking.store(left, [note(99)])
            for _ in range(60):
                event = stepped.try_next_event()
                if event is not None:
                    told.append(event)
            stepped.close()
            while (event := stepped.try_next_event()) is not None:
                told.append(event)
            return told, sizes

    first, sizes = events()
    assert first == events()[0]  # the same steps, the same events
    assert sizes[0] == 0
    saved = [event.hash for event in first if isinstance(event, lace.RecordSaved)]
    assert sorted(saved) == sorted(note(i).hash for i in [*range(20), 99])
    assert isinstance(first[-1], lace.Closed)

    async def driven() -> list[str]:
        with lace.open(records=[note(i) for i in range(20)]) as left, lace.open() as right:
            return list((await lace.sync(right, left, NOTES)).received)

    assert saved[:20] == asyncio.run(driven())


@pytest.mark.req("050-PRF-01", "050-PRF-02", "050-BLK-07")
def test_in_one_process_nothing_is_serialised_and_everything_is_as_over_a_stream() -> None:
    from exchanges import NOW, participant, stored
    from sides import Pair

    mine = [note(i) for i in range(30)]
    theirs = [note(i) for i in range(20, 60)]
    module = lace.selector(NOTES)
    text = participant(0, mine, module), participant(1, theirs, module)
    interlace(*text, NOW)
    direct = participant(0, mine, module), participant(1, theirs, module)
    pair = Pair(*direct, direct=True, vouched=(True, True))
    pair.start(NOW)
    pair.run(NOW)
    for one, other in zip(text, direct, strict=True):
        assert one.told == other.told
        assert stored(one) == stored(other)


@pytest.mark.req("000-API-17", "110-AUT-01", "110-AUT-02", "000-API-19", "100-DX-01")
def test_the_blocking_forms_do_the_same() -> None:
    with blocking.open(records=[note(1)]) as left, blocking.open() as right:
        assert blocking.sync(right, left, NOTES).received == (note(1).hash,)
        assert blocking.get(right, "//notes-demo//notes/message//m/1") == note(1)
        assert blocking.list(right, NOTES) == [note(1)]
        assert [o.status for o in blocking.store(right, [note(1)])] == [lace.Status.DUPLICATE]
        assert blocking.table(right, NOTES, ["Name"]).rows == (("m/1",),)


@pytest.mark.req("000-REC-01", "000-REC-02", "000-REC-03", "000-REC-05", "100-DX-03")
def test_records_are_rows_with_blanks_where_there_is_nothing() -> None:
    plain = lace.build_plex(group="g", app="a", name="n", tai=f"{1:010d}:{0:09d}", data=b"\xff\x00")
    table = lace.Projection.of(
        [note(1), plain], ["Hash", "Group", "Title", "Signed-By", "Data", "Data-Length"]
    )
    assert table.rows == (
        (note(1).hash, "notes-demo", "note 1", None, b"hello", "5"),
        (plain.hash, "g", None, None, b"\xff\x00", "2"),
    )
    assert "note 1" in str(table)
    assert "2 bytes" in str(table)
    assert "<th>Title</th>" in table._repr_html_()
    assert next(iter(table))["Title"] == "note 1"
    arrow = table.to_arrow()
    assert arrow.column("Title").to_pylist() == ["note 1", None]
    assert arrow.column("Data").to_pylist() == [b"hello", b"\xff\x00"]
    pandas = table.to_pandas()
    assert list(pandas.index) == [note(1).hash, plain.hash]
    assert pandas["Title"].iloc[0] == "note 1"
    polars = table.to_polars()
    assert polars["Title"].to_list() == ["note 1", None]
    assert polars["Data"].to_list() == [b"hello", b"\xff\x00"]


def test_a_long_table_says_how_much_it_leaves_out() -> None:
    table = lace.Projection.of([note(i) for i in range(60)], ["Name"])
    assert str(table).endswith("… and 10 more")
    assert len(table) == 60
