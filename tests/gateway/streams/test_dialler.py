"""partway.gateway.streams.dialler: every stream comes to its container by the gateway's dialler."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.streams.dialler import dial_container
from partway.protocol.errors import ContainerError
from tests.wire.conftest import PATIENT
from tests.wire.event_dialect import EVENT_STREAMS
from tests.wire.peers import ENDPOINT, MSGPACK, STREAM_PATH, RawContainer, soon

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.mark.parametrize("how", [MSGPACK, *EVENT_STREAMS])
async def test_each_stream_is_dialled_by_the_gateways_dialler(gateway_for, container, how):
    asked = []

    async def dialler(*stream):
        asked.append(stream)
        return await dial_container(*stream)

    gateway = await gateway_for(dialler=dialler)
    _, model = await gateway.open(how, STREAM_PATH)
    endpoint = Place(ENDPOINT, Address("127.0.0.1", container.port), PATIENT)
    request_id = model.header("x-amzn-sagemaker-request-id")
    assert asked == [(endpoint, "/invocations-bidirectional-stream", request_id)]


async def test_the_plain_one_goes_to_the_endpoints_container(container):
    endpoint = Place("model", Address("127.0.0.1", container.port), PATIENT)
    upgraded = await soon(dial_container(endpoint, "/v1/listen?a=1", "an-id"))
    model = await container.stream()
    assert model.target == "/v1/listen?a=1"
    assert model.header("x-amzn-sagemaker-request-id") == "an-id"
    upgraded.transport.abort()


async def test_the_plain_one_keeps_to_the_endpoints_times():
    async with RawContainer(lambda _: None) as silent:
        policy = StreamPolicy(connect_timeout=5, handshake_timeout=0.05)
        endpoint = Place("model", Address("127.0.0.1", silent.port), policy)
        with pytest.raises(ContainerError) as caught:
            await soon(dial_container(endpoint, "/", "id"))
    assert "no answer to the upgrade within 0.05 s" in caught.value.message
