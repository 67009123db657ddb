"""partway.gateway.apis.control.all_endpoints: one account of all endpoints."""

from __future__ import annotations

import asyncio
import io
import time

import pytest

from partway.gateway.apis.control.all_endpoints import KnownEndpoints
from partway.gateway.cli.endpoint_table import print_table
from partway.gateway.fleet.status import EndpointState
from partway.protocol.errors import InputValidationError
from tests.gateway.apis.control.kept_endpoints import ApiGateway
from tests.gateway.fleet.fakes import turns


def known_of(gateway: ApiGateway) -> KnownEndpoints:
    return KnownEndpoints(gateway.of.fleet, gateway.keeper)


def shown(gateway: ApiGateway) -> list[str]:
    """The rows of ``partway endpoints``, without the head."""
    file = io.StringIO()
    print_table(file, known_of(gateway).describe(), time.time())
    return [line for line in file.getvalue().splitlines()[1:] if line]


async def counts(gateway: ApiGateway) -> list[str]:
    said = await gateway.describe()
    return [
        f"{each['CurrentInstanceCount']}/{each['DesiredInstanceCount']}"
        for each in said["ProductionVariants"]
    ]


@pytest.fixture
async def gateway():
    made = await ApiGateway().start()
    yield made
    await made.aclose()


async def test_an_update_that_was_given_up_leaves_the_numbers_of_what_serves(gateway):
    await gateway.create(config="two")
    await gateway.until("InService", "two")
    gateway.of.launcher.lasting("there is no such program")
    await gateway.update("one")
    said = await gateway.until("InService", "two")
    assert "there is no such program" in said["FailureReason"]
    (variant,) = known_of(gateway).describe()[0].variants
    assert (variant.serving, variant.desired) == (2, 2)
    assert shown(gateway)[0].split()[1] == "2/2"
    assert await counts(gateway) == ["2/2"]


async def test_while_an_update_comes_up_both_show_what_serves(gateway):
    await gateway.create(config="two")
    await gateway.until("InService", "two")
    gateway.of.launcher.held = asyncio.Event()
    await gateway.update("one")
    await turns()
    (variant,) = known_of(gateway).describe()[0].variants
    assert f"{variant.serving}/{variant.desired}" == shown(gateway)[0].split()[1]
    assert await counts(gateway) == ["2/2"]
    gateway.of.launcher.held.set()
    await gateway.until("InService", "one")
    assert shown(gateway)[0].split()[1] == "1/1"
    assert await counts(gateway) == ["1/1"]


async def test_what_has_failed_is_there_under_the_next_gateway(gateway):
    gateway.of.launcher.lasting("there is no such program")
    await gateway.create(config="two")
    await gateway.until("Failed", "two")
    await gateway.written()
    before = shown(gateway)
    again = await gateway.again()
    try:
        (status,) = known_of(again).describe()
        assert (status.name, status.state) == ("mine", EndpointState.FAILED)
        assert status.reason == "there is no such program"
        (variant,) = status.variants
        assert (variant.serving, variant.desired, variant.instances) == (0, 2, ())
        assert before[0].split()[:4] == shown(again)[0].split()[:4]
        assert await counts(again) == ["0/2"]
        with pytest.raises(InputValidationError) as refused:
            await known_of(again).restart("mine")
        assert refused.value.message == (
            "the endpoint 'mine' is Failed and has no instances to restart (there is no such "
            "program); delete it, or deploy it again"
        )
        await again.call("DeleteEndpoint")
        await turns(200)
        assert known_of(again).describe() == ()
    finally:
        await again.aclose()


async def test_what_runs_is_restarted(gateway):
    await gateway.create()
    await gateway.until("InService", "one")
    before = known_of(gateway).describe()[0].variants[0].instances[0].id
    await known_of(gateway).restart("mine")
    assert known_of(gateway).describe()[0].variants[0].instances[0].id != before
    with pytest.raises(InputValidationError, match="there is no endpoint 'other'"):
        await known_of(gateway).restart("other")
