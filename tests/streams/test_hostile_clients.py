"""Clients that mean harm, against a real server: each ends itself, and nobody else notices."""

from __future__ import annotations

import random
import socket
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest
from effort import examples
from meeting import client, within
from servers import Process, process
from wires import NOW, End, nonce, notes, run, store_of

from lace.crypto import SigningKey
from lace.interlace import messages as m
from lace.policy.module import module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.record import build_plex, seal
from lace.record.grammar import MARK
from lace.recordstore import MemoryStore
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector
from lace.stream import items as i
from lace.stream import packing
from lace.stream.binding import OFFERED, Endpoint
from lace.stream.proof import APP, Meeting, make_proof
from lace.text import fact_line

T = TypeVar("T")

ALICE = SigningKey(b"\x41" * 32)
SERVER = SigningKey(b"\x42" * 32)
PREFACE = i.preface("0" * 43)
RECORDS = notes(30, key=ALICE)
MODULE = selector("//g//notes//")
POLICY = f"""
[[allow]]
who = "anyone"
sync = ["//g//notes//"]

[[allow]]
who = ["{ALICE.verifier}"]
see = ["//g//private//"]

[limits]
connections = 150
connections_per_host = 150

[engine]
phase_timeout = 2
work = 2000000
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("server")
    with SqliteStore(folder / "n.lace") as store:
        store.save(RECORDS)
    (folder / "p.toml").write_text(POLICY)
    key = folder / "server.key"
    key.touch(mode=0o600)
    key.write_text(SERVER.reveal())
    arguments = ("n.lace", "tcp:127.0.0.1:0", "--policy", "p.toml", "--key", key)
    with process(folder, *arguments) as running:
        yield running
        assert running.stop() == 0
        assert not running.events("failed"), "a fault of ours came to light"
        assert "Traceback" not in running.log_file.read_text()


@pytest.fixture(autouse=True)
def _nobody_else_notices(server: Process) -> Iterator[None]:
    before = server.memory_mib()
    yield
    place = MemoryStore()
    ended = within(client(place, module=MODULE).sync(server.address))
    assert isinstance(ended, m.Closed), ended
    assert place.count() == len(RECORDS)
    assert server.memory_mib() < before + 150


def dial(server: Process) -> socket.socket:
    made = socket.create_connection((server.address.host, server.address.port), timeout=30)
    made.settimeout(30)
    return made


def read_to_end(made: socket.socket) -> bytes:
    found = b""
    try:
        while chunk := made.recv(1 << 16):
            found += chunk
    except ConnectionError:
        pass
    return found


def send(server: Process, said: bytes, *, end: bool = False) -> bytes:
    """Say something and return all that the server answers until it hangs up."""
    with dial(server) as made:
        try:
            made.sendall(said)
            if end:
                made.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass
        return read_to_end(made)


def last_end(server: Process, count: int) -> dict[str, object]:
    ends = server.wait_for("aborted", count)
    return ends[-1]


def aborts(server: Process, said: bytes, *, end: bool = False) -> str:
    """Return the code with which the server ended a client that said this."""
    before = len(server.events("aborted"))
    answer = send(server, said, end=end)
    ended = last_end(server, before + 1)
    code = str(ended["code"])
    if b"# closing" in answer:  # a reset may swallow it
        assert f"# closing: {code}\n".encode() in answer
    return code


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"\x00" * 100, "iltp.item"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "iltp.preface"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "iltp.item"),
        ("🪢: ILTP/9\nNonce: ".encode() + b"0" * 43 + b"\n\n", "iltp.version"),
        (PREFACE + PREFACE, "iltp.preface"),
        (PREFACE + MARK + b"B.x.H3\nData-Length: 99999999999\n\n", "record.data-too-large"),
        (PREFACE + MARK + b"x" * 600_000, "record.header-too-long"),
        (PREFACE + f"🧩: {MODULE.id}\nData-Length: 99999999\n\n".encode(), "iltp.resource-size"),
        (PREFACE + i.resource(MODULE.id, b"something else"), "policy.module-id"),
        (PREFACE + b"A" * 100_000, "iltp.line"),
        (PREFACE + b"#" * 100_000, "iltp.line"),
        (PREFACE + b"\n\n", "interlace.phase"),
        (PREFACE + RECORDS[0].raw, "interlace.phase"),
        (PREFACE + b"MayRequest('x')\n", "interlace.phase"),
        (PREFACE + b"Evil('x')\n", "interlace.block"),
        (PREFACE + b"MayRequest('\xff')\n", "interlace.block"),
        (
            PREFACE + "🗜: deflate\nData-Length: 9\nFull-Length: 99999999\n\n".encode(),
            "iltp.compression",
        ),
    ],
)
def test_nonsense_ends_the_one_who_says_it(server: Process, said: bytes, code: str) -> None:
    assert aborts(server, said) == code


def test_leaving_at_any_moment_harms_nobody(server: Process) -> None:
    for said in (
        b"",
        PREFACE[:7],
        PREFACE,
        PREFACE + i.resource(MODULE.id, MODULE.text.encode())[:50],
    ):
        assert aborts(server, said, end=True) == "interlace.gone"
    with dial(server) as made:
        made.sendall(PREFACE)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # closed with a reset


def test_a_flood_of_comments_is_held_to_the_limit_of_a_block(server: Process) -> None:
    before = len(server.events("aborted"))
    with dial(server) as made:
        made.sendall(PREFACE)
        line = b"# " + b"x" * 16_000 + b"\n"

        def flood() -> None:
            for _ in range(10_000):
                made.sendall(line * 10)

        with pytest.raises(ConnectionError):
            flood()
    assert last_end(server, before + 1)["code"] in {"interlace.block-size", "interlace.timeout"}


def test_peers_that_drip_lose_their_place_and_others_get_theirs(server: Process) -> None:
    before = len(server.events("aborted"))
    drips = [dial(server) for _ in range(100)]
    for made in drips:
        made.sendall(PREFACE[:10])
    # The fixture's honest client would be served beside them, too.
    assert isinstance(within(client(MemoryStore(), module=MODULE).sync(server.address)), m.Closed)
    ended = server.wait_for("aborted", before + 100)[before:]
    assert {entry["code"] for entry in ended} == {"interlace.timeout"}
    for made in drips:
        made.close()


def test_more_connections_than_places_are_turned_away(server: Process) -> None:
    held = [dial(server) for _ in range(170)]
    try:
        for made in held[-5:]:
            assert b"# closing: serve.full\n" in read_to_end(made)
    finally:
        for made in held:
            made.close()
    server.wait_for("refused", 5)
    for _ in range(500):  # until their places are free again
        if isinstance(within(client(MemoryStore(), module=MODULE).sync(server.address)), m.Closed):
            return
    raise AssertionError("nobody got in any more")


@pytest.mark.parametrize(("parts", "code"), [(3, "limit.exceeded"), (6, "lacegram.cost")])
def test_a_module_that_would_take_for_ever_is_stopped(
    server: Process, parts: int, code: str
) -> None:
    atoms = ", ".join(f"Field(P{n},_,_,X{n})" for n in range(parts))
    text = (
        f"Big(P0) :- {atoms}.\nSelectHave(P) :- Have(P), Big(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    before = len(server.events("aborted"))
    hostile = client(MemoryStore(), module=selector(text))
    ended = within(hostile.sync(server.address))
    assert isinstance(ended, m.Aborted)
    assert last_end(server, before + 1)["code"] == code


# --- exchanges that were honest once ---


def honest(server: Process, *, packs: bool = False) -> bytes:
    """Return the bytes of an honest client in an exchange with other nonces."""
    far = Endpoint(accepting=True, nonce=nonce(), addresses=(str(server.address),), packs=packs)
    near = Endpoint(accepting=False, nonce="0" * 43, addresses=(str(server.address),), packs=packs)
    ours, theirs = End(near, store_of(notes(3, start=90))), End(far, store_of(RECORDS))
    ours.module = theirs.module = MODULE
    run(theirs, ours, 10**6)
    return bytes(ours.sent)


def test_changed_bytes_of_an_honest_exchange(server: Process) -> None:
    stream = honest(server)
    for seed in range(examples(40)):
        chance = random.Random(seed)
        said = bytearray(stream)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(PREFACE), len(said))
            match chance.randrange(4):
                case 0:
                    said[at] = chance.randrange(256)
                case 1:
                    del said[at : at + chance.randint(1, 40)]
                case 2:
                    said[at:at] = chance.choice([b"\n", b"!", RECORDS[0].raw, b"TickReady('x')\n"])
                case _:
                    said[at:at] = said[: chance.randint(1, 300)]
        send(server, bytes(said), end=True)
    assert server.process.poll() is None


def test_a_bomb_is_refused_by_its_own_head(server: Process) -> None:
    stream = honest(server, packs=True)
    ends = [
        item for item in i.ItemReader(unpacks=True).feed(stream) if isinstance(item, i.PhaseEnd)
    ]
    hello = stream[: ends[0].offset + 1]
    packed = zlib.compress(b"A()\n" * 2_000_000, 9)
    for full in (8_000_000, 1_000_000):
        head = f"deflate\nData-Length: {len(packed)}\nFull-Length: {full}\n\n".encode()
        assert aborts(server, hello + packing.MARK + head + packed) == "iltp.compression"


# --- proofs that were good once ---


class Recorder:
    """A client that does everything by hand, so that it can lie about every part of it."""

    def __init__(self, server: Process, own_nonce: str = "") -> None:
        self.server = server
        self.nonce = own_nonce
        self.socket = dial(server)
        self.reader = i.ItemReader(unpacks=True)
        self.items: list[i.Item] = []
        self.server_nonce = self.until(i.Preface).nonce
        self.plan = ""
        self.server_module = ""
        self.hello = b""
        self.server_hello = b""
        if own_nonce:
            self.greet(own_nonce)

    def greet(self, own_nonce: str) -> None:
        self.nonce = own_nonce
        self.socket.sendall(i.preface(own_nonce))

    def until(self, kind: type[T]) -> T:
        while True:
            while self.items:
                item = self.items.pop(0)
                if isinstance(item, kind):
                    return item
            chunk = self.socket.recv(1 << 16)
            assert chunk, "the server hung up"
            self.items += self.reader.feed(chunk)

    def set_up(self) -> None:
        """Go through set-up as an honest client would."""
        theirs = self.until(i.Resource)
        self.server_module = theirs.id
        operands = label_operands(
            Party(index=0, module=module_from_text(theirs.content)),
            Party(index=1, module=MODULE),
        )
        self.plan = ExchangePlan(operands).id
        operand = fact_line("ExchangeOperand", ("1", MODULE.id, operands[1].origin, "selector"))
        said = i.resource(MODULE.id, MODULE.text.encode()) + f"{operand}\n\n".encode()
        self.socket.sendall(said)

    def say_hello(self, signer: str = ALICE.verifier) -> None:
        """Go through set-up and hello as far as the proof, and hear what the server offers."""
        self.set_up()
        facts = [
            ("HelloExchangePlan", self.plan),
            ("HelloSigner", signer),
            ("HelloTAI", NOW),
            ("HelloTickInterval", "10000000000"),
            ("HelloRecordFormat", "H3"),
            ("HelloAllAdvertisedFields",),
        ]
        self.hello = "".join(f"{fact_line(fact[0], fact[1:])}\n" for fact in facts).encode()
        self.socket.sendall(self.hello + OFFERED)
        self.until(i.PhaseEnd)  # of the server's set-up
        while True:
            item = self.until(object)
            if not isinstance(item, i.FactLines):
                return
            self.server_hello += item.content

    def code(self, prove: Callable[[Meeting], bytes], signer: str = ALICE.verifier) -> str:
        """Show a proof in hello, and return how the server ended it."""
        if not self.hello:
            self.say_hello(signer)
        before = len(self.server.events("aborted"))
        self.socket.sendall(prove(self.meeting) + b"\n")
        self.socket.settimeout(0.5)
        try:
            while self.socket.recv(1 << 16):
                pass
        except (TimeoutError, ConnectionError):
            pass
        self.socket.close()
        return str(last_end(self.server, before + 1)["code"])

    @property
    def meeting(self) -> Meeting:
        return Meeting(
            accepting=False, nonce=self.nonce, peer_nonce=self.server_nonce,
            addresses=(str(self.server.address),), module=MODULE.id,
            peer_module=self.server_module, hello=self.hello, peer_hello=self.server_hello,
        )  # fmt: skip


def by_alice(meeting: Meeting) -> bytes:
    return make_proof(ALICE, meeting, NOW)


def old_form(meeting: Meeting) -> bytes:
    """Return a proof as it was before it named the set-up."""
    name = f"{meeting.peer_nonce}/{meeting.nonce}"
    audience = [("Audience", meeting.addresses[0])]
    return seal(build_plex(group="lace", app=APP, name=name, tai=NOW, extras=audience), ALICE).raw


def test_a_recorded_proof_is_refused_wherever_it_is_shown_again(server: Process) -> None:
    first = Recorder(server, nonce())
    first.say_hello()
    recorded = by_alice(first.meeting)
    # It is good where it was made: the exchange goes on, until this client says no more.
    assert first.code(lambda _: recorded) in {"interlace.gone", "interlace.timeout"}
    # On another connection, even with the same nonce of the client's.
    assert Recorder(server, first.nonce).code(lambda _: recorded) == "iltp.proof"

    def refused(**changes: object) -> bool:
        """Whether a proof is refused that was made for something else than was said here."""
        made = Recorder(server, nonce())
        return made.code(lambda here: by_alice(replace(here, **changes))) == "iltp.proof"  # type: ignore[arg-type]

    # Made for another server, which passed the nonce of this one on to its victim.
    assert refused(addresses=("tcp:attacker.example:4790",))
    # Passed on by somebody in between who has rules and a hello of his own.
    other = module_from_text(
        "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    assert refused(module=other.id)
    assert refused(peer_module=other.id)
    assert refused(hello=first.hello.replace(b"H3", b"H4"))
    assert refused(peer_hello=b"")
    assert refused(channel="x")
    # With both nonces swapped.
    swapping = Recorder(server, nonce())
    assert (
        swapping.code(
            lambda here: by_alice(replace(here, nonce=here.peer_nonce, peer_nonce=here.nonce))
        )
        == "iltp.proof"
    )
    # In the form of earlier versions.
    assert Recorder(server, nonce()).code(old_form) == "iltp.proof"
    # Without any proof, or with one for another key.
    assert Recorder(server, nonce()).code(lambda _: b"") == "interlace.signer"
    other_key = SigningKey(b"\x43" * 32)
    lying = Recorder(server, nonce())
    assert lying.code(lambda here: make_proof(other_key, here, NOW)) == "interlace.signer"


def test_the_servers_own_proof_cannot_be_turned_against_it(server: Process) -> None:
    # One connection waits with its preface. Another shows the first one's nonce as its own, and
    # gets a proof of the server whose nonces fit the first connection.
    waiting = Recorder(server)
    asking = Recorder(server, waiting.server_nonce)
    asking.say_hello()
    proof = asking.until(i.RecordBytes).raw
    waiting.greet(asking.server_nonce)
    assert waiting.code(lambda _: proof, SERVER.verifier) == "iltp.proof"
    asking.socket.close()
