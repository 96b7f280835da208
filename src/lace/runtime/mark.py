"""The mark of a link: how things stood at its last fixed point, and on what that depended.

While nothing of it has changed, nothing has to be evaluated to know what this side advertises, and
that there is nothing to ask for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lace import b64a
from lace._version import __version__
from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import EncodingError
from lace.interlace.partition import Settled, Summary
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.text import fact_line


@dataclass(frozen=True, slots=True)
class Mark:
    """A fixed point, and the state of the store that it belongs to."""

    setting: bytes
    high_water: int
    forgets: int
    settled: Settled

    def encode(self) -> bytes:
        own, peers = self.settled.own, self.settled.peers
        content = {
            "setting": b64a.encode(self.setting),
            "stored": [self.high_water, self.forgets],
            "own": [own.count, b64a.encode(own.root)],
            "peers": [peers.count, b64a.encode(peers.root)],
        }
        return json.dumps(content, sort_keys=True).encode()

    @classmethod
    def decode(cls, text: bytes) -> Mark | None:
        """Return the mark, or None if it is none that this engine wrote."""
        try:
            content = json.loads(text)
            own, peers = (
                Summary("", int(content[side][0]), b64a.decode(content[side][1]))
                for side in ("own", "peers")
            )
            high_water, forgets = map(int, content["stored"])
            setting = b64a.decode(content["setting"])
        except (ValueError, KeyError, TypeError, IndexError, EncodingError):
            return None
        return cls(setting, high_water, forgets, Settled(own, peers))


def setting_of(
    plan: ExchangePlan,
    schema: frozenset[str] | None,
    exposure: Exposure,
    runtime: tuple[Fact, ...],
) -> bytes:
    """Return a digest of all that decides on a selection, but for the stored records."""
    modules = [*(operand.module for operand in plan.operands), *exposure.modules]
    looked_at = plan.lowering.program.base.union(*(module.program.base for module in modules))
    lines = [__version__, plan.id, plan.lowering.name, exposure.default, str(exposure.union)]
    lines += [module.id for module in modules]
    for operand in plan.operands:
        lines += [operand.source_label, operand.viewer]
    lines += ["*"] if schema is None else [f"+{name}" for name in sorted(schema)]
    lines += sorted(
        fact_line(fact[0], fact[1:]) for fact in runtime if (fact[0], len(fact) - 1) in looked_at
    )
    return digest("\n".join(lines).encode())
