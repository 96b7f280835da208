"""Fact blocks: the control data of an exchange as text, one fact a line (G6)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lace.datalog.source import Fact, parse_facts
from lace.errors import Code, LaceError, ProtocolError
from lace.limits import DEFAULT_LIMITS, Limits
from lace.text import fact_line
from lace.vocabulary import WIRE_FACTS

#: Every predicate of the protocol with its arity; anything else makes a block malformed.
PREDICATES: Final = {predicate.name: predicate.arity for predicate in WIRE_FACTS}

_DECIMAL: Final = re.compile(r"0|[1-9][0-9]*")
_LONGEST_DECIMAL: Final = 30


def block(facts: Iterable[Fact]) -> bytes:
    """Return facts as a block, in the order given."""
    return "".join(f"{fact_line(fact[0], fact[1:])}\n" for fact in facts).encode()


def parse_block(
    content: bytes, allowed: frozenset[str], limits: Limits = DEFAULT_LIMITS
) -> list[Fact]:
    """Return the facts of a block; raise ``ProtocolError`` unless all of it is in its place."""
    facts = read_block(content, limits)
    check_facts(facts, allowed, limits)
    return facts


def read_block(content: bytes, limits: Limits = DEFAULT_LIMITS) -> list[Fact]:
    """Return the facts of a block, duplicates once; raise ``ProtocolError`` if it is malformed."""
    if len(content) > limits.max_fact_block_size:
        raise ProtocolError(
            f"a block of {len(content)} bytes, at most {limits.max_fact_block_size}",
            code=Code.INTERLACE_BLOCK_SIZE,
        )
    if content and not content.endswith(b"\n"):
        raise ProtocolError("a block ends within a line", code=Code.INTERLACE_BLOCK)
    try:
        return list(dict.fromkeys(parse_facts(content, most_problems=1)))
    except LaceError as error:
        raise ProtocolError(error.message, code=Code.INTERLACE_BLOCK) from None


def check_facts(
    facts: Iterable[Fact], allowed: frozenset[str], limits: Limits = DEFAULT_LIMITS
) -> None:
    """Raise ``ProtocolError`` unless facts are of the protocol, within limits, and in their place.

    ``allowed`` names the predicates that have a place in the phase the facts belong to.
    """
    for fact in facts:
        if PREDICATES.get(fact[0]) != len(fact) - 1:
            message = f"{fact[0]}/{len(fact) - 1} is not part of the protocol"
            raise ProtocolError(message, code=Code.INTERLACE_BLOCK)
        if sum(map(len, fact)) * 4 > limits.value_bytes and any(
            _is_longer(value, limits.value_bytes) for value in fact[1:]
        ):
            message = f"a value of more than {limits.value_bytes} bytes"
            raise ProtocolError(message, code=Code.INTERLACE_BLOCK)
        if fact[0] not in allowed:
            message = f"{fact[0]} has no place in this phase"
            raise ProtocolError(message, code=Code.INTERLACE_PHASE)


def _is_longer(value: str, limit: int) -> bool:
    return len(value) * 4 > limit and len(value.encode()) > limit


def decimal(text: str) -> int | None:
    """Return the number that canonical decimal text stands for, or None."""
    if text == "0":
        return 0  # nearly all of them
    if len(text) > _LONGEST_DECIMAL or not _DECIMAL.fullmatch(text):
        return None
    return int(text)
