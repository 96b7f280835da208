"""The cases of vectors/sketch.json, computed from the definition alone: cell by cell, sum by sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blake3 import blake3

from lace import b64a

Json = dict[str, Any]

SIZES = (8, *(8 << block for block in range(13)))
CELLS = 16


def number(text: str) -> int:
    return int.from_bytes(blake3(text.encode()).digest()[:8], "big")


FACTORS = tuple(number(f"lace-sketch-block/v1 {block}") | 1 for block in range(len(SIZES)))
CHECK = number("lace-sketch-check/v1") | 1


def key_of(nonces: Sequence[str], hellos: Sequence[str], plan: str) -> bytes:
    hasher = blake3(b"lace-advertisement-sketch/v1")
    for text in (*nonces, *hellos, plan):
        hasher.update(len(text.encode()).to_bytes(4, "big"))
        hasher.update(text.encode())
    return hasher.digest()


def name_of(key: bytes, digest: bytes) -> int:
    return int.from_bytes(blake3(digest, key=key).digest()[:8], "big")


def check_of(name: int) -> int:
    return name * (name + 1) * CHECK % 2**64 // 2**40


def cells_of(names: Sequence[int], count: int = CELLS) -> list[str]:
    cells = []
    for factor, size in zip(FACTORS, SIZES, strict=True):
        for place in range(size):
            lying = [x for x in names if x * factor % 2**64 * size // 2**64 == place]
            cells.append(
                f"{len(lying) % 2**16:04x}"
                f"{sum(map(check_of, lying)) % 2**24:06x}"
                f"{sum(lying) % 2**64:016x}"
            )
        if len(cells) >= count:
            break
    return cells[:count]


def hexed(names: Sequence[int]) -> list[str]:
    return [f"{name:016x}" for name in names]


def sketches() -> Json:
    nonces = [b64a.encode(blake3(f"nonce {side}".encode()).digest()) for side in range(2)]
    hellos = ["1700000000:000000000", "1700000001:500000000"]
    plan = f"E.{b64a.encode(blake3(b'plan').digest())}.H3"
    keys = [
        ("a stream with nonces", nonces, hellos, plan),
        ("the other side first", nonces[::-1], hellos[::-1], plan),
        ("a binding without nonces", ["", ""], hellos, plan),
    ]
    key = key_of(*keys[0][1:])
    items = [blake3(f"advertisement {place}".encode()).digest() for place in range(5)]
    names = [name_of(key, item) for item in items]
    more = [number(f"name {place}") for place in range(4)]
    cases = [
        ("nothing", [], 8),
        ("the five items", names, CELLS),
        ("the names at the ends, and sums beyond their widths", [0, 1, 2**63, *[2**64 - 1] * 4], CELLS),
        ("cells up to the middle of a block", names, 50),
    ]  # fmt: skip
    differences = [
        ("nothing", names, names, 8),
        ("a name on each side", names[:4], names[1:], CELLS),
        ("names that only one side has", names, names + more, 24),
    ]
    return {
        "about": "Sketches of sets of names. Keys, digests, names and cells are in hex.",
        "constants": {"blocks": hexed(FACTORS), "check": f"{CHECK:016x}"},
        "keys": [
            {"why": why, "nonces": nonces, "hellos": hellos, "plan": plan,
             "key": key_of(nonces, hellos, plan).hex()}
            for why, nonces, hellos, plan in keys
        ],
        "items": [
            {"key": key.hex(), "digest": digest.hex(),
             "name": f"{name:016x}", "check": f"{check_of(name):06x}"}
            for digest, name in zip(items, names, strict=True)
        ],
        "sketches": [
            {"why": why, "names": hexed(names), "cells": cells_of(names, count)}
            for why, names, count in cases
        ],
        "differences": [
            {"why": why, "ours": hexed(ours), "cells": cells_of(theirs, count),
             "only_theirs": hexed([name for name in theirs if name not in ours]),
             "only_ours": hexed([name for name in ours if name not in theirs])}
            for why, ours, theirs, count in differences
        ],
    }  # fmt: skip
