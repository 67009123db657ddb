"""partway.gateway.fleet.limits: the contract's numbers, and those that depend on one another."""

from __future__ import annotations

import pytest

from partway.gateway.fleet import limits
from partway.protocol.limits import SHUTDOWN_GRACE, SHUTDOWN_HARD, SHUTDOWN_SPREAD
from tests.protocol.test_limits import check_limits


@pytest.mark.clause("1.1-1", "1.1-2", "1.1-3")
def test_the_numbers_of_the_contract():
    assert limits.START_TIMEOUT == 8 * 60
    assert limits.STOP_GRACE == 30
    assert limits.PING_TIMEOUT == 2


def test_numbers_that_depend_on_each_other():
    assert limits.STARTUP_PING_SHORTEST < limits.STARTUP_PING_LONGEST
    # A drain is over before the SIGKILL (clause 1.1-1).
    assert SHUTDOWN_GRACE + SHUTDOWN_SPREAD + SHUTDOWN_HARD < limits.STOP_GRACE


def test_every_limit_is_positive_and_says_what_it_is():
    check_limits(limits)
