"""From a scenario to the real things: keys, signed records, checked modules, exposures.

Keys are made from words that everybody can read, so everybody can sign with them: they are for
demonstrations and nothing else. The same scenario gives the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from lace.crypto.keys import SigningKey, demo_key
from lace.crypto.native import digest
from lace.errors import Code, Diagnostic, LaceError, LacegramError
from lace.ids import RecordHash, Verifier
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record.build import build_plex, seal
from lace.record.model import Record
from lace.scenario.expect import Sentence, parse_expectation
from lace.scenario.lines import Places
from lace.scenario.model import RecordSpec, Scenario, ScenarioError
from lace.scenario.parse import parse_scenario
from lace.scenario.placeholders import fill, placeholders
from lace.selectors import selector
from lace.urc import Coordinate, parse_urc

_DEMO_AUX: Final = b"lace-demo-aux/v1\n"
_NO_PLACES: Final = Places("")


class Identity(Protocol):
    """Whoever can be told from others: a key, or somebody whose key is elsewhere."""

    @property
    def verifier(self) -> Verifier: ...


@dataclass(frozen=True, slots=True)
class Built:
    """A scenario with everything that follows from it before anything happens."""

    scenario: Scenario
    keys: Mapping[str, Identity]
    records: dict[str, Record]
    modules: dict[str, PolicyModule]
    exposures: dict[str, Exposure]
    changes: dict[tuple[int, str], PolicyModule]
    """Modules that peers change to, by step and peer."""
    sentences: tuple[tuple[Sentence, ...], ...]
    """The expectations of each step."""
    ids: dict[str, str] = field(default_factory=dict)
    """From record hashes to the names that the scenario gives them."""

    @property
    def values(self) -> dict[str, str]:
        """What names in braces stand for."""
        verifiers = {id: str(key.verifier) for id, key in self.keys.items()}
        return verifiers | {id: str(record.hash) for id, record in self.records.items()}

    def verifier(self, peer: str) -> Verifier | None:
        key = self.scenario.peer(peer).key
        return None if key is None else self.keys[key].verifier

    def id_of(self, hash: str) -> str:
        """Return the name of a record, or the start of its hash if the scenario has none."""
        return self.ids.get(hash, hash[:9] + "…")

    def hash(self, id: str) -> RecordHash:
        return self.records[id].hash


def load_scenario(text: str, name: str = "scenario") -> Built:
    """Return the built scenario of a text; raise ``ScenarioError`` with everything wrong."""
    parsed = parse_scenario(text, name)
    if parsed.scenario is None:
        raise ScenarioError(tuple(parsed.diagnostics))
    return build(parsed.scenario, parsed.places)


def build(scenario: Scenario, places: Places = _NO_PLACES) -> Built:
    """Make everything a scenario needs; raise ``ScenarioError`` with everything wrong."""
    return _Builder(scenario, places).build()


@dataclass(slots=True)
class _Builder:
    scenario: Scenario
    places: Places
    problems: list[Diagnostic] = field(default_factory=list)

    def build(self) -> Built:
        scenario = self.scenario
        keys = {id: demo_key(words) for id, words in scenario.keys}
        verifiers = {id: str(key.verifier) for id, key in keys.items()}
        records = self._records(keys, verifiers)
        values = verifiers | {id: str(record.hash) for id, record in records.items()}
        self._raise()
        modules: dict[str, PolicyModule] = {}
        exposures: dict[str, Exposure] = {}
        for peer in scenario.peers:
            path = ("peer", peer.id)
            module = self._module(peer.rules, values, (*path, "rules"))
            if module is not None:
                modules[peer.id] = module
            exposures[peer.id] = self._exposure(peer.expose, values, (*path, "expose"))
        changes = {}
        for number, step in enumerate(scenario.steps):
            for id, rules in step.rules:
                module = self._module(rules, values, ("step", number, "rules", id))
                if module is not None:
                    changes[number, id] = module
        sentences = tuple(
            tuple(self._sentence(e.text, e.line, values) for e in step.expect)
            for step in scenario.steps
        )
        self.problems = list(dict.fromkeys(self.problems))  # shared rules are wrong only once
        self._raise()
        return Built(
            scenario, keys, records, modules, exposures, changes, sentences,
            {str(record.hash): id for id, record in records.items()},
        )  # fmt: skip

    def _raise(self) -> None:
        if self.problems:
            raise ScenarioError(tuple(sorted(self.problems, key=lambda d: (d.line, d.column))))

    def _records(self, keys: dict[str, SigningKey], verifiers: dict[str, str]) -> dict[str, Record]:
        """Make the records, each after those whose hashes it holds."""
        specs = {spec.id: spec for spec in self.scenario.records}
        needs = {id: _needs(spec, specs) for id, spec in specs.items()}
        made: dict[str, Record] = {}
        while len(made) < len(specs):
            ready = [id for id in specs if id not in made and needs[id] <= made.keys()]
            if not ready:
                stuck = next(id for id in specs if id not in made)
                message = f"record.{stuck} holds a hash that depends on its own"
                self._report(("record", stuck), Code.SCENARIO_REFERENCE, message)
                return made
            for id in ready:
                values = verifiers | {other: str(record.hash) for other, record in made.items()}
                try:
                    made[id] = self._record(specs[id], keys, values)
                except LaceError as error:
                    message = f"record.{id}: {error.message}"
                    self._report(("record", id), error.code, message, error.hint)
                    return made
        return {id: made[id] for id in specs}

    def _record(
        self, spec: RecordSpec, keys: dict[str, SigningKey], values: dict[str, str]
    ) -> Record:
        place = parse_urc(spec.at)
        assert isinstance(place, Coordinate)
        plex = build_plex(
            group=place.group, app=place.app, name=place.name, tai=spec.tai or self.scenario.now,
            extras=[(name, fill(value, values).text) for name, value in spec.fields],
            data=spec.data.encode(),
        )  # fmt: skip
        if spec.by is None:
            return plex
        return seal(plex, keys[spec.by], aux=digest(_DEMO_AUX + plex.hash.encode()))

    def _module(
        self, text: str, values: dict[str, str], path: tuple[str | int, ...],
        facet: Facet = Facet.SELECTOR,
    ) -> PolicyModule | None:  # fmt: skip
        shared = dict(self.scenario.rules)
        if facet is Facet.SELECTOR and text in shared:
            path, text = ("rules", text), shared[text]
        filled = fill(text, values)
        try:
            if facet is Facet.SELECTOR:
                return selector(filled.text.strip() if ":-" not in text else filled.text)
            return module_from_text(filled.text, facet)
        except LacegramError as error:
            start = self.places.block_start(*path)
            # A rule that cannot be read defines nothing: only the reason is worth telling.
            real = [d for d in error.diagnostics if d.code is not Code.POLICY_EXPORT]
            for found in real or error.diagnostics:
                here = filled.authored(found)
                where = ".".join(map(str, path))
                self.problems.append(
                    Diagnostic(
                        code=here.code,
                        message=f"{where}: {here.message}",
                        hint=here.hint,
                        line=start + here.line - 1,
                        column=here.column,
                        length=here.length,
                    )
                )
        except LaceError as error:
            self._report(path, error.code, error.message, error.hint)
        return None

    def _exposure(
        self, expose: tuple[str, ...], values: dict[str, str], path: tuple[str | int, ...]
    ) -> Exposure:
        match expose:
            case ("none",) | ():
                return Exposure()
            case ("selected",):
                return Exposure(default="selected")
            case ("everything",):
                return Exposure(default="everything")
        made = [self._module(text, values, path, Facet.EXPOSE) for text in expose]
        return Exposure(tuple(module for module in made if module is not None))

    def _sentence(self, text: str, line: int, values: dict[str, str]) -> Sentence:
        try:
            return parse_expectation(text, self.scenario, values)
        except LaceError as error:
            self.problems.append(
                Diagnostic(
                    code=error.code, message=error.message, line=line, column=1, hint=error.hint
                )
            )
            return Sentence(text=text)

    def _report(
        self, path: tuple[str | int, ...], code: Code, message: str, hint: str = ""
    ) -> None:
        line = self.places.line(*path)
        self.problems.append(
            Diagnostic(code=code, message=message, line=line, column=1, hint=hint or code.fix)
        )


def _needs(spec: RecordSpec, specs: dict[str, RecordSpec]) -> set[str]:
    return {name for _, value in spec.fields for name in placeholders(value) if name in specs}
