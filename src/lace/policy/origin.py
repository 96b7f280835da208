"""Where an operand came from: labels that nobody chooses for himself (G10, A15, A17).

A label says which of two operands is meant, within one exchange and nowhere else. Whoever proved a
key is bound to his label; the label itself is never identity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NewType

from lace import b64a
from lace.crypto.native import digest
from lace.errors import Code, PolicyError
from lace.ids import Verifier
from lace.policy.module import PolicyModule
from lace.text import fact_line

Origin = NewType("Origin", str)
"""``Opq_`` and one B64A character: which operand, in this exchange only."""

Viewer = NewType("Viewer", str)
"""Whose view a rule is evaluated through: a proven verifier, else a label."""

SourceLabel = NewType("SourceLabel", str)
"""Who advertised: a proven verifier, else a label."""

_DOMAIN: Final = b"lace-opaque-origin/v1"
_LABEL: Final = re.compile(r"Opq_[0-9A-Z_a-z~]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """What one side brings to the set-up of an exchange."""

    index: int
    """0 for the accepting side, 1 for the connecting side; it only breaks ties."""
    module: PolicyModule
    """What that side selects."""
    nonce: str = ""
    """A nonce that the label depends on; empty over streams."""
    verifier: Verifier | None = None
    """Proven, never merely claimed."""

    def origin_digest(self) -> bytes:
        """Return the digest from which both labels of an exchange are taken."""
        line = fact_line(
            "OpaqueOrigin",
            (
                str(self.index),
                self.nonce,
                self.verifier or "",
                self.module.facet,
                self.module.id,
            ),
        )
        return digest(_DOMAIN + line.encode() + b"\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A module with the origin that set-up gave it."""

    index: int
    """0 for the accepting side, 1 for the connecting one."""
    module: PolicyModule
    """What that side selects."""
    origin: Origin
    """The label that both sides computed for it."""
    verifier: Verifier | None = None
    """Bound to the origin as metadata when it was proven."""

    @property
    def viewer(self) -> Viewer:
        """Whom local policy takes it for: its proven verifier, else its label."""
        return Viewer(self.verifier or self.origin)

    @property
    def called(self) -> str:
        """Whom it is for people; the label of who proved nothing means nothing to anybody."""
        return self.verifier or "a peer that proved no key"

    @property
    def source_label(self) -> SourceLabel:
        """Whom its advertisements name: its proven verifier, else its label."""
        return SourceLabel(self.verifier or self.origin)


def label_operands(one: Party, other: Party) -> tuple[Operand, Operand]:
    """Return operands 0 and 1 with their labels, the same on both sides."""
    if {one.index, other.index} != {0, 1}:
        raise PolicyError("operands need the indexes 0 and 1", code=Code.POLICY_OPERAND)
    first, second = sorted((one, other), key=lambda party: party.index)
    labels = opaque_labels(first.origin_digest(), second.origin_digest())
    return (
        Operand(index=0, module=first.module, origin=labels[0], verifier=first.verifier),
        Operand(index=1, module=second.module, origin=labels[1], verifier=second.verifier),
    )


def opaque_labels(first: bytes, second: bytes) -> tuple[Origin, Origin]:
    """Return labels of the characters in which two digests first differ."""
    for a, b in zip(b64a.encode(first), b64a.encode(second), strict=True):
        if a != b:
            return Origin(f"Opq_{a}"), Origin(f"Opq_{b}")
    raise PolicyError("both operands have the same origin digest", code=Code.POLICY_ORIGIN)


def is_opaque_label(text: str) -> bool:
    return _LABEL.fullmatch(text) is not None


def check_announced_origin(announced: str, assigned: Operand) -> None:
    """Raise unless a peer announced the label that was assigned to it.

    A local label, another's verifier or even the peer's own verifier is a claim, and claims of
    origin are never believed; a proven verifier is bound to the label, not used in its place.
    """
    if announced != assigned.origin:
        raise PolicyError(
            "the peer announced an origin that was not assigned to it", code=Code.POLICY_ORIGIN
        )


def bind_verifier(operand: Operand, claimed: Verifier | None, proven: Verifier | None) -> Operand:
    """Return the operand with what was proven; raise if the peer claimed something else.

    Until this has been called with the outcome of the proof, a claimed verifier is provisional and
    nothing may depend on it.
    """
    if claimed is not None and claimed != proven:
        raise PolicyError("the peer did not prove the verifier it claimed", code=Code.POLICY_ORIGIN)
    return Operand(
        index=operand.index, module=operand.module, origin=operand.origin, verifier=proven
    )
