"""From TOML to a scenario: strict, bounded, and with everything that is wrong at once.

An entry that is not known is an error, not a comment. Every message says which entry is meant, on
which line, and what to do.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast, get_args

from lace.errors import Code, Diagnostic, EncodingError
from lace.interlace.messages import Ending
from lace.limits import SCENARIO
from lace.scenario.lines import Places
from lace.scenario.model import (
    FORMAT,
    Deed,
    Expectation,
    Fault,
    PeerSpec,
    RecordSpec,
    Scenario,
    Step,
)
from lace.scenario.placeholders import NAME, placeholders
from lace.tai import Tai, parse_tai
from lace.text import line_fault, shown
from lace.urc import Coordinate, parse_urc

_NAME: Final = re.compile(NAME)
_SECRET: Final = re.compile(r"&\.[0-9A-Z_a-z~]{16,}")
_TOML_PLACE: Final = re.compile(r"\(at (?:line (\d+), column (\d+)|end of document)\)$")
_EXPOSE_WORDS: Final = ("none", "selected", "everything")
_PROBLEMS_SHOWN: Final = 50

Path = tuple[str | int, ...]


@dataclass(slots=True)
class Parsed:
    """What a text says; ``scenario`` is None if anything is wrong with it."""

    scenario: Scenario | None
    diagnostics: list[Diagnostic]
    places: Places


def parse_scenario(text: str, name: str = "scenario") -> Parsed:
    """Read a whole text; never raises for what is in it."""
    places = Places("")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > SCENARIO.file_bytes:
        problem = _diagnostic(
            Code.SCENARIO_LIMIT, f"{size} bytes, at most {SCENARIO.file_bytes}", 1
        )
        return Parsed(None, [problem], places)
    secret = _SECRET.search(text)
    if secret is not None:
        line = text.count("\n", 0, secret.start()) + 1
        column = secret.start() - text.rfind("\n", 0, secret.start())
        problem = _diagnostic(Code.SCENARIO_SECRET, "a signing secret stands here", line, column)
        return Parsed(None, [problem], places)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        message = str(error)
        found = _TOML_PLACE.search(message)
        line = int(found.group(1)) if found and found.group(1) else text.count("\n") + 1
        column = int(found.group(2)) if found and found.group(2) else 1
        problem = _diagnostic(
            Code.SCENARIO_TOML, _TOML_PLACE.sub("", message).strip() or "not TOML", line, column
        )
        return Parsed(None, [problem], places)
    places = Places(text)
    reader = _Reader(places)
    scenario = reader.scenario(document, name)
    usable = None if reader.problems else scenario
    return Parsed(usable, sorted(reader.problems, key=lambda d: d.line)[:_PROBLEMS_SHOWN], places)


def _diagnostic(code: Code, message: str, line: int, column: int = 1, hint: str = "") -> Diagnostic:
    return Diagnostic(code=code, message=message, line=line, column=column, hint=hint or code.fix)


@dataclass(slots=True)
class _Reader:
    places: Places
    problems: list[Diagnostic] = field(default_factory=list)
    _keys: dict[str, str] = field(default_factory=dict)
    _rules: dict[str, str] = field(default_factory=dict)
    _records: list[str] = field(default_factory=list)
    _peers: list[str] = field(default_factory=list)

    def scenario(self, document: dict[str, Any], name: str) -> Scenario:
        top = _Entries(self, document, ())
        format = top.text("format", required=True)
        if format and format != FORMAT:
            self.report(("format",), Code.SCENARIO_VALUE, f"{shown(format)} is not {FORMAT}")
        title = top.line("title", required=True)
        story = top.text("story", required=True).strip()
        now = self._tai(top.text("now", required=True), ("now",))
        columns = top.lines("columns")
        self._read_keys(top)
        record_tables = top.tables("record", SCENARIO.records)
        peer_tables = top.tables("peer", SCENARIO.peers)
        # Names first: what follows may refer to what stands below it.
        self._records = [id for id, _ in record_tables if self._is_name(id, ("record", id))]
        self._peers = [id for id, _ in peer_tables if self._is_name(id, ("peer", id))]
        for id in sorted(set(self._records) & set(self._keys)):
            message = f"{id} is the name of a key and of a record"
            self.report(("record", id), Code.SCENARIO_NAME, message)
        self._read_rules(top)
        records = tuple(self._record(id, table) for id, table in record_tables)
        if len(peer_tables) < 2:
            self.report(("peer",), Code.SCENARIO_KEY, "a scenario needs at least two peers")
        peers = tuple(self._peer(id, table) for id, table in peer_tables)
        steps = tuple(
            self._step(number, table)
            for number, table in enumerate(top.array("step", SCENARIO.steps, required=True))
        )
        top.done()
        expectations = sum(len(step.expect) for step in steps)
        if expectations > SCENARIO.expectations:
            message = f"{expectations} expectations, at most {SCENARIO.expectations}"
            self.report(("step",), Code.SCENARIO_LIMIT, message)
        return Scenario(
            name=name, title=title, story=story, now=now, keys=tuple(self._keys.items()),
            rules=tuple(self._rules.items()), records=records, peers=peers, steps=steps,
            columns=columns,
        )  # fmt: skip

    # --- parts ---

    def _read_keys(self, top: _Entries) -> None:
        table = top.table("keys")
        if len(table) > SCENARIO.keys:
            message = f"{len(table)} keys, at most {SCENARIO.keys}"
            self.report(("keys",), Code.SCENARIO_LIMIT, message)
        for id, words in table.items():
            if not isinstance(words, str) or not words:
                hint = f'Write {id} = "some words"; the demo key is made from them.'
                self.report(("keys", id), Code.SCENARIO_KEY, "a key is given by its words", hint)
            elif self._is_name(id, ("keys", id)):
                self._keys[id] = words

    def _read_rules(self, top: _Entries) -> None:
        for id, text in top.table("rules").items():
            path = ("rules", id)
            if not isinstance(text, str):
                self.report(path, Code.SCENARIO_KEY, "rules are text")
            elif self._is_name(id, path):
                self._rules[id] = text
                self._placeholders(text, path)

    def _rules_value(self, text: str, path: Path) -> None:
        """Check what stands for rules: rules, an address, or the name of shared ones."""
        if _NAME.fullmatch(text.strip()):
            self._known(text, self._rules, "entry of [rules]", path)
        self._placeholders(text, path)

    def _record(self, id: str, table: dict[str, Any]) -> RecordSpec:
        path: Path = ("record", id)
        entries = _Entries(self, table, path)
        at = entries.line("at", required=True)
        if at:
            try:
                place = parse_urc(at)
            except EncodingError as error:
                self.report((*path, "at"), error.code, error.message, error.hint)
            else:
                if not isinstance(place, Coordinate) or place.selector is not None:
                    message = f"{shown(at)} is not a coordinate"
                    hint = "Write //group//app//name."
                    self.report((*path, "at"), Code.SCENARIO_VALUE, message, hint)
        by = entries.reference("by", self._keys, "key")
        tai = entries.text("tai")
        data = entries.text("data")
        if len(data.encode("utf-8", "surrogatepass")) > SCENARIO.data_bytes:
            message = f"data is over {SCENARIO.data_bytes} bytes"
            self.report((*path, "data"), Code.SCENARIO_LIMIT, message)
        spec = RecordSpec(
            id=id, at=at, by=by, tai=self._tai(tai, (*path, "tai")) if tai else None,
            fields=tuple(self._fields(entries, path)), data=data,
        )  # fmt: skip
        entries.done()
        return spec

    def _fields(self, entries: _Entries, path: Path) -> Iterator[tuple[str, str]]:
        for name, value in entries.table("fields").items():
            here = (*path, "fields", name)
            for one in value if isinstance(value, list) else [value]:
                if not isinstance(one, str):
                    message = f"{name} takes text, or a list of texts"
                    self.report(here, Code.SCENARIO_KEY, message)
                    continue
                code = line_fault(one)
                if code is not None:
                    self.report(here, code, f"{name}: {code.meaning}")
                self._placeholders(one, here)
                yield name, one

    def _peer(self, id: str, table: dict[str, Any]) -> PeerSpec:
        path: Path = ("peer", id)
        entries = _Entries(self, table, path)
        rules = entries.text("rules", required=True)
        self._rules_value(rules, (*path, "rules"))
        expose = entries.texts("expose") or ("selected",)
        for text in expose:
            self._placeholders(text, (*path, "expose"))
            if text not in _EXPOSE_WORDS and ":-" not in text:
                message = f"{shown(text)} is neither none, selected, everything nor rules"
                self.report((*path, "expose"), Code.SCENARIO_VALUE, message)
        if len(expose) > 1 and any(text in _EXPOSE_WORDS for text in expose):
            message = "none, selected and everything stand alone"
            self.report((*path, "expose"), Code.SCENARIO_VALUE, message)
        spec = PeerSpec(
            id=id, title=entries.line("title") or id.capitalize(),
            key=entries.reference("key", self._keys, "key"),
            has=entries.references("has", self._records, "record"), rules=rules, expose=expose,
        )  # fmt: skip
        entries.done()
        return spec

    def _step(self, number: int, table: dict[str, Any]) -> Step:
        path: Path = ("step", number)
        entries = _Entries(self, table, path)
        say = entries.line("say", required=True)
        advance = entries.integer("advance")
        if not 0 <= advance <= SCENARIO.seconds:
            message = f"advance takes seconds, 0 to {SCENARIO.seconds}"
            self.report((*path, "advance"), Code.SCENARIO_VALUE, message)
        rules = []
        for peer, text in entries.table("rules").items():
            here = (*path, "rules", peer)
            self._known(peer, self._peers, "peer", here)
            if isinstance(text, str):
                self._rules_value(text, here)
                rules.append((peer, text))
            else:
                self.report(here, Code.SCENARIO_KEY, "rules are text")
        pair = entries.references("interlace", self._peers, "peer")
        if pair and (len(pair) != 2 or pair[0] == pair[1]):
            message = "interlace takes two different peers"
            self.report((*path, "interlace"), Code.SCENARIO_VALUE, message)
        meeting = (pair[0], pair[1]) if len(pair) == 2 else None
        step = Step(
            say=say, advance=advance, rules=tuple(rules), store=self._moved(entries, path, "store"),
            forget=self._moved(entries, path, "forget"), interlace=meeting,
            stay=entries.flag("stay"),
            faults=tuple(self._faults(entries, path, pair)), ends=self._ends(entries, path),
            expect=tuple(
                Expectation(text=text, line=self.places.line(*path, "expect", index))
                for index, text in enumerate(entries.lines("expect"))
            ),
        )  # fmt: skip
        if meeting is None:
            needs = (
                ("fault", step.faults),
                ("ends", step.ends is not Ending.FIXED_POINT),
                ("stay", step.stay),
            )
            for word, given in needs:
                if given:
                    message = f"{word} needs an interlace in the same step"
                    self.report((*path, word), Code.SCENARIO_VALUE, message)
        entries.done()
        return step

    def _ends(self, entries: _Entries, path: Path) -> Ending | Code:
        ends = entries.line("ends")
        if not ends or ends == Ending.FIXED_POINT:
            return Ending.FIXED_POINT
        for code in Code:
            if code == ends:
                return code
        message = f"{shown(ends)} is neither '{Ending.FIXED_POINT}' nor a code"
        hint = "lace help codes lists the codes."
        self.report((*path, "ends"), Code.SCENARIO_VALUE, message, hint)
        return Ending.FIXED_POINT

    def _moved(
        self, entries: _Entries, path: Path, word: str
    ) -> tuple[tuple[str, tuple[str, ...]], ...]:
        moved = []
        table = entries.table(word)
        inner = _Entries(self, table, (*path, word))
        for peer in table:
            self._known(peer, self._peers, "peer", (*path, word))
            moved.append((peer, inner.references(peer, self._records, "record")))
        return tuple(moved)

    def _faults(self, entries: _Entries, path: Path, pair: tuple[str, ...]) -> Iterator[Fault]:
        for number, table in enumerate(entries.array("fault", SCENARIO.faults)):
            here = (*path, "fault", number)
            inner = _Entries(self, table, here)
            do = inner.line("do", required=True)
            if do and do not in get_args(Deed):
                message = f"{shown(do)} is not one of {', '.join(get_args(Deed))}"
                self.report((*here, "do"), Code.SCENARIO_VALUE, message)
            sender = inner.reference("from", pair, "peer in this exchange", required=True) or ""
            record = inner.reference("record", self._records, "record")
            message_number = inner.integer("message") or None
            if (record is None) == (message_number is None):
                text = "a fault hits either a record or a message"
                self.report(here, Code.SCENARIO_KEY, text)
            if message_number is not None and message_number < 1:
                self.report((*here, "message"), Code.SCENARIO_VALUE, "messages count from 1")
            byte = inner.integer("byte", -1)
            inner.done()
            yield Fault(
                do=cast("Deed", do), sender=sender, record=record, message=message_number, byte=byte
            )

    # --- checks ---

    def report(self, path: Path, code: Code, message: str, hint: str = "") -> None:
        where = _spelled(path)
        text = f"{where}: {message}" if where else message
        self.problems.append(_diagnostic(code, text, self.places.line(*path), hint=hint))

    def _is_name(self, id: str, path: Path) -> bool:
        if _NAME.fullmatch(id) and len(id) <= 40:
            return True
        self.report(path, Code.SCENARIO_NAME, f"{shown(id)} is not a name")
        return False

    def _known(self, id: str, known: Any, kind: str, path: Path) -> None:
        if id not in known:
            message = f"there is no {kind} {shown(id)}"
            hint = f"There are: {', '.join(known)}." if known else ""
            self.report(path, Code.SCENARIO_REFERENCE, message, hint)

    def _placeholders(self, text: str, path: Path) -> None:
        known = [*self._keys, *self._records]
        for name in placeholders(text):
            self._known(name, known, "key or record", path)

    def _tai(self, text: str, path: Path) -> Tai:
        try:
            return parse_tai(text)
        except EncodingError as error:
            if text:
                self.report(path, error.code, error.message)
            return Tai("0000000000:000000000")


@dataclass(slots=True)
class _Entries:
    """The entries of one table, taken one by one; what is left over was not known."""

    reader: _Reader
    table_: dict[str, Any]
    path: Path
    _taken: set[str] = field(default_factory=set)

    def _take(self, name: str, kind: type, words: str, *, required: bool) -> Any:
        self._taken.add(name)
        if name not in self.table_:
            if required:
                self.reader.report((*self.path, name), Code.SCENARIO_KEY, "this entry is missing")
            return None
        value = self.table_[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            self.reader.report((*self.path, name), Code.SCENARIO_KEY, f"takes {words}")
            return None
        return value

    def text(self, name: str, *, required: bool = False) -> str:
        value = self._take(name, str, "text", required=required)
        if required and value is not None and not value.strip():
            self.reader.report((*self.path, name), Code.SCENARIO_VALUE, "is empty")
        return value or ""

    def line(self, name: str, *, required: bool = False) -> str:
        value = self.text(name, required=required)
        if value and (code := line_fault(value)) is not None:
            self.reader.report((*self.path, name), code, code.meaning)
        return value

    def integer(self, name: str, default: int = 0) -> int:
        value = self._take(name, int, "a whole number", required=False)
        return default if value is None else int(value)

    def flag(self, name: str) -> bool:
        self._taken.add(name)
        value = self.table_.get(name, False)
        if not isinstance(value, bool):
            self.reader.report((*self.path, name), Code.SCENARIO_KEY, "takes true or false")
        return value is True

    def texts(self, name: str) -> tuple[str, ...]:
        """Return one text or a list of texts."""
        value = self.table_.get(name)
        if isinstance(value, str):
            self._taken.add(name)
            return (value,)
        return self._list(name)

    def lines(self, name: str) -> tuple[str, ...]:
        found = self._list(name)
        for index, text in enumerate(found):
            if (code := line_fault(text)) is not None:
                self.reader.report((*self.path, name, index), code, code.meaning)
        return found

    def _list(self, name: str) -> tuple[str, ...]:
        value = self._take(name, list, "a list of texts", required=False) or []
        if not all(isinstance(one, str) for one in value):
            self.reader.report((*self.path, name), Code.SCENARIO_KEY, "takes a list of texts")
            return ()
        return tuple(value)

    def reference(self, name: str, known: Any, kind: str, *, required: bool = False) -> str | None:
        value: str | None = self._take(name, str, f"the name of a {kind}", required=required)
        if value is not None:
            self.reader._known(value, known, kind, (*self.path, name))  # noqa: SLF001
        return value

    def references(self, name: str, known: Any, kind: str) -> tuple[str, ...]:
        found = self._list(name)
        for index, value in enumerate(found):
            self.reader._known(value, known, kind, (*self.path, name, index))  # noqa: SLF001
        return found

    def table(self, name: str) -> dict[str, Any]:
        value = self._take(name, dict, "a table", required=False)
        return value or {}

    def tables(self, name: str, most: int) -> list[tuple[str, dict[str, Any]]]:
        """Return tables by name, such as ``[peer.alice]``."""
        found = self.table(name)
        if len(found) > most:
            message = f"{len(found)} of them, at most {most}"
            self.reader.report((*self.path, name), Code.SCENARIO_LIMIT, message)
            return []
        tables = []
        for id, value in found.items():
            if isinstance(value, dict):
                tables.append((id, value))
            else:
                self.reader.report((*self.path, name, id), Code.SCENARIO_KEY, "takes a table")
        return tables

    def array(self, name: str, most: int, *, required: bool = False) -> list[dict[str, Any]]:
        """Return an array of tables, such as ``[[step]]``."""
        value = self._take(name, list, "an array of tables", required=required) or []
        if not all(isinstance(one, dict) for one in value):
            self.reader.report((*self.path, name), Code.SCENARIO_KEY, "takes an array of tables")
            return []
        if len(value) > most:
            message = f"{len(value)} of them, at most {most}"
            self.reader.report((*self.path, name), Code.SCENARIO_LIMIT, message)
            return []
        return list(value)

    def done(self) -> None:
        from difflib import get_close_matches  # only where something is misspelled

        for name in self.table_:
            if name not in self._taken:
                near = get_close_matches(name, self._taken, n=1)
                hint = f"Did you mean {near[0]}?" if near else ""
                self.reader.report((*self.path, name), Code.SCENARIO_KEY, "unknown entry", hint)


def _spelled(path: Path) -> str:
    """Return a path for people: ``step 2, expect 1``."""
    words = ""
    for part in path:
        if isinstance(part, int):
            words += f" {part + 1}"
        else:
            numbered = words[-1:].isdigit()
            words += f"{', ' if numbered else '.' if words else ''}{part}"
    return words
