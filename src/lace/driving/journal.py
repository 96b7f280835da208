"""The journal of an exchange: every input and every effect, as versioned JSON lines.

One format is bug report, regression test and timeline. The first line says who took part; each
further line is one step: when, what went in, what came out. Questions and answers are among them,
so a journal holds everything that a machine decided by, and can be run again without a store, a
policy, a clock or a peer. It holds the records that travelled; it never holds a secret.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import IO, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from lace import b64a
from lace.codes import Code
from lace.errors import (
    EncodingError,
    LaceError,
    LocalProtocolError,
    Outcome,
    Status,
    UsageError,
)
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement
from lace.interlace.machine import InterlaceMachine, Side
from lace.interlace.parameters import Parameters
from lace.interlace.partition import Partitions
from lace.limits import FIXED, Limits
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.origin import SourceLabel
from lace.policy.plan import ExchangePlan
from lace.record.model import Record
from lace.record.validate import validate_record
from lace.tai import Tai, parse_tai

VERSION: Final = 2
_TEXTS: Final = frozenset(("content",))  # bytes that are text wherever they are honest

_SAID_BY_EVENTS: Final = frozenset(((m.InterlaceResult, "ending"),))
"""Fields that the type of an event implies; journals of earlier versions lack them."""

_CODES: Final = {str(code): code for code in Code}
_NONSENSE: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
"""What a machine may raise that is given what no engine writes."""

Json = dict[str, Any]


@dataclass(slots=True)
class Journal:
    """Writes the steps of one side as they happen."""

    write: Callable[[str], object]

    @classmethod
    def to(cls, file: IO[str]) -> Journal:
        return cls(file.write)

    def begin(self, side: Side) -> None:
        self._line({"journal": VERSION, "side": encode(side)})

    def step(self, given: m.Input, now: Tai, effects: Iterable[m.Effect]) -> None:
        self._line(encode_step(given, now, effects))

    def _line(self, content: Json) -> None:
        self.write(json.dumps(content, ensure_ascii=False, sort_keys=True) + "\n")


class JournalFile(Journal):
    """A journal in a file of its own, which a later one never replaces; whole steps, and bounded.

    Beyond the limit nothing more is written: what is there can be run again as far as it goes. A
    disk that is full ends the journal, and not the exchange.
    """

    __slots__ = ("_file", "_left")

    def __init__(self, path: Path, most: int = FIXED.journal_bytes) -> None:
        try:
            # It holds records: for its owner alone, as a new store is.
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            # Line by line: one that is being kept can be read, and one of a process that died.
            self._file: IO[str] | None = os.fdopen(made, "w", 1, encoding="utf-8", newline="\n")
        except OSError as error:
            what = "exists already" if isinstance(error, FileExistsError) else error.strerror
            raise UsageError(f"cannot write {path}: {what}", code=Code.INPUT_FILE) from None
        self._left = most
        super().__init__(self._take)

    def close(self) -> None:
        """Let go of the file; closing twice does nothing."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()

    def _take(self, line: str) -> None:
        self._left -= len(line) if line.isascii() else len(line.encode())
        if self._file is None:
            return
        if self._left < 0:
            self.close()
            return
        try:
            self._file.write(line)
        except OSError:
            self.close()


def encode_step(given: m.Input, now: Tai, effects: Iterable[m.Effect]) -> Json:
    """Return one step as JSON; effects name records by hash, inputs hold their bytes."""
    return {
        "effects": [encode(effect, whole=False) for effect in effects],
        "input": encode(given),
        "now": now,
    }


