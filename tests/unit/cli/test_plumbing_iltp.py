from __future__ import annotations

import json
from typing import Any

import forge
from command import lace

from lace.record import validate_record
from lace.selectors import selector
from lace.stream import items as i

NONCE = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcded"
MODULE = selector("//g//notes//")


def run(stream: bytes) -> tuple[list[dict[str, Any]], int]:
    ran = lace("plumb", "iltp", stdin=stream)
    return [json.loads(line) for line in ran.stdout.splitlines()], ran.returncode


def test_items_are_printed_with_their_offsets() -> None:
    text = MODULE.text
    pieces = [
        i.preface(NONCE), i.resource(MODULE.id, text.encode()), b"# hi \xff\n",
        "MayRequest('é')\n".encode(), b"TickReady('x')\n", b"\n", forge.seal(), forge.blob()[:-1] + b"X",
    ]  # fmt: skip
    offsets = [sum(map(len, pieces[:n])) for n in range(len(pieces))]
    found, code = run(b"".join(pieces))
    assert code == 0
    valid = validate_record(forge.seal()).unwrap()
    assert found == [
        {"item": "preface", "nonce": NONCE, "offset": offsets[0], "version": "ILTP/1"},
        {"id": MODULE.id, "item": "resource", "offset": offsets[1], "text": text},
        {"item": "comment", "offset": offsets[2], "text": " hi \\xff"},
        {"fact": "MayRequest('é')", "item": "fact", "offset": offsets[3]},
        {"fact": "TickReady('x')", "item": "fact", "offset": offsets[4]},
        {"item": "phase", "offset": offsets[5]},
        {"hash": valid.hash, "item": "record", "length": len(valid.raw), "offset": offsets[6], "ok": True},
        {"code": "record.hash-mismatch", "detail": found[7]["detail"], "item": "record",
         "length": len(forge.blob()), "offset": offsets[7], "ok": False},
    ]  # fmt: skip


def test_the_first_malformed_item_ends_it() -> None:
    found, code = run(b"\n!\n")
    assert code == 1
    assert found[0] == {"item": "phase", "offset": 0}
    assert (found[1]["code"], found[1]["offset"], len(found)) == ("iltp.item", 1, 2)


def test_a_line_that_is_no_fact_is_malformed() -> None:
    for line in (
        b"Hello\n",
        b"Unknown('x')\n",
        b"MayRequest()\n",
        b"MayRequest('a' )\n",
        b"Have('\xff')\n",
    ):
        found, code = run(b"MayRequest('a')\n" + line + b"\n")
        assert code == 1
        assert [entry.get("item") for entry in found] == ["fact", None]
        assert (found[1]["code"], found[1]["offset"]) == ("interlace.block", 16)


def test_a_stream_that_ends_within_an_item() -> None:
    found, code = run(b"\nMayRequest('a')")
    assert code == 1
    assert (found[1]["code"], found[1]["offset"]) == ("iltp.truncated", 1)
