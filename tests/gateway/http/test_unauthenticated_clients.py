"""The budgets of those who have not shown who they are."""

from __future__ import annotations

import asyncio
import logging

import pytest

from partway.gateway.http.unauthenticated_clients import Account, Strangers, uncharged
from partway.gateway.limits import (
    STRANGER_BURST,
    STRANGER_CONNECTION,
    STRANGER_DEBT,
    STRANGER_MOST,
    STRANGER_REQUEST,
    STRANGER_SHARE,
    STRANGER_TLS,
)
from tests.gateway.streams.fakes import FakeClock

ADDRESS, ANOTHER = "192.0.2.1", "192.0.2.2"


class Gate:
    """Strangers, and the connections that were let on, in their order."""

    def __init__(self, **options):
        self.clock = FakeClock()
        self.strangers = Strangers(self.clock, **options)
        self.let_on = []

    def account(self, address=ADDRESS):
        return self.strangers.account(address)

    def spend(self, account, seconds):
        """So many CPU seconds go to refusals."""
        while seconds > 1e-9:
            one = min(seconds, STRANGER_REQUEST + STRANGER_MOST)
            if one <= STRANGER_REQUEST:
                account.draw(one)
            else:
                account.asked().cost(one - STRANGER_REQUEST)
            seconds -= one

    def waits(self, account):
        """Whether it has to; if so, it is noted when it is let on."""
        return account.has_to_wait(lambda: self.let_on.append(account)) is not None


@pytest.fixture
def gate():
    return Gate()


def test_within_the_budget_nobody_waits(gate):
    account = gate.account()
    gate.spend(account, STRANGER_BURST)
    assert not gate.waits(account)
    assert not account.overdrawn


def test_beyond_it_a_connection_waits_until_nothing_is_owed(gate):
    account = gate.account()
    gate.spend(account, STRANGER_BURST + 0.1)
    assert gate.waits(account)
    gate.clock.advance(0.1 / STRANGER_SHARE - 0.01)
    assert gate.let_on == []
    gate.clock.advance(0.02)
    assert gate.let_on == [account]
    assert not gate.waits(account)


def test_a_new_connection_does_not_refill_it(gate):
    for _ in range(100):
        account = gate.account()
        gate.spend(account, STRANGER_BURST / 50)
        account.left(encrypted=False)
    assert gate.waits(gate.account())
    assert not gate.waits(gate.account(ANOTHER))


def test_they_go_on_in_their_order_one_after_the_other(gate):
    """Each is read, and its requests are drawn, before the next one is looked at."""
    accounts = [gate.account() for _ in range(4)]
    gate.spend(accounts[0], STRANGER_BURST + 0.001)

    def go_on(account):
        gate.let_on.append(account)
        gate.spend(account, STRANGER_SHARE)  # it takes a second to come back

    for account in accounts:
        assert account.has_to_wait(lambda account=account: go_on(account))
    for count in range(1, 5):
        gate.clock.advance(1.0)
        assert gate.let_on == accounts[:count]


def test_who_comes_while_others_wait_goes_behind_them(gate):
    first, second = gate.account(), gate.account()
    gate.spend(first, STRANGER_BURST + 0.1)
    assert gate.waits(first)
    assert gate.waits(second)
    gate.clock.advance(10)
    assert gate.let_on == [first, second]
    assert not gate.clock.armed


def test_who_was_let_on_and_is_still_unknown_goes_behind_those_who_were_not(gate):
    """So a thousand connections that go on asking in vain do not stand before a newcomer."""
    stranger, newcomer = gate.account(), gate.account()
    gate.spend(stranger, STRANGER_BURST + 0.1)
    assert gate.waits(stranger)
    gate.clock.advance(0.1 / STRANGER_SHARE + 0.01)
    assert not gate.waits(stranger)
    gate.spend(stranger, 0.1)
    assert gate.waits(stranger)
    assert gate.waits(newcomer)
    gate.clock.advance(10)
    assert gate.let_on == [stranger, newcomer, stranger]


def test_what_is_wrong_with_one_connection_does_not_hold_the_others(gate):
    first, second = gate.account(), gate.account()
    gate.spend(first, STRANGER_BURST + 0.1)

    def fail():
        raise ZeroDivisionError

    assert first.has_to_wait(fail)
    assert gate.waits(second)
    with pytest.raises(ZeroDivisionError):
        gate.clock.advance(10)
    gate.clock.advance(1)
    assert gate.let_on == [second]


def test_an_address_goes_on_soon_after_however_long_an_attack_was(gate):
    for _ in range(10_000):
        gate.account().left(encrypted=True)
    account = gate.account()
    assert gate.waits(account)
    gate.clock.advance(STRANGER_DEBT / STRANGER_SHARE + 0.01)
    assert gate.let_on == [account]


