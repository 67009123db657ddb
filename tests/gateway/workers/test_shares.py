"""Quotas, routers and connections whose counts two processes share."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.routing.router import RoutedInstance, RoutedVariant, Router
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.http.connection_admission import Crowd
from partway.gateway.network.dialling import Address
from partway.gateway.quota import NOBODY, Quota, QuotaFull, QuotaLimits
from tests.gateway.workers.rows import shared_rows


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


@pytest.fixture
def rows():
    with shared_rows(2) as rows:
        yield rows


# --- Quotas --------------------------------------------------------------------------------------


@pytest.fixture
def quotas(rows):
    return [Quota(QuotaLimits(5, 3), each, "streams") for each in rows]


def test_a_total_holds_over_both(quotas):
    one, other = quotas
    one.take(2, NOBODY)
    other.take(3, NOBODY)
    for each in quotas:
        with pytest.raises(QuotaFull, match="5 of 5"):
            each.take(1, NOBODY)
    one.give_back(1, NOBODY)
    other.take(1, NOBODY)


def test_a_share_holds_over_both(quotas):
    one, other = quotas
    one.take(2, "me")
    other.take(1, "me")
    with pytest.raises(QuotaFull, match="'me': 3 of 3"):
        other.take(1, "me")
    other.take(1, "you")
    one.give_back(2, "me")
    other.take(2, "me")
    other.check(1, "you")


def test_quotas_of_other_names_count_for_themselves(rows):
    one, other = Quota(QuotaLimits(1, 1), rows[0], "a"), Quota(QuotaLimits(1, 1), rows[1], "b")
    one.take(1, NOBODY)
    other.take(1, NOBODY)


# --- Routers -------------------------------------------------------------------------------------


@pytest.fixture
def routers(rows):
    policy = StreamPolicy()
    instances = tuple(
        RoutedInstance(each, Place("e", Address("h", number), policy, "A"))
        for number, each in enumerate("abc")
    )
    made = [Router(random.Random(3), each) for each in rows]
    for each in made:
        each.update("e", (RoutedVariant("A", 1.0, instances),))
    return made


def test_each_router_sees_the_others_leases(routers):
    leases = [routers[number % 2].lease("e") for number in range(12)]
    assert Counter(each.instance.id for each in leases) == {"a": 4, "b": 4, "c": 4}
    for each in leases:
        if each.instance.id == "a":
            each.give_back()
    assert {routers[number % 2].lease("e").instance.id for number in range(4)} == {"a"}


def test_a_failed_instance_is_left_for_another(routers):
    lease = routers[0].lease("e")
    first = lease.instance.id
    assert lease.move()
    assert lease.instance.id != first


def test_an_instance_is_idle_when_nobody_has_it_or_may_choose_it(routers):
    one, other = routers
    load = one.load("a")
    told = []
    load.on_idle = lambda: told.append(1)
    lease = other.lease("e")
    while lease.instance.id != "a":
        lease = other.lease("e")
    assert not load.is_idle
    assert (load.streams, load.requests) == (other.load("a").streams, 0)
    for each in list(other.load("a").leases):
        each.give_back()
    load.check_idle()
    one.choosers["a"] = 1
    load.check_idle()
    assert (load.is_idle, told) == (False, [1])
    one.choosers["a"] = 0
    load.check_idle()
    assert (load.is_idle, told) == (True, [1, 1])


def test_a_principals_name_is_no_instances(rows):
    quota = Quota(QuotaLimits(5, 3), rows[0], "streams")
    for owner in ("on a", "a streams", "instance a"):
        quota.take(1, owner)
    assert Router(counts=rows[1]).load("a").open == 0


def test_a_lease_that_ends_costs_a_worker_no_sum(routers, rows, monkeypatch):
    """A worker has nothing that waits until nothing is open anywhere."""
    load = routers[0].load("a")
    load.on_emptied = lambda: None
    lease = routers[0].lease("e")
    while lease.instance.id != "a":
        lease = routers[0].lease("e")
    monkeypatch.setattr(rows[0], "total", lambda _: pytest.fail("a sum"))
    lease.give_back()
    assert not load.leases


# --- Connections ---------------------------------------------------------------------------------


def test_connections_count_over_both(rows):
    dropped = []
    one, other = (Crowd(4, 3, counts=each) for each in rows)
    visitors = [each.enter("A", lambda: dropped.append(1)) for each in (one, other, one)]
    for each in visitors:
        each.begun()
    assert other.enter("A", lambda: None).reserved  # the share of one address
    last = other.enter("B", lambda: None)
    assert not last.reserved
    last.begun()
    assert other.enter("C", lambda: None).reserved  # all places, and none is idle
    visitors[0].ended()
    visitors[0].leave()
    assert not other.enter("C", lambda: None).reserved
    assert dropped == []
