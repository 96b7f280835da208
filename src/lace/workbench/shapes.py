"""The shapes of what the engine tells a page: this is the one place where they are written down.

``static/types.js`` is made from it, for the checker of the page's types and for the page itself,
which looks at a recording that came in a link before it shows it. Tests hold what the engine sends
to these shapes.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NotRequired, TypedDict, Union, get_args, get_origin


class Row(TypedDict):
    """A record as one side knows it."""

    hash: str
    state: Literal["have", "advertised", "requestable", "in flight", "rejected"]
    sendable: NotRequired[bool]
    hidden: NotRequired[bool]
    code: NotRequired[str | None]
    told: NotRequired[list[tuple[str, str]]]
    at: NotRequired[str]
    tip: NotRequired[bool]
    seen_tip: NotRequired[bool]


class Check(TypedDict):
    """A sentence, and whether it is true."""

    text: str
    ok: bool
    detail: str
    since: int | None
    watch: NotRequired[bool]


class Event_(TypedDict):  # noqa: N801  (a page has another Event)
    """What an application hears."""

    kind: str
    text: str
    hash: NotRequired[str]
    code: NotRequired[str]
    detail: NotRequired[str]
    meaning: NotRequired[str]
    fix: NotRequired[str]


class Frame(TypedDict):
    """How everything stands after one step."""

    step: int
    sentence: str
    tables: list[int]
    policies: list[int | None]
    to: NotRequired[int]
    kind: NotRequired[str]
    message: NotRequired[int | None]
    before: NotRequired[str]
    after: NotRequired[str]
    loop: NotRequired[int]
    sent: NotRequired[list[int]]
    lost: NotRequired[list[int]]
    events: NotRequired[list[Event_]]


class Part(TypedDict):
    """A part of a record's bytes."""

    start: int
    end: int
    part: str
    text: str
    cut: NotRequired[int]


class RecordCheck(TypedDict):
    """One rule of the record format, and whether some bytes keep it."""

    rule: str
    ok: bool
    detail: str
    code: str | None
    meaning: str
    expected: str
    got: str


class Inspection(TypedDict):
    """A record's bytes under glass."""

    size: int
    ok: bool
    code: str | None
    detail: str
    parts: list[Part]
    checks: list[RecordCheck]
    facts: list[str]


class Message(TypedDict):
    """Something that one side said."""

    number: int
    sender: int
    own: int
    phase: str
    loop: int
    kind: str
    summary: str
    bytes: int
    sent: int
    arrives: int | None
    deed: str | None
    record: str | None
    lines: list[str]
    more: int
    module: NotRequired[str]
    added: NotRequired[list[str]]
    removed: NotRequired[list[str]]
    arrived: NotRequired[list[str]]
    inspection: NotRequired[Inspection]


class RecordInfo(TypedDict):
    """A record."""

    id: str | None
    type: str
    fields: list[tuple[str, int, str]]
    links: list[tuple[str, str, str]]
    data: str
    inspection: Inspection


class Proof(TypedDict):
    """Why a fact holds."""

    fact: str
    rule: NotRequired[str]
    conditions: NotRequired[list[str]]
    because: NotRequired[list[Proof]]
    cut: NotRequired[int]


class Refusal(TypedDict):
    """How far a rule got."""

    rule: str
    failed: str
    bindings: dict[str, str]
    satisfied: int
    near: list[str]
    because: NotRequired[list[Refusal]]


class Verdict(TypedDict):
    """Whether a record may be sent or asked for, and why."""

    allowed: bool
    layer: str
    detail: str
    mine: NotRequired[Proof | None]
    theirs: NotRequired[Proof | None]
    refusals: NotRequired[list[Refusal]]


class Verdicts(TypedDict):
    """The verdicts of one side, by hash."""

    send: dict[str, Verdict]
    request: dict[str, Verdict]


class Policy(TypedDict):
    """What the rules of both say on one machine."""

    may_send: list[str]
    may_request: list[str]
    visible: list[str]
    viewer: str
    verdicts: Verdicts
    hits: dict[str, int]
    peer_hits: dict[str, int]
    unexplained: int


class Diagnostic(TypedDict):
    """Something wrong with a text."""

    code: str
    message: str
    line: int
    column: int
    length: int
    hint: str
    severity: str
    meaning: str


class RuleInfo(TypedDict):
    """A rule."""

    id: str
    line: str
    lines: tuple[int, int] | None
    notes: dict[str, str]
    head: str
    stratum: int | None


class CheckedRules(TypedDict):
    """Rules as the engine reads them."""

    ok: bool
    diagnostics: list[Diagnostic]
    id: NotRequired[str]
    canonical: NotRequired[str]
    rules: NotRequired[list[RuleInfo]]


