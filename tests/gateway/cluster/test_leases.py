"""partway.gateway.cluster.leases: one acts, another takes over, and never both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from partway.gateway.cluster.answers import ClusterAway
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.cluster.leases import Leadership
from partway.gateway.cluster.limits import (
    LEASE_DEADLINE,
    LEASE_DURATION,
    LEASE_LOOK,
    LEASE_RENEWAL,
)
from tests.gateway.cluster.fake_api_server import FakeApiServer, failure
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock

LEASES = ("coordination.k8s.io/v1", "leases")


class Candidate:
    """One of several processes, on a clock of its own."""

    def __init__(self, server: FakeApiServer, name: str) -> None:
        self.clock = FakeClock()
        self.works = False
        self.api = ApiServer(ClusterSettings(server.url, "default"), self.clock)
        self.leadership = Leadership(self.api, "lease", name, self.clock, self._wall_clock)
        self.task = asyncio.create_task(self.leadership.lead(self._work))

    def _wall_clock(self) -> float:
        return 1_705_626_110.25 + self.clock.now

    async def _work(self) -> None:
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    async def end(self) -> None:
        self.task.cancel()
        await soon(asyncio.wait((self.task,)))
        await self.api.aclose()


@pytest.fixture
async def candidates(server) -> AsyncIterator[list[Candidate]]:
    made: list[Candidate] = []
    yield made
    for each in made:
        await each.end()


async def step(server: FakeApiServer, candidate: Candidate, seconds: float) -> None:
    """Let time pass for one candidate, and wait for what it asks because of it."""
    asked = len(server.asked)
    candidate.clock.advance(seconds)
    await eventually(lambda: len(server.asked) > asked)
    await settled(candidate)


async def settled(candidate: Candidate) -> None:
    """Wait until a candidate has begun a pause; limits of requests have another length."""

    def is_so() -> bool:
        left = [round(each.due - candidate.clock.now, 3) for each in candidate.clock.armed]
        return left in ([LEASE_RENEWAL], [LEASE_LOOK])

    await eventually(is_so)


async def leading(server, candidates) -> Candidate:
    one = Candidate(server, "one")
    candidates.append(one)
    await eventually(lambda: one.works)
    await settled(one)
    return one


async def waiting(server, candidates) -> Candidate:
    two = Candidate(server, "two")
    candidates.append(two)
    await settled(two)
    return two


def spec(server) -> dict[str, object]:
    return server.find(*LEASES, "lease")["spec"]


async def test_the_lease_of_a_leader(server, candidates):
    await leading(server, candidates)
    assert spec(server) == {
        "holderIdentity": "one",
        "leaseDurationSeconds": LEASE_DURATION,
        "acquireTime": "2024-01-19T01:18:30.250000Z",
        "renewTime": "2024-01-19T01:18:30.250000Z",
        "leaseTransitions": 0,
    }


async def test_a_leader_that_renews_is_left_alone(server, candidates):
    one = await leading(server, candidates)
    two = await waiting(server, candidates)
    for _ in range(15):
        version = server.version
        await step(server, one, LEASE_RENEWAL)
        assert server.version > version
        await step(server, two, LEASE_LOOK)
    assert (one.works, two.works) == (True, False)
    assert spec(server)["holderIdentity"] == "one"


async def test_after_a_leaders_death_another_takes_over_in_time(server, candidates):
    one = await leading(server, candidates)
    two = await waiting(server, candidates)
    seconds = 0.0
    while not two.works:  # the time of the dead one stands still
        await step(server, two, LEASE_LOOK)
        seconds += LEASE_LOOK
    assert LEASE_DURATION <= seconds <= 12
    assert spec(server)["holderIdentity"] == "two"
    assert spec(server)["leaseTransitions"] == 1
    assert [each.leadership.follows_another for each in (one, two)] == [False, True]
    # The dead one was only stopped: it finds out before it changes anything.
    one.clock.advance(seconds)
    with pytest.raises(ClusterAway, match="does not hold the lease any more"):
        one.leadership.check_write()
    await eventually(lambda: not one.works)


async def test_a_leader_that_cannot_renew_stops_before_another_may_begin(server, candidates):
    one = await leading(server, candidates)
    server.fault = lambda asked: failure(500, "InternalError")
    passed = 0.0
    while one.leadership.is_held:
        assert one.leadership.check_write() == LEASE_DEADLINE - passed
        passed += LEASE_RENEWAL
        if passed < LEASE_DEADLINE:
            await step(server, one, LEASE_RENEWAL)
        else:
            one.clock.advance(LEASE_RENEWAL)
    assert passed == LEASE_DEADLINE < LEASE_DURATION
    await eventually(lambda: not one.works)
    await settled(one)
    server.fault = lambda asked: None
    await step(server, one, LEASE_LOOK)
    assert one.works
    assert not one.leadership.follows_another, "the lease was its own in between"


async def test_a_leader_whose_lease_was_taken_stops_at_once(server, candidates):
    one = await leading(server, candidates)
    found = server.find(*LEASES, "lease")
    taken = {**found["spec"], "holderIdentity": "other"}
    server.put(*LEASES, {**found, "spec": taken})
    await step(server, one, LEASE_RENEWAL)
    await eventually(lambda: not one.works)
    assert not one.leadership.is_held
    await settled(one)
    while not one.works:
        await step(server, one, LEASE_LOOK)
    assert one.leadership.follows_another


async def test_a_takeover_that_was_made_though_its_answer_was_lost(server, candidates):
    one = await leading(server, candidates)
    two = await waiting(server, candidates)
    await one.end()
    candidates.remove(one)
    server.after = lambda asked: ConnectionResetError() if asked.method == "PUT" else None
    await step(server, two, LEASE_LOOK)
    assert spec(server)["holderIdentity"] == "two"
    assert not two.works
    server.after = lambda asked: None
    await step(server, two, LEASE_LOOK)
    assert two.works
    assert two.leadership.follows_another


async def test_a_lease_that_was_deleted(server, candidates):
    await leading(server, candidates)
    two = await waiting(server, candidates)
    server.remove(*LEASES, "lease")
    await step(server, two, LEASE_LOOK)
    assert two.works
    assert two.leadership.follows_another


async def test_a_renewal_that_was_made_though_its_answer_was_lost(server, candidates):
    one = await leading(server, candidates)
    server.after = lambda asked: ConnectionResetError()
    await step(server, one, LEASE_RENEWAL)
    server.after = lambda asked: None
    for _ in range(4):
        await step(server, one, LEASE_RENEWAL)
    assert one.works


async def test_a_leader_that_ends_gives_the_lease_back(server, candidates):
    one = await leading(server, candidates)
    two = await waiting(server, candidates)
    await one.end()
    candidates.remove(one)
    assert spec(server)["holderIdentity"] == ""
    two.clock.advance(LEASE_LOOK)
    await eventually(lambda: two.works)


async def test_a_fault_of_the_work_is_the_leaders_own(server):
    api = ApiServer(ClusterSettings(server.url, "default"), FakeClock())
    leadership = Leadership(api, "lease", "one", FakeClock(), lambda: 0)

    async def work() -> None:
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        await soon(leadership.lead(work))
    assert spec(server)["holderIdentity"] == ""
    await api.aclose()
