"""partway.gateway.apis.kubernetes.limits: each says what it is."""

from __future__ import annotations

from partway.gateway.apis.control.limits import MAX_RESOURCES
from partway.gateway.apis.kubernetes import limits
from tests.protocol.test_limits import check_limits


def test_every_limit_is_positive_and_says_what_it_is():
    check_limits(limits)


def test_each_object_has_its_resource():
    assert limits.MAX_OBJECTS == MAX_RESOURCES
