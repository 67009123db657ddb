"""partway.gateway.apis.control.limits: each says what it is."""

from __future__ import annotations

from partway.gateway.apis.control import limits
from tests.protocol.test_limits import check_limits


def test_every_limit_is_positive_and_says_what_it_is():
    check_limits(limits)
