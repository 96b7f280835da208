"""The conformance kit: this engine passes it, and a peer that is broken on purpose does not."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command import lace
from meeting import within
from servers import Process, process, served
from wires import OPEN

import lace as package
from lace.answering.store import StoreAnswers
from lace.cli.plumbing import plumb
from lace.driving.client import Client, new_nonce
from lace.driving.exchange import Exchange
from lace.errors import UsageError
from lace.interlace import messages as m
from lace.interlace import reconcile
from lace.interlace.machine import Side
from lace.interlace.phases import Occasion, Phase, Phases
from lace.interlace.summary import (
    Summary,
    is_prefix,
)
from lace.kit import hostile
from lace.kit.cases import SHOWN, Case, read_vectors, seeded, store_of
from lace.kit.courses import COURSES, Course, play
from lace.kit.hostile import Attacker
from lace.kit.misbehaviours import Kind, kinds
from lace.kit.playing import Finding, Player, verdict
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector
from lace.serving.grants import symmetric_policy
from lace.stream.binding import Endpoint
from lace.tai import Tai
from lace.transport.address import parse_address
from lace.transport.base import ByteStream
from lace.transport.dial import connect
from lace.transport.memory import memory_streams

ROOT = Path(__file__).parents[2]
SEED = 11  # records on both sides, some of which both have, and a key on one of them
PLACE = "//kit//notes//"


def objects(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


# --- this engine, as its users run it ---


@pytest.fixture
def prepared(tmp_path: Path) -> Iterator[Process]:
    """Give a server with what the kit prepared for it."""
    done = lace("plumb", "peer", "--seed", str(SEED), "--prepare", "case", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    case = seeded(SEED)
    raw = (tmp_path / "case/records.records").read_bytes()
    assert raw == b"".join(record.raw for record in case.parts[0].records)
    assert case.parts[0].records
    assert (tmp_path / "case/secret.key").exists() is (case.parts[0].key is not None)
    with SqliteStore(tmp_path / "n.lace") as store:
        store.save(list(case.parts[0].records))
    key = ("--key", tmp_path / "case/secret.key") if case.parts[0].key else ()
    rules = ("--select", "file:case/selector.lacegram", "--accept", "anyone")
    with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", *rules, *key) as running:
        yield running
        assert not running.events("failed")


def test_a_real_server_passes_a_random_exchange(prepared: Process, tmp_path: Path) -> None:
    done = lace("plumb", "peer", str(prepared.address), "--seed", str(SEED), cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    found = objects(done.stdout)
    assert {line["check"] for line in found} == {
        "end", "identity", "advertised", "received", "nothing new",
    }  # fmt: skip
    assert {line["contact"] for line in found} == {1, 2}
    # The records of another case are not there, and that is noticed.
    done = lace("plumb", "peer", str(prepared.address), "--seed", "6", cwd=tmp_path)
    assert done.returncode == 1
    assert any(not line["ok"] for line in objects(done.stdout))


def test_a_real_server_ends_every_misbehaviour(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "n.lace") as store:
        store.save([])
    arguments = ("n.lace", "tcp:127.0.0.1:0", "--select", PLACE, "--accept", "anyone")
    with process(tmp_path, *arguments) as running:
        done = lace("plumb", "hostile", str(running.address), "--select", PLACE, cwd=tmp_path)
        assert running.stop() == 0
        assert not running.events("failed")
        assert "Traceback" not in running.log_file.read_text()
    found = objects(done.stdout)
    assert [line for line in found if line["ok"] is not True] == []
    assert [line for line in found if not line.get("same_code", True)] == []
    assert [line["kind"] for line in found] == [*kinds(), "an honest contact"]
    assert done.returncode == 0


# --- both roles, in this process ---


async def as_server(case: Case) -> list[Finding]:
    part = case.parts[0]
    rules = symmetric_policy(part.module, SHOWN)
    async with served(store_of(part.records), rules, key=part.key) as running:
        player, found = Player(case, 1), []
        for _ in range(2):
            found += await player.meet(await connect(running.address), str(running.address))
    return found


async def as_client(case: Case, *, forgets: bool = False) -> list[Finding]:
    part = case.parts[1]
    store = store_of(part.records)
    player, found = Player(case, 0), []
    for _ in range(2):
        near = Client(store=store, module=part.module, exposure=SHOWN, key=part.key)
        store = store_of(part.records) if forgets else store
        one, other = memory_streams()
        syncing = asyncio.create_task(near.over(one, parse_address("tcp:kit:1")).run())
        found += await player.meet(other, "tcp:kit:1")
        await syncing
    return found


@pytest.mark.parametrize("role", [as_server, as_client])
@pytest.mark.parametrize("seed", [5, SEED, 12])
def test_random_exchanges(seed: int, role: Callable[[Case], Any]) -> None:
    found = within(role(seeded(seed)))
    assert [finding for finding in found if not finding["ok"]] == []
    assert verdict(found)


def test_vectors_are_played_in_both_roles() -> None:
    cases = [
        c for name in ("exchanges", "streams") for c in read_vectors(ROOT / f"vectors/{name}.json")
    ]
    assert len(cases) >= 25
    for case in cases[::6]:
        for role in (as_server, as_client):
            found = within(role(case))
            assert [finding for finding in found if not finding["ok"]] == []


def test_a_seed_is_always_the_same_case() -> None:
    assert seeded(SEED) == seeded(SEED)
    assert seeded(SEED) != seeded(SEED + 1)


# --- peers that are broken on purpose ---


async def broken(case: Case, kind: Kind) -> list[Finding]:
    """Meet a connecting side whose words are changed at one place."""
    part = case.parts[1]
    one, other = memory_streams()
    endpoint = Endpoint(accepting=False, nonce=new_nonce(), addresses=("tcp:kit:1",), key=part.key)
    binding = hostile._Twisted(endpoint, twist := hostile._Twist(kind))
    store = store_of(part.records)
    connection = hostile._Connection(
        binding.side(part.module), lambda side: StoreAnswers.of(store, side, OPEN), binding=binding
    )
    player = Player(case, 0, patience=2)
    running = asyncio.create_task(Exchange(one, connection).run())
    found = await player.meet(other, "tcp:kit:1")
    await running
    assert twist.done, "nothing was broken"
    return found


FEW = next(  # its connecting side lists what it has, which the accepting side lacks
    case
    for case in map(seeded, range(200))
    if 1 < len(case.parts[1].records) <= 8
    and len(case.stores[0] - {r.hash for r in case.parts[0].records}) > 1
    and b"AdvertisedField" in case.parts[0].module.text.encode()
)


def wrong(found: list[Finding]) -> set[str]:
    return {finding["check"] for finding in found if not finding["ok"]}


def lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return lambda honest: b"".join(change(honest.splitlines(keepends=True)))


@pytest.mark.parametrize(
    ("name", "phase", "change", "checks"),
    [
        ("another plan", Phase.HELLO, lambda b: b.replace(b"('E.", b"('E.0"), {"end"}),
        (
            "a field that is not there",
            Phase.ADVERTISE,
            lambda b: re.sub(rb"('App','0',)'[^']*'", rb"\1'else'", b, count=1),
            {"advertised", "received"},
        ),
        (
            "an advertisement too many",
            Phase.ADVERTISE,
            lambda b: b + re.sub(rb"[BPS]\.\w", b"B.0", b.splitlines(keepends=True)[0], count=1),
            {"advertised"},
        ),
        ("nothing advertised", Phase.ADVERTISE, lambda _: b"", {"received"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_peer_is_noticed(
    name: str, phase: Phase, change: Callable[[bytes], bytes], checks: set[str]
) -> None:
    found = within(broken(FEW, Kind(name, (), phase, m.SendFacts, change)))
    assert checks <= wrong(found)


def test_a_peer_that_forgets_what_it_took_is_noticed() -> None:
    case = next(
        c
        for c in map(seeded, range(200))
        if c.stores[1] > {str(r.hash) for r in c.parts[1].records}
    )
    found = within(as_client(case, forgets=True))
    assert "nothing new" in wrong(found)


def test_a_peer_that_takes_a_lie_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(fact: tuple[str, ...]) -> Summary:
        _, prefix, count, _ = fact
        return Summary(
            prefix if is_prefix(prefix) else "", int(count) if count.isdigit() else 0, b""
        )

    async def work() -> list[Finding]:
        rules = symmetric_policy(selector(PLACE))
        async with served(store_of([]), rules) as running:
            attacker = Attacker(selector(PLACE), "kit", "notes", patience=2)
            kind = kinds()["a summary of nothing with the root of something"]
            at = running.address
            honest = await attacker.meet(await connect(at), str(at), kind)
            monkeypatch.setattr(reconcile, "parse_summary", trusting)
            sloppy = await attacker.meet(await connect(at), str(at), kind)
            return [honest, sloppy]

    honest, sloppy = within(work())
    assert (honest["ok"], honest["same_code"]) == (True, True)
    assert sloppy["ok"] is False
    assert "went on" in sloppy["detail"]


# --- courses ---


async def course_server(course: Course, *, forgets: bool = False) -> list[Finding]:
    """Play a course with a server; one that forgets is another one at each contact."""
    part = course.case(1).parts[0]
    rules = symmetric_policy(part.module, SHOWN)
    async with AsyncExitStack() as stack:
        running: list[Any] = []

        async def streams() -> ByteStream:
            if forgets or not running:
                store = store_of(part.records)
                running.append(await stack.enter_async_context(served(store, rules, key=part.key)))
            return await connect(running[-1].address)

        at = lambda: str(running[-1].address)  # noqa: E731
        played = play(course, 1, streams, at, patience=2, tell=untold)
        return [found async for found in played]


def untold(name: str) -> None:
    raise AssertionError(f"nobody changes to {name} here")


async def course_changing(
    course: Course, index: int, *, twist: hostile._Twist | None = None, changes: bool = True
) -> list[Finding]:
    """Play a course with a side that takes another selector when it is told to."""
    part = course.case(1 - index).parts[index]
    assert part.changed is not None
    modules = {"selector.lacegram": part.module, "changed.lacegram": part.changed}
    running: list[tuple[Exchange, asyncio.Task[Any]]] = []

    async def streams() -> ByteStream:
        one, other = memory_streams()
        endpoint = Endpoint(
            accepting=index == 0, nonce=new_nonce(), addresses=("tcp:kit:1",), key=part.key
        )
        binding = hostile._Twisted(endpoint, twist or hostile._Twist(None))
        store = store_of(part.records)
        connection = hostile._Connection(
            binding.side(part.module, Side(index=index, module=part.module, open=True)),
            lambda side: StoreAnswers.of(store, side, SHOWN),
            binding=binding,
        )
        exchange = Exchange(one, connection)
        running.append((exchange, asyncio.create_task(exchange.run())))
        return other

    def tell(name: str) -> None:
        if changes:
            running[0][0].give(m.OperandChanged(modules[name]))

    played = play(course, 1 - index, streams, lambda: "tcp:kit:1", patience=2, tell=tell)
    found = [finding async for finding in played]
    await running[0][1]
    return found


async def course_client(
    course: Course,
    *,
    stays: bool = True,
    twist: hostile._Twist | None = None,
    keyed: bool = True,
    tick: int = 10**10,
) -> list[Finding]:
    """Play a course with a connecting side, whose words may be changed."""
    part = course.case(0).parts[1]
    store = store_of(part.records)
    tasks: list[asyncio.Task[Any]] = []
    change = twist or hostile._Twist(None)

    async def streams() -> ByteStream:
        one, other = memory_streams()
        key = part.key if keyed else None
        endpoint = Endpoint(accepting=False, nonce=new_nonce(), addresses=("tcp:kit:1",), key=key)
        binding = hostile._Twisted(endpoint, change)
        base = Side(index=1, module=part.module, open=stays, tick_interval=tick)
        connection = hostile._Connection(
            binding.side(part.module, base),
            lambda side: StoreAnswers.of(store, side, SHOWN),
            binding=binding,
        )
        tasks.append(asyncio.create_task(Exchange(one, connection).run()))
        return other

    playing = play(course, 0, streams, lambda: "tcp:kit:1", patience=2, tick=tick, tell=untold)
    found = [finding async for finding in playing]
    await asyncio.gather(*tasks)
    return found


@pytest.mark.parametrize("name", [name for name in COURSES if name not in {"ticks", "change"}])
def test_courses_in_both_roles(name: str) -> None:
    course = COURSES[name]
    for found in (
        within(course_server(course)),
        within(course_client(course, stays=name != "cursors")),
    ):
        assert len(found) >= 3
        assert [finding for finding in found if not finding["ok"]] == []


FAST = 5 * 10**7  # nanoseconds between ticks; the usual time is ten seconds


def test_what_becomes_due_travels() -> None:
    found = within(course_client(COURSES["ticks"], tick=FAST))
    assert {finding["check"] for finding in found} >= {"due", "ticks", "ticks in time"}
    assert [finding for finding in found if not finding["ok"]] == []


def dropped(start: bytes) -> Callable[[bytes], bytes]:
    return lines(lambda said: [line for line in said if not line.startswith(start)])


class Second(hostile._Twist):
    """Changes what is said the second time."""

    def said(self, phase: Phase, said: m.Outgoing, honest: bytes) -> bytes:
        changed = super().said(phase, said, honest)
        return changed if self.times == 2 else honest


class FromThird(hostile._Twist):
    """Changes what is said from the third contact on."""

    contacts = 0

    def greeting(self, honest: bytes) -> bytes:
        self.contacts += 1
        return honest

    def said(self, phase: Phase, said: m.Outgoing, honest: bytes) -> bytes:
        return honest if self.contacts < 3 else super().said(phase, said, honest)


def test_a_side_that_does_not_stay_is_noticed() -> None:
    found = within(course_client(COURSES["open"], stays=False))
    assert "taken later" in wrong(found)


def test_a_server_that_keeps_connections_apart_is_noticed() -> None:
    found = within(course_server(COURSES["open"], forgets=True))
    assert wrong(found) == {"told later"}


def test_a_second_hello_without_its_signer_is_noticed() -> None:
    kind = Kind("", (), Phase.HELLO, m.SendFacts, dropped(b"HelloSigner("), times=2)
    found = within(course_client(COURSES["set-up"], twist=Second(kind)))
    assert {"set up again", "plan", "end"} <= wrong(found)
    assert found[-1]["code"] == "interlace.signer"


@pytest.mark.parametrize("index", [0, 1])
def test_a_side_that_begins_a_set_up_when_it_is_told(index: int) -> None:
    found = within(course_changing(COURSES["change"], index))
    assert [finding for finding in found if not finding["ok"]] == []
    assert [finding["check"] for finding in found].count("set up again") == 2


def test_a_side_that_never_begins_a_set_up_is_noticed() -> None:
    found = within(course_changing(COURSES["change"], 1, changes=False))
    assert wrong(found) >= {"set up again", "plan", "received"}


def test_a_side_that_cannot_pass_over_a_phase_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit itself begins no set-up in this course, so that only the other side is broken."""
    whole = Phases.move

    def forgetful(self: Phases, occasion: Occasion, *, own: bool = False) -> Phase:
        phase = whole(self, occasion, own=own)
        self.passing_over = False
        return phase

    monkeypatch.setattr(Phases, "move", forgetful)
    found = within(course_changing(COURSES["change"], 1))
    assert [finding["ok"] for finding in found[:2]] == [True, True]
    assert wrong(found) >= {"set up again", "end"}


