"""partway.gateway.limits: the contract's numbers."""

from __future__ import annotations

import pytest

from partway.gateway import limits
from tests.protocol.test_limits import check_limits


@pytest.mark.clause("1.1-2", "1.4-4", "1.4-5", "1.5-12", "4-6")
def test_the_numbers_of_the_contract():
    assert (limits.CLIENT_PING_INTERVAL, limits.CLIENT_PINGS_UNANSWERED) == (25, 2)
    assert limits.HTTP2_PING_INTERVAL == 60
    assert limits.STREAM_LIFETIME == 30 * 60
    assert limits.RESPONSE_LIFETIME == 8 * 60
    assert limits.CONTAINER_CONNECT_TIMEOUT == 0.25
    assert limits.CONTAINER_HANDSHAKE_TIMEOUT == limits.INVOCATION_TIMEOUT == 60
    times = (limits.CLOSE_TIMEOUT, limits.DRAIN_TIMEOUT, limits.ANSWER_SILENCE)
    assert times == (10, 3, 60)


def test_every_limit_is_positive_and_says_what_it_is():
    check_limits(limits)