def encode(value: Any, *, whole: bool = True) -> Any:
    """Return a message as JSON. ``whole`` keeps the bytes of records."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return str(value.value)
        case str():
            return value
        case bytes():
            return b64a.encode(value)
        case Record():
            return {"hash": value.hash, "raw": b64a.encode(value.raw)} if whole else value.hash
        case ExchangePlan():
            return value.id
        case Partitions():
            return _encode_table(value, whole=whole)
        case Outcome():
            code = None if value.code is None else str(value.code)
            return {"code": code, "detail": value.detail, "status": str(value.status)}
        case PolicyModule():
            return {"facet": str(value.facet), "text": value.text}
        case Mapping():
            return {key: encode(item, whole=whole) for key, item in sorted(value.items())}
        case frozenset():
            return sorted(encode(item, whole=whole) for item in value)
        case tuple() | list():
            return [encode(item, whole=whole) for item in value]
        case m.SendFacts():
            return {"type": "SendFacts", **_text(value.content)}
        case m.Save():
            return {"type": "Save", "records": list(value.hashes)}
    if not is_dataclass(value):
        raise UsageError(f"a {type(value).__name__} has no place", code=Code.JOURNAL_MALFORMED)
    content = {
        field.name: _encode_field(field.name, getattr(value, field.name), whole=whole)
        for field in fields(value)
        if (type(value), field.name) not in _SAID_BY_EVENTS
    }
    return {"type": type(value).__name__, **content}


def _encode_table(table: Partitions, *, whole: bool) -> Json:
    summary = table.summary("")
    told = {"count": summary.count, "root": b64a.encode(summary.root)}
    if not whole:
        return told
    digests = {record: b64a.encode(table.find(record) or b"") for record in table.records("")}
    return {"digests": digests, "standard": table.standard}


def _encode_field(name: str, value: Any, *, whole: bool) -> Any:
    if name in _TEXTS and isinstance(value, bytes):
        return _text(value)
    return encode(value, whole=whole)


def _text(value: bytes) -> Json:
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"bytes": b64a.encode(value)}


# --- reading ---


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a journal."""

    given: m.Input
    now: Tai
    effects: list[Json]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a machine does something else than a journal says."""

    step: int
    """Counted from 1, as the lines after the first are."""
    expected: Json | None
    found: Json | None


def replay(lines: Iterable[str]) -> tuple[int, Difference | None]:
    """Run a journal again; return how many steps agree, and the first difference."""
    reader = iter(lines)
    machine = InterlaceMachine(read_side(reader))
    steps = 0
    for step in read_steps(reader):
        found = [encode(effect, whole=False) for effect in run_step(machine, step, steps + 2)]
        if found != step.effects:
            return steps, _difference(steps + 1, step.effects, found)
        steps += 1
    return steps, None


def run_step(machine: InterlaceMachine, step: Step, line: int) -> list[m.Effect]:
    """Let a machine take one step; a line whose parts do not go together is named."""
    try:
        return machine.receive(step.given, step.now)
    except LocalProtocolError as error:  # an answer to what nobody asked
        raise EncodingError(f"line {line}: {error.message}", code=Code.JOURNAL_MALFORMED) from None
    except _NONSENSE:
        raise EncodingError(
            f"line {line}: no engine writes this", code=Code.JOURNAL_MALFORMED
        ) from None


def read_side(lines: Iterator[str]) -> Side:
    """Read the first line of a journal."""
    first = _parse(next(lines, ""), 1)
    version = first.get("journal")
    if not isinstance(version, int):
        raise EncodingError("line 1: not the beginning of a journal", code=Code.JOURNAL_MALFORMED)
    if version > VERSION:
        raise EncodingError(
            f"line 1: journal version {version}, this engine knows {VERSION}",
            code=Code.JOURNAL_NEWER,
        )
    if version < VERSION:
        raise EncodingError(
            f"line 1: journal version {version} of an earlier engine; this one reads {VERSION}",
            code=Code.JOURNAL_MALFORMED,
        )
    with _Reading(1):
        return _side(first["side"])


def read_steps(lines: Iterator[str]) -> Iterator[Step]:
    """Yield the steps that follow the first line."""
    for number, line in enumerate(lines, 2):
        content = _parse(line, number)
        with _Reading(number):
            given = _INPUTS[content["input"]["type"]](content["input"])
            step = Step(_checked(given), parse_tai(content["now"]), content["effects"])
            if not _fits(step.effects, list[dict[str, Any]]):
                raise EncodingError("effects: no list of objects", code=Code.JOURNAL_MALFORMED)
        yield step


def _difference(step: int, expected: list[Json], found: list[Json]) -> Difference:
    for one, other in zip(expected, found, strict=False):
        if one != other:
            return Difference(step, one, other)
    longer = max(expected, found, key=len)[min(len(expected), len(found))]
    return Difference(step, *((longer, None) if len(expected) > len(found) else (None, longer)))


class _Reading:
    """Turns whatever is wrong with a line into one error that names it."""

    def __init__(self, line: int) -> None:
        self._line = line

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LaceError):
            raise EncodingError(
                f"line {self._line}: {error.message}", code=Code.JOURNAL_MALFORMED
            ) from None
        if isinstance(error, _NONSENSE):
            raise EncodingError(
                f"line {self._line}: not a step of a journal", code=Code.JOURNAL_MALFORMED
            ) from None


def _parse(line: str, number: int) -> Json:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise EncodingError(f"line {number}: no JSON object", code=Code.JOURNAL_MALFORMED)
    return content


def _side(content: Json) -> Side:
    plain = {key: value for key, value in content.items() if key != "type"}
    plain["module"] = _module(plain["module"])
    limits = {key: value for key, value in plain.pop("limits").items() if key != "type"}
    sizes = {key: value for key, value in plain.pop("parameters").items() if key != "type"}
    link = plain.pop("link")
    made = Side(
        **plain,
        limits=_checked(Limits(**limits)),
        parameters=_checked(Parameters(**sizes)),
        link=None if link is None else b64a.decode(link),
    )
    if made.index not in {0, 1}:
        raise EncodingError("index: neither 0 nor 1", code=Code.JOURNAL_MALFORMED)
    for name, number in sizes.items():
        # None of something at once would go on for ever.
        if number < (name.endswith("_at_once") and name != "tell_at_once"):
            raise EncodingError(f"{name}: too small", code=Code.JOURNAL_MALFORMED)
    _check_standard(made.parameters.standard_prefix)
    return _checked(made)


def _check_standard(length: Any) -> None:
    if type(length) is not int or not 0 <= length <= FIXED.journal_prefix:
        raise EncodingError("a prefix of no possible length", code=Code.JOURNAL_MALFORMED)


_T = TypeVar("_T")


def _checked(made: _T) -> _T:
    """Return a message whose fields are of the types that they should be, or raise."""
    kind: Any = type(made)
    for name, wanted in _types_of(kind).items():
        if not _fits(getattr(made, name), wanted):
            raise EncodingError(
                f"{kind.__name__}: {name} is not what it should be",
                code=Code.JOURNAL_MALFORMED,
            )
    return made


@cache
def _types_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value is of a type, and so is whatever is in it."""
    wanted = getattr(wanted, "__supertype__", wanted)  # a text with a name for what it means
    if wanted is Any or isinstance(wanted, TypeVar):
        return True
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in {Union, UnionType}:
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[-1] is ...:
            return all(_fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    if not isinstance(value, origin or wanted):
        return False
    if isinstance(value, Mapping) and inner:
        return all(_fits(key, inner[0]) and _fits(item, inner[1]) for key, item in value.items())
    if isinstance(value, frozenset | list) and inner:
        return all(_fits(item, inner[0]) for item in value)
    if isinstance(value, Advertisement | m.LinkState | Outcome):
        _checked(value)
    return wanted is not int or not isinstance(value, bool)


def _module(content: Json) -> PolicyModule:
    return module_from_text(content["text"], Facet(content["facet"]))


def _bytes(content: Json) -> bytes:
    return content["text"].encode() if "text" in content else b64a.decode(content["bytes"])


def _digests(content: Json) -> dict[str, bytes]:
    return {key: b64a.decode(value) for key, value in content.items()}


def _table(content: Json, digests: int) -> Partitions:
    _check_standard(content["standard"])
    made = Partitions(digests, standard=content["standard"])
    made.put(_digests(content["digests"]))
    return made


def _state(content: Json | None) -> m.LinkState | None:
    if content is None:
        return None
    own, peers = _table(content["own"], 2), _table(content["peers"], 1)
    return m.LinkState(own, peers, frozenset(content["wanted"]))


def _record(content: Json | None) -> Record | None:
    return None if content is None else validate_record(b64a.decode(content["raw"])).unwrap()


def _started(content: Json) -> m.Started:
    first, second = map(str, content.get("nonces", ("", "")))
    return m.Started((first, second))


def _outcome(content: Json) -> Outcome[Record]:
    code = content["code"]
    return Outcome(
        Status(content["status"]),
        code=None if code is None else _CODES[code],
        detail=content["detail"],
    )


def _advert(content: Json) -> Advertisement:
    parts = tuple((str(name), int(index), str(value)) for name, index, value in content["fields"])
    return Advertisement(content["record"], SourceLabel(content["source"]), parts)


def _evaluated(c: Json) -> m.Evaluated:
    return m.Evaluated(
        sendable=_digests(c["sendable"]),
        unsendable=frozenset(c["unsendable"]),
        requestable=frozenset(c["requestable"]),
        unrequestable=frozenset(c["unrequestable"]),
        forgotten=frozenset(c["forgotten"]),
        more=c["more"],
    )


_INPUTS: Final[dict[str, Callable[[Json], m.Input]]] = {
    "PeerModule": lambda c: m.PeerModule(c["id"], _bytes(c["content"])),
    "PeerFacts": lambda c: m.PeerFacts(_bytes(c["content"])),
    "PeerTuples": lambda c: m.PeerTuples(tuple(tuple(map(str, fact)) for fact in c["facts"])),
    "PeerValidated": lambda c: m.PeerValidated(
        validate_record(b64a.decode(c["record"]["raw"])).unwrap()
    ),
    "PeerRecord": lambda c: m.PeerRecord(b64a.decode(c["raw"])),
    "PeerPhaseEnd": lambda _: m.PeerPhaseEnd(),
    "PeerAlive": lambda _: m.PeerAlive(),
    "Started": _started,
    "PeerProven": lambda c: m.PeerProven(Verifier(c["verifier"])),
    "StreamFailed": lambda c: m.StreamFailed(_CODES[c["code"]], c["detail"]),
    "PeerGone": lambda c: m.PeerGone(c["orderly"]),
    "TimerFired": lambda _: m.TimerFired(),
    "Woken": lambda _: m.Woken(),
    "OperandChanged": lambda c: m.OperandChanged(_module(c["module"])),
    "CloseRequested": lambda _: m.CloseRequested(),
    "Evaluated": _evaluated,
    "EvaluationFailed": lambda c: m.EvaluationFailed(_CODES[c["code"]], c["detail"]),
    "Recalled": lambda c: m.Recalled(_state(c["state"]), c["ticks"]),
    "Described": lambda c: m.Described(tuple(map(_advert, c["adverts"]))),
    "Served": lambda c: m.Served(tuple(map(_record, c["records"]))),
    "Saved": lambda c: m.Saved(
        tuple((str(hash), _outcome(outcome)) for hash, outcome in c["outcomes"])
    ),
    "StoreFailed": lambda c: m.StoreFailed(_CODES[c["code"]], c["detail"]),
}
