"""partway.gateway.fleet.launchers.attached."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.fleet.endpoint import Attached, Variant
from partway.gateway.fleet.launchers.attached import AttachLauncher
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.network.dialling import Address
from tests.gateway.fleet.waiting import soon

ADDRESSES = (Address("10.0.0.1", 8080), Address("10.0.0.2", 8080))


def order(number: int) -> Order:
    variant = Variant(source=Attached(ADDRESSES), instances=2)
    return Order(f"attached-{number}", "attached", variant, number)


async def test_each_has_the_address_of_its_number(anyio_backend, no_leaks):
    launcher = AttachLauncher()
    containers = [await launcher.launch(order(number)) for number in range(2)]
    assert tuple(container.address for container in containers) == ADDRESSES
    for container in containers:
        await container.verify()
    await launcher.aclose()


async def test_without_an_address_there_is_none(anyio_backend, no_leaks):
    with pytest.raises(LaunchError, match="2 URLs were given for at least 3 instances") as caught:
        await AttachLauncher().launch(order(2))
    assert not caught.value.passing


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_it_lasts_until_it_is_let_go_of(anyio_backend, no_leaks, end):
    container = await AttachLauncher().launch(order(0))
    waiting = asyncio.create_task(container.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    if end == "stop":
        assert await container.stop(30) is True
    else:
        container.kill()
    assert str(await soon(waiting)) == "was released, and keeps running"
    assert str(await soon(container.wait())) == "was released, and keeps running"
