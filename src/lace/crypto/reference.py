"""BLAKE3 and signature verification in plain Python, written from their definitions.

Slow and not hardened; it never holds a secret. Tests compare the native provider with it, because
it shares no code with it, and it stands in where no compiled code is installed.
"""

from __future__ import annotations

import struct
from copy import copy
from typing import Final, Self

from lace.crypto.provider import CHALLENGE, G, N, P

# --- BLAKE3 -------------------------------------------------------------------------------------

_IV: Final = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip
_PERMUTATION: Final = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_CHUNK_START, _CHUNK_END, _PARENT, _ROOT = 1, 2, 4, 8
_KEYED, _DERIVE_CONTEXT, _DERIVE_MATERIAL = 16, 32, 64
_BLOCK, _CHUNK = 64, 1024
_MASK: Final = 0xFFFFFFFF

Words = tuple[int, ...]


def _rotate(value: int, count: int) -> int:
    return (value >> count | value << (32 - count)) & _MASK


def _mix(v: list[int], a: int, b: int, c: int, d: int, x: int, y: int) -> None:
    v[a] = (v[a] + v[b] + x) & _MASK
    v[d] = _rotate(v[d] ^ v[a], 16)
    v[c] = (v[c] + v[d]) & _MASK
    v[b] = _rotate(v[b] ^ v[c], 12)
    v[a] = (v[a] + v[b] + y) & _MASK
    v[d] = _rotate(v[d] ^ v[a], 8)
    v[c] = (v[c] + v[d]) & _MASK
    v[b] = _rotate(v[b] ^ v[c], 7)


def _compress(chain: Words, block: bytes, counter: int, flags: int) -> Words:
    """Return the sixteen output words for one block of at most 64 bytes."""
    m = list(struct.unpack("<16I", block.ljust(_BLOCK, b"\0")))
    v = [*chain, *_IV[:4], counter & _MASK, counter >> 32, len(block), flags]
    for _ in range(7):
        _mix(v, 0, 4, 8, 12, m[0], m[1])
        _mix(v, 1, 5, 9, 13, m[2], m[3])
        _mix(v, 2, 6, 10, 14, m[4], m[5])
        _mix(v, 3, 7, 11, 15, m[6], m[7])
        _mix(v, 0, 5, 10, 15, m[8], m[9])
        _mix(v, 1, 6, 11, 12, m[10], m[11])
        _mix(v, 2, 7, 8, 13, m[12], m[13])
        _mix(v, 3, 4, 9, 14, m[14], m[15])
        m = [m[i] for i in _PERMUTATION]
    return tuple([v[i] ^ v[i + 8] for i in range(8)] + [v[i + 8] ^ chain[i] for i in range(8)])


class _Node:
    """The last compression of a subtree, not yet done: as a child or as the root it differs."""

    def __init__(self, chain: Words, block: bytes, counter: int, flags: int) -> None:
        self.chain, self.block, self.counter, self.flags = chain, block, counter, flags

    def value(self) -> Words:
        return _compress(self.chain, self.block, self.counter, self.flags)[:8]

    def root(self, length: int) -> bytes:
        output = b""
        block = 0
        while len(output) < length:
            words = _compress(self.chain, self.block, block, self.flags | _ROOT)
            output += struct.pack("<16I", *words)
            block += 1
        return output[:length]


def _chunk_node(key: Words, data: bytes, counter: int, flags: int) -> _Node:
    blocks = [data[i : i + _BLOCK] for i in range(0, len(data), _BLOCK)] or [b""]
    chain = key
    for index, block in enumerate(blocks):
        start = _CHUNK_START if index == 0 else 0
        if index == len(blocks) - 1:
            return _Node(chain, block, counter, flags | start | _CHUNK_END)
        chain = _compress(chain, block, counter, flags | start)[:8]
    raise AssertionError("unreachable: there is always a last block")


