"""partway.gateway.http.body_quota: one budget, and what one owner may have of it."""

from __future__ import annotations

import pytest

from partway.gateway.http.body_quota import HeldBytes
from partway.gateway.quota import Quota, QuotaLimits
from partway.protocol.errors import ServiceUnavailable


def test_all_of_them_together_have_so_much():
    budget = Quota(QuotaLimits(10, 10))
    first, second = HeldBytes(budget, ("a",)), HeldBytes(budget, ("b",))
    first.draw(4)
    first.draw(2)
    second.draw(4)
    with pytest.raises(ServiceUnavailable, match=r"hold the 10 bytes .* \(max_gathered_bytes\)"):
        second.draw(1)
    assert budget.used == 10
    first.give_back()
    first.give_back()
    second.draw(6)
    assert budget.used == 10


def test_each_owner_has_its_share():
    budget = Quota(QuotaLimits(10, 5))
    one, other = HeldBytes(budget, ("address a",)), HeldBytes(budget, ("address b",))
    proxys = HeldBytes(budget)
    one.also_of("access key K")
    other.also_of("access key K")
    one.draw(3)
    with pytest.raises(
        ServiceUnavailable, match="of access key K hold the 5 bytes that one sender may"
    ):
        other.draw(3)
    other.draw(2)
    with pytest.raises(ServiceUnavailable, match="of address a hold"):
        HeldBytes(budget, ("address a",)).draw(3)
    proxys.draw(5)
    for each in (one, other, proxys):
        each.give_back()
    assert budget.used == 0
    assert budget.used_by("address a") == budget.used_by("access key K") == 0


def test_owners_are_known_before_a_byte_is_drawn():
    held = HeldBytes(Quota(QuotaLimits(10, 5)))
    held.draw(1)
    with pytest.raises(AssertionError):
        held.also_of("address a")


def test_a_budget_without_end():
    held = HeldBytes(None)
    held.draw(1 << 60)
    held.give_back()
