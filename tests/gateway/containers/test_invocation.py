"""partway.gateway.containers.invocation: from one instance to another."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import suppress

import pytest
from prometheus_client.exposition import generate_latest

from partway.gateway.access.authentication import ANYBODY
from partway.gateway.apis.requests_service import RequestsService
from partway.gateway.containers.invocation import Invocation, Invocations
from partway.gateway.fleet.endpoint import Attached, Endpoint, Variant
from partway.gateway.fleet.launchers.process import free_port
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.http.exchange import Exchange
from partway.gateway.network.dialling import Address
from tests.gateway.conftest import container, gateway_for
from tests.gateway.containers.containers import HOST, OK, PATIENCE, ScriptedContainer
from tests.gateway.fleet.waiting import eventually, soon
from tests.wire.peers import ENDPOINT

__all__ = ["container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

REQUEST = (
    f"POST /endpoints/{ENDPOINT}/invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
).encode()


def is_of_a_request(each):
    return isinstance(each, (Invocation, Exchange))


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
        assert b"the instance was stopped or lost before it had answered" in response.body
        await soon(there.calls[0].ended.wait())


@pytest.mark.parametrize("operation", ["invocations", "invocations-response-stream"])
async def test_a_request_leaves_nothing_to_the_collection_of_garbage(gateway_for, operation):
    """Else bodies of megabytes would wait for it."""
    request = REQUEST.replace(b"/invocations ", f"/{operation} ".encode())
    gc.collect()
    others = list(filter(is_of_a_request, gc.get_objects()))  # of another test
    known = set(map(id, others))

    def are_over():
        return all(id(each) in known for each in filter(is_of_a_request, gc.get_objects()))

    async with ScriptedContainer(answering) as there:
        gateway = await gateway_for(container_port=there.port)
        assert (await soon(gateway.request(request))).status == 200
        gc.collect()
        gc.disable()
        try:
            assert (await soon(gateway.request(request))).status == 200
            await eventually(are_over)
        finally:
            gc.enable()


def test_an_instance_that_ends_while_nothing_is_asked_of_it_any_more_ends_nothing():
    """As while the body of what it was asked is still being stopped."""
    ended = Invocations(Router(), None, None, None, None, most_bytes=1)
    ended.answered(None, ANYBODY, ENDPOINT, {})._stop()


async def test_a_body_counts_as_held_until_its_container_answers(gateway_for):
    """It is here, or in the buffer of the container's connection."""
    answers = asyncio.Event()

    async def patient(call):
        while True:
            await call.request()
            await answers.wait()
            call.say(OK)

    request = REQUEST.replace(b"Length: 2\r\n\r\nhi", b"Length: 900\r\n\r\n" + bytes(900))
    async with ScriptedContainer(patient) as there:
        gateway = await gateway_for(container_port=there.port, max_gathered_bytes=2000)
        first = asyncio.create_task(gateway.request(request))
        await eventually(lambda: there.calls and there.calls[0].heads)
        refused = await soon(gateway.request(request))
        assert (refused.status, b"half of max_gathered_bytes" in refused.body) == (503, True)
        answers.set()
        assert (await soon(first)).status == 200
        assert (await soon(gateway.request(request))).status == 200


async def test_the_body_of_a_stream_counts_as_held_until_that_is_open(gateway_for):
    opens = asyncio.Event()

    async def patient(call):
        await call.request()
        await opens.wait()
        call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await call.end()

    request = REQUEST.replace(b"Length: 2\r\n\r\nhi", b"Length: 900\r\n\r\n" + bytes(900))
    request = request.replace(b"/invocations ", b"/invocations-response-stream ")
    async with ScriptedContainer(patient) as there:
        gateway = await gateway_for(container_port=there.port, max_gathered_bytes=2000)
        _, writer = await asyncio.open_connection(HOST, gateway.port)
        writer.write(request)
        await eventually(lambda: there.calls and there.calls[0].heads)
        assert (await soon(gateway.request(request))).status == 503
        opens.set()
        await eventually(lambda: gateway.gateway.streams.sessions)
        assert (await soon(gateway.request(request))).status == 200
        assert gateway.gateway.streams.sessions
        writer.close()


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


async def dribbling(call):
    """A container that is never silent for long, and never at its end."""
    await call.request()
    call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nabc")
    while not call.ended.is_set():
        call.say(b"x")
        with suppress(TimeoutError):
            await asyncio.wait_for(call.ended.wait(), 0.02)


async def test_an_answer_that_dribbles_has_its_end(gateway_for, caplog):
    caplog.set_level(logging.INFO)
    async with ScriptedContainer(dribbling) as there:
        policy = StreamPolicy(request_lifetime=0.5, connect_timeout=PATIENCE)
        gateway = await gateway_for(policy, container_port=there.port)
        reader, writer = await asyncio.open_connection(HOST, gateway.port)
        writer.write(REQUEST)
        with pytest.raises(asyncio.IncompleteReadError) as cut:
            await soon(reader.readexactly(99999))
        assert b"HTTP/1.1 200 OK" in cut.value.partial
        writer.close()
        await eventually(lambda: "took longer than 0.5 s (request_lifetime)" in caplog.text)
        await eventually(lambda: len(gateway.gateway.service(RequestsService).under_way) == 0)


async def test_a_body_that_dribbles_has_its_end(gateway_for):
    async def script(call):
        await call.end()

    async with ScriptedContainer(script) as there:
        policy = StreamPolicy(request_lifetime=0.5, connect_timeout=PATIENCE)
        gateway = await gateway_for(policy, container_port=there.port)
        reader, writer = await asyncio.open_connection(HOST, gateway.port)
        writer.write(REQUEST.replace(b"Content-Length: 2", b"Content-Length: 99999"))
        answer = asyncio.create_task(reader.readuntil(b"(request_lifetime)"))
        while not answer.done():
            writer.write(b"x")
            await asyncio.wait((answer,), timeout=0.02)
        assert b"HTTP/1.1 424" in await answer
        writer.close()
