"""Write vectors/*.json again. Expected codes and values are stated here; bytes are made to fit.

vectors/independent.json is not written: its values come from a program that shares no code with
this one.
"""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import forge  # noqa: E402  (lives with the tests, which use it too)

import exchange_vectors  # noqa: E402
import sketch_vectors  # noqa: E402
import stream_vectors  # noqa: E402
from lace import b64a  # noqa: E402
from lace.crypto import native, reference  # noqa: E402
from lace.crypto.provider import CHALLENGE, G, N, P  # noqa: E402
from lace.record import build_plex, facts, seal, validate_record  # noqa: E402
from lace.stream.proof import Meeting, unsigned_proof  # noqa: E402
from lace.tai import Tai  # noqa: E402
from lace.text import fact_line  # noqa: E402

X = native.public_point(forge.KEY._scalar)[1:]  # noqa: SLF001  (a vector key is no secret)
MESSAGE = bytes(range(32, 64))
PROOF_TAI = Tai("1700000002:000000000")


def b(value: int) -> bytes:
    return value.to_bytes(32, "big")


def signature_cases() -> list[dict[str, Any]]:
    good = forge.KEY.sign(MESSAGE, forge.AUX)
    r, s = good[:32], good[32:]
    not_on_curve = next(x for x in range(5, 100) if reference.lift_x(x) is None)
    cases = [
        ("as signed", X, MESSAGE, good, True),
        ("one bit of the message changed", X, MESSAGE[:-1] + b"\x00", good, False),
        (
            "s negated: R' has the right x but odd y or another x",
            X,
            MESSAGE,
            r + b(N - int.from_bytes(s, "big")),
            False,
        ),
        ("s = n", X, MESSAGE, r + b(N), False),
        ("s = 2^256 - 1", X, MESSAGE, r + b"\xff" * 32, False),
        ("s = 0", X, MESSAGE, r + b(0), False),
        ("r = p", X, MESSAGE, b(P) + s, False),
        ("r = 2^256 - 1", X, MESSAGE, b"\xff" * 32 + s, False),
        ("r = 0", X, MESSAGE, b(0) + s, False),
        ("x is not on the curve", b(not_on_curve), MESSAGE, good, False),
        ("x = p", b(P), MESSAGE, good, False),
        ("x = 0", b(0), MESSAGE, good, False),
        ("another key's x", b(G[0]), MESSAGE, good, False),
        ("R' is the right point negated (odd y)", X, MESSAGE, odd_y_signature(), False),
        ("R' is infinity", X, MESSAGE, infinity_signature(), False),
    ]
    return [
        {"why": why, "verifier_x": x.hex(), "message": m.hex(), "signature": sig.hex(), "valid": ok}
        for why, x, m, sig, ok in cases
    ]


def odd_y_signature() -> bytes:
    """Sign with a nonce whose point has odd y, and do not correct it."""
    d = int.from_bytes(forge.KEY._scalar, "big")  # noqa: SLF001
    k = next(k for k in range(2, 100) if native.public_point(b(k))[0] == 3)
    r = native.public_point(b(k))[1:]
    e = int.from_bytes(native.derive(CHALLENGE, r + X + MESSAGE), "big") % N
    return r + b((k + e * d) % N)


def infinity_signature() -> bytes:
    """Choose s = e·d, so that R' = s·G − e·P vanishes."""
    d = int.from_bytes(forge.KEY._scalar, "big")  # noqa: SLF001
    r = b(G[0])
    e = int.from_bytes(native.derive(CHALLENGE, r + X + MESSAGE), "big") % N
    return r + b(e * d % N)


