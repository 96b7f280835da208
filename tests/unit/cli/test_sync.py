"""sync and follow: what travels, what is told of it, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import forge
import pytest
from command import lace as lace_apart
from command import lace_inside as lace
from hosting import hosting
from meeting import Host
from servers import process
from wires import EVERYTHING, BusyStore, hashes, notes, store_of

from lace import blocking
from lace.api.handles import Lace
from lace.api.handles import store_of as inner_store
from lace.cli.exitcodes import Exit
from lace.cli.lake_peer import how_it_ended
from lace.cli.root import _exit_code
from lace.crypto.keys import demo_key
from lace.errors import Code, InterlaceAborted, LimitExceeded, TransportError
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.messages import Ending
from lace.keyring import Keyring
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import module_from_text
from lace.record.grammar import MARK
from lace.record.model import Record, Seal
from lace.record.validate import validate_record
from lace.recordstore import MemoryStore, SqliteStore
from lace.selectors import selector
from lace.transport.base import ByteStream

PLACE = "//g//notes//"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    for name in ("alice", "bob"):
        Keyring().add(name, demo=True)
        assert lace("init", name, "--key", name, "--select", PLACE, cwd=tmp_path).returncode == 0
    return tmp_path


def entries(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def stored(folder: Path) -> set[str]:
    with blocking.open(folder / "records.lace") as local:
        return {record.hash for record in blocking.list(local, EVERYTHING)}


def put(folder: Path, records: list[Record]) -> set[str]:
    with blocking.open(folder / "records.lace") as local:
        blocking.store(local, records)
    return {record.hash for record in records}


def ends(host: Host, number: int) -> list[m.Closed | m.Aborted]:
    """Wait until so many exchanges have ended on the other side too."""
    deadline = time.monotonic() + 30
    while len(host.ends) < number and time.monotonic() < deadline:
        time.sleep(0.01)
    return host.ends


@pytest.mark.req("000-API-15", "000-SYN-03", "100-DX-02", "110-AUT-06")
def test_sync_with_an_address_tells_what_travelled(home: Path) -> None:
    mine = put(home / "alice", notes(3))
    theirs = notes(2, start=10)
    host = Host(store_of(theirs), key=demo_key("bob"), stays=False)
    with hosting(host) as address:
        done = lace("sync", address, cwd=home / "alice")
        assert done.returncode == 0, done.stderr
        *events, fixed, closed = entries(done.stdout)
        told = [(event["event"], event["hash"]) for event in events]
        assert sorted(told) == sorted(
            [("saved", record.hash) for record in theirs] + [("sent", hash) for hash in mine]
        )
        assert (fixed["received"], fixed["sent"], fixed["rejected"]) == (2, 3, 0)
        assert fixed["peer"] == demo_key("bob").verifier
        assert closed["event"] == "closed"
        assert b"2 received" in done.stderr
        again = entries(lace("sync", address, cwd=home / "alice").stdout)
        assert (again[0]["received"], again[0]["sent"]) == (0, 0)
    assert stored(home / "alice") == mine | {record.hash for record in theirs}


@pytest.mark.req("110-AUT-03", "110-EVT-01", "110-EVT-02", "000-API-17", "000-API-16")
def test_a_peer_can_be_asked_without_storing_anything(home: Path) -> None:
    theirs = notes(3)
    host = Host(store_of(theirs), key=demo_key("bob"), stays=False)
    with hosting(host) as address:
        assert host.ends == []
        listed = entries(lace("list", PLACE, "--from", address, cwd=home / "alice").stdout)
        assert [row["hash"] for row in listed] == [record.hash for record in theirs]
        # Only interlaces reached it, one for the question: there is nothing else to ask with.
        assert [type(end).__name__ for end in ends(host, 1)] == ["Closed"]
        got = lace("get", "//g//notes//n/1", "--raw", "--from", address, cwd=home)
        assert got.stdout == theirs[1].raw
        none = lace("get", "//g//notes//n/9", "--from", address, cwd=home)
        assert (none.returncode, b"the peer shows nothing at //g//" in none.stderr) == (6, True)
        key = lace("list", PLACE, "--from", address, "--key", "alice", cwd=home)
        assert key.returncode == 0, key.stderr
        assert ends(host, 4)[-1].result.peer == demo_key("alice").verifier
    assert stored(home / "alice") == set()


@pytest.mark.req("000-SYN-07", "000-SYN-06", "000-API-13")
def test_two_laces_on_one_machine_write_apart_and_catch_up(home: Path) -> None:
    mine, theirs = put(home / "alice", notes(3)), put(home / "bob", notes(4, start=10))
    private = put(home / "bob", _tasks())
    done = lace("sync", "../bob", cwd=home / "alice")
    assert done.returncode == 0, done.stderr
    assert stored(home / "alice") == mine | theirs
    assert stored(home / "bob") == mine | theirs | private
    # Another peer with the same records stands in for bob.
    assert lace("init", "carol", "--select", PLACE, cwd=home).returncode == 0
    assert lace("sync", "../alice", cwd=home / "carol").returncode == 0
    assert stored(home / "carol") == mine | theirs
    assert lace("sync", "bob/records.lace", "--lace", "carol", cwd=home).returncode == 0


def _tasks() -> list[Record]:
    from lace.record import build_plex

    return [build_plex(group="g", app="tasks", name="t", tai="1700000000:000000000")]


class Liar(MemoryStore):
    """Sends other bytes than it says."""

    def load(self, hash: RecordHash) -> Record | None:
        record = super().load(hash)
        assert record is not None
        if record.raw.endswith(b"x"):
            return type(record)(record.hash, record.raw[:-1] + b"y", record.parts)
        return record


@pytest.mark.req("000-SYN-02", "000-NOT-06")
def test_a_lying_peer_stores_nothing_false_and_the_exit_code_says_so(home: Path) -> None:
    store = Liar()
    store.save(notes(1))
    with hosting(Host(store, stays=False)) as address:
        done = lace("sync", address, cwd=home / "alice")
    assert done.returncode == Exit.SOME_REJECTED
    rejected = [entry for entry in entries(done.stdout) if entry["event"] == "rejected"]
    assert [entry["code"] for entry in rejected] == ["record.hash-mismatch"]
    assert stored(home / "alice") == set()


@pytest.mark.req("000-API-03", "000-NOT-07")
def test_what_ends_early_ends_with_4_and_says_what_to_do(home: Path) -> None:
    async def hang_up(stream: ByteStream) -> None:
        await stream.read()
        stream.abort()

    with hosting(hang_up) as address:
        gone = lace("sync", address, cwd=home / "alice")
    assert gone.returncode == Exit.ABORTED
    assert b"until then: 0 received" in gone.stderr
    assert b"interlace.gone" in gone.stderr
    refused = lace("sync", address, cwd=home / "alice")  # nobody listens there any more
    assert refused.returncode == Exit.ABORTED
    assert b"transport.connect" in refused.stderr
    assert b"Check the address" in refused.stderr
    dead = lace("sync", "ws://127.0.0.1:1/interlace", cwd=home / "alice")
    assert dead.returncode == Exit.ABORTED
    host = Host(store_of(notes(1)), key=demo_key("bob"), stays=False)
    with hosting(host) as address:
        other = demo_key("mallory").verifier
        wrong = lace("sync", address, "--expect", other, cwd=home / "alice")
        assert wrong.returncode == Exit.ABORTED
        assert f"{demo_key('bob').verifier}, and {other} was expected".encode() in wrong.stderr
        assert b"Check whom you expect" in wrong.stderr
        nothing = Host(store_of(notes(1)), selector("//g//other//"), stays=False)
    with hosting(nothing) as address:  # the server's policy has no notes: nothing moves
        assert lace("sync", address, cwd=home / "alice").returncode == 0
    assert stored(home / "alice") == set()


def test_exit_codes_tell_limits_from_aborts() -> None:
    def aborted(code: Code) -> InterlaceAborted:
        return InterlaceAborted("x", code=code, blame="local", result=m.InterlaceResult())

    assert _exit_code(aborted(Code.LIMIT_EXCEEDED)) is Exit.LIMIT
    assert _exit_code(aborted(Code.INTERLACE_GONE)) is Exit.ABORTED
    assert _exit_code(LimitExceeded("x", configured=1, observed=2)) is Exit.LIMIT
    assert _exit_code(TransportError("x", code=Code.TRANSPORT_LOST)) is Exit.ABORTED


@pytest.mark.req("000-API-03")
def test_what_a_limit_ends_is_no_fixed_point_and_ends_with_5(home: Path) -> None:
    few = replace(DEFAULT_LIMITS, max_loop_iterations=1)
    theirs = notes(2)
    with hosting(Host(store_of(theirs), limits=few, stays=False)) as address:
        done = lace("sync", address, cwd=home / "alice")
        assert done.returncode == Exit.LIMIT, done.stderr
        assert b"max_loop_iterations" in done.stderr
        assert b"until then: 2 received" in done.stderr
        assert b"fixed point:" not in done.stderr
        assert stored(home / "alice") == {record.hash for record in theirs}  # and nothing is lost
        with blocking.open() as local:
            peer = blocking.connect(address)
            with pytest.raises(InterlaceAborted, match="max_loop_iterations") as caught:
                blocking.sync(local, peer, PLACE)
            assert caught.value.code is Code.LIMIT_EXCEEDED
            assert len(caught.value.result.received) == 2


@pytest.mark.req("050-BND-05", "050-SND-04", "000-API-03")
def test_a_peer_that_keeps_storing_is_no_reason_to_fail(home: Path) -> None:
    few = replace(DEFAULT_LIMITS, max_loop_iterations=3)
    theirs = BusyStore()
    theirs.save(notes(2))
    with hosting(Host(theirs, limits=few, stays=False)) as address:
        done = lace("sync", address, cwd=home / "alice")
        assert done.returncode == Exit.OK, done.stderr
        assert b"everything that was there at the beginning: 4 received" in done.stderr
        assert b"no fixed point: records were stored all the while" in done.stderr
        assert b"\nfixed point:" not in done.stderr
        *_, last = map(json.loads, done.stdout.splitlines())
        assert (last["event"], last["ending"], last["received"]) == ("closed", Ending.LOOPS, 4)
        with blocking.open() as local:
            result = blocking.sync(local, blocking.connect(address), PLACE)
            assert (result.fixed_point, result.ending) == (False, Ending.LOOPS)
            missing = hashes(theirs) - hashes(inner_store(local))
            assert len(missing) == 1  # the last one was stored while the one before was sent


def test_what_was_stored_while_a_sync_went_on_still_waits(home: Path) -> None:
    """status counts what the peer may not have been offered yet."""
    few = replace(DEFAULT_LIMITS, max_loop_iterations=3)
    theirs = BusyStore()
    theirs.save(notes(2))
    with hosting(Host(theirs, limits=few, stays=False)) as address:
        assert lace("sync", address, cwd=home / "alice").returncode == Exit.OK
        met = json.loads((home / "alice" / "met.json").read_text())
        assert met[address]["mark"] == 0  # nothing was here at the beginning


def test_a_lake_tells_limits_from_aborts_too() -> None:
    result = m.InterlaceResult()
    limit = m.Aborted(Code.LIMIT_EXCEEDED, "", m.Blame.LOCAL, result)
    gone = m.Aborted(Code.INTERLACE_GONE, "", m.Blame.LINK, result)
    assert how_it_ended(m.Closed(m.Ending.FIXED_POINT, result)) is Exit.OK
    assert how_it_ended(m.Closed(m.Ending.LOOPS, result)) is Exit.LIMIT
    assert how_it_ended(limit) is Exit.LIMIT
    assert how_it_ended(gone) is Exit.ABORTED


def test_a_peer_by_name_and_what_is_none(home: Path) -> None:
    host = Host(store_of(notes(2)), key=demo_key("bob"), stays=False)
    with hosting(host) as address:
        settings = home / "alice" / "lace.toml"
        expect = demo_key("bob").verifier
        peer = f'[peers.server]\naddress = "{address}"\nexpect = "{expect}"\n'
        settings.write_text(settings.read_text() + peer)
        assert lace("sync", "server", cwd=home / "alice").returncode == 0
    assert len(stored(home / "alice")) == 2
    done = lace("sync", "sevrer", cwd=home / "alice")
    assert done.returncode == 2
    assert b"there are: server" in done.stderr
    assert b"tcp:host:port" in done.stderr
    for wrong in (("../bob", "--expect", "V.x"), ("tcp:x:y",), ("server", "--expose", "missing")):
        assert lace("sync", *wrong, cwd=home / "alice").returncode in {1, 2}, wrong


def test_what_is_exposed_is_what_the_peers_rules_see(home: Path) -> None:
    put(home / "alice", [*notes(2), *_tasks()])
    nosy = module_from_text(
        "SelectHave(P) :- Have(P), Field(T,'App',_,'tasks').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    host = Host(MemoryStore(), nosy, stays=False)
    with hosting(host) as address:
        lace("sync", address, cwd=home / "alice")
        assert host.store.count() == 0  # by default they see what alice selects: no tasks
        done = lace("sync", address, "--expose", "everything", cwd=home / "alice")
        assert done.returncode == 0
        assert host.store.count() == 2
    assert lace("sync", address, "--expose", "none", "--expose", "selected",
                cwd=home / "alice").returncode == 2  # fmt: skip


def _says(folder: Path, line: str) -> None:
    with (folder / "lace.toml").open("a") as file:
        file.write(f"{line}\n")


def test_every_way_to_exchange_goes_by_the_exposure_of_the_settings(home: Path) -> None:
    """None exposed means that the rules of nobody else select anything here."""
    there = put(home / "alice", notes(2))
    _says(home / "alice", 'expose = "none"')
    lace("sync", "../alice", cwd=home / "bob")
    assert stored(home / "bob") == set()
    with process(home, home / "alice", "tcp:127.0.0.1:0") as server:
        address = str(server.address)
        assert lace("sync", address, cwd=home / "bob").returncode == 0
        assert stored(home / "bob") == set()
        assert lace("list", PLACE, "--from", address, cwd=home / "bob").stdout == b""
    with blocking.open(home / "alice") as alice, blocking.open() as other:
        assert blocking.sync(other, alice, PLACE).received == ()
        assert blocking.sync(alice, other, PLACE).sent == ()
    with process(home, home / "alice", "tcp:127.0.0.1:0", "--expose", "selected") as server:
        assert lace("sync", str(server.address), cwd=home / "bob").returncode == 0
        assert stored(home / "bob") == there


def test_a_lace_without_a_selector_keeps_its_exposure(home: Path) -> None:
    assert lace("init", "carol", cwd=home).returncode == 0
    put(home / "carol", notes(2))
    _says(home / "carol", 'expose = "none"')
    with blocking.open(home / "carol") as carol, blocking.open() as other:
        assert blocking.sync(other, carol, PLACE, expose="everything").received == ()


def test_a_lake_does_not_take_from_a_lace_what_its_settings_may_keep_back(home: Path) -> None:
    _says(home / "alice", 'expose = "none"')
    done = lace("lake", "reconcile", "x.lake", "alice", PLACE, cwd=home)
    assert done.returncode == Exit.USAGE
    assert Code.SETTINGS_UNUSABLE in done.stderr.decode()


@contextmanager
def following(folder: Path, peer: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "lace", "follow", peer],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[bytes], *kinds: str) -> list[dict[str, Any]]:
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        found.append(json.loads(line))
        if found[-1]["event"] in kinds:
            return found
    raise AssertionError(process.communicate())


@pytest.mark.req("000-API-06", "000-API-08", "050-OPN-02")
def test_follow_stays_comes_back_and_ends_in_order(home: Path) -> None:
    store = store_of(notes(1))
    with hosting(Host(store)) as address, following(home / "alice", address) as process:
        assert [event["event"] for event in until(process, "fixed-point")] == [
            "saved",
            "fixed-point",
        ]
        put(home / "alice", notes(1, start=5))  # another process stores: it is seen and sent
        assert until(process, "sent")[-1]["hash"] == notes(1, start=5)[0].hash
        until(process, "fixed-point")
        process.send_signal(signal.SIGINT)
        assert [event["event"] for event in until(process, "closed")][-1] == "closed"
        assert process.wait(30) == Exit.INTERRUPTED
    assert store.count() == 2


def test_follow_makes_a_lost_connection_again(home: Path) -> None:
    with hosting(Host(store_of(notes(1)))) as address:
        pass  # the port is free again, and known
    with following(home / "alice", address) as process:
        with hosting(Host(store_of(notes(1))), address):
            until(process, "fixed-point")
        with hosting(Host(store_of(notes(2))), address):
            assert [e for e in until(process, "fixed-point") if e["event"] == "saved"]
        until(process, "closed", "aborted")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert b"trying again in" in process.stderr.read()


def test_follow_ends_where_trying_again_could_not_help(home: Path) -> None:
    host = Host(store_of(notes(1)), key=demo_key("bob"))
    with hosting(host) as address:
        other = demo_key("mallory").verifier
        done = lace("follow", address, "--expect", other, cwd=home / "alice")
    assert done.returncode == Exit.ABORTED
    assert entries(done.stdout)[-1]["event"] == "aborted"


@pytest.mark.req("000-API-13")
def test_follow_between_two_laces_of_this_machine(home: Path) -> None:
    put(home / "bob", notes(1))
    with following(home / "alice", "../bob") as process:
        until(process, "fixed-point")
        put(home / "bob", notes(1, start=3))
        until(process, "saved")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == Exit.INTERRUPTED
    assert len(stored(home / "alice")) == 2


def test_on_a_terminal_there_are_arrows_and_places(home: Path) -> None:
    put(home / "alice", notes(25))
    put(home / "bob", notes(1, start=50))
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "lace", "sync", "../bob"],
        cwd=home / "alice", stdout=theirs, stderr=subprocess.PIPE, check=False, timeout=60,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while b"more" not in shown:
        shown += os.read(ours, 65536)
    os.close(ours)
    assert done.returncode == 0
    assert "← P.".encode() in shown
    assert b"//g//notes//n/50" in shown
    assert "→ P.".encode() in shown
    assert "… and 6 more".encode() in shown


def test_closing_between_two_connections_takes_no_time(home: Path) -> None:
    with following(home / "alice", "tcp:127.0.0.1:1") as process:
        assert process.stderr is not None
        assert b"demo key" in process.stderr.readline()
        assert b"trying again" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert until(process, "closed")
        assert process.wait(30) == Exit.INTERRUPTED


@pytest.mark.req("110-AUT-05")
def test_get_answers_as_a_list_would() -> None:
    """The index of the store is a shortcut, not another truth."""
    records = [*notes(3), *notes(2, key=demo_key("bob"))]
    with blocking.open(records=records) as local:
        assert isinstance(local, Lace)
        for address in (
            "//g//notes//n/1", "//g//notes//n/7", f"////{records[0].hash}",
            f"//g//notes//n/0/|/seal/{demo_key('bob').verifier}",
            f"//g//notes//n/1/|/plex/{records[1].parts[-4].decode()}/{records[1].hash}",
        ):  # fmt: skip
            listed = blocking.list(local, address)
            found = blocking.get(local, address)
            assert (found in listed) if listed else found is None
        assert inner_store(local).count() == 5


def _forged() -> tuple[Record, bytes, bytes]:
    """Return a sealed record, its bytes with other words, and those with digests that fit."""
    plex = forge.plex(embedded=forge.blob(b"pay bob 100"))
    honest = validate_record(forge.seal(plex)).unwrap()
    assert isinstance(honest, Seal)
    other = forge.plex(embedded=forge.blob(b"pay eve 900"))
    clever = forge.seal(other, signature=honest.signature.encode())
    return honest, honest.raw.replace(b"pay bob 100", b"pay eve 900"), clever


@pytest.mark.parametrize("clever", [False, True])
def test_a_store_file_of_somebody_else_is_input_like_any_other(home: Path, clever: bool) -> None:
    record, changed, fitting = _forged()
    for name in ("eve", "victim"):
        assert lace("init", name, "--select", "//u//ding//", cwd=home).returncode == 0
    with SqliteStore(home / "eve" / "records.lace") as store:
        store.save([record])
        raw = fitting if clever else changed
        hash = raw[len(MARK) :].split(b"\n")[0].decode()
        store._connection.execute("UPDATE record SET raw = ?, hash = ?", (raw, hash))
        store._connection.execute("UPDATE place SET hash = ?", (hash,))
    done = lace("sync", "eve", "--lace", "victim", cwd=home)
    assert stored(home / "victim") == set()
    if clever:
        assert done.returncode == Exit.SOME_REJECTED
        assert Code.RECORD_SIGNATURE in done.stdout.decode() + done.stderr.decode()
    else:
        assert Code.STORE_QUARANTINE in done.stderr.decode()
        assert json.loads(lace("store", "info", "eve", cwd=home).stdout)["quarantined"] == 1
    assert b"pay eve" not in lace("list", "--lace", "victim", cwd=home).stdout


def test_what_was_put_aside_comes_back_from_a_peer_that_has_it(home: Path) -> None:
    record, changed, _ = _forged()
    for name in ("eve", "victim"):
        assert lace("init", name, "--select", "//u//ding//", cwd=home).returncode == 0
        put(home / name, [record])
    with SqliteStore(home / "victim" / "records.lace") as store:
        store._connection.execute("UPDATE record SET raw = ?", (changed,))
    assert lace("get", record.hash, "--lace", "victim", cwd=home).returncode
    assert lace("sync", "eve", "--lace", "victim", cwd=home).returncode == 0
    assert b"pay bob 100" in lace("get", record.hash, "--data", "--lace", "victim", cwd=home).stdout


def test_a_peer_that_says_nothing_is_waited_for_as_long_as_is_said(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp:127.0.0.1:{silent.getsockname()[1]}"
        done = lace("sync", address, "--phase-timeout", "1", cwd=home / "alice")
    assert done.returncode == Exit.ABORTED
    assert b"interlace.timeout" in done.stdout + done.stderr
    assert lace("sync", address, "--phase-timeout", "0", cwd=home / "alice").returncode == 2


def test_a_folder_that_may_only_be_read_is_told(home: Path) -> None:
    for name in ("mine", "theirs"):
        assert lace("init", name, "--select", "//g//a//", cwd=home).returncode == 0
    mine = home / "mine"
    store = mine / "records.lace"
    cases = ((store, 0o400, b"to write this file"), (mine, 0o500, b"to write into its folder"))
    for path, rights, reason in cases:
        before = path.stat().st_mode
        path.chmod(rights)
        for words in (("sync", "../theirs"), ("sync", "../mine", "--lace", "../theirs")):
            done = lace_apart(*words, cwd=mine, held_to_rights=True)
            assert done.returncode == 1, done.stderr
            assert reason in done.stderr
            assert b"records.lace: you have no right" in done.stderr
            assert b"or work on a copy" in done.stderr
        path.chmod(before)
    assert lace_apart("sync", "../theirs", cwd=mine, held_to_rights=True).returncode == 0


def test_a_folder_that_may_only_be_read_can_be_read(home: Path) -> None:
    alice = home / "alice"
    assert lace("add", f"{PLACE}1", "--text", "x", cwd=alice).returncode == 0
    before = alice.stat().st_mode
    alice.chmod(0o500)
    try:
        for words in (
            "list",
            f"log {PLACE}1",
            "status",
            "store info",
            "store check",
            f"why {PLACE}1",
        ):
            done = lace_apart(*words.split(), cwd=alice, held_to_rights=True)
            assert done.returncode == 0, (words, done.stderr)
        for words in (
            f"add {PLACE}2 --text x",
            "serve tcp:127.0.0.1:0",
            f"store forget {PLACE} --yes",
        ):
            done = lace_apart(*words.split(), cwd=alice, held_to_rights=True)
            assert (done.returncode, b"you have no right to write into" in done.stderr) == (
                1,
                True,
            ), words
    finally:
        alice.chmod(before)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_at_an_address_is_said_in_words(home: Path, host: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        done = lace("sync", f"tcp:{host}:{port}", "--select", PLACE, cwd=home / "alice")
    assert done.returncode == Exit.ABORTED
    assert f"cannot connect to tcp:{host}:{port}: Connection refused [".encode() in done.stderr
