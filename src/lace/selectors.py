"""From coordinates, hashes and fields to policy modules: what to say when you know what you want.

Every selector here defines both facets, and carries the rules for its evidence, so that a peer who
starts with nothing can find out what to ask for next. Rules are built as values, not as text: what
a caller passes can only ever become a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from lace.datalog.ast import (
    Anonymous,
    Atom,
    BodyAtom,
    Constant,
    Negated,
    Rule,
    Term,
    TextShape,
    Variable,
)
from lace.errors import Code, EncodingError, PolicyError
from lace.policy.module import (
    PolicyModule,
    combine,
    module_from_rules,
    module_from_text,
    renamed,
)
from lace.text import line_fault, shown
from lace.urc import Coordinate, HashAddress, Prefix, parse_urc
from lace.vocabulary import (
    ADVERTISED,
    ADVERTISED_FIELD,
    FIELD,
    HAVE,
    RECORD_LINK,
    SELECT_ADVERTISED,
    SELECT_HAVE,
)

_ANY: Final = Anonymous()
_P: Final = Variable("P")
_S: Final = Variable("S")


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on the fields of one record, said once and asked of both worlds."""

    fields: tuple[tuple[str, Term], ...] = ()
    """Field names with the value, or the variable that takes it."""
    tests: tuple[BodyAtom, ...] = ()
    absent: tuple[str, ...] = ()
    """Names of fields that the record must not have."""

    def here(self, record: Term = _P) -> tuple[BodyAtom, ...]:
        """Return the conditions on a record that is stored."""
        fields = [FIELD(record, Constant(n), _ANY, value) for n, value in self.fields]
        absent = [Negated(FIELD(record, Constant(n), _ANY, _ANY)) for n in self.absent]
        return (HAVE(record), *fields, *self.tests, *absent)

    def advertised(self, record: Term = _P, source: Term = _S) -> tuple[BodyAtom, ...]:
        """Return the same conditions on a record that is advertised."""
        fields = [
            ADVERTISED_FIELD(record, source, Constant(n), _ANY, value) for n, value in self.fields
        ]
        absent = [
            Negated(ADVERTISED_FIELD(record, source, Constant(n), _ANY, _ANY)) for n in self.absent
        ]
        return (ADVERTISED(record, source), *fields, *self.tests, *absent)

    def and_also(self, **more: Term) -> Filter:
        """Return the filter with further fields; underscores in names stand for hyphens."""
        extra = tuple((name.replace("_", "-"), value) for name, value in more.items())
        return Filter((*self.fields, *extra), self.tests, self.absent)


def _select(filter: Filter, *conditions: BodyAtom, record: Term = _P) -> list[Rule]:
    """Return the two facets for the records that pass a filter and further conditions."""
    here = (*filter.here(record), *conditions)
    advertised = (*filter.advertised(record), *conditions)
    return [
        Rule(SELECT_HAVE(record), here),
        Rule(SELECT_ADVERTISED(record, _S), advertised),
    ]


def selector(text: str, fields: Mapping[str, str] | None = None) -> PolicyModule:
    """Return the selector for a coordinate, a prefix, a hash address, or rules.

    ``fields`` narrows a coordinate or prefix to records with these values.
    """
    if ":-" in text:
        if fields:
            raise PolicyError("rules take no field filter", code=Code.POLICY_SELECTOR)
        return module_from_text(text)
    try:
        address = parse_urc(text)
    except EncodingError as error:
        message = f"{shown(text)} is not a selector: {error.message}"
        raise PolicyError(message, code=Code.POLICY_SELECTOR) from None
    if isinstance(address, HashAddress):
        if fields:
            raise PolicyError("a hash takes no field filter", code=Code.POLICY_SELECTOR)
        return hashes([address.hash])
    version = address.selector if isinstance(address, Coordinate) else None
    record = Constant(version.hash) if version is not None and version.hash is not None else _P
    for word in (item for pair in (fields or {}).items() for item in pair):
        code = line_fault(word)
        if code is not None:
            raise PolicyError(f"field filter {shown(word)}: {code.meaning}", code=code)
    extra = tuple((name, Constant(value)) for name, value in (fields or {}).items())
    rules: list[Rule] = []
    for place in _filters(address):
        rules += _select(Filter((*place.fields, *extra), place.tests), record=record)
    return module_from_rules(tuple(rules))


