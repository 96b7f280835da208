"""From selections to what may be sent and requested: a lowering is itself a small program.

Its base facts are the facets of both operands, under the names ``o0_…`` and ``o1_…`` that no
module may define or use, and the runtime facts. A stricter profile is a lowering with another name
and more conditions; the name is part of the plan, so that both sides know which one is meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lace.datalog.ast import Atom
from lace.datalog.canonical import RuleId
from lace.datalog.program import RuleProgram
from lace.errors import Code, PolicyError
from lace.rules import check_lacegram, compile_program
from lace.vocabulary import MAY_REQUEST, MAY_SEND, SELECT_ADVERTISED, SELECT_HAVE, scoped


@dataclass(frozen=True)
class Lowering:
    """Rules for MaySend/1 and MayRequest/1 over the facets of both operands."""

    name: str
    text: str

    def __post_init__(self) -> None:
        # A lowering may narrow what both sides selected, never widen it: each of its rules must ask
        # both operands (050's invariants rest on this).
        for rule in self.program.rules:
            facet = {MAY_SEND: SELECT_HAVE, MAY_REQUEST: SELECT_ADVERTISED}.get(rule.head)
            if facet is None:
                continue
            asked = {
                (part.predicate, part.terms[0])
                for part in rule.source.body
                if isinstance(part, Atom) and part.terms
            }
            if not {(scoped(i, facet), rule.source.head.terms[0]) for i in (0, 1)} <= asked:
                raise PolicyError(
                    f"lowering {self.name}: every rule must ask both operands",
                    code=Code.POLICY_LOWERING,
                )

    @cached_property
    def program(self) -> RuleProgram:
        return compile_program(check_lacegram(self.text).lacegram)

    def sidecar(
        self, operands: tuple[tuple[str, str, tuple[RuleId, ...]], ...]
    ) -> list[tuple[str, ...]]:
        """Return provenance facts: where each rule came from, and which step made it (040-PRV).

        ``operands`` holds module id, origin and rule ids of operand 0 and 1. The facts are for
        tools; no evaluation ever sees them.
        """
        facts: list[tuple[str, ...]] = []
        for index, (module, origin, rules) in enumerate(operands):
            for rule in rules:
                facts += [
                    ("RuleSource", rule, module, rule),
                    ("RuleGeneratedBy", rule, "040-operand-scope", f"O{index}"),
                    ("RuleOrigin", rule, origin),
                ]
        for compiled in self.program.rules:
            facet = SELECT_HAVE if compiled.head == MAY_SEND else SELECT_ADVERTISED
            facts += [
                ("RuleGeneratedBy", compiled.id, "040-lowering", str(compiled.head)),
                ("RuleGeneratedBy", compiled.id, "040-intersection", str(facet)),
            ]
        return facts


STANDARD: Final = Lowering(
    "standard-v1",
    "MayRequest(P) :- o0_SelectAdvertised(P,S), o1_SelectAdvertised(P,S).\n"
    "MaySend(P) :- o0_SelectHave(P), o1_SelectHave(P).\n",
)

ENCRYPTED: Final = Lowering(
    "encrypted-v1",
    "MayRequest(P) :- o0_SelectAdvertised(P,S), o1_SelectAdvertised(P,S).\n"
    "MaySend(P) :- o0_SelectHave(P), o1_SelectHave(P), TransportEncrypted().\n",
)
"""Sends only where this process knows that the transport is encrypted."""
