"""partway.gateway.containers.requests_in_progress: admission, and the way down."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.containers.limits import REQUEST_END_TIMEOUT
from partway.gateway.containers.requests_in_progress import RequestsUnderWay
from partway.protocol.errors import ServiceUnavailable
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class Requests:
    def __init__(self, most=10, per_principal=10):
        self.clock = FakeClock()
        self.under_way = RequestsUnderWay(most, per_principal, self.clock)
        self.may_end = asyncio.Event()

    async def run(self, principal=None, peer=""):
        task = asyncio.current_task()
        sender = self.under_way.admit(task, principal, peer)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError as error:
            self.under_way.ended(task, sender, error)
            raise
        self.under_way.ended(task, sender, None)

    def begin(self, *principals):
        return [asyncio.create_task(self.run(each)) for each in principals]


async def test_so_many_and_no_more():
    requests = Requests(most=2)
    running = requests.begin(None, None)
    await eventually(lambda: len(requests.under_way) == 2)
    with pytest.raises(ServiceUnavailable, match="as many as this gateway takes"):
        await requests.run()
    requests.may_end.set()
    await soon(asyncio.gather(*running))
    await requests.run()
    assert len(requests.under_way) == 0


async def test_a_principal_has_its_share():
    requests = Requests(per_principal=1)
    running = requests.begin("a", None, None)
    await eventually(lambda: len(requests.under_way) == 3)
    with pytest.raises(ServiceUnavailable, match=r"'a' has 1 requests under way"):
        await requests.run("a")
    running += requests.begin("b")
    await eventually(lambda: len(requests.under_way) == 4)
    requests.may_end.set()
    await soon(asyncio.gather(*running))
    await requests.run("a")


async def test_an_address_has_its_share_where_nobody_is_asked_for_their_name():
    requests = Requests(per_principal=1)
    sent = [(None, "192.0.2.1"), (None, ""), (None, ""), ("a", "192.0.2.1")]
    running = [asyncio.create_task(requests.run(*each)) for each in sent]
    await eventually(lambda: len(requests.under_way) == 4)
    with pytest.raises(ServiceUnavailable, match=r"address 192\.0\.2\.1 has 1 requests under way"):
        await requests.run(None, "192.0.2.1")
    requests.may_end.set()
    await soon(asyncio.gather(*running))
    await requests.run(None, "192.0.2.1")


async def test_a_drain_waits_for_what_is_under_way_and_takes_nothing_new():
    requests = Requests()
    running = requests.begin("a")
    await eventually(lambda: len(requests.under_way) == 1)
    draining = asyncio.create_task(requests.under_way.drain(10))
    await eventually(lambda: requests.under_way.draining)
    with pytest.raises(ServiceUnavailable, match="draining"):
        await requests.run()
    assert not draining.done()
    requests.may_end.set()
    await soon(draining)
    await soon(asyncio.gather(*running))


@pytest.mark.parametrize("how", ["in time", "hastened"])
async def test_what_does_not_end_is_broken_off(how):
    requests = Requests()
    (running,) = requests.begin("a")
    await eventually(lambda: len(requests.under_way) == 1)
    draining = asyncio.create_task(requests.under_way.drain(10))
    await eventually(lambda: requests.clock.armed)
    if how == "hastened":
        requests.under_way.hasten()
    else:
        requests.clock.advance(10)
    await soon(draining)
    with pytest.raises(ServiceUnavailable, match="draining"):
        await soon(running)


async def test_what_swallows_its_end_is_left_behind(caplog):
    requests = Requests()
    broken_off, ends = asyncio.Event(), asyncio.Event()

    async def stubborn():
        task = asyncio.current_task()
        sender = requests.under_way.admit(task)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            broken_off.set()
            await ends.wait()
        requests.under_way.ended(task, sender, None)

    running = asyncio.create_task(stubborn())
    await eventually(lambda: len(requests.under_way) == 1)
    draining = asyncio.create_task(requests.under_way.drain(10))
    await eventually(lambda: requests.clock.armed)
    requests.clock.advance(10)
    await soon(broken_off.wait())
    await eventually(lambda: requests.clock.armed)
    requests.clock.advance(REQUEST_END_TIMEOUT - 0.1)
    await asyncio.sleep(0)
    assert not draining.done()
    requests.clock.advance(0.1)
    await soon(draining)
    assert "did not end after they were broken off requests=1" in caplog.text
    ends.set()
    await soon(running)


async def test_who_leaves_is_cancelled_and_nothing_else():
    requests = Requests()
    (running,) = requests.begin("a")
    await eventually(lambda: len(requests.under_way) == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(running)
    assert len(requests.under_way) == 0


async def test_a_drain_of_nothing_is_over_at_once():
    await soon(Requests().under_way.drain(1000))
