"""``lace plumb``: the stable surface. Data on standard output, talk on standard error.

What these commands print is a contract: other programs read it. Their words never change.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import click

from lace import b64a
from lace.cli.exitcodes import Exit
from lace.cli.files import read_frames, read_lines
from lace.cli.output import echo, write_text
from lace.cli.plumbing_advert import advert_group
from lace.cli.plumbing_iltp import iltp
from lace.cli.plumbing_journal import journal_group
from lace.cli.plumbing_kit import hostile, matrix, peer
from lace.cli.plumbing_lacegram import lacegram_group
from lace.cli.plumbing_plan import plan_group
from lace.cli.render import print_json, print_line
from lace.crypto.keys import SigningKey
from lace.errors import Code, EncodingError, LaceError
from lace.record import (
    BrokenFrame,
    Record,
    build_blob,
    build_plex,
    facts,
    inspect_record,
    seal,
    validate_record,
)
from lace.text import decode_utf8, fact_line
from lace.urc import Coordinate, HashAddress, VersionSelector, parse_urc


@click.group()
def plumb() -> None:
    """The stable, scriptable surface: data on standard output, - is standard input.

    \b
    Example:
      echo 000102 | lace plumb b64a encode
      lace plumb record check bundle.records
    """


@plumb.group("b64a")
def b64a_group() -> None:
    """Turn bytes into B64A text and back, one string a line.

    \b
    Example:
      echo 000102 | lace plumb b64a encode
    """


@b64a_group.command()
def encode() -> int:
    """Read hexadecimal lines, print B64A lines; a bad line prints !CODE.

    \b
    Example:
      echo ff00 | lace plumb b64a encode
    """
    return _each_line(lambda line: b64a.encode(_unhex(line)))


@b64a_group.command()
def decode() -> int:
    """Read B64A lines, print hexadecimal lines; a bad line prints !CODE.

    \b
    Example:
      echo '~l0' | lace plumb b64a decode
    """
    return _each_line(lambda line: b64a.decode(line).hex())


@plumb.group("key")
def key_group() -> None:
    """Make keys and derive verifiers.

    \b
    Example:
      lace plumb key new
    """


@key_group.command()
def new() -> None:
    """Print a new secret and its verifier. The secret is the key: keep what this prints private.

    \b
    Example:
      lace plumb key new
    """
    made = SigningKey.generate()
    print_json({"secret": made.reveal(), "verifier": made.verifier})


@key_group.command()
def derive() -> int:
    """Read secrets from standard input, one a line; print their verifiers.

    \b
    Example:
      lace plumb key derive < me.key
    """

    def verifier_of(line: bytes) -> dict[str, Any]:
        key = SigningKey.from_secret_text(line.decode("ascii", "replace"))
        return {"verifier": key.verifier}

    return _each_object(verifier_of)


@plumb.group("record")
def record_group() -> None:
    """Build, check and take facts from records.

    \b
    Example:
      lace plumb record check bundle.records
    """


@record_group.command()
def build() -> int:
    """Read one JSON object a line, print the record it describes.

    Entries: type (blob, plex or seal), data_b64, and for plex and seal: group, app, name, tai,
    extras (a list of name and value pairs), and for seal: secret and, for reproducible output,
    aux_hex.

    \b
    Example:
      echo '{"type":"blob","data_b64":"aGVsbG8="}' | lace plumb record build
    """

    def built(line: bytes) -> dict[str, Any]:
        made = _build(_object(line))
        return {"hash": made.hash, "record_b64": base64.b64encode(made.raw).decode("ascii")}

    return _each_object(built)


@record_group.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def check(files: tuple[str, ...]) -> int:
    """Check concatenated records; print one verdict a record.

    A wrong digest or signature does not stop what follows; a fault in the headers ends its file.

    \b
    Example:
      lace plumb record check bundle.records
    """
    rejected = False
    for file, offset, verdict in _verdicts(files):
        if isinstance(verdict, Record):
            print_json(
                {
                    "file": file,
                    "hash": verdict.hash,
                    "offset": offset,
                    "ok": True,
                    "type": verdict.type,
                }
            )
        else:
            rejected = True
            code, detail = verdict
            print_json(
                {"code": code, "detail": detail, "file": file, "offset": offset, "ok": False}
            )
    return Exit.SOME_REJECTED if rejected else Exit.OK


@record_group.command("facts")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def facts_command(files: tuple[str, ...]) -> int:
    """Print the facts of all valid records: fact lines, sorted bytewise, without duplicates.

    \b
    Example:
      lace plumb record facts bundle.records
    """
    lines: set[bytes] = set()
    rejected = False
    for file, offset, verdict in _verdicts(files):
        if isinstance(verdict, Record):
            lines.update(fact_line(fact[0], fact[1:]).encode() for fact in facts(verdict))
        else:
            rejected = True
            echo(f"{file}, byte {offset}: {verdict[1]} [{verdict[0]}]", err=True)
    for line in sorted(lines):
        write_text(line + b"\n")
    return Exit.SOME_REJECTED if rejected else Exit.OK


plumb.add_command(lacegram_group)
plumb.add_command(plan_group)
plumb.add_command(advert_group)
plumb.add_command(journal_group)
plumb.add_command(iltp)
plumb.add_command(peer)
plumb.add_command(hostile)
plumb.add_command(matrix)


@plumb.group("urc")
def urc_group() -> None:
    """Take addresses apart.

    \b
    Example:
      echo //u//docs//index.html | lace plumb urc parse
    """


@urc_group.command()
def parse() -> int:
    """Read one address or prefix a line, print its parts.

    \b
    Example:
      echo //u//ding//links/ | lace plumb urc parse
    """

    def parts(line: bytes) -> dict[str, Any]:
        address = parse_urc(decode_utf8(line))
        if isinstance(address, HashAddress):
            return {"kind": "hash", "hash": address.hash}
        exact = isinstance(address, Coordinate)
        return {
            "kind": "coordinate" if exact else "prefix",
            "group": address.group,
            "app": address.app,
            "name": address.name,
            "selector": _selector(address.selector) if isinstance(address, Coordinate) else None,
        }

    return _each_object(parts, with_ok=False)


def _selector(selector: VersionSelector | None) -> dict[str, Any] | None:
    if selector is None:
        return None
    return {
        "type": selector.type,
        "verifier": selector.verifier,
        "tai": selector.tai,
        "hash": selector.hash,
    }


# --- lines --------------------------------------------------------------------------------------


def _each_line(convert: Callable[[bytes], str]) -> int:
    failed = False
    for line in read_lines():
        try:
            print_line(convert(line))
        except LaceError as error:
            failed = True
            print_line(f"!{error.code}")
    return Exit.BAD_INPUT if failed else Exit.OK


def _each_object(convert: Callable[[bytes], dict[str, Any]], *, with_ok: bool = True) -> int:
    failed = False
    for line in read_lines():
        try:
            print_json(convert(line))
        except LaceError as error:
            failed = True
            refused: dict[str, Any] = {"code": error.code, "detail": error.message}
            print_json(refused | {"ok": False} if with_ok else refused)
    return Exit.BAD_INPUT if failed else Exit.OK


def _unhex(line: bytes) -> bytes:
    try:
        return binascii.unhexlify(line)
    except binascii.Error:
        raise EncodingError(Code.HEX_MALFORMED.meaning, code=Code.HEX_MALFORMED) from None


# --- records ------------------------------------------------------------------------------------

Rejection = tuple[Code, str]


def _verdicts(files: tuple[str, ...]) -> Iterator[tuple[str, int, Record | Rejection]]:
    """Yield each record or rejection; a fault in the headers is the last word on its file."""
    for file in files:
        for frame in read_frames(file):
            if isinstance(frame, BrokenFrame):
                yield file, frame.offset, (frame.code, frame.detail)
                break
            outcome = validate_record(frame.raw)
            if outcome.value is not None:
                yield file, frame.offset, outcome.value
                continue
            assert outcome.code is not None
            yield file, frame.offset, (outcome.code, outcome.detail)
            if not inspect_record(frame.raw).headers_hold:
                break


_COMMON: dict[str, type] = {"type": str, "data_b64": str}
_PLACED = _COMMON | {"group": str, "app": str, "name": str, "tai": str, "extras": list}
_ENTRIES = {"blob": _COMMON, "plex": _PLACED, "seal": _PLACED | {"secret": str, "aux_hex": str}}
_OPTIONAL = frozenset(("data_b64", "extras", "aux_hex"))


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise EncodingError("not a JSON object", code=Code.INPUT_JSON)
    return value


def _build(entry: dict[str, Any]) -> Record:
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in _ENTRIES:
        _refuse_entry("type is not blob, plex or seal")
    known = _ENTRIES[kind]
    # JSON null stands for "not given".
    given = {name: value for name, value in entry.items() if value is not None}
    for name, value in given.items():
        if name not in known:
            _refuse_entry(f"a {kind} takes no entry of this name: {ascii(name)[:40]}")
        if not isinstance(value, known[name]):
            _refuse_entry(f"{name} is not a {known[name].__name__}")
    for name in known:
        if name not in given and name not in _OPTIONAL:
            _refuse_entry(f"{name} is missing")
    try:
        data = base64.b64decode(given.get("data_b64", ""), validate=True)
    except ValueError:
        raise EncodingError("data_b64 is malformed", code=Code.INPUT_BASE64) from None
    if kind == "blob":
        return build_blob(data)
    plex = build_plex(
        group=given["group"],
        app=given["app"],
        name=given["name"],
        tai=given["tai"],
        extras=[_pair(pair) for pair in given.get("extras", [])],
        data=data,
    )
    if kind == "plex":
        return plex
    aux = _unhex(given["aux_hex"].encode("ascii", "replace")) if "aux_hex" in given else None
    return seal(plex, SigningKey.from_secret_text(given["secret"]), aux=aux)


def _pair(pair: Any) -> tuple[str, str]:
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(x, str) for x in pair):
        _refuse_entry("extras is not a list of [name, value] pairs")
    return pair[0], pair[1]


def _refuse_entry(message: str) -> NoReturn:
    raise EncodingError(message, code=Code.INPUT_KEY)
