"""partway.gateway.fleet.health: what pings say of an instance."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.health import PingRules
from partway.gateway.fleet.status import InstanceHealth


@pytest.mark.clause("1.1-2")
def test_three_misses_in_a_row_are_one_too_many():
    rules = PingRules(3, answered=True)
    said = [rules.pinged(trouble) for trouble in ("slow", "slow", None, "slow", "slow", "away")]
    assert said == [False, False, False, False, False, True]
    assert rules.health is InstanceHealth.UNHEALTHY
    assert (rules.missed, rules.trouble) == (3, "away")
    assert not rules.pinged("away")


def test_one_answer_and_it_is_healthy():
    rules = PingRules(1, answered=True)
    assert rules.pinged("away")
    assert rules.pinged(None)
    assert rules.health is InstanceHealth.HEALTHY
    assert (rules.missed, rules.trouble) == (0, "")


def test_what_never_answered_may_have_no_ping():
    rules = PingRules(3, answered=False)
    assert not any(rules.pinged("/ping was answered with status 404") for _ in range(10))
    assert rules.health is InstanceHealth.UNKNOWN
    assert rules.pinged(None)
    assert [rules.pinged("away") for _ in range(3)] == [False, False, True]
