"""Fuzz proofs of identity: what is not the proof of this very set-up is refused. See README.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, Final

import atheris

from fuzzing import Choices, noise, start

with atheris.instrument_imports(include=["lace"]):
    from lace.crypto.keys import SigningKey
    from lace.errors import Code, ProtocolError
    from lace.stream.proof import Meeting, check_proof, make_proof
    from lace.tai import Tai

_KEY: Final = SigningKey(b"\x01" * 32)
_NOW: Final = Tai("1700000000:000000000")
_CLIENT: Final = Meeting(
    accepting=False, nonce="1" * 43, peer_nonce="2" * 43, addresses=("tcp:s:1",), module="R.a",
    peer_module="R.b", hello=b"a\n", peer_hello=b"b\n", channel="c",
)  # fmt: skip
_SERVER: Final = Meeting(
    accepting=True, nonce="2" * 43, peer_nonce="1" * 43, addresses=("tcp:s:1", "tcp:t:1"),
    module="R.b", peer_module="R.a", hello=b"b\n", peer_hello=b"a\n", channel="c",
)  # fmt: skip
_SIDES: Final = ((_CLIENT, _SERVER), (_SERVER, _CLIENT))
_PROOFS: Final = [make_proof(_KEY, maker, _NOW) for maker, _ in _SIDES]
_NAMES: Final = [field.name for field in fields(Meeting)]


def check(data: bytes) -> None:
    """The first byte chooses who proves, and whether the proof or the meeting is changed."""
    if not data:
        return
    which = data[0] & 1
    maker, judge = _SIDES[which]
    choices = Choices(data[1:])
    if data[0] & 2:
        changed = _changed(maker, choices)
        fits = changed == maker or (changed.channel == "" and changed == replace(maker, channel=""))
        _judge(make_proof(_KEY, changed, _NOW), judge, fits=fits or _is_wider(changed, maker))
    elif data[0] & 4:
        raw = bytearray(_PROOFS[which])
        raw[choices.number(0, len(raw) - 1)] ^= 1 + choices.number(0, 254)
        _judge(bytes(raw), judge, fits=False)
    else:
        _judge(data[1:], judge, fits=data[1:] == _PROOFS[which])


def _changed(meeting: Meeting, choices: Choices) -> Meeting:
    name = _NAMES[choices.number(0, len(_NAMES) - 1)]
    value: Any = getattr(meeting, name)
    match value:
        case bool():
            return meeting
        case bytes():
            value = choices.bytes(20)
        case tuple():
            value = (*value, "tcp:u:1") if choices.number(0, 1) else value[1:]
        case _:
            value = value[: choices.number(0, len(value))]
    return replace(meeting, **{name: value}) if name not in {"nonce", "peer_nonce"} else meeting


def _is_wider(changed: Meeting, maker: Meeting) -> bool:
    """Whether an accepting side only calls itself by more, or by other names that it has."""
    same = replace(changed, addresses=maker.addresses) == maker
    return maker.accepting and same and "tcp:s:1" in changed.addresses


def _judge(raw: bytes, judge: Meeting, *, fits: bool) -> None:
    found, refused = None, None
    try:
        found = check_proof(raw, judge)
    except ProtocolError as error:
        refused = error.code
    assert found == (_KEY.verifier if fits else None), "a proof of something else was taken"
    assert refused is (None if fits else Code.ILTP_PROOF)


def _seeds() -> Iterator[bytes]:
    for proof in _PROOFS:
        yield b"\x00" + proof
        yield b"\x01" + proof
    for data in noise(20, 20):
        for first in range(8):
            yield bytes([first]) + data


if __name__ == "__main__":
    start("proof", check, _seeds(), fresh=b"\x02\x03\x04\x05")
