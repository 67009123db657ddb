"""The budgets of those who have not shown who they are."""

from __future__ import annotations

import asyncio
import logging

import pytest

from partway.gateway.limits import (
    STRANGER_BURST,
    STRANGER_CONNECTION,
    STRANGER_MOST,
    STRANGER_REQUEST,
    STRANGER_SHARE,
    STRANGER_TLS,
)
from partway.gateway.serving.strangers import Strangers, Visitor, uncounted
from tests.gateway.streams.fakes import FakeClock

ADDRESS, ANOTHER = "192.0.2.1", "192.0.2.2"


class Gate:
    """Strangers, and the connections that were let on, in their order."""

    def __init__(self, **options):
        self.clock = FakeClock()
        self.strangers = Strangers(self.clock, **options)
        self.let_on = []

    def visitor(self, address=ADDRESS):
        return self.strangers.visitor(address)

    def spend(self, visitor, seconds):
        """So many CPU seconds go to refusals."""
        while seconds > 1e-9:
            one = min(seconds, STRANGER_REQUEST + STRANGER_MOST)
            if one <= STRANGER_REQUEST:
                visitor.draw(one)
            else:
                visitor.asked().cost(one - STRANGER_REQUEST)
            seconds -= one

    def waits(self, visitor):
        """Whether it has to; if so, it is noted when it is let on."""
        return visitor.has_to_wait(lambda: self.let_on.append(visitor)) is not None


@pytest.fixture
def gate():
    return Gate()


def test_within_the_budget_nobody_waits(gate):
    visitor = gate.visitor()
    gate.spend(visitor, STRANGER_BURST)
    assert not gate.waits(visitor)
    assert not visitor.overdrawn


def test_beyond_it_a_connection_waits_until_nothing_is_owed(gate):
    visitor = gate.visitor()
    gate.spend(visitor, STRANGER_BURST + 0.1)
    assert gate.waits(visitor)
    gate.clock.advance(0.1 / STRANGER_SHARE - 0.01)
    assert gate.let_on == []
    gate.clock.advance(0.02)
    assert gate.let_on == [visitor]
    assert not gate.waits(visitor)


def test_a_new_connection_does_not_refill_it(gate):
    for _ in range(100):
        visitor = gate.visitor()
        gate.spend(visitor, STRANGER_BURST / 50)
        visitor.left(encrypted=False)
    assert gate.waits(gate.visitor())
    assert not gate.waits(gate.visitor(ANOTHER))


def test_they_go_on_in_their_order_one_after_the_other(gate):
    """Each is read, and its requests are drawn, before the next one is looked at."""
    visitors = [gate.visitor() for _ in range(4)]
    gate.spend(visitors[0], STRANGER_BURST + 0.001)

    def go_on(visitor):
        gate.let_on.append(visitor)
        gate.spend(visitor, STRANGER_SHARE)  # it takes a second to come back

    for visitor in visitors:
        assert visitor.has_to_wait(lambda visitor=visitor: go_on(visitor))
    for count in range(1, 5):
        gate.clock.advance(1.0)
        assert gate.let_on == visitors[:count]


def test_who_comes_while_others_wait_goes_behind_them(gate):
    first, second = gate.visitor(), gate.visitor()
    gate.spend(first, STRANGER_BURST + 0.1)
    assert gate.waits(first)
    assert gate.waits(second)
    gate.clock.advance(10)
    assert gate.let_on == [first, second]
    assert not gate.clock.armed


def test_a_place_can_be_given_up(gate):
    visitor = gate.visitor()
    gate.spend(visitor, STRANGER_BURST + 0.1)
    place = visitor.has_to_wait(lambda: gate.let_on.append(visitor))
    assert gate.waits(gate.visitor())
    place.cancel()
    place.cancel()
    gate.clock.advance(10)
    assert visitor not in gate.let_on
    assert len(gate.let_on) == 1


def test_who_is_known_never_waits(gate):
    friend = gate.visitor()
    friend.asked().recognised()
    gate.spend(gate.visitor(), 10)
    assert not gate.waits(friend)
    assert gate.waits(gate.visitor())