def valid_records() -> list[dict[str, Any]]:
    cases = {
        "empty Blob": forge.blob(b""),
        "Blob with any bytes": forge.blob(bytes(range(256))),
        "Blob whose data looks like headers": forge.blob(b"Data-Length: 1\n\n\n\n"),
        "Plex without extras": forge.plex(),
        "Plex with repeated extras in author order": forge.plex_with(b"Tag: z", b"Tag: a"),
        "extras are sorted by bytes, upper case first": forge.plex_with(b"B: 1", b"a: 1"),
        "value with blanks at both ends and a colon": forge.plex_with(b"Note:  a: b "),
        "link, and a malformed link that stays a field": forge.plex_with(
            b"+Link: evidence in two words P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3",
            b"+Link: not-a-hash x",
            b"Chunk+Link: 0..5 B.kQIYZC1_~Q_ji4~Twe2_7m9Zn2scg_Cu9zNTkbk9zq8.H3",
        ),
        "link to a hash format that is not supported": forge.plex_with(b"+Link: next P.abc.H9"),
        "non-ASCII text in NFC": forge.plex_with("Título: Grüße, 世界 🖧".encode()),
        "private use code point": forge.plex_with("X: \ue000".encode()),
        "segments that only begin with a dot": forge.plex(
            (b"Group: .u", b"App: ..x/a.b", b"Name: ||/|a", forge.TAI)
        ),
        "quote and backslash": forge.plex_with(b"Q: it's a \\ backslash"),
        "longest header line": forge.plex_with(b"X: " + b"a" * 1021),
        "512 extra headers": forge.plex_with(*[b"X: %d" % i for i in range(512)]),
        "Seal": forge.seal(),
        "Seal with extras": forge.seal(forge.plex_with(b"Member: V.x", b"Role: writer")),
    }
    return [{"name": name, **record_entry(raw)} for name, raw in cases.items()]


def record_entry(raw: bytes) -> dict[str, Any]:
    record = validate_record(raw).unwrap()
    lines = sorted(fact_line(fact[0], fact[1:]) for fact in facts(record))
    entry: dict[str, Any] = {"hash": record.hash, **as_text(raw)}
    return entry | {"facts": lines} if len(lines) < 50 else entry


def as_text(raw: bytes) -> dict[str, str]:
    try:
        return {"record": raw.decode()}
    except UnicodeDecodeError:
        return {"record_b64": base64.b64encode(raw).decode()}


