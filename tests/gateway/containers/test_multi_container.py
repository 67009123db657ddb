"""partway.gateway.containers.multi_container: several containers of an instance, by real bytes."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack

import pytest

from partway.gateway.containers.multi_container import container_streamed, containers_asked
from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    Endpoint,
    InstanceTimes,
    OneContainer,
    Place,
    Variant,
)
from partway.gateway.fleet.routing.router import Lease
from partway.gateway.fleet.status import EndpointState
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.protocol.errors import InputValidationError
from tests.gateway.conftest import container, gateway_for
from tests.gateway.containers.containers import HOST, OK, PATIENCE, ScriptedContainer
from tests.gateway.fleet.waiting import eventually, soon
from tests.wire.peers import ENDPOINT

__all__ = ["container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

TARGET = "X-Amzn-SageMaker-Target-Container-Hostname"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"


# --- Which ---------------------------------------------------------------------------------------


def place(execution=None):
    one = Place(ENDPOINT, Address("h", 1), StreamPolicy())
    if execution is None:
        return one
    containers = tuple(
        Place(ENDPOINT, Address("h", port), StreamPolicy(), hostname=name)
        for port, name in enumerate(("pre", "model"), 1)
    )
    return Place(
        ENDPOINT, Address("h", 1), StreamPolicy(), containers=containers, execution=execution
    )


def test_an_only_one_is_itself():
    assert containers_asked(place(), "") == (place(),)
    assert container_streamed(place(), "") == place()


def test_in_their_order_or_the_one_that_is_named():
    serial, direct = place("serial"), place("direct")
    assert containers_asked(serial, "") == serial.containers
    assert containers_asked(direct, "model") == (direct.containers[1],)
    assert container_streamed(direct, "pre") == direct.containers[0]


@pytest.mark.parametrize(
    ("asked", "execution", "hostname", "said"),
    [
        (containers_asked, None, "pre", "is not configured for direct invocation"),
        (containers_asked, "serial", "pre", "is not configured for direct invocation"),
        (containers_asked, "direct", "", "TargetContainerHostname is missing; the containers of"),
        (
            containers_asked,
            "direct",
            "Pre",
            "'Pre'; the containers of .* one by one, so it must name one of",
        ),
        (container_streamed, "serial", "", "asks 2 containers one after the other"),
        (container_streamed, "direct", "", "TargetContainerHostname is missing"),
    ],
)
def test_what_is_refused(asked, execution, hostname, said):
    with pytest.raises(InputValidationError, match=said):
        asked(place(execution), hostname)


# --- With what -----------------------------------------------------------------------------------


def answer(body, *headers, status=b"200 OK"):
    lines = [b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body), b"", body]
    return b"\r\n".join(lines)


def stage(said):
    """A container that answers its pings, and what it is asked as a test says.

    Args:
        said: makes the answer's bytes of the request's body, and may wait.
    """

    async def script(call):
        while True:
            head = await call.head()
            if head.startswith(b"GET /ping"):
                call.heads.clear()
                call.say(OK)
            else:
                call.say(*await said(await call.body(head)))

    return script


def adding(word, *headers):
    async def said(body):
        return [answer(body + word, *headers)]

    return stage(said)


def refusing(status, body):
    async def said(_):
        return [answer(body, status=status)]

    return stage(said)


@pytest.fixture
async def asking(gateway_for):
    """Starts containers with scripts, and a gateway before an instance of them."""
    async with AsyncExitStack() as held:

        async def start(*scripts, execution="serial", **policy):
            there = [await held.enter_async_context(ScriptedContainer(each)) for each in scripts]
            each = tuple(
                OneContainer(hostname=name, source=Attached((Address(HOST, one.port),)))
                for name, one in zip(("pre", "model", "post"), there, strict=False)
            )
            variant = Variant(
                source=Containers(each, execution), times=InstanceTimes(ping_interval=0)
            )
            longest = StreamPolicy(connect_timeout=PATIENCE, **policy)
            running = await gateway_for(endpoints=(Endpoint(ENDPOINT, longest, (variant,)),))
            fleet = running.gateway.fleet
            await eventually(lambda: fleet.describe()[0].state == EndpointState.IN_SERVICE)
            return running, there

        yield start


def request(body=b"hi", operation="invocations", **headers):
    lines = [f"POST /endpoints/{ENDPOINT}/{operation} HTTP/1.1", "Host: a"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, f"Content-Length: {len(body)}", "", "")).encode() + body


def head_of(container, number=-1):
    """The last request's headers."""
    heads = [head for call in container.calls for head in call.heads]
    lines = heads[number].decode().split("\r\n")[1:-2]
    return dict(line.split(": ", 1) for line in lines)


async def test_each_gets_what_the_one_before_has_answered(asking):
    running, (pre, model, post) = await asking(
        adding(b" pre", b"Content-Type: a/pre", f"{ATTRIBUTES}: of-pre".encode(), b"X-Other: x"),
        adding(b" model", b"Content-Type: a/model"),
        adding(b" post", b"Content-Type: a/post"),
    )
    asked = request(
        Content_Type="a/client",
        Accept="a/wanted",
        **{ATTRIBUTES: "of-client", "X-Amzn-SageMaker-Inference-Id": "i"},
    )
    response = await soon(running.request(asked))
    assert (response.status, response.body) == (200, b"hi pre model post")
    assert response.headers["content-type"] == "a/post"
    heads = [head_of(each) for each in (pre, model, post)]
    for head in heads:
        assert head["X-Amzn-SageMaker-Inference-Id"] == "i"
        assert head["X-Amzn-SageMaker-Request-Id"] == response.headers["x-amzn-requestid"]
        assert "X-Other" not in head
    assert [head["Content-Type"] for head in heads] == ["a/client", "a/pre", "a/model"]
    assert [head.get("Accept") for head in heads] == [None, None, "a/wanted"]
    assert [head[ATTRIBUTES] for head in heads] == ["of-client", "of-pre", "of-client"]