def test_what_was_drawn_for_a_request_is_given_back_once_it_is_known_who_sends_it(gate):
    for _ in range(100_000):
        visitor = gate.visitor()
        visitor.asked().recognised()
        visitor.left(encrypted=True)
    assert not gate.waits(gate.visitor())


def test_part_is_drawn_before_anything_is_refused(gate):
    """Thousands of connections may be read before the first request is looked at."""
    visitors = [gate.visitor() for _ in range(10 * round(STRANGER_BURST / STRANGER_REQUEST))]
    read = 0
    for visitor in visitors:
        if not gate.waits(visitor):
            visitor.asked()
            read += 1
    assert read == pytest.approx(STRANGER_BURST / STRANGER_REQUEST, abs=2)


def test_what_somebody_known_asks_in_vain_counts_against_the_connection(gate):
    visitor = gate.visitor()
    visitor.asked().recognised()
    gate.spend(visitor, STRANGER_BURST + 0.01)
    assert visitor.overdrawn
    assert not gate.waits(visitor)
    gate.clock.advance(0.1 / STRANGER_SHARE)
    assert not visitor.overdrawn


def test_an_address_that_stands_for_many_has_no_budget_and_its_connections_do():
    gate = Gate(shared=lambda address: address == ADDRESS)
    visitor = gate.visitor()
    gate.spend(visitor, STRANGER_BURST + 1)
    assert visitor.overdrawn
    assert not gate.waits(visitor)
    assert not gate.waits(gate.visitor())


def test_a_refusal_that_took_long_counts_within_bounds(gate):
    """The machine's other work may be in it."""
    visitor = gate.visitor()
    visitor.asked().cost(1000.0)
    assert not visitor.overdrawn


@pytest.mark.parametrize(
    ("encrypted", "cost"),
    [(False, STRANGER_CONNECTION), (True, STRANGER_CONNECTION + STRANGER_TLS)],
    ids=["clear", "TLS"],
)
def test_a_connection_costs_something_too(gate, encrypted, cost):
    count = round(STRANGER_BURST / cost)
    for _ in range(count - 1):
        visitor = gate.visitor()
        for _ in range(2):
            visitor.left(encrypted=encrypted)  # counted once
    assert not gate.waits(gate.visitor())
    for _ in range(2):
        gate.visitor().left(encrypted=encrypted)
    assert gate.waits(gate.visitor())


@pytest.mark.parametrize(
    ("address", "other", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::9", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "", True),
    ],
)
def test_whose_address_is_whose(gate, address, other, same):
    """An IPv6 site may choose half of it."""
    gate.spend(gate.visitor(address), STRANGER_BURST + 1)
    assert gate.waits(gate.visitor(other)) is same


def test_only_so_many_addresses_are_remembered():
    """Those drawn on last."""
    gate = Gate(addresses=2)
    gate.spend(gate.visitor("a"), STRANGER_BURST + 1)
    gate.visitor("b")
    assert gate.waits(gate.visitor("a"))
    gate.visitor("c")
    assert gate.waits(gate.visitor("a"))
    gate.visitor("b")
    gate.visitor("c")
    assert not gate.waits(gate.visitor("a"))


def test_the_log_says_so_once_a_second_at_most(gate, caplog):
    visitor = gate.visitor()
    gate.spend(visitor, STRANGER_BURST + 1)
    for _ in range(5):
        assert gate.waits(gate.visitor())
    with caplog.at_level(logging.WARNING):
        gate.clock.advance(60)
    assert [record.msg.fields for record in caplog.records] == [{"peer": ADDRESS}]


async def test_a_task_waits_for_its_turn(gate):
    visitor = gate.visitor()
    await visitor.turn()
    gate.spend(visitor, STRANGER_BURST + 0.1)
    waiting = asyncio.create_task(visitor.turn())
    given_up = asyncio.create_task(gate.visitor().turn())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.clock.advance(1)
    await waiting
    assert not gate.clock.armed


def test_where_nothing_is_counted_nothing_is_spent():
    visitor = uncounted()
    assert isinstance(visitor, Visitor)
    for _ in range(1000):
        visitor.asked().cost(1.0)
    assert not visitor.overdrawn
    assert visitor.has_to_wait(print) is None
    visitor.asked().recognised()
    visitor.left(encrypted=True)