class Peer(TypedDict):
    """A lace of a scenario."""

    id: str
    title: str
    verifier: str | None
    rules: str
    shared: str | None
    checked: CheckedRules
    expose: list[str]
    exposed: list[CheckedRules]


class Bait(TypedDict):
    """A question about something hidden, and whether it was answered."""

    field: str
    value: str
    learned: bool


class Compared(TypedDict):
    """Whether a run without the hidden records looks the same."""

    ok: bool
    text: str


class Audit(TypedDict):
    """What one side can learn of the other."""

    holds: bool
    compared: Compared | None
    sentences: list[str]
    viewer: str
    records: int
    visible: int
    hidden_matter: bool
    declassified: list[tuple[str, list[str]]]
    baits: list[Bait]


class Stop(TypedDict):
    """How an exchange ended for one side."""

    word: str
    detail: str
    code: NotRequired[str]
    meaning: NotRequired[str]
    fix: NotRequired[str]
    loops: NotRequired[int]
    received: NotRequired[int]
    rejected: NotRequired[int]
    bytes_received: NotRequired[int]
    bytes_sent: NotRequired[int]


class Stopped(TypedDict):
    """How an exchange ended."""

    outcome: str
    sides: list[Stop]


class Learned(TypedDict):
    """Something that one side has learned, and from which message."""

    side: int
    step: int
    kind: str
    text: str
    message: int


class Operand(TypedDict):
    """One side's part of a plan."""

    index: int
    origin: str
    verifier: str | None
    module: str


class Plan(TypedDict):
    """What both sides agreed to work with."""

    id: str
    transcript: str
    lowering: str
    fields: list[str] | None
    operands: list[Operand]


class Scene(TypedDict):
    """One step of a story, with the exchange in it."""

    number: int
    say: str
    pair: tuple[str, str] | None
    now: str
    before: dict[str, list[str]]
    after: dict[str, list[str]]
    rules: dict[str, str]
    checks: list[Check]
    tables: NotRequired[dict[str, int]]
    frames: NotRequired[list[Frame]]
    messages: NotRequired[list[Message]]
    ledger: NotRequired[list[Learned]]
    plan: NotRequired[Plan | None]
    stopped: NotRequired[Stopped]
    audits: NotRequired[list[Audit | None]]
    cut: NotRequired[int]


class FaultChange(TypedDict):
    """Something that befalls a message."""

    scene: int
    do: str
    sender: str
    record: str | None
    message: int | None
    byte: int


class OrderChange(TypedDict):
    """Something that a side is told in the middle of an exchange."""

    scene: int
    step: int
    do: str
    peer: str
    text: str
    seconds: int


class Changes(TypedDict):
    """Everything that was changed about a run."""

    seed: int
    watched: list[str]
    faults: list[FaultChange]
    orders: list[OrderChange]


class Story(TypedDict):
    """The scenario of a recording."""

    name: str
    title: str
    story: str
    now: str
    columns: list[str]
    keys: dict[str, str]
    toml: str
    peers: list[Peer]
    fields: list[str]


class Recording(TypedDict):
    """A whole run."""

    format: str
    engine: str
    scenario: Story
    changes: Changes
    records: dict[str, RecordInfo]
    policies: list[Policy]
    tables: list[list[Row]]
    scenes: list[Scene]


class Listed(TypedDict):
    """A scenario that can be opened."""

    name: str
    title: str


class Hello(TypedDict):
    """Who is here, and which scenarios there are."""

    type: Literal["hello"]
    id: int | None
    protocol: str
    engine: str
    scenarios: list[Listed]
    first: str
    links: str


class Recorded(TypedDict):
    """A run, after it was asked for."""

    type: Literal["recording"]
    id: int | None
    recording: Recording


class Source(TypedDict):
    """The text of a scenario that cannot be run."""

    name: str
    toml: str


class Problems(TypedDict):
    """What is wrong with a scenario's text."""

    type: Literal["problems"]
    id: int | None
    diagnostics: list[Diagnostic]
    source: NotRequired[Source]


class Problem(TypedDict):
    """Why something cannot be done."""

    type: Literal["problem"]
    id: int | None
    message: str
    code: str
    hint: str


class Checked(TypedDict):
    """Rules as they were judged while they were written."""

    type: Literal["checked"]
    id: int | None
    checked: CheckedRules


class Judged(TypedDict):
    """A scenario's text as it was judged while it was written."""

    type: Literal["judged"]
    id: int | None
    diagnostics: list[Diagnostic]


class Inspected(TypedDict):
    """A record's bytes, with one bit turned over."""

    type: Literal["inspected"]
    id: int | None
    hash: str
    flip: int | None
    inspection: Inspection


class Shared(TypedDict):
    """What is open as a file, as commands and as a test."""

    type: Literal["shared"]
    id: int | None
    toml: str
    commands: str
    test: str


