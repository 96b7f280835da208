"""Where the machinery of an exchange goes another way because something is large.

Nothing here can be seen in what both sides end up with. All of it is in one value, so that a test
can make a machine believe that nine records are many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lace.interlace.partition import STANDARD_PREFIX
from lace.limits import MIB

_SUMMARY_BYTES: Final = 150
_CHILDREN_BYTES: Final = 64 * _SUMMARY_BYTES  # of the summaries that a partition is narrowed to
_REQUEST_BYTES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The sizes at which an exchange chooses between ways."""

    list_up_to: int = 8
    """A listing of so many costs less than another round trip."""
    summarize_up_to: int = 8
    """So many changed partitions are told one by one if what is new does not lead to the table."""
    tell_at_once: int = 10_000
    """Advertisements that are told as new before anybody asked for them."""
    sketch_from: int = 64
    """Tables of so many records are worth a sketch."""
    sketch_block: int = 4 * MIB
    """A block of so many bytes has room for any sketch."""
    list_at_once: int = 20_000
    """Advertisements that are asked for, and held in memory, at one time."""
    advert_bytes: int = 1024
    """What an advertisement is taken to need in a block, before anybody has seen it."""
    hold_cut_bytes: int = 1 << 16
    """An advertisement that was cut waits for its rest; a longer one is read fact by fact."""
    describe_at_once: int = 1000
    request_at_once: int = 100_000
    place_from: int = 8
    """So many requests at once are said by place where they can be; fewer are said in full."""
    serve_at_once: int = 256
    save_at_once: int = 1024
    validate_at_once: int = 256
    """Records of one job: several threads share what is saved at once."""
    foresee_from: int = 256
    """After so many were sent, what the peer will say is found out while it is busy with them."""
    hold_bytes: int = 4 * MIB
    """Record bytes held in memory at one time, either way; as much again while it is stored."""
    hold_fresh_bytes: int = 8 * MIB
    """About how much is kept at hand of records from being stored until they are evaluated."""
    note_up_to: int = 20_000
    """Advertisements that are held from being decided on until they are listed; not of more."""
    answer_at_once: int = 5000
    """Records in one part of an answer about policy."""
    put_at_once: int = 32_768
    """Records that are put into a table together: it makes anew what they touch, once for all."""
    scan_from: int = 1000
    """Fewer records are looked for one by one; more may be found by going through all of them."""
    most_guards: int = 1000
    """With more records on which all others depend, a policy is held in memory."""
    standard_prefix: int = STANDARD_PREFIX
    """The length of prefixes of standard partitions; both sides must have the same."""

    # A block is all that a side says in a phase. Answers get half of it each: listings, summaries.

    def listed_at_once(self, limits: Mapping[str, int]) -> int:
        """Return how many advertisements may be asked for in one phase."""
        fitting = limits["max_fact_block_size"] // (2 * self.advert_bytes)
        most = limits["max_advertisement_records_listed"]
        return min(self.list_at_once, most, max(1, fitting))

    def narrowed_at_once(self, limits: Mapping[str, int]) -> int:
        """Return how many partitions may be narrowed in one phase."""
        return max(1, limits["max_fact_block_size"] // (2 * _CHILDREN_BYTES))

    def lists_beside(self, limits: Mapping[str, int]) -> bool:
        """Return whether a listing has room beside the summaries of a narrowed partition."""
        return limits["max_fact_block_size"] >= 2 * _CHILDREN_BYTES

    def summarized_at_once(self, limits: Mapping[str, int]) -> int:
        """Return how many summaries may be told in one phase."""
        return limits["max_fact_block_size"] // _SUMMARY_BYTES

    def requested_at_once(self, limits: Mapping[str, int]) -> int:
        """Return how many records may be requested in one phase."""
        fitting = limits["max_fact_block_size"] // _REQUEST_BYTES
        return min(self.request_at_once, max(1, fitting))


DEFAULT_PARAMETERS: Final = Parameters()
