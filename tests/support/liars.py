"""A server that lies to a client, byte by byte; every seed replays exactly.

An honest server speaks, and somebody changes what it says: bytes are flipped, left out, said twice,
said again later; what has no place is put in between. Whatever the client hears, it ends, holds
little, stores nothing but valid records that it asked for, and says nothing that it would not say to
anyone who selects the same.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import forge
from wires import End

from lace import b64a
from lace.crypto import SigningKey
from lace.errors import Code
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.view import Exposure
from lace.record import Record, build_plex, seal, validate_record
from lace.record.model import Plex, Seal
from lace.recordstore import MemoryStore
from lace.recordstore.base import StoreRecordId
from lace.selectors import selector
from lace.stream import items as i
from lace.stream import packing
from lace.stream.binding import WORKING, Endpoint, farewell

NOTES = selector("//g//notes//")
SELECTED = Exposure(default="selected")
SERVER, CLIENT, OTHER = (SigningKey(bytes([number]) * 32) for number in (21, 22, 23))
SECRET = b"nobody but me"
SMALL = Limits(max_fact_block_size=20_000, max_loop_iterations=4, lacegram_bytes=4096)
MOST_HELD = 16 << 20
_ADDRESS = "tcp:here:1"
_MOST_CHUNKS = 4000


def _record(number: int, app: str, data: bytes = b"x", key: SigningKey | None = None) -> Record:
    plex = build_plex(
        group="g", app=app, name=f"n/{number}", tai=f"{1_700_000_000 + number}:000000000", data=data
    )
    return plex if key is None else seal(plex, key, aux=forge.AUX)


PRIVATE = [_record(number, "private", SECRET) for number in range(3)]


def _bomb(length: int) -> bytes:
    """Return lines that are small on the way and large when they have come."""
    lines = b"Advertised('P.x.H3','s')\n" * (length // 25)
    packed = zlib.compress(lines, 9)
    head = f"deflate\nData-Length: {len(packed)}\nFull-Length: {len(lines)}\n\n"
    return packing.MARK + head.encode() + packed


def _fragment(chance: random.Random, heard: bytes) -> bytes:
    """Return something that a server might say, in the wrong place or of the wrong content."""
    secret = chance.choice(PRIVATE).hash
    at = chance.randrange(len(heard) + 1)
    makers: list[Callable[[], bytes]] = [
        lambda: b"\n" * chance.choice([1, 2, 50]),
        lambda: b"#\n" * chance.choice([1, 1000]),
        lambda: WORKING,
        lambda: farewell(Code.SERVE_FULL),
        f"MayRequest('{secret}')\n".encode,
        lambda: b"RequestListed('0','%d')\n" % chance.choice([1, 9, 10**9]),
        f"Advertised('{secret}','1')\n".encode,
        f"NotAvailable('{secret}')\n".encode,
        lambda: b"TickReady('9999999999:000000000')\n",
        lambda: b"HelloLimit('max_loop_iterations','0')\n",
        lambda: b"AdvertisementTable('999999999','" + b"0" * 43 + b"')\n",
        lambda: b"PartitionSummary('','1','" + b"0" * 43 + b"')\n",
        lambda: _bomb(chance.choice([1000, 500_000])),
        lambda: chance.choice(PRIVATE).raw,
        lambda: _record(chance.randrange(90, 99), "notes", b"unasked", OTHER).raw,
        lambda: _record(chance.randrange(90, 99), "other", b"unasked").raw,
        lambda: i.resource(NOTES.id, NOTES.text.encode()),
        lambda: i.resource("R." + "0" * 43, b"not what it says"),
        lambda: i.preface(b64a.encode(chance.randbytes(32))),
        lambda: heard[at : at + chance.choice([10, 300, 5000])],  # said before
        lambda: chance.randbytes(chance.choice([1, 40])),
        lambda: b"A" * chance.choice([100, 20_000]),
    ]
    return chance.choice(makers)()


@dataclass
class Liar:
    """Changes what a server says."""

    chance: random.Random
    often: float
    honest_bytes: int
    """Said before the first lie: some lies belong into later phases."""
    heard: bytearray = field(default_factory=bytearray)
    told: bytearray = field(default_factory=bytearray)

    def tell(self, chunk: bytes) -> bytes:
        self.heard += chunk
        if len(self.heard) > self.honest_bytes and self.chance.random() < self.often:
            at = self.chance.randrange(len(chunk) + 1)
            size = self.chance.choice([1, 5, 100])
            match self.chance.randrange(5):
                case 0:
                    changed = bytes([chunk[at % len(chunk)] ^ (1 << self.chance.randrange(8))])
                    chunk = chunk[: at % len(chunk)] + changed + chunk[at % len(chunk) + 1 :]
                case 1:
                    chunk = chunk[:at] + chunk[at + size :]
                case 2:
                    chunk = chunk[: at + size] + chunk[at:]
                case _:
                    chunk = chunk[:at] + _fragment(self.chance, bytes(self.heard)) + chunk[at:]
        self.told += chunk
        return chunk


def _world(chance: random.Random) -> tuple[End, End]:
    """Return a server's end and a client's, who have something for each other."""
    limits = chance.choice([DEFAULT_LIMITS, SMALL])
    here, there = MemoryStore(), MemoryStore()
    here.save([_record(n, "notes", b"theirs", SERVER) for n in range(chance.choice([0, 3, 40]))])
    there.save(
        [_record(n, "notes", b"mine", CLIENT) for n in range(50, 50 + chance.choice([0, 5]))]
    )
    there.save(PRIVATE)
    keys = chance.choice([(None, None), (SERVER, None), (SERVER, CLIENT), (None, CLIENT)])
    packs = chance.random() < 0.5
    nonces = [b64a.encode(chance.randbytes(32)) for _ in range(2)]
    believes = SERVER.verifier if chance.random() < 0.4 else None
    addresses = (_ADDRESS,)
    server = Endpoint(
        accepting=True, nonce=nonces[0], addresses=addresses, key=keys[0], packs=packs
    )
    client = Endpoint(
        accepting=False, nonce=nonces[1], addresses=addresses, key=keys[1], packs=packs,
        expected=believes,
    )  # fmt: skip
    return (
        End(server, here, NOTES, SELECTED, limits),
        End(client, there, NOTES, SELECTED, limits),
    )


def lying_server(seed: int) -> None:
    """Let a client meet a server that lies, and hold the client to its word."""
    chance = random.Random(seed)
    server, client = _world(chance)
    before = _hashes(client.store)
    liar = Liar(chance, chance.choice([0.02, 0.2, 0.7]), chance.choice([0, 1000, 1800, 2500, 6000]))
    stops = chance.choice([10, 200, _MOST_CHUNKS])
    _carry(server, client, liar, stops)
    said = bytes(client.sent)
    if not client.closed:
        client.give(m.PeerGone())
    assert client.closed
    assert isinstance(client.last, m.Closed | m.Aborted)
    _check_stored(client, before)
    _check_said(client, said, bytes(liar.told))


def _carry(server: End, client: End, liar: Liar, most: int) -> None:
    """Carry bytes in chunks of any size until the client has ended or nothing moves any more."""
    chance, read = liar.chance, [0, 0]
    for end in (server, client):
        assert end.connection is not None  # its first bytes are there now
    for _ in range(most):
        if client.closed:
            return
        ready = [n for n, end in enumerate((server, client)) if len(end.sent) > read[n]]
        if not ready:
            return
        index = chance.choice(ready)
        sender = (server, client)[index]
        size = chance.choice([1, 7, 100, 5000, 10**6])
        chunk = bytes(sender.sent[read[index] : read[index] + size])
        read[index] += len(chunk)
        if index == 1:
            if not server.closed:
                server.take(chunk)
        else:
            client.take(liar.tell(chunk))
            assert client.connection.memory < MOST_HELD


def _hashes(store: object) -> set[str]:
    assert isinstance(store, MemoryStore)
    return {stored.hash for stored in store.read(StoreRecordId(0), 10**6)}


def _check_stored(client: End, before: set[str]) -> None:
    """Hold what was stored to be valid, of the place that was selected, and nothing to be lost."""
    after = _hashes(client.store)
    assert before <= after
    for hash in after - before:
        record = client.store.load(hash)  # type: ignore[arg-type]
        assert record is not None
        found = validate_record(record.raw).value
        assert isinstance(found, Plex | Seal)
        assert found.hash == hash
        assert (found.group, found.app) == ("g", "notes")


def _check_said(client: End, said: bytes, heard: bytes) -> None:
    """Hold what was said to be of the selected place, and to be for whom it was meant."""
    names = {record.hash.encode() for record in PRIVATE}
    named = {name for name in names if name not in heard}  # the others it knew without us
    told = False
    for item in i.ItemReader(unpacks=True).feed(said):
        assert not isinstance(item, i.Malformed), item
        content = getattr(item, "content", b"") or getattr(item, "raw", b"")
        assert SECRET not in content
        assert not any(name in content for name in named)
        is_proof = isinstance(item, i.RecordBytes) and b"peer-proof" in item.raw
        told |= isinstance(item, i.RecordBytes) and not is_proof
        told |= isinstance(item, i.FactLines) and b"\nAdvertise" in b"\n" + item.content
    expected = client.endpoint.expected
    if expected is not None and client.binding.peer_verifier != expected:
        assert not told, "something was told to a server that has not proven who it is"
    assert bytes(client.sent).startswith(said)


LIARS: dict[str, Callable[[int], None]] = {"lying": lying_server}