def invalid_records() -> list[dict[str, Any]]:
    good, sealed = forge.plex(), forge.seal()
    flipped = bytes([sealed[-1] ^ 1])
    zeros = b64a.encode_ascii(bytes(64))
    x_off_curve = b"V." + b64a.encode_ascii(b(5)) + b".H3"
    group, app, name, instant = forge.PLACE
    cases: list[tuple[str, str, bytes]] = [
        ("no bytes at all", "record.truncated", b""),
        ("not a record", "record.markline", b"hello"),
        ("a letter that is no record type", "record.markline", b"\xf0\x9f\x96\xa7: X" + good[7:]),
        ("a hash suffix that is not supported", "record.markline", good.replace(b".H3\nGroup", b".H9\nGroup")),
        ("a digest one character short", "record.markline", good[:20] + good[21:]),
        ("spare bits of the digest are set", "record.markline", set_spare_bits(good)),
        ("trailer-hash form", "record.trailer-form", "⋯🖧: P\n".encode() + good),
        ("Plex where a Blob must be embedded", "record.type", forge.plex(embedded=good)),
        ("Blob where a Plex must be embedded", "record.type", forge.seal(forge.blob())),
        ("Seal in a Seal", "record.type", forge.seal(forge.seal())),
        ("a Blob under a Plex markline", "record.header-missing", forge.mark(b"P", b"Data-Length: 0\n\n")),
        ("CRLF line ends", "record.header-control", forge.plex((group + b"\r", app, name, instant))),
        ("tab in a value", "record.header-control", forge.plex_with(b"X: a\tb")),
        ("NUL in a name", "record.header-control", forge.plex_with(b"X\x00: a")),
        ("DEL in a value", "record.header-control", forge.plex_with(b"X: a\x7f")),
        ("no space after the colon", "record.header-syntax", forge.plex((b"Group:u", app, name, instant))),
        ("empty value", "record.header-syntax", forge.plex_with(b"X: ")),
        ("space in a name", "record.header-syntax", forge.plex_with(b"X Y: a")),
        ("space before the colon", "record.header-syntax", forge.plex_with(b"X : a")),
        ("empty name", "record.header-syntax", forge.plex_with(b": a")),
        ("no colon", "record.header-syntax", forge.plex_with(b"X")),
        ("blank line among the extras", "record.header-syntax", forge.plex_with(b"", b"X: a")),
        ("Group missing", "record.header-missing", forge.plex((app, name, instant))),
        ("App before Group", "record.header-missing", forge.plex((app, group, name, instant))),
        ("Group twice", "record.header-missing", forge.plex((group, group, app, name, instant))),
        ("Group again as an extra", "record.header-reserved", forge.plex_with(b"Group: u")),
        ("Type as an extra", "record.header-reserved", forge.plex_with(b"Type: P")),
        ("Signed-By as an extra", "record.header-reserved", forge.plex_with(b"Signed-By: V.x")),
        ("lower-case group", "record.header-missing", forge.plex((b"group: u", app, name, instant))),
        ("unsorted extras", "record.header-order", forge.plex_with(b"B: 1", b"A: 1")),
        ("extras sorted without regard to case", "record.header-order", forge.plex_with(b"a: 1", b"B: 1")),
        ("513 extras", "record.header-count", forge.plex_with(*[b"X: %d" % i for i in range(513)])),
        ("header line of 1025 bytes", "record.header-too-long", forge.plex_with(b"X: " + b"a" * 1022)),
        ("not UTF-8", "text.utf8", forge.plex_with(b"X: \xff")),
        ("UTF-8 of a surrogate", "text.utf8", forge.plex_with(b"X: \xed\xa0\x80")),
        ("overlong UTF-8", "text.utf8", forge.plex_with(b"X: \xc0\xaf")),
        ("value not in NFC", "text.nfc", forge.plex_with("X: e\u0301".encode())),
        ("name not in NFC", "text.nfc", forge.plex_with("e\u0301: x".encode())),
        ("Group not in NFC", "text.nfc", forge.plex(("Group: e\u0301".encode(), app, name, instant))),
        ("code point that Unicode 16.0 does not assign", "text.unassigned", forge.plex_with("X: \u0378".encode())),
        ("noncharacter", "text.unassigned", forge.plex_with("X: \uffff".encode())),
        ("empty segment in Name", "path.empty-segment", forge.plex((group, app, b"Name: a//b", instant))),
        ("Name with a trailing slash", "path.empty-segment", forge.plex((group, app, b"Name: a/", instant))),
        ("Group with a leading slash", "path.empty-segment", forge.plex((b"Group: /u", app, name, instant))),
        ("segment .. in App", "path.reserved-segment", forge.plex((group, b"App: a/../b", name, instant))),
        ("segment . as Group", "path.reserved-segment", forge.plex((b"Group: .", app, name, instant))),
        ("segment | in Name", "path.reserved-segment", forge.plex((group, app, b"Name: a/|", instant))),
        ("TAI with too few digits", "tai.malformed", forge.plex((group, app, name, b"TAI: 164099520:000000000"))),
        ("TAI with a sign", "tai.malformed", forge.plex((group, app, name, b"TAI: +640995200:000000000"))),
        ("TAI with a full stop", "tai.malformed", forge.plex((group, app, name, b"TAI: 1640995200.000000000"))),
        ("Data-Length with a leading zero", "record.data-length", forge.blob(b"hello", b"Data-Length: 05")),
        ("Data-Length with a sign", "record.data-length", forge.blob(b"hello", b"Data-Length: +5")),
        ("Data-Length in Arabic-Indic digits", "record.data-length", forge.blob(b"hello", "Data-Length: ٥".encode())),
        ("Data-Length with a blank behind", "record.data-length", forge.blob(b"hello", b"Data-Length: 5 ")),
        ("Data-Length over the limit", "record.data-too-large", forge.blob(b"hello", b"Data-Length: 33554433")),
        ("Data-Length of a hundred digits", "record.data-too-large", forge.blob(b"hello", b"Data-Length: " + b"9" * 100)),
        ("Data-Length larger than the data", "record.truncated", forge.blob(b"hello", b"Data-Length: 6")),
        ("Data-Length smaller than the data", "record.trailing-bytes", forge.blob(b"hello", b"Data-Length: 4")),
        ("no blank line after Data-Length", "record.header-syntax", forge.mark(b"B", b"Data-Length: 5\nhello\n")),
        ("a line break after the data", "record.trailing-bytes", forge.blob() + b"\n"),
        ("last byte missing", "record.truncated", sealed[:-1]),
        ("ends in the headers", "record.truncated", sealed[:100]),
        ("one bit of the data flipped", "record.hash-mismatch", sealed[:-1] + flipped),
        ("one character of a Group changed", "record.hash-mismatch", good.replace(b"Group: u", b"Group: v")),
        ("verifier is no verifier text", "record.verifier", forge.seal(signed_by=b"alice")),
        ("verifier is a record hash", "record.verifier", forge.seal(signed_by=b"P" + forge.KEY.verifier.encode()[1:])),
        ("verifier one character long", "record.verifier", forge.seal(signed_by=b"V.0.H3")),
        ("signature too short", "record.signature-form", forge.seal(signature=zeros[:-1])),
        ("signature with spare bits set", "record.signature-form", forge.seal(signature=zeros[:-1] + b"1")),
        ("signature of zeros", "record.signature", forge.seal(signature=zeros)),
        ("verifier not on the curve", "record.signature", forge.seal(signed_by=x_off_curve)),
        ("signature of another Plex", "record.signature", forge.seal(forge.plex_with(b"X: a"), signature=signature_of(sealed))),
        ("Signature before Signed-By", "record.header-missing", forge.seal(lines=reversed(seal_lines(sealed)))),
        ("a third header in the Seal", "record.markline", forge.seal(lines=(*seal_lines(sealed), b"X: a"))),
        ("Seal without Signature", "record.header-missing", forge.seal(lines=seal_lines(sealed)[:1])),
    ]  # fmt: skip
    return [{"name": name, "code": code, **as_text(raw)} for name, code, raw in cases]


