"""The tables of docs/protocol: predicates, domains, limits, ranges, codes, events, log lines."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Final, get_args

import lace
from lace.cli import serve
from lace.errors import Code
from lace.interlace import messages as m
from lace.interlace import phases as table
from lace.interlace.negotiate import CAPABILITIES, WIRE_LIMITS
from lace.limits import DEFAULT_LIMITS, Limits
from lace.serving.events import EVENTS
from lace.vocabulary import VOCABULARY, WIRE_FACTS, Kind

SOURCE: Final = Path(lace.__file__).parent

#: What has a domain, or a context of BLAKE3's derive-key mode; a test finds all in the source.
DOMAINS: Final = {
    "lace-rule/v1": "the id of a rule (`U.`)",
    "lace-opaque-origin/v1": "the label of an operand",
    "lace-exchange-plan/v1": "the id of an exchange plan (`E.`)",
    "lace-advertisement-record/v1": "an advertisement",
    "lace-advertisement-leaf/v1": "a leaf of a Merkle tree",
    "lace-advertisement-node/v1": "an inner node of a Merkle tree",
    "lace-advertisement-empty/v1": "the empty value of Merkle trees; nothing follows it",
    "lace-advertisement-content/v1": "what a partition holds: the digests of its advertisements",
    "lace-advertisement-group/v1": "a group of 64 partitions",
    "lace-advertisement-table/v1": "all that a side advertises",
    "lace-advertisement-sketch/v1": "the key of names in sketches",
    "lace-sketch-block/v1": "the factor of a block of a sketch; a space and its number follow",
    "lace-sketch-check/v1": "the factor of checks in a sketch; nothing follows it",
    "lace-demo-key/v1": "the secret of a demo key, LF and words follow; no part of the protocol",
    "lace-demo-aux/v1": "the randomness of signatures in scenarios; no part of the protocol",
    "lace-🖧/adhoc-key": "derive-key: from a secret to a scalar",
    "lace-🖧/aux": "derive-key: the mask of a scalar",
    "lace-🖧/nonce": "derive-key: the nonce of a signature",
    "lace-🖧/challenge": "derive-key: the challenge of a signature",
}
_SAID: Final = ("iltp.", "interlace.", "limit.", "policy.", "serve.")
_DOMAIN: Final = re.compile(r"lace-(?:[a-z-]+/v[0-9]+|🖧/[a-z-]+)")

#: What is not a limit that can be changed; tests try both ends of each.
_RANGES: Final = (
    ("every number in a fact", "`0`, or digits without a leading zero, at most 30"),
    ("`HelloTickInterval`", "1 to 1,000,000,000,000,000,000 (nanoseconds)"),
    ("`HelloTAI`, `TickReady`", "TAI text; 0000000000:000000000 to 9999999999:999999999"),
    ("field index", "any number"),
    ("partition prefix", "0 to 43 characters of B64A"),
    ("root, check, base", "43 characters of B64A"),
    ("cells of `SketchAdvertisements`", "0 to 65,536, and no more than `max_cells_in_sketch`"),
    ("cells of `AdvertisementSketch`", "13 bytes each; this engine says 56 in a fact"),
    ("names of `ListAdvertisementItems`", "8 bytes each; this engine says 90 in a fact"),
    (
        "places of `RequestListed`",
        "0 to as many as were listed, and no more than `max_places_listed`",
    ),
    ("a value of a fact", "at most 1024 bytes of UTF-8"),
    ("a fact line or comment", "at most 16,384 bytes without LF"),
    ("`Data-Length` of a record", "0 to 33,554,432"),
    ("`Data-Length` of a resource", "0 to 65,536"),
    ("`Data-Length`, `Full-Length` of packed lines", "1 to 1,048,576"),
    ("fact lines of the first hello", "at most 1,048,576 bytes"),
    ("addresses in a proof", "1 of the connecting side, any number of the accepting side"),
)


def domains_in_source() -> set[str]:
    """Return every domain and context that stands in a constant, but for those within a lake."""
    found: set[str] = set()
    for path in sorted({*SOURCE.rglob("*.py")} - {*(SOURCE / "lake").rglob("*.py")}):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                value = node.value
                text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                if "\n\n" not in text:  # a docstring speaks of them, it is none
                    found.update(_DOMAIN.findall(text))
    return found


def tables() -> str:
    """Return the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "# Tables",
        "",
        "These tables are written from the code. Other pages say what they mean.",
        "",
        "## Predicates",
        "",
        "All that stands in facts, on the wire or in rules. *Phase* says where it may be said.",
        "",
        "| Predicate | Arity | Kind | Phase | Meaning |",
        "|---|---|---|---|---|",
    )
    for entry in VOCABULARY:
        places = [str(p) for p, names in table.FACTS.items() if entry.name in names]
        said = ", ".join(places) if entry.predicate in WIRE_FACTS else ""
        yield f"| `{entry}` | {entry.arity} | {entry.kind} | {said or '-'} | {entry.meaning} |"
    yield from ("", "| Kind | Who says it |", "|---|---|")
    yield from (f"| {Kind[name]} | {note} |" for name, note in notes_of(Kind))
    yield from ("", "## Domains", "", "| Domain or context | Digest of |", "|---|---|")
    for domain, use in DOMAINS.items():
        yield f"| `{domain}` | {use} |"
    yield from (
        "",
        "Names of records and lacegrams, hellos and certificates in proofs, and keys of links",
        "have none.",
        "",
        "## Limits in hello",
        "",
        "The names of `HelloLimit`. Each is the least of one's own and of both offers, but for",
        "`partition_prefix_start` (0 if both offer 0, else 2) and those that need both offers.",
        "",
        "| Name | Default | Needs both | What it bounds |",
        "|---|---|---|---|",
    )
    notes = dict(notes_of(Limits))
    for name in sorted(WIRE_LIMITS):
        both = "yes" if name in CAPABILITIES else "-"
        yield f"| `{name}` | {getattr(DEFAULT_LIMITS, name):,} | {both} | {notes[name]} |"
    yield "| `stream_deflate` | 1 | yes | Whether fact lines may be packed; no limit. |"
    yield from ("", "## Ranges", "", "| What | Range |", "|---|---|")
    yield from (f"| {what} | {range} |" for what, range in _RANGES)
    yield from (
        "",
        "## Codes",
        "",
        "What a side may find, say in `# closing:`, and report. A peer's rules may have any code",
        "that begins with `lacegram.`, too. [Codes](../reference/codes.md) says what to do.",
        "",
        "| Code | Meaning |",
        "|---|---|",
    )
    for code in sorted(Code):
        if code.value.startswith(_SAID):
            yield f"| `{code.value}` | {code.meaning} |"
    yield from ("", "## Events", "", "What an application hears of an exchange.", "")
    yield from ("| Event | With | Meaning |", "|---|---|---|")
    for event in get_args(m.Event):
        with_ = ", ".join(f"`{field.name}`" for field in fields(event))
        meaning = _EVENTS.get(event) or " ".join(event.__doc__.split())
        yield f"| `{event.__name__}` | {with_} | {meaning} |"
    yield from ("", "| `result` has | Meaning |", "|---|---|")
    yield from (f"| `{name}` | {note} |" for name, note in notes_of(m.InterlaceResult))
    yield from (
        "",
        "## Log lines of a server",
        "",
        "`lace serve` writes one JSON object a line; `event` is one of these.",
        "",
        "| Event | Level | Meaning |",
        "|---|---|---|",
    )
    levels = serve._LEVEL_OF  # noqa: SLF001  (this table is about it)
    for name, meaning in EVENTS.items():
        yield f"| `{name}` | {levels.get(name, 'info')} | {meaning} |"


_EVENTS: Final[dict[type, str]] = {
    m.RecordSaved: "A record of the peer was valid, and is stored.",
    m.RecordDuplicate: "A record of the peer was stored already.",
    m.RecordRejected: "A record of the peer was not stored: it is not valid, or no quota has room.",
}


def notes_of(owner: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class that say what they are for, each with what it says."""
    body = ast.parse(inspect.getsource(owner)).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, note in pairwise(body.body):
        if isinstance(field, ast.AnnAssign | ast.Assign) and isinstance(note, ast.Expr):
            target = field.targets[0] if isinstance(field, ast.Assign) else field.target
            yield ast.unparse(target), " ".join(ast.literal_eval(note.value).split())
