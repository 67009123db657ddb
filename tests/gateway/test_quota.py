"""partway.gateway.quota: limits, shares, turns, cancellation; and all of it in any order."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from partway.gateway.quota import NOBODY, LiveGateways, Quota, QuotaFull, QuotaLimits
from tests.gateway.fleet.fakes import turns

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


def quota(total=4, of_one=2, waiting=8, waiting_of_one=4):
    return Quota(QuotaLimits(total, of_one, waiting, waiting_of_one))


def admitted(of, owner="a"):
    """How many claims of an owner are taken before one is refused."""
    number = 0
    while True:
        try:
            of.take(1, owner)
        except QuotaFull:
            return number
        number += 1


@pytest.mark.parametrize(
    ("share", "gateways", "part"), [(300, 3, 100), (300, 1, 300), (300, 7, 43), (2, 5, 1)]
)
def test_a_share_is_divided_by_the_live_gateways(share, gateways, part):
    live = LiveGateways()
    of = Quota(QuotaLimits(1000, share), gateways=live)
    live.count(gateways)
    assert admitted(of) == part
    live.count(0)  # nobody is ready, which says nothing of their number
    assert admitted(of) == 0
    live.count(1)
    assert admitted(of) == share - part
    assert of.used == share


def test_a_change_of_the_number_of_gateways_is_told_once():
    live, told = LiveGateways(), []
    live.on_change = lambda: told.append(live.number)
    for number in (1, 3, 3, 0, 1):
        live.count(number)
    assert told == [3, 1]


class Claims:
    """Claims as tasks, and the order in which they were granted."""

    def __init__(self, of):
        self.granted = []
        self.tasks = {}
        self._of = of

    async def begin(self, *names, size=1):
        """Claim for the owner whose name is a claim's name without its digits."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._claim(name, size))
            await turns(3)

    async def _claim(self, name, size):
        await self._of.claim(size, name.rstrip("0123456789"))
        self.granted.append(name)

    async def cancel(self, name):
        self.tasks[name].cancel()
        await asyncio.wait([self.tasks[name]])
        await turns(3)


@pytest.fixture
async def claims_of():
    """Makes claims on a quota; those that still wait are cancelled in the end."""
    made = []

    def claims(of):
        made.append(Claims(of))
        return made[-1]

    yield claims
    for each in made:
        for name in each.tasks:
            if not each.tasks[name].done():
                await each.cancel(name)


# --- Without waiting -----------------------------------------------------------------------------


async def test_no_owner_has_more_than_its_share_and_all_no_more_than_the_total():
    of = quota(total=5, of_one=3)
    of.take(3, "a")
    with pytest.raises(QuotaFull) as full:
        of.take(1, "a")
    assert (full.value.owner, full.value.used, full.value.most) == ("a", 3, 3)
    assert not full.value.in_line
    assert str(full.value) == "'a': 3 of 3 units are used"
    of.take(2, "b")
    with pytest.raises(QuotaFull) as full:
        of.take(1, "c")
    assert (full.value.owner, full.value.used, full.value.most) == (NOBODY, 5, 5)
    assert (of.used, of.used_by("a"), of.used_by("b"), of.used_by("c")) == (5, 3, 2, 0)


async def test_a_claim_that_is_refused_uses_nothing():
    of = quota(total=5, of_one=3)
    for size in (4, 6):
        with pytest.raises(QuotaFull):
            of.take(size, "a")
    assert (of.used, of.used_by("a")) == (0, 0)


async def test_what_is_given_back_can_be_taken_again():
    of = quota(total=2, of_one=2)
    for _ in range(3):
        of.take(2, "a")
        of.give_back(1, "a")
        of.give_back(1, "a")
    assert (of.used, of.used_by("a")) == (0, 0)


async def test_a_claim_may_count_in_several_shares():
    of = quota(total=9, of_one=3)
    of.take(2, "address", "key")
    of.take(1, "other address", "key")
    with pytest.raises(QuotaFull) as full:
        of.take(1, "address", "key")
    assert (full.value.owner, full.value.used, full.value.most) == ("key", 3, 3)
    assert (of.used, of.used_by("address"), of.used_by("key")) == (3, 2, 3)
    of.give_back(2, "address", "key")
    of.take(2)
    assert (of.used, of.used_by("address"), of.used_by("key")) == (3, 0, 1)