class Journals(TypedDict):
    """The journals of both sides of one exchange."""

    type: Literal["journal"]
    id: int | None
    scene: int
    sides: list[str]


class Page(TypedDict):
    """The workbench with one run in one file."""

    type: Literal["page"]
    id: int | None
    html: str


class LiveProblem(TypedDict):
    """Why nothing is heard of a server."""

    message: str
    hint: str | None


class LiveTold(TypedDict):
    """How things stand at a server that is watched; told without being asked."""

    type: Literal["live"]
    run: str | None
    scenarios: list[Listed]
    problem: LiveProblem | None


class Answers(TypedDict):
    """What each command is answered with, unless it is answered with a problem."""

    hello: Hello
    open: Recorded | Problems
    run: Recorded | Problems
    check: Checked
    judge: Judged
    inspect: Inspected
    share: Shared
    journal: Journals
    page: Page


SHAPES: Final[tuple[type, ...]] = (
    Row, Check, Event_, Frame, Part, RecordCheck, Inspection, Message, RecordInfo, Proof, Refusal,
    Verdict, Verdicts, Policy, Diagnostic, RuleInfo, CheckedRules, Peer, Bait, Compared, Audit,
    Stop, Stopped, Learned, Operand, Plan, Scene, FaultChange, OrderChange, Changes, Story,
    Recording, Listed, Hello, Recorded, Source, Problems, Problem, Checked, Judged, Inspected,
    Shared, Journals, Page, LiveProblem, LiveTold, Answers,
)  # fmt: skip

_PLAIN: Final[Mapping[object, str]] = {
    str: "string", int: "number", float: "number", bool: "boolean", types.NoneType: "null",
}  # fmt: skip

Shape = str | list[Any]
"""A plain name, or ["list", of], ["map", of], ["row", …], ["one of", …], ["is", "word"]."""


def shape_of(kind: object) -> Shape:
    """Return a type as data."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, type) and typing.is_typeddict(kind):
        return ["shape", kind.__name__]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        return shape_of(inner[0])
    if origin is Literal:
        words = [["is", word] for word in inner]
        return words[0] if len(words) == 1 else ["one of", *words]
    if origin in {Union, types.UnionType}:
        return ["one of", *map(shape_of, inner)]
    if origin is list:
        return ["list", shape_of(inner[0])]
    if origin is dict:
        return ["map", shape_of(inner[1])]
    if origin is tuple:
        return ["row", *map(shape_of, inner)]
    raise TypeError(f"{kind} has no shape")


def shapes(of: Iterable[type] = SHAPES) -> dict[str, dict[str, Shape]]:
    """Return every shape by name, with what it has; ``?`` marks what it need not have."""
    found = {}
    for shape in of:
        parts: dict[str, Shape] = {}
        for name, kind in typing.get_type_hints(shape, include_extras=True).items():
            if get_origin(kind) is NotRequired:
                parts[f"{name}?"] = shape_of(get_args(kind)[0])
            else:
                parts[name] = shape_of(kind)
        found[shape.__name__] = parts
    return found


def fault_of(value: object, shape: Shape, known: Mapping[str, Mapping[str, Shape]]) -> str | None:
    """Return where a value is not of a shape, as a path into it; None if it is."""
    match shape:
        case "string":
            return None if isinstance(value, str) else ""
        case "number":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return None if is_number else ""
        case "boolean":
            return None if isinstance(value, bool) else ""
        case "null":
            return None if value is None else ""
        case ["is", word]:
            return None if value == word else ""
        case ["one of", *others]:
            tried = [fault_of(value, other, known) for other in others]
            return None if None in tried else max(filter(None, tried), key=len, default="")
        case ["list", of] if isinstance(value, list | tuple):
            return _first(((f"[{i}]", one, of) for i, one in enumerate(value)), known)
        case ["map", of] if isinstance(value, dict):
            return _first(((f".{key}", one, of) for key, one in value.items()), known)
        case ["row", *of] if isinstance(value, list | tuple) and len(value) == len(of):
            rows = enumerate(zip(value, of, strict=True))
            return _first(((f"[{i}]", one, kind) for i, (one, kind) in rows), known)
        case ["shape", name] if isinstance(value, dict):
            parts = known[name]
            must = {key for key in parts if not key.endswith("?")}
            may = {key.removesuffix("?"): kind for key, kind in parts.items()}
            for key in sorted((must - value.keys()) | (value.keys() - may.keys())):
                return f".{key}"
            return _first(((f".{key}", one, may[key]) for key, one in value.items()), known)
    return ""


def _first(
    parts: Iterable[tuple[str, object, Shape]], known: Mapping[str, Mapping[str, Shape]]
) -> str | None:
    for place, value, shape in parts:
        fault = fault_of(value, shape, known)
        if fault is not None:
            return place + fault
    return None