def test_a_side_that_never_ticks_is_noticed() -> None:
    kind = Kind("", (), Phase.ADVERTISE, m.SendFacts, dropped(b"TickReady("), times=10**6)
    found = within(course_client(COURSES["ticks"], twist=hostile._Twist(kind), tick=FAST))
    assert {"due", "ticks"} <= wrong(found)


def test_a_side_ahead_of_its_clock_is_noticed() -> None:
    ahead = Tai("1900000000:000000000")
    kind = Kind("", (), Phase.ADVERTISE, m.SendFacts, lines(
        lambda said: [re.sub(rb"'[0-9:]{20}'", f"'{ahead}'".encode(), line)
                      if line.startswith(b"TickReady(") else line for line in said]), times=10**6,
    )  # fmt: skip
    found = within(course_client(COURSES["ticks"], twist=hostile._Twist(kind), tick=FAST))
    # Unless it happens to be aligned, it is refused; else it is seen.
    assert wrong(found)


def test_a_server_that_does_not_keep_what_it_took_is_noticed() -> None:
    found = within(course_server(COURSES["cursors"], forgets=True))
    assert wrong(found) == {"received"}


def test_a_side_that_tells_by_its_memory_alone_is_noticed() -> None:
    """It believes that the kit still has what it had, and says nothing of it."""
    kind = Kind("", (), Phase.ADVERTISE, m.SendFacts, lambda _: b"", times=10**6)
    twist = FromThird(kind)
    found = within(course_client(COURSES["cursors"], stays=False, twist=twist))
    assert "received" in wrong(found)


