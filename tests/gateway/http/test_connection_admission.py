"""partway.gateway.http.connection_admission: who goes first, and what is kept for whom."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from partway.gateway.http.connection_admission import Crowd, Visitor, uncounted
from partway.gateway.http.peers import TrustedProxies
from partway.gateway.limits import (
    CONNECTION_BYTES,
    PEER_BYTES,
    RESERVED_CONNECTIONS,
    TLS_CONNECTION_BYTES,
)
from partway.protocol.errors import ServiceUnavailable
from partway.protocol.limits import MIB

A, B, C, PROXY = "192.0.2.1", "192.0.2.2", "2001:db8::1", "10.0.0.1"


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


class On:
    """A crowd, and who of it was dropped."""

    def __init__(self, most: int = 6, share: int = 4) -> None:
        self.dropped: list[Visitor] = []
        self.told: list[str] = []
        self.crowd = Crowd(most, share, TrustedProxies([PROXY]), lambda: 0.0, self.told.append)

    def enter(self, address: str = A) -> Visitor | None:
        visitor = self.crowd.enter(address, lambda: self.dropped.append(visitor))
        return visitor

    def enter_all(self, *addresses: str) -> list[Visitor]:
        return [self.enter(address) for address in addresses]


def busy(*visitors: Visitor) -> list[ExitStack]:
    """Something is under way on each, until what is returned is left, or forgotten."""
    blocks = []
    for visitor in visitors:
        visitor.begun()
        blocks.append(ExitStack())
        blocks[-1].callback(visitor.ended)
    return blocks


def test_a_place_for_each():
    on = On()
    visitors = on.enter_all(A, A, B)
    assert len(on.crowd) == 3
    assert not any(each.reserved for each in visitors)
    for each in visitors:
        each.leave()
        each.leave()  # said again, it means nothing
    assert len(on.crowd) == 0
    assert on.told == []


def test_the_oldest_idle_one_of_the_fullest_peer_goes_first():
    on = On(most=6, share=5)
    others = on.enter_all(B, C)
    many = on.enter_all(A, A, A, A)
    for expected in (many[0], many[1]):
        on.enter(B)
        assert on.dropped.pop() is expected
    # Now A has two, B three: of those the one that came first.
    on.enter(C)
    assert on.dropped == [others[0]]
    assert on.told == ["full"] * 3
    assert len(on.crowd) == 6


def test_who_is_busy_stays_and_who_was_is_young_again():
    on = On(most=3, share=3)
    first, second, third = on.enter_all(A, A, A)
    blocks = busy(first, second)
    on.enter(B)
    assert on.dropped == [third]
    blocks[0].__exit__(None, None, None)
    blocks[1].__exit__(None, None, None)
    on.enter(B)
    assert on.dropped == [third, first]


def test_a_peer_beyond_its_share_pays_itself():
    on = On(most=10, share=2)
    stays = on.enter(B)
    first, *_ = on.enter_all(A, A, A)
    assert on.dropped == [first]
    assert on.told == ["share"]
    on.enter_all(B)
    assert stays not in on.dropped


def test_addresses_of_one_ipv6_network_share():
    on = On(most=10, share=2)
    first, *_ = on.enter_all("2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::")
    assert on.dropped == [first]


def test_a_trusted_proxy_has_no_share_and_is_not_dropped():
    on = On(most=6, share=2)
    on.enter_all(*[PROXY] * 5)
    mine = on.enter(A)
    assert on.dropped == []
    assert on.enter(B).reserved is False
    assert on.dropped == [mine]
    on.enter_all(PROXY)
    assert len(on.dropped) == 2
    assert on.enter(PROXY).reserved, "none of a proxy's is closed for it"
    assert len(on.dropped) == 2


# --- The reserve ---------------------------------------------------------------------------------


def full_of_busy(most: int = 4, share: int = 4) -> tuple[On, list[Visitor], list[ExitStack]]:
    on = On(most, share)
    visitors = on.enter_all(*[A, B, A, B][:most])
    return on, visitors, busy(*visitors)


def test_where_all_are_busy_there_is_the_reserve():
    on, _, blocks = full_of_busy()
    visitor = on.enter(C)
    assert visitor.reserved
    with pytest.raises(ServiceUnavailable, match="all 4 connections"):
        visitor.admit()
    assert visitor.reserved
    blocks[0].__exit__(None, None, None)
    visitor.admit()  # for one that is idle now
    assert not visitor.reserved
    assert len(on.dropped) == 1
    visitor.admit()


def test_the_reserve_is_fair_too():
    on, _, _ = full_of_busy()
    few = on.enter_all(C, B)
    many = on.enter_all(*[A] * (RESERVED_CONNECTIONS - 2))
    assert all(each.reserved for each in (*few, *many))
    for number in range(3):
        assert on.enter(C).reserved
        assert on.dropped[-1] is many[number]
    assert len(on.crowd) == 4 + RESERVED_CONNECTIONS


def test_beyond_the_reserve_nobody_is_taken():
    on, _, blocks = full_of_busy()
    blocks += busy(*on.enter_all(*[C] * RESERVED_CONNECTIONS))
    assert on.enter(B) is None
    assert on.told == ["reserve"]
    assert len(on.crowd) == 4 + RESERVED_CONNECTIONS


def test_a_peer_whose_share_is_busy_gets_the_reserve():
    on = On(most=10, share=2)
    blocks = busy(*on.enter_all(A, A))
    visitor = on.enter(A)
    assert visitor.reserved
    with pytest.raises(ServiceUnavailable, match="all 2 that one address may have"):
        visitor.admit()
    visitor.leave()
    assert len(on.crowd) == len(blocks) == 2


# --- Memory --------------------------------------------------------------------------------------


def test_what_idle_connections_of_a_peer_hold_is_bounded():
    on = On(most=1000, share=1000)
    mine = on.enter(B)
    mine.holds(MIB)
    fit = PEER_BYTES // (MIB + CONNECTION_BYTES)
    heads = on.enter_all(*[A] * (fit + 2))
    for each in heads:
        each.holds(MIB)
    assert on.dropped == heads[:2]
    assert set(on.told) == {"memory"}
    heads[2].holds(0)
    assert len(on.enter_all(*[A] * 10)) == 10
    assert on.dropped == heads[:2]


def test_who_is_busy_is_bounded_by_the_limits_of_streams():
    on = On(most=1000, share=1000)
    visitors = on.enter_all(*[A] * 70)
    blocks = busy(*visitors)
    for each in visitors:
        each.holds(MIB)
    assert on.dropped == []
    for block in blocks:
        block.__exit__(None, None, None)
    assert len(on.dropped) == 70 - PEER_BYTES // (MIB + CONNECTION_BYTES)


def test_one_connection_alone_is_not_dropped_for_what_it_holds():
    on = On()
    on.enter(A).holds(2 * PEER_BYTES)
    assert on.dropped == []


def test_a_thousand_handshakes_of_one_address_fit():
    on = On(most=8192, share=4096)
    for each in on.enter_all(*[A] * 1000):
        each.weighs(TLS_CONNECTION_BYTES)
    assert on.dropped == []


def test_who_is_in_no_crowd_is_counted_by_nobody():
    visitor = uncounted()
    visitor.weighs(MIB)
    visitor.holds(MIB)
    visitor.admit()
    with busy(visitor)[0]:
        assert visitor.busy
    visitor.leave()


# --- Any order -----------------------------------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens, in whatever order: counts are right, and who goes is who the rules say."""

    @initialize(most=st.integers(1, 8), share=st.integers(1, 8))
    def begin(self, most, share):
        self.on = On(most, share)
        self.most, self.share = most, share
        self.here: dict[Visitor, object | None] = {}

    def gone(self, before: int) -> None:
        for each in self.on.dropped[before:]:
            assert self.here.pop(each) is None, "nobody is dropped who is busy"
            assert not each.trusted

    @rule(address=st.sampled_from([A, B, C, PROXY]))
    def enter(self, address):
        before = len(self.on.dropped)
        visitor = self.on.enter(address)
        self.gone(before)
        if visitor is not None:
            self.here[visitor] = None

    @precondition(lambda self: self.here)
    @rule(at=st.integers(0, 100))
    def begins_or_ends(self, at):
        visitor = list(self.here)[at % len(self.here)]
        block, before = self.here[visitor], len(self.on.dropped)
        if block is None:
            (self.here[visitor],) = busy(visitor)
        else:
            self.here[visitor] = None
            block.__exit__(None, None, None)
            self.gone(before)

    @precondition(lambda self: self.here)
    @rule(at=st.integers(0, 100))
    def leaves(self, at):
        visitor = list(self.here)[at % len(self.here)]
        visitor.leave()
        del self.here[visitor]

    @precondition(lambda self: self.here)
    @rule(at=st.integers(0, 100), size=st.sampled_from([0, 100, PEER_BYTES // 2, PEER_BYTES]))
    def holds(self, at, size):
        before = len(self.on.dropped)
        list(self.here)[at % len(self.here)].holds(size)
        self.gone(before)

    @precondition(lambda self: self.here)
    @rule(at=st.integers(0, 100))
    def asks(self, at):
        before = len(self.on.dropped)
        visitor = list(self.here)[at % len(self.here)]
        try:
            visitor.admit()
        except ServiceUnavailable:
            assert visitor.reserved
        else:
            assert not visitor.reserved
        self.gone(before)

    @invariant()
    def counts(self):
        here = getattr(self, "here", None)
        if here is None:
            return
        assert len(self.on.crowd) == len(here)
        placed = [each for each in here if not each.reserved]
        assert len(placed) <= self.most
        of_each = Counter(each.peer for each in placed if not each.trusted)
        assert all(number <= self.share for number in of_each.values())
        idle = Counter(each.peer for each in placed if not (each.busy or each.trusted))
        top = self.on.crowd._fullest.top()
        assert (idle[top] if top else 0) == max(idle.values(), default=0)
        for name, peer in self.on.crowd._peers.items():
            assert peer.held == sum(each.held for each in peer.idle)
            assert len(peer.idle) == idle[name]
            assert peer.held <= PEER_BYTES or len(peer.idle) == 1


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase


def test_what_a_connection_weighs_is_said_once():
    on = On()
    visitor = on.enter(A)
    visitor.weighs(100)
    visitor.holds(7)
    visitor.weighs(10)
    assert visitor.held == CONNECTION_BYTES + 110
