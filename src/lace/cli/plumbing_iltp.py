"""``lace plumb iltp``: a stream taken apart. The output is a contract."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any, Final

import click

from lace.cli.exitcodes import Exit
from lace.cli.render import print_json
from lace.errors import ProtocolError
from lace.interlace.facts import PREDICATES, parse_block
from lace.record.validate import validate_record
from lace.stream import items as i

_ANY: Final = frozenset(PREDICATES)
_CHUNK: Final = 1 << 18


@click.command("iltp")
def iltp() -> int:
    """Read an ILTP stream from standard input; print its items, one JSON object a line.

    Every item has its offset: a preface its nonce, a fact its line, a comment its text, a resource
    its id and text, a record its hash, length and whether it is valid, and phase is the end of one.
    The first malformed item prints its code and offset, and ends the command.

    \b
    Example:
      nc localhost 4790 </dev/null | lace plumb iltp
    """
    reader = i.ItemReader(unpacks=True)
    # What is there is read, not more: a live stream shows its items as they come.
    while chunk := os.read(sys.stdin.fileno(), _CHUNK):
        for item in reader.feed(chunk):
            if not _print(item):
                return Exit.BAD_INPUT
        sys.stdout.flush()
    return Exit.OK if all(_print(item) for item in reader.close()) else Exit.BAD_INPUT


def _print(item: i.Item) -> bool:
    """Print one item; return whether the stream can be read any further."""
    for line in _lines(item):
        print_json(line)
        if "code" in line and "item" not in line:
            return False
    return True


def _lines(item: i.Item) -> Iterator[dict[str, Any]]:
    where = {"offset": item.offset}
    match item:
        case i.Preface():
            yield where | {"item": "preface", "nonce": item.nonce, "version": i.VERSION}
        case i.FactLines():
            yield from _facts(item)
        case i.Comments():
            offset = item.offset
            for line in item.content.splitlines(keepends=True):
                yield {"item": "comment", "offset": offset, "text": _text(line[1:-1])}
                offset += len(line)
        case i.Resource():
            yield where | {"id": item.id, "item": "resource", "text": _text(item.content)}
        case i.RecordBytes():
            outcome = validate_record(item.raw)
            record = {"item": "record", "length": len(item.raw), "ok": outcome.ok}
            if outcome.value is not None:
                yield where | record | {"hash": outcome.value.hash}
            else:
                yield where | record | {"code": str(outcome.code), "detail": outcome.detail}
        case i.PhaseEnd():
            yield where | {"item": "phase"}
        case i.Malformed():
            yield where | {"code": str(item.code), "detail": item.detail}


def _facts(block: i.FactLines) -> Iterator[dict[str, Any]]:
    offset = block.offset
    for line in block.content.split(b"\n")[:-1]:
        try:
            parse_block(line + b"\n", _ANY)
        except ProtocolError as error:
            yield {"code": str(error.code), "detail": error.message, "offset": offset}
            return
        yield {"fact": line.decode(), "item": "fact", "offset": offset}
        if not block.packed:
            offset += len(line) + 1


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")