def test_who_asks_in_vain_without_a_name_is_not_known_for_it(gate):
    account = gate.account()
    gate.spend(account, STRANGER_BURST + 0.1)
    visit = account.asked()
    visit.recognised()
    assert not gate.waits(account)
    visit.in_vain()
    assert gate.waits(account)


def test_a_place_can_be_given_up(gate):
    account = gate.account()
    gate.spend(account, STRANGER_BURST + 0.1)
    place = account.has_to_wait(lambda: gate.let_on.append(account))
    assert gate.waits(gate.account())
    place.cancel()
    place.cancel()
    gate.clock.advance(10)
    assert account not in gate.let_on
    assert len(gate.let_on) == 1


def test_who_is_known_never_waits(gate):
    friend = gate.account()
    friend.asked().recognised()
    gate.spend(gate.account(), 10)
    assert not gate.waits(friend)
    assert gate.waits(gate.account())


def test_what_was_drawn_for_a_request_is_given_back_once_it_is_known_who_sends_it(gate):
    for _ in range(100_000):
        account = gate.account()
        account.asked().recognised()
        account.left(encrypted=True)
    assert not gate.waits(gate.account())


def test_part_is_drawn_before_anything_is_refused(gate):
    """Thousands of connections may be read before the first request is looked at."""
    accounts = [gate.account() for _ in range(10 * round(STRANGER_BURST / STRANGER_REQUEST))]
    read = 0
    for account in accounts:
        if not gate.waits(account):
            account.asked()
            read += 1
    assert read == pytest.approx(STRANGER_BURST / STRANGER_REQUEST, abs=2)


def test_what_somebody_known_asks_in_vain_counts_against_the_connection(gate):
    account = gate.account()
    account.asked().recognised()
    gate.spend(account, STRANGER_BURST + 0.01)
    assert account.overdrawn
    assert not gate.waits(account)
    gate.clock.advance(0.1 / STRANGER_SHARE)
    assert not account.overdrawn


def test_an_address_that_stands_for_many_has_no_budget_and_its_connections_do():
    gate = Gate(shared=lambda address: address == ADDRESS)
    account = gate.account()
    gate.spend(account, STRANGER_BURST + 1)
    assert account.overdrawn
    assert not gate.waits(account)
    assert not gate.waits(gate.account())


def test_a_refusal_that_took_long_counts_within_bounds(gate):
    """The machine's other work may be in it."""
    account = gate.account()
    account.asked().cost(1000.0)
    assert not account.overdrawn


def test_what_is_refused_behind_a_request_of_somebody_known_is_measured_from_the_second_on(gate):
    account = gate.account()
    assert account.measured
    account.asked().recognised()
    assert not account.measured
    account.asked().cost(0.0)
    assert account.measured


@pytest.mark.parametrize(
    ("encrypted", "cost"),
    [(False, STRANGER_CONNECTION), (True, STRANGER_CONNECTION + STRANGER_TLS)],
    ids=["clear", "TLS"],
)
def test_a_connection_costs_something_too(gate, encrypted, cost):
    count = round(STRANGER_BURST / cost)
    for _ in range(count - 1):
        account = gate.account()
        for _ in range(2):
            account.left(encrypted=encrypted)  # counted once
    assert not gate.waits(gate.account())
    for _ in range(2):
        gate.account().left(encrypted=encrypted)
    assert gate.waits(gate.account())


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
    gate.spend(gate.account(address), STRANGER_BURST + 1)
    assert gate.waits(gate.account(other)) is same


def test_only_so_many_addresses_are_remembered():
    """Those drawn on last."""
    gate = Gate(addresses=2)
    gate.spend(gate.account("a"), STRANGER_BURST + 1)
    gate.account("b")
    assert gate.waits(gate.account("a"))
    gate.account("c")
    assert gate.waits(gate.account("a"))
    gate.account("b")
    gate.account("c")
    assert not gate.waits(gate.account("a"))


def test_the_log_says_so_once_a_second_at_most(gate, caplog):
    account = gate.account()
    gate.spend(account, STRANGER_BURST + 1)
    for _ in range(5):
        assert gate.waits(gate.account())
    with caplog.at_level(logging.WARNING):
        gate.clock.advance(60)
    assert [record.msg.fields for record in caplog.records] == [{"peer": ADDRESS}]


async def test_a_task_waits_for_its_turn(gate):
    account = gate.account()
    await account.turn()
    gate.spend(account, STRANGER_BURST + 0.1)
    waiting = asyncio.create_task(account.turn())
    given_up = asyncio.create_task(gate.account().turn())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.clock.advance(1)
    await waiting
    assert not gate.clock.armed


def test_where_nothing_is_counted_nothing_is_spent():
    account = uncharged()
    assert isinstance(account, Account)
    for _ in range(1000):
        account.asked().cost(1.0)
    assert not account.overdrawn
    assert account.has_to_wait(print) is None
    account.asked().recognised()
    account.left(encrypted=True)