def seal_lines(sealed: bytes) -> tuple[bytes, ...]:
    return tuple(sealed.split(b"\n")[1:3])


def signature_of(sealed: bytes) -> bytes:
    return seal_lines(sealed)[1].removeprefix(b"Signature: ")


def set_spare_bits(raw: bytes) -> bytes:
    last = raw.index(b".H3") - 1
    symbol = b64a.ALPHABET[b64a.ALPHABET.index(raw[last]) | 1]
    return raw[:last] + bytes([symbol]) + raw[last + 1 :]


def proof_cases() -> list[dict[str, Any]]:
    """Return proofs of identity, each with the connection that it is shown on."""
    client = Meeting(
        accepting=False, nonce="1" * 43, peer_nonce="2" * 43, addresses=("wss:s/interlace",),
        module=f"R.{'3' * 43}", peer_module=f"R.{'4' * 43}", channel="5" * 43,
        hello=b"HelloTAI('1700000000:000000000')\n", peer_hello=b"HelloTAI('1700000001:000000000')\n",
    )  # fmt: skip
    server = Meeting(
        accepting=True, nonce=client.peer_nonce, peer_nonce=client.nonce,
        addresses=("tcp:s:4790", *client.addresses), module=client.peer_module,
        peer_module=client.module, channel=client.channel,
        hello=client.peer_hello, peer_hello=client.hello,
    )  # fmt: skip
    earlier = build_plex(
        group="lace", app="iltp/peer-proof", name=f"{'2' * 43}/{'1' * 43}", tai=PROOF_TAI,
        extras=[("Audience", "wss:s/interlace")],
    )  # fmt: skip
    cases = [
        ("of the connecting side", client, server, True),
        ("of the accepting side", server, client, True),
        ("of a side that does not see the channel", replace(client, channel=""), server, True),
        ("for another channel", client, replace(server, channel="6" * 43), False),
        ("for a channel, where there is none", client, replace(server, channel=""), False),
        ("for another nonce", client, replace(server, nonce="7" * 43), False),
        ("for another module of the prover", client, replace(server, peer_module="R."), False),
        ("for another module of the judge", client, replace(server, module="R."), False),
        ("for another hello of the prover", client, replace(server, peer_hello=b""), False),
        ("for another hello of the judge", client, replace(server, hello=b""), False),
        ("for another server", client, replace(server, addresses=("tcp:s:4790",)), False),
        ("of the accepting side, turned against it", server, replace(
            server, nonce=server.peer_nonce, peer_nonce=server.nonce), False),
    ]  # fmt: skip
    made = [(why, unsigned_proof(by, PROOF_TAI), judge, ok) for why, by, judge, ok in cases]
    made.append(("of the earlier form, without the set-up", earlier, server, False))
    return [
        {
            "why": why,
            "judge": asdict(judge) | {
                "hello": judge.hello.decode(), "peer_hello": judge.peer_hello.decode(),
            },
            "setup": judge.setup(by_peer=True),
            "record": seal(plex, forge.KEY, aux=forge.AUX).raw.decode(),
            "proves": forge.KEY.verifier if ok else None,
        }
        for why, plex, judge, ok in made
    ]  # fmt: skip


def main() -> None:
    files = {
        "signatures.json": signature_cases(),
        "records-valid.json": valid_records(),
        "records-invalid.json": invalid_records(),
        "proofs.json": proof_cases(),
        **exchange_vectors.files(),
        "sketch.json": sketch_vectors.sketches(),
        "streams.json": stream_vectors.cases(),
    }
    for name, content in files.items():
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (ROOT / "vectors" / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"vectors/{name} written")


if __name__ == "__main__":
    main()
