"""A scenario as values: who takes part, what there is, what happens, and what must come of it.

Everything here was read by ``parse``: names refer to something, counts are within the limits, and
what an author wrote is kept as it was written, so that it can be shown and written out again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from lace.errors import Code, Diagnostic, LaceError
from lace.interlace.messages import Ending
from lace.limits import Limits
from lace.tai import Tai

FORMAT = "lace-scenario/1"

Deed = Literal["flip", "drop", "duplicate", "swap", "cut"]
"""What can befall a message: a flipped bit, loss, repetition, the wrong order, the end of all."""


class ScenarioError(LaceError):
    """A scenario that cannot be used; ``diagnostics`` says everything that is wrong with it."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        first = diagnostics[0]
        more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        super().__init__(
            f"line {first.line}: {first.message}{more}", code=first.code, hint=first.hint
        )
        self.diagnostics = diagnostics


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpec:
    """A record to be made: its place, its fields as written, its data, and who signs it."""

    id: str
    at: str
    """A coordinate, ``//group//app//name``."""
    by: str | None = None
    """The key that seals it; None for an unsigned Plex."""
    tai: Tai | None = None
    """When it says it was made; the scenario's time if left out."""
    fields: tuple[tuple[str, str], ...] = ()
    data: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSpec:
    """One lace: who it is, what it starts with, its rules, and what it lets peers' rules see."""

    id: str
    title: str
    key: str | None = None
    """Proven to whoever it meets; None for a stranger."""
    has: tuple[str, ...] = ()
    rules: str
    """Rules, a coordinate or prefix, or the name of rules that the scenario shares."""
    expose: tuple[str, ...] = ("selected",)
    """``none``, ``selected``, ``everything``, or the texts of expose modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that befalls what one side sends."""

    do: Deed
    sender: str
    record: str | None = None
    """The record that is hit, whenever it crosses."""
    message: int | None = None
    """Or the number of the message that is hit, counted from 1 for this sender and exchange."""
    byte: int = -1
    """Which byte a flip changes; negative counts from the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One sentence that must be true after a step, and where it stands."""

    text: str
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens; what it names is done in the order of these fields."""

    say: str
    advance: int = 0
    """Seconds that pass first."""
    rules: tuple[tuple[str, str], ...] = ()
    """Peers that change their rules."""
    store: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Peers that come by records of their own."""
    forget: tuple[tuple[str, tuple[str, ...]], ...] = ()
    interlace: tuple[str, str] | None = None
    """Who meets: the first accepts, the second connects."""
    stay: bool = False
    """Leave the exchange open after its fixed point, for a later step of the same two."""
    faults: tuple[Fault, ...] = ()
    ends: Ending | Code = Ending.FIXED_POINT
    """``fixed point``, or the code with which the exchange must end."""
    expect: tuple[Expectation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A whole scenario."""

    name: str
    title: str
    story: str
    now: Tai
    keys: tuple[tuple[str, str], ...]
    """Ids with the words from which the demo key is made."""
    rules: tuple[tuple[str, str], ...] = ()
    """Rules that several peers use, by name."""
    records: tuple[RecordSpec, ...]
    peers: tuple[PeerSpec, ...]
    steps: tuple[Step, ...]
    columns: tuple[str, ...] = field(default=())
    """Fields that tables show first."""

    def peer(self, id: str) -> PeerSpec:
        return next(peer for peer in self.peers if peer.id == id)

    def rules_text(self, rules: str) -> str:
        """Return the text of rules that are given by themselves or by the name of shared ones."""
        return dict(self.rules).get(rules, rules)

    def with_rules(self, peer_id: str, rules: str) -> Scenario:
        """Return the scenario with other rules for one peer."""
        return replace(
            self,
            peers=tuple(
                replace(peer, rules=rules) if peer.id == peer_id else peer for peer in self.peers
            ),
        )

    def without_records(self, hidden: frozenset[str]) -> Scenario:
        """Return the scenario in which nobody ever comes by some of the records."""

        def kept(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in names if name not in hidden)

        return replace(
            self,
            peers=tuple(replace(peer, has=kept(peer.has)) for peer in self.peers),
            steps=tuple(
                replace(
                    step,
                    store=tuple((peer, kept(names)) for peer, names in step.store),
                    forget=tuple((peer, kept(names)) for peer, names in step.forget),
                )
                for step in self.steps
            ),
        )


ENGINE_LIMITS = Limits(
    work=1 << 23, own_work=1 << 23, derived_facts=1 << 16, own_derived_facts=1 << 16,
    base_facts=1 << 18, advertised_facts=1 << 18, iterations=2000,
)  # fmt: skip
"""What the rules of a scenario may use up: enough for any story, and over in a second."""
