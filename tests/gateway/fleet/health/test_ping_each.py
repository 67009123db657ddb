"""partway.gateway.fleet.health.ping_each: what each of an instance's containers answers."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.health.ping_each import ping_each
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address, OutOfDescriptors
from tests.gateway.fleet.waiting import soon


def place(port, hostname="", containers=()):
    policy = StreamPolicy()
    return Place("echo", Address("h", port), policy, hostname=hostname, containers=containers)


TWO = place(1, containers=(place(1, "pre"), place(2, "model")))


@pytest.mark.parametrize(
    ("where", "troubles", "expected"),
    [
        (place(1), {}, {"": None}),
        (place(1), {1: "refused"}, {"": "refused"}),
        (TWO, {}, {"pre": None, "model": None}),
        (TWO, {2: "refused"}, {"pre": None, "model": "refused"}),
    ],
)
async def test_what_is_wrong_has_a_name(anyio_backend, where, troubles, expected):
    async def ping(each, seconds):
        assert seconds == 2
        return troubles.get(each.container.port)

    assert await ping_each(ping, where, 2) == expected


async def test_some_need_not_be_asked(anyio_backend):
    async def ping(each, _):
        return str(each.container)

    assert await ping_each(ping, TWO, 2, but=["pre"]) == {"model": "h:2"}


async def test_all_are_asked_at_once(anyio_backend, no_leaks):
    both = asyncio.Barrier(2)

    async def ping(*_):
        await both.wait()

    assert await soon(ping_each(ping, TWO, 2)) == {"pre": None, "model": None}


async def test_one_that_could_not_be_asked(anyio_backend, no_leaks):
    async def ping(each, _):
        if each.hostname == "pre":
            raise OutOfDescriptors("Too many open files")

    with pytest.raises(OutOfDescriptors):
        await soon(ping_each(ping, TWO, 2))
