"""partway.gateway.operations.invocations: from one instance to another, and whose session it is."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.exposition import generate_latest

from partway.gateway.access.authentication import ANYBODY, Identity
from partway.gateway.dialling import Address
from partway.gateway.fleet.endpoints import Attached, Endpoint, Variant
from partway.gateway.fleet.launchers.process import free_port
from partway.gateway.fleet.routing import Router
from partway.gateway.operations.invocations import model_error, session_key
from partway.gateway.streams.policy import StreamPolicy
from tests.gateway.conftest import container, gateway_for
from tests.gateway.fleet.processes import eventually, soon
from tests.gateway.requests.containers import HOST, OK, PATIENCE, ScriptedContainer
from tests.wire.peers import ENDPOINT

__all__ = ["container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

REQUEST = (
    f"POST /endpoints/{ENDPOINT}/invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
).encode()


async def answering(call):
    while True:
        await call.request()
        call.say(OK)


async def test_another_instance_is_asked_where_one_takes_no_connection(gateway_for):
    async with ScriptedContainer(answering) as there:
        places = Address(HOST, free_port()), Address(HOST, there.port)
        variant = Variant(source=Attached(places), instances=2)
        policy = StreamPolicy(connect_timeout=PATIENCE)
        gateway = await gateway_for(endpoints=(Endpoint(ENDPOINT, policy, (variant,)),))
        for _ in range(8):
            response = await gateway.request(REQUEST)
            assert (response.status, response.body) == (200, b"ok")
        assert sum(len(call.heads) for call in there.calls) == 8


async def test_what_an_instance_has_heard_goes_to_no_other(gateway_for):
    async def hearing(call):
        await call.request()

    async with ScriptedContainer(hearing) as one, ScriptedContainer(hearing) as other:
        places = Address(HOST, one.port), Address(HOST, other.port)
        variant = Variant(source=Attached(places), instances=2)
        policy = StreamPolicy(connect_timeout=PATIENCE)
        gateway = await gateway_for(endpoints=(Endpoint(ENDPOINT, policy, (variant,)),))
        assert (await gateway.request(REQUEST)).status == 424
        assert len(one.calls) + len(other.calls) == 1


async def test_an_instance_whose_time_to_drain_is_over(gateway_for, monkeypatch):
    async def silent(call):
        await call.request()
        await call.end()

    async with ScriptedContainer(silent) as there:
        gateway = await gateway_for(container_port=there.port)
        leases = []
        choose = Router.lease

        def noted(*args, **members):
            leases.append(choose(*args, **members))
            return leases[-1]

        monkeypatch.setattr(Router, "lease", noted)
        asked = asyncio.create_task(gateway.request(REQUEST))
        await eventually(lambda: there.calls and there.calls[0].heads)
        leases[0].cut()
        response = await soon(asked)
        assert response.status == 424
        assert b"the instance was stopped before it had answered" in response.body
        await soon(there.calls[0].ended.wait())


async def test_what_is_counted_of_an_endpoint_goes_with_it(gateway_for):
    async with ScriptedContainer(answering) as there:
        running = await gateway_for(container_port=there.port)
        assert (await running.request(REQUEST)).status == 200
        gateway = running.gateway

        def page():
            return generate_latest(gateway.streams.metrics.registry).decode()

        assert f'endpoint="{ENDPOINT}"' in page()
        gateway.fleet.remove(ENDPOINT)
        await eventually(lambda: f'endpoint="{ENDPOINT}"' not in page())


def test_a_session_is_its_senders():
    keys = {session_key(each, "s") for each in (ANYBODY, Identity("a"), Identity("b"))}
    assert len(keys) == 3
    assert session_key(ANYBODY, "") == ""


@pytest.mark.parametrize(
    ("status", "whose"), [(0, "server"), (302, "server"), (400, "client"), (499, "client")]
)
def test_awss_words(status, whose):
    error = model_error(status, "why")
    words = f'Received {whose} error ({status}) from primary with message "why"'
    assert error.message == error.for_operator == words
    assert error.members["OriginalStatusCode"] == status
