"""Laces that meet again and again: what they remember saves work, and can be seen nowhere else."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from effort import examples
from stories import STORIES, Story, Telling, check_same, stored

from lace.interlace.reconcile import PeerAdverts

FOUND = (7000150, 7001237)
"""What make soak found: a record that the peer described in other words came, and was forgotten;
rules that look at several advertisements, and one of these was of a record that was forgotten."""


@pytest.mark.req(
    "050-REC-02", "050-CUR-01", "050-CUR-03", "050-EPO-02", "050-EPO-04", "050-SND-01", "050-TIC-08"
)
@pytest.mark.parametrize("seed", [*range(examples(80)), *FOUND])
def test_what_is_said_does_not_depend_on_how_it_came_to_be_known(seed: int) -> None:
    STORIES["memory"](seed)


@pytest.mark.req("050-CUR-01", "050-CUR-02", "050-COR-08", "050-EPO-01")
@pytest.mark.parametrize("seed", range(examples(60)))
def test_what_both_have_in_the_end_does_not_depend_on_memory(seed: int) -> None:
    STORIES["forgetful"](seed)


@pytest.mark.req("040-DIS-01", "050-STA-06", "050-REC-03")
@pytest.mark.parametrize("seed", range(examples(80)))
def test_what_is_hidden_changes_no_byte_and_no_moment(seed: int) -> None:
    STORIES["secret"](seed)


@pytest.mark.req("050-EPO-01", "050-EPO-02", "040-MOD-07")
@pytest.mark.parametrize("seed", range(examples(60)))
def test_a_server_may_grant_more_to_whoever_is_proven(seed: int) -> None:
    STORIES["granting"](seed)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_what_is_foreseen_of_a_peer_is_what_would_be_found_when_it_speaks(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A side foresees the table of a peer that it has sent something; nobody can see that."""
    story, telling = Story.draw(random.Random(seed)), (stored, stored)
    foreseen = Telling(story, telling).run()
    looks_ahead = PeerAdverts.take_sent

    def takes_note(self: PeerAdverts, records: Iterable[str]) -> None:
        looks_ahead(self, records)
        self._echo = None

    monkeypatch.setattr(PeerAdverts, "take_sent", takes_note)
    check_same(foreseen, Telling(story, telling).run())
