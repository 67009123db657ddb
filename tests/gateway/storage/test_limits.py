"""partway.gateway.storage.limits: the form of the limits."""

from __future__ import annotations

from partway.gateway.storage import limits
from tests.protocol.test_limits import check_limits


def test_limits():
    check_limits(limits)
