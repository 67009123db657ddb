"""partway.gateway.fleet.ping_each: an instance is as the worst of its containers."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.dialling import Address
from partway.gateway.fleet.endpoints import Place
from partway.gateway.fleet.ping_each import ping_each
from partway.gateway.streams.policy import StreamPolicy
from tests.gateway.fleet.processes import soon


def place(port, hostname="", containers=()):
    policy = StreamPolicy()
    return Place("echo", Address("h", port), policy, hostname=hostname, containers=containers)


TWO = place(1, containers=(place(1, "pre"), place(2, "model")))


@pytest.mark.parametrize(
    ("where", "troubles", "expected"),
    [
        (place(1), {}, None),
        (place(1), {1: "refused"}, "refused"),
        (TWO, {}, None),
        (TWO, {2: "refused"}, "model: refused"),
        (TWO, {1: "late", 2: "refused"}, "pre: late"),
    ],
)
async def test_what_is_wrong_has_a_name(anyio_backend, where, troubles, expected):
    async def ping(each, seconds):
        assert seconds == 2
        return troubles.get(each.container.port)

    assert await ping_each(ping, where, 2) == expected


async def test_all_are_asked_at_once(anyio_backend, no_leaks):
    both = asyncio.Barrier(2)

    async def ping(*_):
        await both.wait()

    assert await soon(ping_each(ping, TWO, 2)) is None
