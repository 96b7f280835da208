"""The workbench without a page: commands in, messages out, no input or output in between.

A command is a JSON object with ``do``; the answer is a list of JSON objects with ``type``. Nothing
that a page sends can make a session fail: what cannot be done comes back as a ``problem``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final, Protocol

from lace._version import __version__
from lace.errors import Code, LaceError, UsageError
from lace.ids import RecordHash
from lace.limits import SCENARIO
from lace.policy.module import Facet
from lace.scenario.build import Built, build, load_scenario
from lace.scenario.library import library, scenario_text
from lace.scenario.model import Scenario, ScenarioError
from lace.scenario.parse import parse_scenario
from lace.scenario.run import World
from lace.scenario.write import write_scenario
from lace.text import redact, shown
from lace.workbench.changes import Changes, changes_from
from lace.workbench.inspector import flip, inspection_json
from lace.workbench.journal import journal_lines
from lace.workbench.real import with_rules
from lace.workbench.recording import record_run
from lace.workbench.rules import diagnostic_json, rules_json
from lace.workbench.sharing import as_commands, as_test
from lace.workbench.single import STATIC, single_page

PROTOCOL: Final = "lace-workbench/1"
_MOST_TEXT: Final = SCENARIO.file_bytes

Json = dict[str, Any]


class Live(Protocol):
    """Exchanges of a server that can be looked at."""

    def listed(self) -> list[Json]: ...
    def has(self, name: str) -> bool: ...
    def recording(self, name: str) -> Json: ...
    def followed(self) -> AsyncGenerator[Json, None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """Something that exists and is only looked at: a meeting of laces, or what a journal tells."""

    name: str
    recording: Json
    built: Built | None = None
    """What was run; None for what happened elsewhere."""

    @property
    def title(self) -> str:
        return str(self.recording["scenario"]["title"])


@dataclass(slots=True)
class Session:
    """One page's conversation with the engine."""

    first: str = "notes-room"
    """The scenario to begin with, by name or by file."""
    links: str = ""
    """Where links lead that others are to open; without it, to the page itself."""
    real: Real | None = None
    """What to begin with instead, if it is no scenario."""
    live: Live | None = None
    """A server whose exchanges are shown while they happen."""
    _built: Built | None = None
    _text: str | None = None
    """The scenario as its author wrote it, unless it was changed since."""
    _changes: Changes = field(default_factory=Changes)
    _recording: Json | None = None

    def handle(self, command: object) -> list[Json]:
        """Return the answers to one command."""
        if not isinstance(command, dict) or not isinstance(command.get("do"), str):
            return [_problem("a command is an object with do", Code.INPUT_JSON, None)]
        number = command.get("id")
        handler = self._handlers().get(command["do"])
        try:
            if handler is None:
                known = ", ".join(self._handlers())
                message = f"{shown(command['do'])} is not one of {known}"
                raise UsageError(message, code=Code.INPUT_KEY)
            answers = handler(command)
        except ScenarioError as error:
            answers = [{"type": "problems", "diagnostics": _diagnostics(error)}]
        except LaceError as error:
            answers = [_problem(error.message, error.code, error.hint)]
        return [answer | {"id": number} for answer in answers]

    def _handlers(self) -> dict[str, Callable[[Json], list[Json]]]:
        return {
            "hello": self._hello,
            "open": self._open,
            "run": self._run,
            "check": self._check,
            "judge": self._judge,
            "inspect": self._inspect,
            "share": self._share,
            "journal": self._journal,
            "page": self._page,
        }

    # --- commands ---

    def _hello(self, _command: Json) -> list[Json]:
        """Say who is here and which scenarios there are, the one it was started with included."""
        first = name_of(self.first)
        scenarios = []
        if self.real is not None:
            first = self.real.name
            scenarios.append({"name": first, "title": self.real.title})
        if self.live is not None:
            with suppress(LaceError):  # the page is told when the server is back
                scenarios += self.live.listed()
            first = scenarios[0]["name"] if scenarios else first
        for name in dict.fromkeys((*library(), name_of(self.first))):
            try:
                parsed = parse_scenario(text_of(name, self.first)[1], name).scenario
            except LaceError:  # a file that is gone by now; opening it says so
                continue
            if parsed is not None:
                scenarios.append({"name": name, "title": parsed.title})
        return [
            {
                "type": "hello", "protocol": PROTOCOL, "engine": __version__,
                "scenarios": scenarios, "first": first, "links": self.links,
            }
        ]  # fmt: skip

    def _open(self, command: Json) -> list[Json]:
        """Run a scenario that comes with Lace, or the one the workbench was started with."""
        name = _text(command, "name", 200)
        if self.real is not None and name == self.real.name:
            self._built, self._recording = self.real.built, self.real.recording
            self._text, self._changes = "", Changes()
            return [{"type": "recording", "recording": self.real.recording}]
        if self.live is not None and self.live.has(name):
            self._built, self._recording = None, self.live.recording(name)
            self._text, self._changes = "", Changes()
            return [{"type": "recording", "recording": self._recording}]
        stem, text = text_of(name, self.first)
        try:
            self._built, recording = opened(stem, text)
        except ScenarioError as error:  # whoever is to mend it needs to see it
            source = {"name": stem, "toml": text}
            return [{"type": "problems", "diagnostics": _diagnostics(error), "source": source}]
        self._text, self._changes, self._recording = text, Changes(), recording
        return [{"type": "recording", "recording": recording}]

    def _run(self, command: Json) -> list[Json]:
        """Run a scenario's text, with other rules and with whatever was changed."""
        name = _text(command, "name", 200)
        given = _text(command, "toml", _MOST_TEXT)
        if self.live is not None and self.live.has(name):
            raise _only_looked_at()
        if self.real is not None and name == self.real.name:
            return self._run_real(self.real, command)
        built = load_scenario(given, name)
        text: str | None = given
        if command.get("rules") is not None:
            built = build(self._with_rules(built.scenario, command["rules"]))
            text = None
        changes = changes_from(command.get("changes"), built)
        recording = record_run(built, changes, text)
        self._built, self._text, self._changes = built, text, changes
        self._recording = recording
        return [{"type": "recording", "recording": recording}]

    def _run_real(self, real: Real, command: Json) -> list[Json]:
        """Let real laces meet again, in memory, with other rules or with something changed."""
        if real.built is None:
            raise _only_looked_at()
        mine = self._recording is not None and self._recording["scenario"]["name"] == real.name
        built = self._built if mine and self._built is not None else real.built
        if command.get("rules") is not None:
            built = with_rules(built, _rules_of(built.scenario, command["rules"]))
        changes = changes_from(command.get("changes"), built)
        recording = record_run(built, changes, "")
        self._built, self._text, self._changes = built, "", changes
        self._recording = recording
        return [{"type": "recording", "recording": recording}]

    def _with_rules(self, scenario: Scenario, rules: object) -> Scenario:
        for peer, text in _rules_of(scenario, rules).items():
            scenario = scenario.with_rules(peer, text)
        return scenario

    def _check(self, command: Json) -> list[Json]:
        """Judge rules while they are being written."""
        facet = Facet.EXPOSE if command.get("facet") == "expose" else Facet.SELECTOR
        text = _text(command, "text", _MOST_TEXT)
        return [{"type": "checked", "checked": rules_json(text, self._open_built.values, facet)}]

    def _judge(self, command: Json) -> list[Json]:
        """Judge a scenario's text while it is being written; nothing is run."""
        found: list[Json] = []
        try:
            load_scenario(_text(command, "toml", _MOST_TEXT))
        except ScenarioError as error:
            found = _diagnostics(error)
        return [{"type": "judged", "diagnostics": found}]

    def _inspect(self, command: Json) -> list[Json]:
        """Show a record's bytes, with one bit turned over if asked."""
        hash = _text(command, "hash", 200)
        built = self._open_built
        record = built.records.get(built.ids.get(hash, ""))
        if record is None:
            world = World.begin(built)
            held = (store.load(RecordHash(hash)) for store in world.stores.values())
            record = next((found for found in held if found is not None), None)
        if record is None:
            raise UsageError(f"there is no record {shown(hash)}", code=Code.INPUT_KEY)
        offset = command.get("flip")
        raw = record.raw
        if offset is not None:
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise UsageError("flip takes the number of a byte", code=Code.INPUT_KEY)
            raw = flip(raw, offset)
        return [{"type": "inspected", "hash": hash, "flip": offset,
                 "inspection": inspection_json(raw)}]  # fmt: skip

    def _share(self, _command: Json) -> list[Json]:
        """Return what is open as a file, as commands and as a test."""
        built = self._open_built
        if self.real is not None and built.scenario.name == self.real.name:
            raise UsageError(
                "real laces are no scenario", code=Code.INPUT_KEY,
                hint="Pass on a link with the run, or save it as a page; both hold the records.",
            )  # fmt: skip
        scenario = self._changes.into(built.scenario)
        text = write_scenario(scenario)  # in our layout: what is run holds no surprises
        kept = self._text if scenario == built.scenario else None
        return [
            {
                "type": "shared", "toml": text if kept is None else kept,
                "commands": as_commands(scenario, text),
                "test": as_test(scenario, text),
            }
        ]  # fmt: skip

    def _journal(self, command: Json) -> list[Json]:
        """Return the journals of both sides of one exchange."""
        scene = command.get("scene", 0)
        built = self._open_built
        if (
            not isinstance(scene, int)
            or isinstance(scene, bool)
            or not 0 <= scene < len(built.scenario.steps)
        ):
            raise UsageError("scene takes the number of a step", code=Code.INPUT_KEY)
        sides = ["".join(lines) for lines in journal_lines(built, self._changes, scene)]
        return [{"type": "journal", "scene": scene, "sides": sides}]

    def _page(self, _command: Json) -> list[Json]:
        """Return the workbench with this run in one file."""
        if not STATIC.is_dir():
            raise UsageError(
                "an engine in a page has no page to give away", code=Code.INPUT_FILE,
                hint="Pass on a link with the run, or use lace workbench.",
            )  # fmt: skip
        recording = self._recording
        if recording is None:
            raise UsageError("open a scenario first", code=Code.INPUT_KEY)
        name = recording["scenario"]["name"]
        name = "scenario" if name == "index" else name  # the list of all has that name
        listed = [{"name": name, "title": recording["scenario"]["title"]}]
        made = {
            "index": _written({"engine": __version__, "scenarios": listed}),
            name: _written(recording),
        }
        return [{"type": "page", "html": single_page(STATIC, made)}]

    @property
    def _open_built(self) -> Built:
        if self._built is None and self._recording is not None:
            raise UsageError("a journal can only be looked at", code=Code.INPUT_KEY)
        if self._built is None:
            raise UsageError("open a scenario first", code=Code.INPUT_KEY)
        return self._built