def hashes(records: Iterable[str]) -> PolicyModule:
    """Return the selector for exactly these records."""
    rules = [rule for name in records for rule in _select(Filter(), record=Constant(name))]
    if not rules:
        raise PolicyError("no hashes were given", code=Code.POLICY_SELECTOR)
    return module_from_rules(tuple(rules))


def any_of(*modules: PolicyModule) -> PolicyModule:
    """Return the selector for what at least one of them selects; helpers are kept apart.

    Where one of them is of a ``Room``, peers are shown what that room shows, and nothing else:
    ``expose`` says it if they are to be shown more.
    """
    if len(modules) == 1:
        return modules[0]
    both = combine(modules)
    heads = {SELECT_HAVE, SELECT_ADVERTISED}
    rules = [rule for rule in both.lacegram.rules if rule.head.predicate not in heads]
    for rule in both.lacegram.rules:
        if rule.head.predicate in heads:
            rules += [Rule(rule.head, (part,)) for part in rule.body]
    return replace(module_from_rules(tuple(rules)), views=both.views)


def all_of(*modules: PolicyModule) -> PolicyModule:
    """Return the selector for what every one of them selects."""
    return combine(modules)


def with_support(module: PolicyModule, tag: str = "evidence") -> PolicyModule:
    """Return a selector that also selects what its records link to, link by link.

    The targets of links with this tag become wanted as soon as the record that links is here, and
    their own links in turn.
    """
    names = {predicate: f"m_{predicate.name}" for predicate in module.program.derived}
    names |= {SELECT_HAVE: "Chosen", SELECT_ADVERTISED: SELECT_ADVERTISED.name}
    rules = [renamed(rule, names) for rule in module.lacegram.rules]
    target, record = Variable("T"), _P
    link = RECORD_LINK(record, _ANY, _ANY, Constant(tag), target)
    support = Atom("Support", (target,))
    have = HAVE(_P)
    rules += [
        Rule(support, (Atom("Chosen", (record,)), link)),
        Rule(support, (Atom("Support", (record,)), link)),
        Rule(SELECT_HAVE(_P), (Atom("Chosen", (_P,)),)),
        Rule(SELECT_HAVE(_P), (have, Atom("Support", (_P,)))),
        Rule(
            SELECT_ADVERTISED(_P, _S),
            (ADVERTISED(_P, _S), Atom("Support", (_P,))),
        ),
    ]
    return replace(module_from_rules(tuple(rules)), views=module.views)


def _filters(address: Coordinate | Prefix) -> list[Filter]:
    """Return the alternatives that make up a place (A38)."""
    group = ("Group", Constant(address.group))
    app = ("App", Constant(address.app))
    if isinstance(address, Prefix):
        if address.name:
            name = Variable("K")
            test = TextShape(name, Constant(address.name), "", Constant(""))
            return [Filter((group, app, ("Name", name)), (test,))]
        sub = Variable("A")
        under = TextShape(sub, Constant(f"{address.app}/"), "", Constant(""))
        return [Filter((group, app)), Filter((group, ("App", sub)), (under,))]
    fields: list[tuple[str, Term]] = [group, app, ("Name", Constant(address.name))]
    version = address.selector
    if version is not None:
        letter = {"plex": "P", "seal": "S", None: None}[version.type]
        wanted = {"Type": letter, "Signed-By": version.verifier, "TAI": version.tai}
        fields += [(name, Constant(value)) for name, value in wanted.items() if value is not None]
    return [Filter(tuple(fields))]