def _tree(key: Words, data: bytes, counter: int, flags: int) -> _Node:
    if len(data) <= _CHUNK:
        return _chunk_node(key, data, counter, flags)
    chunks = (len(data) - 1) // _CHUNK
    left = 1 << (chunks.bit_length() - 1)  # the largest power of two that leaves a right side
    children = (
        *_tree(key, data[: left * _CHUNK], counter, flags).value(),
        *_tree(key, data[left * _CHUNK :], counter + left, flags).value(),
    )
    return _Node(key, struct.pack("<16I", *children), 0, flags | _PARENT)


class Hasher:
    """BLAKE3 of what it is given, with the methods of the package ``blake3`` that Lace uses.

    It keeps all of it until a digest is asked for: records are small.
    """

    def __init__(
        self,
        data: bytes = b"",
        /,
        *,
        key: bytes | None = None,
        derive_key_context: str | None = None,
    ) -> None:
        self._data = bytes(data)
        self._start: tuple[Words, int] = _IV, 0
        if key is not None:
            self._start = struct.unpack("<8I", key), _KEYED
        elif derive_key_context is not None:
            root = _tree(_IV, derive_key_context.encode("utf-8"), 0, _DERIVE_CONTEXT).root(32)
            self._start = struct.unpack("<8I", root), _DERIVE_MATERIAL

    def update(self, data: bytes, /) -> Self:
        """Add bytes to what is hashed."""
        self._data += data
        return self

    def reset(self) -> Self:
        """Forget the bytes, but not the key."""
        self._data = b""
        return self

    def copy(self) -> Self:
        """Return another one that goes on from here."""
        return copy(self)

    def digest(self, length: int = 32) -> bytes:
        """Return so many bytes of the output."""
        key, flags = self._start
        return _tree(key, self._data, 0, flags).root(length)

    def hexdigest(self, length: int = 32) -> str:
        """Return the same as hexadecimal digits."""
        return self.digest(length).hex()


def digest(data: bytes, /) -> bytes:
    """Return BLAKE3-256 of ``data``."""
    return Hasher(data).digest()


def derive(context: str, data: bytes, length: int = 32, /) -> bytes:
    """Return the first ``length`` bytes of BLAKE3 derive-key output."""
    return Hasher(data, derive_key_context=context).digest(length)


# --- secp256k1 ----------------------------------------------------------------------------------

Point = tuple[int, int] | None  # None is infinity


def _add(left: Point, right: Point) -> Point:
    if left is None:
        return right
    if right is None:
        return left
    (x1, y1), (x2, y2) = left, right
    if x1 == x2 and (y1 + y2) % P == 0:
        return None
    if left == right:
        slope = 3 * x1 * x1 * pow(2 * y1, -1, P) % P
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, P) % P
    x3 = (slope * slope - x1 - x2) % P
    return x3, (slope * (x1 - x3) - y1) % P


def multiply(scalar: int, point: Point) -> Point:
    """Return scalar·point by doubling and adding."""
    result: Point = None
    while scalar:
        if scalar & 1:
            result = _add(result, point)
        point = _add(point, point)
        scalar >>= 1
    return result


def lift_x(x: int) -> Point:
    """Return the point with this x and an even y, or None if there is none."""
    if x >= P:
        return None
    square = (pow(x, 3, P) + 7) % P
    y = pow(square, (P + 1) // 4, P)
    if y * y % P != square:
        return None
    return (x, y if y % 2 == 0 else P - y)


def verify(verifier_x: bytes, message: bytes, signature: bytes, /) -> bool:
    """Whether ``signature`` holds, decided exactly as the definition reads."""
    if len(verifier_x) != 32 or len(message) != 32 or len(signature) != 64:
        return False
    r = int.from_bytes(signature[:32], "big")
    s = int.from_bytes(signature[32:], "big")
    if r >= P or s >= N:
        return False
    public = lift_x(int.from_bytes(verifier_x, "big"))
    if public is None:
        return False
    e = int.from_bytes(derive(CHALLENGE, signature[:32] + verifier_x + message), "big") % N
    result = _add(multiply(s, G), multiply(N - e, public))
    if result is None or result[1] % 2 == 1:
        return False
    return result[0] == r