def _only_looked_at() -> UsageError:
    return UsageError(
        "a journal tells what happened; it cannot be run in another way",
        code=Code.INPUT_KEY, hint="Open the laces themselves: lace workbench FOLDER.",
    )  # fmt: skip


def _rules_of(scenario: Scenario, rules: object) -> dict[str, str]:
    """Return the rules that a page gives for some of the peers."""
    peers = {peer.id for peer in scenario.peers}
    if not isinstance(rules, dict) or not set(rules) <= peers:
        raise UsageError("rules name peers of the scenario", code=Code.INPUT_KEY)
    if not all(isinstance(text, str) and len(text) <= _MOST_TEXT for text in rules.values()):
        raise UsageError("rules are text", code=Code.INPUT_KEY)
    return rules


def text_of(name: str, first: str) -> tuple[str, str]:
    """Return a scenario by the name a page knows it by; no page can name a file.

    ``first`` is what the workbench was started with, by name or by file.
    """
    if name == name_of(first):
        return scenario_text(first)
    if name not in library():
        hint = "Choose one from the list."
        raise UsageError(f"there is no scenario {shown(name)}", code=Code.INPUT_FILE, hint=hint)
    return scenario_text(name)


def name_of(first: str) -> str:
    """Return the name under which a page knows a scenario that is given by name or by file."""
    return first if first in library() else PurePath(first).stem


@lru_cache(maxsize=32)
def opened(name: str, text: str) -> tuple[Built, Json]:
    """Return a scenario as it was written, with its recording; the same text is run once."""
    built = load_scenario(text, name)
    return built, record_run(built, text=text)


def _written(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text(command: Json, name: str, most: int) -> str:
    value = command.get(name)
    if not isinstance(value, str) or len(value) > most:
        raise UsageError(f"{name} takes text of at most {most} characters", code=Code.INPUT_KEY)
    return value


def _diagnostics(error: ScenarioError) -> list[Json]:
    return [diagnostic_json(diagnostic) for diagnostic in error.diagnostics]


def _problem(message: str, code: Code, hint: str | None) -> Json:
    return {
        "type": "problem", "message": redact(message), "code": str(code),
        "hint": redact(hint or code.fix), "id": None,
    }  # fmt: skip