async def test_a_coding_is_of_the_body_that_has_it(asking):
    running, (pre, model, post) = await asking(
        adding(b" pre"),
        adding(b" model", b"Content-Encoding: of-model"),
        adding(b" post", b"Content-Encoding: of-post"),
    )
    response = await soon(running.request(request(Content_Encoding="of-client")))
    assert (response.status, response.headers["content-encoding"]) == (200, "of-post")
    codings = [head_of(each).get("Content-Encoding") for each in (pre, model, post)]
    assert codings == ["of-client", None, "of-model"]


async def test_what_does_not_come_at_once_goes_on_as_it_comes(asking):
    """The second has the first of it before the first has said the last of it."""
    heard, large = asyncio.Event(), bytes(range(256)) * 4096

    async def in_chunks(_):
        half = len(large) // 2
        return [
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            *(b"%x\r\n%b\r\n" % (half, part) for part in (large[:half], large[half:])),
            b"0\r\n\r\n",
        ]

    async def counting(body):
        heard.set()
        return [answer(b"%d" % len(body) if body == large else b"other")]

    running, (_, model) = await asking(stage(in_chunks), stage(counting))
    response = await soon(running.request(request()))
    assert (response.status, response.body) == (200, b"%d" % len(large))
    assert head_of(model).get("Transfer-Encoding") == "chunked"


async def test_a_length_that_is_stated_is_handed_on(asking):
    large = b"x" * 1_000_000

    async def said(_):
        return [answer(large)]

    running, (_, model) = await asking(stage(said), adding(b"!"))
    response = await soon(running.request(request()))
    assert len(response.body) == len(large) + 1
    assert head_of(model)["Content-Length"] == "1000000"


@pytest.mark.parametrize(
    ("scripts", "name", "heard"),
    [
        ((refusing(b"415 No", b"no csv"), adding(b"")), "pre", [1, 0]),
        ((adding(b""), refusing(b"415 No", b"no csv")), "model", [1, 1]),
    ],
    ids=["first", "last"],
)
async def test_who_refuses_is_named(asking, scripts, name, heard):
    running, there = await asking(*scripts)
    response = await soon(running.request(request()))
    assert response.status == 424
    said = json.loads(response.body)
    assert said["Message"] == f'Received client error (415) from {name} with message "no csv"'
    assert (said["OriginalStatusCode"], said["OriginalMessage"]) == (415, "no csv")
    assert [sum(len(call.heads) for call in each.calls) for each in there] == heard


async def test_whose_answer_breaks_off_is_named_though_the_next_is_asked(asking, caplog):
    async def half(call):
        while True:
            head = await call.head()
            if head.startswith(b"GET /ping"):
                call.say(OK)
                continue
            await call.body(head)
            call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n", b"x" * 300_000)
            await call.writer.drain()
            return

    running, (first, _) = await asking(half, adding(b""))
    response = await soon(running.request(request()))
    assert response.status == 424
    assert b"from pre with message" in response.body
    assert b"the connection ended in the middle of the body" in response.body
    assert f"container=http://{HOST}:{first.port} " in caplog.text


async def test_who_is_silent_is_named(asking):
    async def silent(_):
        await asyncio.Event().wait()

    running, _ = await asking(adding(b""), stage(silent), invocation_timeout=0.2)
    response = await soon(running.request(request()))
    assert response.status == 424
    assert b"waiting for a response from container model" in response.body


async def test_one_that_takes_no_connection_is_named_and_its_instance_looked_after(
    asking, monkeypatch
):
    told = []
    monkeypatch.setattr(Lease, "unreachable", lambda lease: told.append(lease.instance.id))
    running, (pre, model) = await asking(adding(b""), adding(b""))
    await model.__aexit__()
    response = await soon(running.request(request()))
    assert response.status == 424
    assert b"from model with message" in response.body
    assert len(told) == 1
    assert [len(call.heads) for call in pre.calls if call.heads] == [1]


async def test_the_one_that_is_named_and_no_other(asking):
    running, (pre, model) = await asking(adding(b" pre"), adding(b" model"), execution="direct")
    for name in ("pre", "model"):
        asked = request(Accept="a/b", **{TARGET: name})
        response = await soon(running.request(asked))
        assert (response.status, response.body) == (200, f"hi {name}".encode())
    assert [sum(len(call.heads) for call in each.calls) for each in (pre, model)] == [1, 1]
    assert head_of(model)["Accept"] == "a/b"
    assert head_of(model)[TARGET] == "model"


@pytest.mark.parametrize("operation", ["invocations", "invocations-response-stream"])
async def test_where_one_must_be_named_nobody_is_asked_without(asking, operation, caplog):
    caplog.set_level(logging.INFO, "partway.gateway")
    running, there = await asking(adding(b""), adding(b""), execution="direct")
    for headers in ({}, {TARGET: "other"}):
        response = await soon(running.request(request(operation=operation, **headers)))
        assert response.status == 400
        assert response.headers["x-amzn-errortype"] == "ValidationError"
        assert b"pre, model" in response.body
        refused = caplog.messages[-1]
        assert (f"endpoint={ENDPOINT}" in refused, "container=" in refused) == (True, False)
    assert not any(call.heads for each in there for call in each.calls)
