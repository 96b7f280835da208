"""Seeded exchanges: honest pairs reach the fixed point of a naive model, hostile ones harm nobody."""

from __future__ import annotations

import pytest
from effort import examples
from liars import LIARS
from simulator import SIMULATIONS


@pytest.mark.req("050-DRV-01", "050-BND-01", "050-COR-02", "000-SYN-01", "000-SYN-03")
@pytest.mark.parametrize("seed", range(examples(100)))
def test_honest_pairs_reach_the_fixed_point_of_the_definition(seed: int) -> None:
    SIMULATIONS["honest"](seed)


@pytest.mark.req("050-DRV-01", "050-COR-02")
@pytest.mark.parametrize("seed", range(examples(100)))
def test_sketches_that_miss_change_the_way_and_nothing_else(seed: int) -> None:
    SIMULATIONS["sketched"](seed)


@pytest.mark.req("050-ERR-17", "050-DRV-05", "050-OPN-04")
@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_connection_that_breaks_loses_nothing(seed: int) -> None:
    SIMULATIONS["broken"](seed)


@pytest.mark.req("050-STA-07", "050-COR-06", "050-ERR-17", "050-XFR-06", "050-STA-05")
@pytest.mark.parametrize("seed", range(examples(200)))
def test_a_hostile_peer_ends_its_own_exchange_and_nothing_else(seed: int) -> None:
    SIMULATIONS["hostile"](seed)


@pytest.mark.req("050-STA-07", "050-COR-06", "050-ERR-17")
@pytest.mark.parametrize("seed", range(examples(100)))
def test_a_peer_that_lies_about_tables_and_sketches_ends_its_own_exchange(seed: int) -> None:
    SIMULATIONS["misled"](seed)


@pytest.mark.req("050-ADF-04", "050-STA-04")
@pytest.mark.parametrize("seed", range(examples(100)))
def test_a_peer_that_advertises_falsely_gets_nothing_in_that_rules_refuse(seed: int) -> None:
    SIMULATIONS["dressed"](seed)


@pytest.mark.req("050-OPN-01", "050-OPN-02", "050-STA-01")
@pytest.mark.parametrize("seed", range(examples(40)))
def test_three_laces_converge_in_open_exchanges(seed: int) -> None:
    SIMULATIONS["open"](seed)


@pytest.mark.req("040-DIS-01", "050-REC-03", "050-STA-06")
@pytest.mark.parametrize("seed", range(examples(60)))
def test_what_crosses_does_not_depend_on_hidden_records(seed: int) -> None:
    SIMULATIONS["hidden"](seed)


@pytest.mark.req("050-BND-03", "050-BND-05", "050-SND-04", "050-LIM-07")
@pytest.mark.parametrize("seed", range(examples(150)))
def test_writers_that_never_rest_fail_nobody(seed: int) -> None:
    SIMULATIONS["busy"](seed)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_a_server_that_lies_gets_nothing_and_leaves_nothing(seed: int) -> None:
    LIARS["lying"](seed)
