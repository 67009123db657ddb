"""partway.gateway.fleet.health.rules: what pings say of an instance."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.health.rules import InstanceRules, PingRules, worst
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


def test_of_several_the_first_trouble_is_told_with_its_name():
    assert worst({"pre": None, "model": None}) is None
    assert worst({"pre": "late", "model": "refused"}) == "pre: late"
    assert worst({"": "refused"}) == "refused"


def test_what_was_launched_is_lost_when_one_of_it_misses_too_many():
    rules = InstanceRules(2, (), launched=True)
    assert not rules.pinged({"pre": "late", "model": None})
    assert rules.pinged({"pre": None, "model": "refused"})
    assert rules.is_lost
    assert (rules.missed, rules.trouble) == (2, "model: refused")


def test_what_is_written_for_vertex_ai_takes_nothing_while_it_is_unhealthy_and_is_never_lost():
    rules = InstanceRules(4, (), launched=True, kept=["", "beside"])
    for _ in range(3):
        assert not rules.pinged({"": "/health was answered with status 503", "beside": None})
    assert rules.health is InstanceHealth.HEALTHY
    assert rules.pinged({"": "/health was answered with status 503", "beside": None})
    assert (rules.health, rules.is_lost) == (InstanceHealth.UNHEALTHY, False)
    assert rules.trouble == "/health was answered with status 503"
    assert rules.pinged({"": None, "beside": None})
    assert rules.health is InstanceHealth.HEALTHY


def test_what_somebody_else_runs_is_never_lost():
    rules = InstanceRules(1, ["its"], launched=True)
    assert not rules.pinged({"own": None, "its": "refused"})
    assert (rules.health, rules.trouble) == (InstanceHealth.HEALTHY, "its: refused")
    rules.pinged({"own": None, "its": None})
    assert rules.pinged({"own": None, "its": "refused"})
    assert rules.health is InstanceHealth.UNHEALTHY
    assert not rules.is_lost
    assert rules.pinged({"own": None, "its": None})
    assert (rules.health, rules.trouble) == (InstanceHealth.HEALTHY, "")


def test_nothing_launched_and_nothing_known():
    rules = InstanceRules(1, ["a", "b"], launched=False)
    assert not rules.pinged({"a": None, "b": "refused"})
    assert rules.health is InstanceHealth.UNKNOWN
    assert rules.pinged({"a": None, "b": None})
    assert rules.pinged({"a": "refused", "b": None})
    assert (rules.health, rules.is_lost, rules.missed) == (InstanceHealth.UNHEALTHY, False, 0)