def test_a_delta_for_whoever_proves_nothing_is_noticed() -> None:
    said = f"AdvertisementDelta('{'0' * 43}')\n".encode()
    kind = Kind("", (), Phase.ADVERTISE, m.SendFacts, lambda b: b + said, times=10**6)
    twist = hostile._Twist(kind)
    found = within(course_client(COURSES["cursors"], stays=False, twist=twist, keyed=False))
    assert "unproven" in wrong(found)


NEW_KINDS = [kind for kind in kinds().values() if kind.times > 1 or kind.offers] + [
    kinds()[name] for name in (
        "a hello of more than a megabyte", "comments without end", "ends of phases without end",
        "a tick that goes back", "a set-up in the middle of a loop",
    )
]  # fmt: skip


@pytest.mark.parametrize("kind", NEW_KINDS, ids=lambda kind: kind.name)
def test_who_passes_over_a_flood_is_noticed(kind: Kind) -> None:
    """To whoever passes it over, it was never said."""

    async def work() -> Finding:
        async with served(store_of([]), symmetric_policy(selector(PLACE))) as running:
            attacker = Attacker(selector(PLACE), "kit", "notes", patience=1)
            unsaid = replace(kind, change=lambda honest: honest)
            at = running.address
            return await attacker.meet(await connect(at), str(at), unsaid)

    found = within(work())
    assert found["ok"] is False
    assert "went on" in found["detail"]


