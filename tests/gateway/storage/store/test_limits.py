"""partway.gateway.storage.store.limits: how much a store takes."""

from __future__ import annotations

from partway.gateway.storage.store import limits
from tests.protocol.test_limits import check_limits


def test_numbers_that_depend_on_each_other():
    assert limits.MAX_RECORD_BYTES + limits.STORE_LOG_BYTES < limits.MAX_STORED_BYTES


def test_every_limit_is_positive_and_says_what_it_is():
    check_limits(limits)
