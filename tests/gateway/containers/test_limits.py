"""partway.gateway.containers.limits: what others close, and what is parsed at a time."""

from __future__ import annotations

from partway.gateway.containers import limits
from tests.protocol.test_limits import check_limits


def test_numbers_that_depend_on_each_other():
    assert limits.CONTAINER_IDLE_TIMEOUT < 2  # gunicorn's
    assert limits.ANSWER_TURN_BYTES <= limits.WHOLE_CHUNK_BYTES


def test_every_limit_is_positive_and_says_what_it_is():
    check_limits(limits)
