"""The exchange plan: what two sides agree on before anything is transferred (spec 040)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NewType

from lace import b64a
from lace.crypto.native import digest
from lace.errors import Code, PolicyError
from lace.policy.apart import Guard
from lace.policy.lowering import ENCRYPTED, STANDARD, Lowering
from lace.policy.module import Facet
from lace.policy.origin import Operand
from lace.text import fact_line
from lace.vocabulary import RUNTIME_FACTS, TICK_TAI

PlanId = NewType("PlanId", str)
"""``E.`` and the BLAKE3 hash of a domain string and the transcript."""

PROFILE: Final = "lace-040-exchange-plan-v1"
_DOMAIN: Final = b"lace-exchange-plan/v1"


@dataclass(frozen=True)
class ExchangePlan:
    """Two selector operands and how they are lowered; equal on both sides."""

    operands: tuple[Operand, Operand]
    """The modules of both sides, the accepting one first."""
    lowering: Lowering = STANDARD
    """How two selections become permissions."""

    def __post_init__(self) -> None:
        if [operand.index for operand in self.operands] != [0, 1]:
            raise PolicyError("a plan has operands 0 and 1", code=Code.POLICY_OPERAND)
        if any(operand.module.facet is not Facet.SELECTOR for operand in self.operands):
            raise PolicyError("only selectors are exchanged", code=Code.POLICY_FACET)
        if self.operands[0].origin == self.operands[1].origin:
            raise PolicyError("both operands have one origin", code=Code.POLICY_ORIGIN)

    @property
    def required_fields(self) -> frozenset[str] | None:
        """Advertised fields that either operand looks at; None for all fields."""
        names: set[str] = set()
        for operand in self.operands:
            fields = operand.module.required_fields
            if fields is None:
                return None
            names |= fields
        return frozenset(names)

    @property
    def adverts_stand_alone(self) -> bool:
        """Whether what a peer says of a record that is here already changes nothing."""
        return self.lowering in {STANDARD, ENCRYPTED} and all(
            operand.module.adverts_stand_alone for operand in self.operands
        )

    @property
    def guards(self) -> frozenset[Guard] | None:
        """How to tell the records that others depend on; None if those may be any records.

        If it is known, what is sent is decided by each record, a request by its offer, and both by
        guards and runtime facts.
        """
        one, other = (operand.module.guards for operand in self.operands)
        if one is None or other is None or not self.adverts_stand_alone:
            return None
        return one | other

    @property
    def looks_at_time(self) -> bool:
        """Whether any rule depends on moving time."""
        return any(operand.module.mentions(TICK_TAI.name) for operand in self.operands)

    def is_met_by(self, schema: frozenset[str] | None) -> bool:
        """Whether a negotiated field schema (None: all fields) gives the plan what it needs."""
        if schema is None:
            return True
        return self.required_fields is not None and self.required_fields <= schema

    @cached_property
    def transcript(self) -> str:
        """The canonical transcript: profile first, the rest by predicate name and then by bytes."""
        facts: list[tuple[str, tuple[str, ...]]] = [("ExchangePlanLowering", (self.lowering.name,))]
        for operand in self.operands:
            index = str(operand.index)
            module = operand.module
            facts.append(("ExchangePlanOperand", (index, module.facet, module.id)))
            facts.append(("ExchangePlanOperandOrigin", (index, operand.origin)))
        fields = self.required_fields
        if fields is None:
            facts.append(("ExchangePlanRequireAllAdvertisedFields", ()))
        else:
            facts += [("ExchangePlanRequireAdvertisedField", (name,)) for name in fields]
        facts += [("ExchangePlanRuntime", (p.name, str(p.arity))) for p in RUNTIME_FACTS]
        lines = sorted(
            ((name, fact_line(name, values).encode()) for name, values in facts),
        )
        first = fact_line("ExchangePlanProfile", (PROFILE,)).encode()
        return b"".join(line + b"\n" for line in (first, *(line for _, line in lines))).decode()

    @cached_property
    def id(self) -> PlanId:
        """The id that both sides compute, and compare in hello."""
        return plan_id(self.transcript.encode())


def plan_id(transcript: bytes) -> PlanId:
    """Return the id of the plan that a canonical transcript describes."""
    return PlanId(f"E.{b64a.encode(digest(_DOMAIN + transcript))}")
