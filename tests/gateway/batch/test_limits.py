"""partway.gateway.batch.limits: the API's numbers, and those that depend on one another."""

from __future__ import annotations

from partway.gateway.batch import limits
from tests.protocol.test_limits import check_limits


def test_the_numbers_of_the_api():
    assert (limits.PAYLOAD_MB, limits.MAX_PAYLOAD_MB, limits.CONCURRENT) == (6, 100, 1)
    assert (limits.INVOCATION_TIMEOUT, limits.MAX_INVOCATION_TIMEOUT) == (600, 3600)
    assert (limits.RETRIES, limits.MAX_RETRIES, limits.MAX_FILTER) == (3, 3, 63)


def test_every_limit_is_positive_and_says_what_it_is():
    check_limits(limits)
