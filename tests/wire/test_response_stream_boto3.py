"""boto3, unmodified, reads a response stream; each of its words is signed for."""

from __future__ import annotations

import asyncio

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, EventStreamError

from partway.container.model import Model, Reply
from partway.container.models.echo import Echo
from partway.container.testing import serving
from tests.gateway.apis.aws_client import aws
from tests.wire.chunked_peers import chunk
from tests.wire.event_signing import KEY_ID, SECRET
from tests.wire.peers import ENDPOINT, soon
from tests.wire.response_streams import (
    HEAD,
    LAST_CHUNK,
    AnsweringContainer,
    body_of,
    chunked,
    left,
    tokens,
)

PRINCIPALS = f"""
[[principals]]
name = "chat"
[[principals.keys]]
access_key_id = "{KEY_ID}"
secret_access_key = "{SECRET}"
"""


@pytest.fixture
async def container(anyio_backend):
    """A container that answers invocations as the test says."""
    async with AnsweringContainer() as container:
        yield container


class Boto:
    """A client of boto3, each of whose calls has a thread while it waits."""

    def __init__(self, port):
        self.bodies = []
        self.client = aws("sagemaker-runtime", port, Credentials(KEY_ID, SECRET))

    def ask(self, body=b"prompt", **members):
        """Ask for a stream, in a task: it answers when the container's head has come."""

        def call():
            response = self.client.invoke_endpoint_with_response_stream(
                EndpointName=ENDPOINT, Body=body, **members
            )
            self.bodies.append(response["Body"])
            return response

        return asyncio.create_task(asyncio.to_thread(call))

    def close(self):
        """Close every socket now: botocore leaves that to the collection of its garbage."""
        for body in self.bodies:
            body.close()
        pools = self.client._endpoint.http_session._manager.pools
        for host in pools.keys():  # noqa: SIM118 (it cannot be iterated over)
            pools[host].close()
        self.client.close()


async def event(events):
    """The next event; None behind the last."""
    return await soon(asyncio.to_thread(next, events, None), "an event")


async def rest(events):
    found = await soon(asyncio.to_thread(list, events), "the end of a stream")
    return [each["PayloadPart"]["Bytes"] for each in found]


@pytest.fixture
async def boto(gateway_for, tmp_path):
    """Starts a gateway that asks for signatures; a client that signs."""
    path = tmp_path / "principals.toml"
    path.write_text(PRINCIPALS)
    path.chmod(0o600)
    clients = []

    async def start(**gateway):
        started = await gateway_for(auth="sigv4", principals=path, **gateway)
        clients.append(Boto(started.port))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def streaming(boto, container):
    """A stream that boto3 has been given; its events, the response and the invocation."""

    async def start(head=HEAD, **members):
        asked = (await boto()).ask(**members)
        invocation = await container.invocation()
        assert await body_of(invocation) == b"prompt"
        invocation.send(head)
        response = await soon(asked, "boto3's answer")
        return iter(response["Body"]), response, invocation

    return start


async def test_each_chunk_is_a_part_before_the_next_is_there(streaming):
    head = HEAD.replace(b"\r\n\r\n", b"\r\nX-Amzn-SageMaker-Custom-Attributes: trace=2\r\n\r\n")
    events, response, invocation = await streaming(
        head, ContentType="text/plain", Accept="text/event-stream", CustomAttributes="trace=1"
    )
    assert invocation.header("content-type") == "text/plain"
    assert invocation.header("accept") == "text/event-stream"
    assert invocation.header("x-amzn-sagemaker-custom-attributes") == "trace=1"
    assert response["ContentType"] == "text/plain"
    assert response["CustomAttributes"] == "trace=2"
    assert response["InvokedProductionVariant"] == "AllTraffic"
    for token in tokens(20):
        invocation.send(chunk(token))
        assert await event(events) == {"PayloadPart": {"Bytes": token}}
    invocation.send(LAST_CHUNK)
    assert await event(events) is None


async def test_two_hundred_tokens_at_once(streaming):
    events, _, invocation = await streaming()
    invocation.send(chunked(tokens()))
    assert await rest(events) == tokens()


async def test_an_answer_that_breaks(streaming):
    events, _, invocation = await streaming()
    invocation.send(chunk(b"one"))
    assert await event(events) == {"PayloadPart": {"Bytes": b"one"}}
    invocation.reset()
    with pytest.raises(EventStreamError) as raised:
        await event(events)
    assert raised.value.response["Error"]["Code"] == "ModelStreamError"
    assert "the container" in raised.value.response["Error"]["Message"]


async def test_a_container_that_refuses(streaming):
    with pytest.raises(ClientError) as raised:
        await streaming(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
    error = raised.value.response
    assert error["Error"]["Code"] == "ModelError"
    assert (error["OriginalStatusCode"], error["OriginalMessage"]) == (503, "busy")
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 424


async def test_a_client_that_closes_the_stream_cancels_the_request(streaming):
    events, response, invocation = await streaming()
    invocation.send(chunk(b"one"))
    assert await event(events) == {"PayloadPart": {"Bytes": b"one"}}
    response["Body"].close()
    await left(invocation)


# --- Partway's own containers ------------------------------------------------------------------


class Words(Model):
    """Says its words one by one, each when it is let."""

    def __init__(self):
        self.let = asyncio.Queue()

    async def invoke(self, request):
        text = (await request.read()).decode()
        return Reply(self._words(text), headers={ATTRIBUTES: "model=words"})

    async def _words(self, text):
        for word in text.split():
            await self.let.get()
            yield word


ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"


async def test_a_model_on_partways_runtime_word_by_word(boto):
    model = Words()
    async with serving(model) as served:
        client = await boto(container_port=int(served.url.rpartition(":")[2]))
        model.let.put_nowait(True)  # the runtime's head waits for the first word, or its failure
        response = await soon(client.ask(body=b"to be or"), "boto3's answer")
        assert response["ContentType"] == "text/plain; charset=utf-8"
        assert response["CustomAttributes"] == "model=words"
        events = iter(response["Body"])
        for word in (b"to", b"be", b"or"):
            assert await event(events) == {"PayloadPart": {"Bytes": word}}
            model.let.put_nowait(True)
        assert await event(events) is None


async def test_echo_through_boto3(boto):
    body = bytes(range(256)) * 1000
    async with serving(Echo()) as served:
        client = await boto(container_port=int(served.url.rpartition(":")[2]))
        response = await soon(client.ask(body=body), "boto3's answer")
        assert b"".join(await rest(iter(response["Body"]))) == body