async def test_a_check_uses_nothing_and_a_count_asks_for_no_room():
    of = quota(total=4, of_one=2)
    of.check(2, "a")
    assert of.used == 0
    of.count(3, "a")
    of.count(3, "b")
    assert (of.used, of.used_by("a")) == (6, 3)
    for owner in ("a", NOBODY):
        with pytest.raises(QuotaFull) as full:
            of.check(1, owner)
        assert (full.value.owner, full.value.used, full.value.most) == (NOBODY, 6, 4)
    of.give_back(3, "b")
    with pytest.raises(QuotaFull) as full:
        of.check(1, "a")
    assert (full.value.used, full.value.most) == (3, 2)


async def test_nobody_has_no_share_and_may_have_all():
    of = quota(total=4, of_one=1)
    of.take(4, NOBODY)
    with pytest.raises(QuotaFull) as full:
        of.take(1, NOBODY)
    assert full.value.owner == NOBODY


# --- In turn -------------------------------------------------------------------------------------


async def test_a_claim_that_has_room_does_not_wait(claims_of):
    of = quota()
    await claims_of(of).begin("a1")
    assert (of.used, of.waiting) == (1, 0)


async def test_owners_take_turns_and_the_oldest_of_an_owner_goes_first(claims_of):
    of = quota(total=1, of_one=1)
    of.take(1, "x")
    claims = claims_of(of)
    await claims.begin("a1", "a2", "a3", "b1", "b2", "c1")
    assert (claims.granted, of.waiting) == ([], 6)
    owner = "x"
    for _ in range(6):
        of.give_back(1, owner)
        await turns(3)
        owner = claims.granted[-1].rstrip("0123456789")
    assert claims.granted == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_who_waits_for_a_share_does_not_hold_others_up(claims_of):
    of = quota(total=3, of_one=1)
    claims = claims_of(of)
    await claims.begin("a1", "a2", "b1")
    assert claims.granted == ["a1", "b1"]
    of.give_back(1, "a")
    await turns(3)
    assert claims.granted == ["a1", "b1", "a2"]


async def test_a_large_claim_is_not_overtaken_for_ever(claims_of):
    of = quota(total=4, of_one=4)
    of.take(2, "x")
    claims = claims_of(of)
    await claims.begin("large1", size=3)
    await claims.begin("small1")
    assert claims.granted == []
    of.give_back(2, "x")
    await turns(3)
    assert claims.granted == ["large1", "small1"]


async def test_a_claim_over_a_limit_is_refused_at_once():
    of = quota(total=4, of_one=2)
    for owner, size, most in (("a", 3, 2), ("a", 5, 4), (NOBODY, 5, 4)):
        with pytest.raises(QuotaFull) as full:
            await of.claim(size, owner)
        assert full.value.most == most
    assert (of.used, of.waiting) == (0, 0)


async def test_the_line_has_a_limit_and_a_limit_for_each_owner(claims_of):
    of = quota(total=1, of_one=1, waiting=3, waiting_of_one=2)
    of.take(1, "x")
    claims = claims_of(of)
    await claims.begin("a1", "a2")
    with pytest.raises(QuotaFull) as full:
        await of.claim(1, "a")
    assert (full.value.owner, full.value.used, full.value.most) == ("a", 2, 2)
    assert full.value.in_line
    assert str(full.value) == "'a': 2 of 2 places in line are used"
    await claims.begin("b1")
    for owner in ("c", NOBODY):
        with pytest.raises(QuotaFull) as full:
            await of.claim(1, owner)
        assert (full.value.owner, full.value.used, full.value.most) == (NOBODY, 3, 3)
    assert of.waiting == 3


async def test_nobody_waits_where_there_is_no_line():
    of = Quota(QuotaLimits(1, 1))
    await of.claim(1, "a")
    with pytest.raises(QuotaFull) as full:
        await of.claim(1, "b")
    assert full.value.in_line


# --- Cancelled -----------------------------------------------------------------------------------


