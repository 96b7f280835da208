"""Rules as an editor needs them: diagnostics, ids, strata, and how often each rule fired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lace.datalog.canonical import RuleId, canonical_rule, rule_id
from lace.datalog.evaluate import Evaluation
from lace.errors import Code, Diagnostic, LaceError, LacegramError
from lace.limits import WORKBENCH
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.rules import check_lacegram
from lace.scenario.placeholders import fill
from lace.selectors import selector
from lace.vocabulary import ROLES

Json = dict[str, Any]


def diagnostic_json(diagnostic: Diagnostic) -> Json:
    return {
        "code": str(diagnostic.code), "message": diagnostic.message, "line": diagnostic.line,
        "column": diagnostic.column, "length": diagnostic.length, "hint": diagnostic.hint,
        "severity": str(diagnostic.severity), "meaning": diagnostic.code.meaning,
    }  # fmt: skip


def rules_json(text: str, values: dict[str, str], facet: Facet = Facet.SELECTOR) -> Json:
    """Return what the engine says about rules: everything wrong, or what they are."""
    if ":-" not in text and facet is Facet.SELECTOR:
        return _address_json(text.strip())
    filled = fill(text, values)
    role = "selector" if facet is Facet.SELECTOR else "expose"
    checked = check_lacegram(filled.text, ROLES[role])
    found = [filled.authored(diagnostic) for diagnostic in checked.diagnostics]
    try:
        module: PolicyModule | None = module_from_text(filled.text, facet)
    except LacegramError as error:
        module = None
        if not checked.errors:
            found += [filled.authored(diagnostic) for diagnostic in error.diagnostics]
    found += [
        Diagnostic(
            code=Code.SCENARIO_REFERENCE, message=f"{{{name}}} stands for nothing", line=1,
            column=1, hint="Names in braces are keys or records of the scenario.",
        )
        for name in filled.unknown
    ]  # fmt: skip
    made: Json = {"diagnostics": list(map(diagnostic_json, found)), "ok": module is not None}
    if module is not None:
        places = {
            rule_id(canonical_rule(rule)): lines
            for rule, lines in zip(checked.parsed.rules, checked.parsed.lines, strict=True)
        }
        made |= _module_json(module, places, checked.parsed.notes)
    return made


def _address_json(text: str) -> Json:
    try:
        module = selector(text)
    except LaceError as error:
        problem = Diagnostic(
            code=error.code, message=error.message, line=1, column=1, length=max(1, len(text)),
            hint=error.hint,
        )  # fmt: skip
        return {"diagnostics": [diagnostic_json(problem)], "ok": False}
    return {"diagnostics": [], "ok": True} | _module_json(module, {}, {})


def _module_json(
    module: PolicyModule,
    places: Mapping[RuleId, tuple[int, int]],
    notes: Mapping[RuleId, Json],
) -> Json:
    strata = {
        str(predicate): component.stratum
        for component in module.program.components
        for predicate in component.predicates
    }
    return {
        "id": module.id,
        "canonical": module.text,
        "rules": [
            {
                "id": id, "line": line, "lines": places.get(id), "notes": _words(notes.get(id, {})),
                "head": str(rule.head.predicate), "stratum": strata.get(str(rule.head.predicate)),
            }
            for id, line, rule in zip(
                module.lacegram.rule_ids, module.lacegram.lines, module.lacegram.rules, strict=True
            )
        ],
    }  # fmt: skip


def _words(notes: Json) -> dict[str, str]:
    """Return the notes that are text: those are what a page shows."""
    return {name: note for name, note in notes.items() if isinstance(note, str)}


def hits(evaluation: Evaluation) -> dict[str, int]:
    """Return how many different facts each rule gives."""
    counts: dict[str, int] = {}
    for rule in evaluation.program.rules:
        evaluation.meter.work = 0  # one rule after the other, however many there are
        found = set()
        for row in evaluation.enumerate(rule, {}):
            found.add(row)
            if len(found) >= WORKBENCH.rule_hits:
                break
        counts[rule.id] = len(found)
    return counts
