"""How commands read and write files: bounded, exact, and with errors that name the file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from lace.cli.output import write_bytes
from lace.crypto.keys import SigningKey
from lace.drafts import exists_already, write_file
from lace.errors import Code, UsageError
from lace.keyring import key_of_text, read_key_file
from lace.limits import DEFAULT_LIMITS, FIXED
from lace.record.facts import facts
from lace.record.split import BrokenFrame, Frame, split_records
from lace.record.validate import validate_record
from lace.recordstore.files import keep_store
from lace.rules import LocalFacts
from lace.text import redact

STANDARD_INPUT: Final = "-"
_CHUNK: Final = 1 << 20


def open_input(name: str) -> BinaryIO:
    """Open a file for reading; ``-`` is standard input."""
    if name == STANDARD_INPUT:
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise _file_error("read", name, error) from None


def read_chunks(name: str) -> Iterator[bytes]:
    """Yield a file's bytes in bounded chunks."""
    with open_input(name) as file:
        try:
            while chunk := file.read(_CHUNK):
                yield chunk
        except OSError as error:
            raise _file_error("read", name, error) from None


def read_frames(name: str) -> Iterator[Frame | BrokenFrame]:
    """Yield the frames of a file of concatenated records."""
    return split_records(read_chunks(name))


def read_limited(name: str, limit: int) -> bytes:
    """Return a whole file of at most ``limit`` bytes."""
    parts: list[bytes] = []
    size = 0
    for chunk in read_chunks(name):
        size += len(chunk)
        if size > limit:
            raise UsageError(f"{name}: larger than {limit} bytes", code=Code.RECORD_DATA_TOO_LARGE)
        parts.append(chunk)
    return b"".join(parts)


def read_at_most(name: str, limit: int) -> bytes:
    """Return the first ``limit`` bytes of a file; whoever reads them says if that is too much."""
    content = b""
    for chunk in read_chunks(name):
        content += chunk
        if len(content) >= limit:
            break
    return content[:limit]


def read_lines(
    name: str = STANDARD_INPUT, limit: int = DEFAULT_LIMITS.input_line_bytes
) -> Iterator[bytes]:
    """Yield the lines of a file without LF; a line over the limit ends the command."""
    number = 0
    with open_input(name) as file:
        while line := file.readline(limit + 1):
            number += 1
            if len(line) > limit:
                raise UsageError(
                    f"line {number} is longer than {limit} bytes", code=Code.INPUT_LINE_TOO_LONG
                )
            yield line.removesuffix(b"\n")


def write_output(name: str, content: bytes, *, overwrite: bool) -> None:
    """Write a file (``-`` is a pipe, no terminal); an existing one stays unless ``overwrite``."""
    if name == STANDARD_INPUT:
        write_bytes(content)
        return
    if overwrite:
        keep_store(name)
    try:
        write_file(Path(name), content, overwrite=overwrite)
    except FileExistsError:
        raise exists_already(name) from None
    except OSError as error:
        raise _file_error("write", name, error) from None


def write_key(name: str, key: SigningKey) -> None:
    """Write a new key file that only its owner can read; an existing file is never replaced."""
    try:
        write_file(Path(name), key.reveal() + "\n", overwrite=False, mode=0o600)
    except FileExistsError:
        raise UsageError(
            f"{name} exists already",
            code=Code.KEY_FILE,
            hint="A key is never overwritten: choose another name.",
        ) from None
    except OSError as error:
        raise _file_error("write", name, error) from None


def read_key(name: str) -> SigningKey:
    """Return the key in a file; ``-`` reads the secret from standard input."""
    if name == STANDARD_INPUT:
        line = sys.stdin.buffer.readline(FIXED.key_file_bytes)
        return key_of_text(line, "standard input")
    return read_key_file(name)


def read_facts(name: str) -> tuple[LocalFacts, list[tuple[int, Code, str]]]:
    """Return the facts of all valid records of a file, and offset, code, detail of the others."""
    source = LocalFacts()
    rejected: list[tuple[int, Code, str]] = []
    for frame in read_frames(name):
        if isinstance(frame, BrokenFrame):
            rejected.append((frame.offset, frame.code, frame.detail))
            continue
        outcome = validate_record(frame.raw)
        if outcome.value is None:
            code = outcome.code or Code.RECORD_MALFORMED
            rejected.append((frame.offset, code, outcome.detail))
            continue
        for fact in facts(outcome.value):
            source.add_valid(fact)
    return source, rejected


def name_and_value(entry: str) -> tuple[str, str]:
    """Split NAME=VALUE at the first equals sign."""
    name, equals, value = entry.partition("=")
    if not equals:
        raise UsageError(
            f"{entry!r} is not NAME=VALUE", code=Code.INPUT_KEY, hint="Put = before the value."
        )
    return name, value


def _file_error(what: str, name: str, error: OSError) -> UsageError:
    hint = "Give the name of a file that holds the secret." if name.startswith("&.") else ""
    message = f"cannot {what} {redact(name)}: {error.strerror}"
    return UsageError(message, code=Code.INPUT_FILE, hint=hint)
