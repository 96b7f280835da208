"""The sentences that a scenario can expect to be true: one table, for reading and for the docs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lace.datalog.source import Fact, parse_fact
from lace.errors import Code, LaceError, UsageError
from lace.policy.executable import Layer
from lace.scenario.model import Scenario
from lace.scenario.placeholders import NAME, fill
from lace.text import shown


class Kind(StrEnum):
    """What a sentence is about."""

    HAS = "has"
    LACKS = "lacks"
    HAS_ONLY = "has only"
    NEVER_LEARNS = "never learns"
    NEVER_LEARNS_FIELD = "never learns field"
    REJECTS = "rejects"
    RECEIVES = "receives"
    RECEIVES_IN = "receives in loop"
    DERIVES = "derives"
    DERIVES_NOT = "does not derive"
    WITHHOLDS = "withholds"
    DECLINES = "declines"
    BAIT = "passes the bait test"
    LOOPS = "loops"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of sentence, with an example and what it asks for."""

    kind: Kind
    pattern: re.Pattern[str]
    example: str
    meaning: str


def _form(kind: Kind, pattern: str, example: str, meaning: str) -> Form:
    spelled = (
        pattern.replace("<peer>", rf"(?P<peer>{NAME})")
        .replace("<records>", rf"(?P<records>{NAME}(?:, {NAME})*)")
        .replace("<record>", rf"(?P<records>{NAME})")
        .replace("<number>", r"(?P<number>[0-9]{1,6})")
    )
    return Form(kind=kind, pattern=re.compile(spelled), example=example, meaning=meaning)


FORMS: Final = (
    _form(
        Kind.HAS_ONLY, "<peer> has only <records>", "alice has only grant-bob, note-1",
        "The store of that peer holds exactly these records.",
    ),
    _form(Kind.HAS, "<peer> has <records>", "alice has note-1", "These records are stored there."),
    _form(
        Kind.LACKS, "<peer> lacks <records>", "alice lacks diary",
        "None of these records is stored there.",
    ),
    _form(
        Kind.NEVER_LEARNS, "<peer> never learns <records>", "alice never learns diary",
        "Nothing that crossed to that peer, in the whole run so far, names these records, and "
        "everything that crosses in its exchanges, both ways, is byte for byte the same in a run "
        "that differs in nothing but that nobody has them.",
    ),
    _form(
        Kind.NEVER_LEARNS_FIELD, r"<peer> never learns (?P<field>[^\s]+) (?P<value>.+)",
        "alice never learns Group Y", "The same, for all records that have this field value.",
    ),
    _form(
        Kind.REJECTS, r"<peer> rejects <record> with (?P<code>\S+)",
        "alice rejects note-2 with record.hash-mismatch",
        "In the exchange of this step, bytes that claimed to be this record were refused.",
    ),
    _form(
        Kind.RECEIVES_IN, "<peer> receives <record> in loop <number>",
        "alice receives note-1 in loop 2", "The record was stored in that loop of the exchange.",
    ),
    _form(
        Kind.RECEIVES, "<peer> receives (?:<number> records?|nothing)", "alice receives 2 records",
        "So many records were stored in the exchange of this step.",
    ),
    _form(
        Kind.DERIVES_NOT, r"<peer> does not derive (?P<fact>.+)",
        "alice does not derive Member('{mallory}')", "The peer's own rules do not give the fact.",
    ),
    _form(
        Kind.DERIVES, r"<peer> derives (?P<fact>.+)", "alice derives Member('{bob}')",
        "The peer's own rules give the fact, over what it has stored.",
    ),
    _form(
        Kind.WITHHOLDS, r"<peer> withholds <record> because of (?P<layer>.+)",
        "bob withholds diary because of my rules",
        "In the exchange of this step it may not be sent, and that is the layer that decided.",
    ),
    _form(
        Kind.DECLINES, r"<peer> declines <record> because of (?P<layer>.+)",
        "alice declines spam because of my rules",
        "In the exchange of this step it may not be asked for, and that layer decided.",
    ),
    _form(
        Kind.BAIT, "<peer> passes the bait test", "bob passes the bait test",
        "Everything that crosses, both ways, is the same in a run in which the peer does not have "
        "what it keeps back; and rules made to find out what it hides or does not select, put in "
        "the place of the other side's, find nothing. It fails where nothing is kept back.",
    ),
    _form(
        Kind.LOOPS, "the exchange takes <number> loops?", "the exchange takes 3 loops",
        "So many loops lead to the end of this step's exchange.",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """An expectation that was understood."""

    text: str
    kind: Kind = Kind.HAS
    peer: str = ""
    records: tuple[str, ...] = ()
    field: str = ""
    value: str = ""
    code: Code | None = None
    number: int = 0
    fact: Fact = ()
    layer: Layer | None = None


def parse_expectation(text: str, scenario: Scenario, values: Mapping[str, str]) -> Sentence:
    """Return the sentence of a text; raise ``UsageError`` saying what is wrong with it."""
    for form in FORMS:
        found = form.pattern.fullmatch(text)
        if found is not None:
            return _sentence(form.kind, found, scenario, values)
    examples = "; ".join(form.example for form in FORMS[:4])
    raise UsageError(
        f"{shown(text)} is not understood", code=Code.SCENARIO_EXPECTATION,
        hint=f"Write it like one of these: {examples}. {Code.SCENARIO_EXPECTATION.fix}",
    )  # fmt: skip


def _sentence(
    kind: Kind, found: re.Match[str], scenario: Scenario, values: Mapping[str, str]
) -> Sentence:
    parts = {name: part for name, part in found.groupdict().items() if part is not None}
    peer = parts.get("peer", "")
    known = [p.id for p in scenario.peers]
    if peer and peer not in known:
        _wrong(found.string, f"there is no peer {shown(peer)}", f"There are: {', '.join(known)}.")
    records = tuple(parts["records"].split(", ")) if "records" in parts else ()
    ids = {record.id for record in scenario.records}
    for id in records:
        if id not in ids:
            _wrong(found.string, f"there is no record {shown(id)}", "")
    code = parts.get("code")
    codes = {str(one): one for one in Code}
    if code is not None and code not in codes:
        _wrong(found.string, f"{shown(code)} is not a code", "lace help codes lists them.")
    layer = parts.get("layer")
    layers = [str(one) for one in Layer if one is not Layer.ALLOWED]
    if layer is not None and layer not in layers:
        _wrong(found.string, f"{shown(layer)} is not a layer", f"There are: {', '.join(layers)}.")
    fact: Fact = ()
    if "fact" in parts:
        try:
            fact = parse_fact(fill(parts["fact"], values).text)
        except LaceError as error:
            _wrong(found.string, error.message, error.hint)
    return Sentence(
        text=found.string, kind=kind, peer=peer, records=records, field=parts.get("field", ""),
        value=fill(parts.get("value", ""), values).text, code=codes.get(code or ""),
        number=int(parts.get("number", 0)), fact=fact, layer=Layer(layer) if layer else None,
    )  # fmt: skip


def _wrong(text: str, message: str, hint: str) -> None:
    full = f"{shown(text)}: {message}"
    raise UsageError(full, code=Code.SCENARIO_EXPECTATION, hint=hint)