# --- commands ---


def test_a_course_by_command(tmp_path: Path) -> None:
    done = lace("plumb", "peer", "--list", cwd=tmp_path)
    assert [line["course"] for line in objects(done.stdout)] == list(COURSES)
    done = lace("plumb", "peer", "--course", "set-up", "--prepare", "case", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    part = COURSES["set-up"].case(1).parts[0]
    with SqliteStore(tmp_path / "n.lace") as store:
        store.save(list(part.records))
    arguments = ("--select", "file:case/selector.lacegram", "--accept", "anyone")
    key = ("--key", tmp_path / "case/secret.key")
    with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", *arguments, *key) as running:
        done = lace("plumb", "peer", str(running.address), "--course", "set-up", cwd=tmp_path)
        assert not running.events("failed")
    assert done.returncode == 0, done.stdout
    assert {line["check"] for line in objects(done.stdout)} >= {"set up again", "received"}


def test_an_application_changes_its_selector_when_the_kit_says_so(tmp_path: Path) -> None:
    prepared = ("plumb", "peer", "--course", "change", "--listen", "--prepare", "case")
    assert lace(*prepared, cwd=tmp_path).returncode == 0
    case = tmp_path / "case"
    key = package.SigningKey.from_secret_text((case / "secret.key").read_text().strip())
    rules = {path.name: path.read_text() for path in case.glob("*.lacegram")}
    assert rules.keys() == {"selector.lacegram", "changed.lacegram"}
    address = "tcp:127.0.0.1:0"
    command = [sys.executable, "-m", "lace", "plumb", "peer", address, "--course", "change"]
    with subprocess.Popen(
        [*command, "--listen"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as kit:
        told = kit.stderr
        assert told is not None

        async def work() -> list[str]:
            heard = []
            at = (await asyncio.to_thread(told.readline)).decode().removeprefix("listening at ")
            part = COURSES["change"].case(0).parts[1]
            with package.open(records=part.records, key=key) as local:
                async with package.open_interlace(
                    local, at.strip(), rules["selector.lacegram"], reconnect=False
                ) as live:
                    while line := (await asyncio.to_thread(told.readline)).decode().strip():
                        heard.append(line)
                        live.change(rules[line.removeprefix("now: ")])
            return heard

        assert within(work()) == ["now: changed.lacegram", "now: selector.lacegram"]
        assert kit.stdout is not None
        found = objects(kit.stdout.read())
    assert kit.returncode == 0, found
    assert {finding["ok"] for finding in found} == {True}


def test_what_cannot_be_played_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no.json").write_text("[]")
    (tmp_path / "half.json").write_text('{"records": {}, "exchanges": [{"sides": [{}]}]}')
    for arguments, words in (
        (("peer",), "either --seed or --vectors"),
        (("peer", "--course", "golf"), "is no course: there are open"),
        (("peer", "--course", "open", "--seed", "1"), "give one of"),
        (("peer", "--seed", "1"), "give an ADDRESS"),
        (("peer", "--vectors", "no.json", "--case", "0"), "it is no object"),
        (("peer", "--vectors", "half.json", "--case", "0"), "holds no vectors"),
        (("peer", "--vectors", "gone.json", "--case", "0"), "cannot be read"),
        (("hostile", "tcp:x:1"), "--select PREFIX"),
        (("hostile", "tcp:x:1", "--select", "//a//b//c"), "//group//app//"),
        (("hostile", "tcp:x:1", "--select", PLACE, "--kind", "rude"), "is no kind"),
        (("matrix", "a"), "not NAME=FILE"),
        (("matrix", "a=no.json"), "line 1: not a line"),
    ):
        done = CliRunner().invoke(plumb, arguments)
        said = str(done.exception) if isinstance(done.exception, UsageError) else done.output
        assert done.exit_code != 0
        assert words in said, arguments
    with pytest.raises(UsageError):
        read_vectors(tmp_path)


def test_lists_and_the_matrix(tmp_path: Path) -> None:
    listed = objects(lace("plumb", "hostile", "--list", cwd=tmp_path).stdout)
    assert [line["kind"] for line in listed] == list(kinds())
    vectors = str(ROOT / "vectors/streams.json")
    cases = objects(lace("plumb", "peer", "--vectors", vectors, "--list", cwd=tmp_path).stdout)
    assert [line["case"] for line in cases] == list(range(9))
    (tmp_path / "one").write_text(
        '{"case":"seed 1","check":"end","ok":true}\n{"case":"seed 1","check":"received","ok":false}\n'
        '{"kind":"another plan","ok":true,"said":"x.y","same_code":false}\n{"kind":"lies","ok":null}\n'
    )
    (tmp_path / "two").write_text('{"case":"seed 1","check":"end","ok":true}\n')
    done = lace("plumb", "matrix", "one=one", "two=two", cwd=tmp_path)
    assert done.stdout.decode().splitlines() == [
        "| | one | two |",
        "|---|---|---|",
        "| seed 1 | **no** (received) | yes |",
        "| another plan | yes, says x.y | - |",
        "| lies | not reached | - |",
    ]


def test_the_kit_listens_and_lets_others_connect(tmp_path: Path) -> None:
    kind = "another plan"
    arguments = ("hostile", "tcp:127.0.0.1:0", "--listen", "--select", PLACE, "--kind", kind)
    command = [sys.executable, "-m", "lace", "plumb", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as listening:
        assert listening.stderr is not None
        assert listening.stdout is not None
        address = parse_address(
            listening.stderr.readline().decode().removeprefix("listening at ").strip()
        )
        near = Client(store=store_of([]), module=selector(PLACE), exposure=SHOWN)
        wrong, right = (within(near.sync(address)) for _ in range(2))
        found = objects(listening.stdout.read())
    assert isinstance(wrong, m.Aborted)
    assert isinstance(right, m.Closed)
    assert [(line["kind"], line["ok"]) for line in found] == [
        (kind, True),
        ("an honest contact", True),
    ]
    assert listening.returncode == 0


def test_a_peer_that_says_nothing_is_not_waited_for_for_ever() -> None:
    async def work() -> list[Finding]:
        near, _far = memory_streams()
        return await Player(seeded(SEED), 1, patience=1).meet(near, "tcp:kit:1")

    found = within(work())
    assert found[0]["code"] == "interlace.timeout"
    assert "end" in wrong(found)