async def test_a_claim_that_is_cancelled_leaves_the_line(claims_of):
    of = quota(total=1, of_one=1)
    of.take(1, "x")
    claims = claims_of(of)
    await claims.begin("a1", "b1")
    await claims.cancel("a1")
    assert of.waiting == 1
    of.give_back(1, "x")
    await turns(3)
    assert (claims.granted, of.used, of.used_by("a")) == (["b1"], 1, 0)


async def test_a_claim_that_is_cancelled_once_it_was_granted_gives_back(claims_of):
    of = quota(total=1, of_one=1)
    of.take(1, "x")
    claims = claims_of(of)
    await claims.begin("a1", "b1")
    of.give_back(1, "x")
    assert of.used_by("a") == 1  # granted, and its task has not run yet
    await claims.cancel("a1")
    assert (claims.granted, of.used_by("a"), of.used_by("b")) == (["b1"], 0, 1)


async def test_what_is_given_back_is_not_lost_to_a_claim_that_is_being_cancelled(claims_of):
    of = quota(total=1, of_one=1)
    of.take(1, "x")
    claims = claims_of(of)
    await claims.begin("a1", "b1")
    claims.tasks["a1"].cancel()
    of.give_back(1, "x")  # before the task of a1 has run
    await asyncio.wait([claims.tasks["a1"]])
    await turns(3)
    assert (claims.granted, of.used, of.waiting) == (["b1"], 1, 0)


async def test_a_large_claim_that_is_cancelled_lets_those_behind_it_go(claims_of):
    of = quota(total=4, of_one=4)
    of.take(2, "x")
    claims = claims_of(of)
    await claims.begin("large1", size=3)
    await claims.begin("small1")
    await claims.cancel("large1")
    assert claims.granted == ["small1"]


# --- In any order --------------------------------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """Claims of three owners and of nobody, granted, given back and cancelled in any order."""

    LIMITS = QuotaLimits(total=4, of_one=2, waiting=6, waiting_of_one=3)
    OWNERS = st.sampled_from(["a", "b", "c", NOBODY])

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.quota = Quota(self.LIMITS)
        self.held = []
        self.tasks = {}

    def teardown(self):
        for task in self.tasks:
            task.cancel()
        self.settle()
        self.loop.close()

    def settle(self):
        self.loop.run_until_complete(turns(5))
        for task in [each for each in self.tasks if each.done()]:
            claimed = self.tasks.pop(task)
            if not task.cancelled() and task.exception() is None:
                self.held.append(claimed)

    @rule(owner=OWNERS, size=st.integers(1, 2))
    def claim(self, owner, size):
        self.tasks[self.loop.create_task(self.quota.claim(size, owner))] = (size, owner)
        self.settle()

    @rule(owners=st.lists(OWNERS, max_size=2, unique=True), size=st.integers(1, 2))
    def take(self, owners, size):
        try:
            self.quota.take(size, *owners)
        except QuotaFull:
            return
        self.held.append((size, *owners))

    @rule(data=st.data(), cancelled=st.booleans())
    def give_back(self, data, cancelled):
        if self.held:
            self.quota.give_back(*self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))
        if cancelled and self.tasks:
            data.draw(st.sampled_from([*self.tasks])).cancel()
        self.settle()

    @invariant()
    def limits_hold(self):
        used = Counter()
        for size, *owners in self.held:
            for owner in owners:
                used[owner] += size
        assert self.quota.used == sum(each[0] for each in self.held) <= self.LIMITS.total
        for owner, size in used.items():
            assert self.quota.used_by(owner) == size
            assert owner == NOBODY or size <= self.LIMITS.of_one
        assert self.quota.waiting == len(self.tasks) <= self.LIMITS.waiting

    @invariant()
    def nobody_waits_for_room_that_there_is(self):
        used = self.quota.used
        oldest = {owner: size for size, owner in reversed(self.tasks.values())}
        shares = [
            (owner, size)
            for owner, size in oldest.items()
            if owner == NOBODY or self.quota.used_by(owner) + size <= self.LIMITS.of_one
        ]
        assert not shares or max(used + size for _, size in shares) > self.LIMITS.total


def test_limits_hold_in_any_order_and_no_room_goes_unused():
    how = settings(max_examples=60, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(AnyOrder, settings=how)
