"""partway.gateway.operator.deletion_costs: few writes, and the first and the last stream show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.operator.deletion_costs import (
    COST,
    DeletionCosts,
    changed_annotations,
    cost_of,
    shown_cost,
)
from partway.gateway.operator.limits import COST_FALLS_AFTER, MAX_COST

EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
KARPENTER = "karpenter.sh/do-not-disrupt"
BUSY = {COST: "4", EVICT: "false", KARPENTER: "true"}

COSTS = st.sampled_from([0, *(1 << power for power in range(31))])


@given(st.integers(0, 1 << 40), COSTS)
def test_a_cost_is_a_power_of_two_near_the_streams(streams, shown):
    cost = cost_of(streams, shown)
    assert (cost == 0) == (streams == 0)
    assert cost & (cost - 1) == 0
    assert cost <= MAX_COST < 1 << 31
    if 0 < streams < MAX_COST:
        assert cost / 2 < streams < 2 * cost
    assert cost_of(streams, cost) == cost, "a cost that was written stays"


def test_a_stream_more_or_less_changes_nothing():
    assert [cost_of(streams, 8) for streams in (4, 5, 15, 16)] == [4, 8, 8, 16]
    assert [cost_of(streams, 0) for streams in (0, 1, 2, 3, 4, 7, 8)] == [0, 1, 2, 2, 4, 4, 8]
    assert [cost_of(streams, 1) for streams in (0, 1, 2)] == [0, 1, 2]


@given(COSTS, COSTS)
def test_more_streams_cost_more(one, other):
    """Two pods that differ by a factor of four are told apart, whatever they show."""
    for streams in (1, 5, 100):
        assert cost_of(streams, one) < cost_of(4 * streams, other)


@pytest.mark.parametrize(
    ("annotations", "cost"),
    [({}, 0), ({COST: "16"}, 16), ({COST: "-1"}, 0), ({COST: "x"}, 0), ({COST: "9" * 5000}, 0)],
)
def test_the_cost_that_a_pod_shows(annotations, cost):
    assert shown_cost(annotations) == cost


@pytest.mark.parametrize(
    ("annotations", "cost", "expected"),
    [
        ({}, 4, BUSY),
        ({"own": "x", **BUSY}, 4, {}),
        (BUSY, 8, {COST: "8"}),
        ({COST: "4"}, 4, {EVICT: "false", KARPENTER: "true"}),
        (BUSY, 0, dict.fromkeys(BUSY)),
        ({COST: "0"}, 0, {COST: None}),
        ({EVICT: "false"}, 0, {}),  # another has written it
    ],
)
def test_only_changes_are_written(annotations, cost, expected):
    assert changed_annotations(annotations, cost, stays=True) == expected


def test_others_say_whether_a_gateway_may_be_moved():
    assert changed_annotations({EVICT: "true"}, 4, stays=False) == {COST: "4"}
    assert changed_annotations({EVICT: "true", COST: "4"}, 0, stays=False) == {COST: None}


def test_a_rise_shows_at_once_and_a_fall_later():
    costs = DeletionCosts()
    assert costs.cost("a", 0, 1, 0) == 1
    assert costs.cost("a", 1, 0, 10) == 1
    assert costs.cost("a", 1, 1, 20) == 1  # busy again in between
    assert costs.cost("a", 1, 0, 30) == 1
    assert costs.cost("a", 1, 0, 29 + COST_FALLS_AFTER) == 1
    assert costs.cost("a", 1, 0, 30 + COST_FALLS_AFTER) == 0
    assert costs.cost("a", 16, 3, 200) == 16
    assert costs.cost("a", 16, 32, 210) == 32
    assert costs.cost("a", 32, 3, 220) == 32
    assert costs.cost("a", 32, 4, 220 + COST_FALLS_AFTER) == 4


def test_pods_that_are_gone_are_forgotten():
    costs = DeletionCosts()
    for uid in ("a", "b"):
        assert costs.cost(uid, 1, 0, 0) == 1
    costs.keep_only(["b"])
    assert costs.cost("a", 1, 0, COST_FALLS_AFTER) == 1
    assert costs.cost("b", 1, 0, COST_FALLS_AFTER) == 0
