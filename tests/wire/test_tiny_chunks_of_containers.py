"""Containers that answer in chunks of one byte, without end: who else waits, at each door."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.containers.answers import AnswerParser
from partway.protocol.connections.fair_turns import rounds
from tests.gateway.containers.containers import ScriptedContainer
from tests.wire.peers import ENDPOINT, eventually, soon

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
TINY = b"1\r\nx\r\n" * 10_000
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
ANSWERS = 8

#: Chunks that may be parsed between a neighbour's request and its response: some forty turns of
#: the loop, each with one turn of an answer. A dozen are usual.
WAITED = 30_000

DOORS = {
    "InvokeEndpoint": f"/endpoints/{ENDPOINT}/invocations",
    "InvokeEndpointWithResponseStream": f"/endpoints/{ENDPOINT}/invocations-response-stream",
    "predict": f"/v1/models/{ENDPOINT}:predict",
    "rawPredict": f"/v1/projects/p/locations/l/endpoints/{ENDPOINT}:rawPredict",
    "infer": f"/v2/models/{ENDPOINT}/infer",
}
V1 = b'{"instances":[[1,2]]}'
V2 = b'{"inputs":[{"name":"x","datatype":"INT8","shape":[1],"data":[1]}]}'


async def tiny_chunks(call):
    head = await call.head()
    if head.startswith(b"GET /ping "):
        call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        return
    await call.body(head)
    call.say(HEAD)
    while True:
        call.say(TINY)
        await call.writer.drain()


@pytest.fixture
def parsed(monkeypatch):
    """How many chunks of answers have been parsed."""
    parsed = [0]
    hand_over = AnswerParser._hand_over

    def counted(parser, data, *, ends_chunk):
        parsed[0] += 1
        hand_over(parser, data, ends_chunk=ends_chunk)

    monkeypatch.setattr(AnswerParser, "_hand_over", counted)
    return parsed


@pytest.mark.parametrize("door", DOORS)
async def test_neighbours_wait_for_a_few_chunks(gateway_for, parsed, door):
    """And once the clients have left, nothing is done for them any more."""
    async with ScriptedContainer(tiny_chunks) as container:
        gateway = await gateway_for(container_port=container.port)
        body = V2 if door == "infer" else V1
        head = f"POST {DOORS[door]} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        clients = [await gateway.connect() for _ in range(ANSWERS)]
        taking = []
        for client in clients:
            client.send(request)
            taking.append(asyncio.create_task(_take(client.reader)))
        await eventually(lambda: parsed[0] > WAITED)
        neighbour = await gateway.connect()
        waited = []
        for _ in range(10):
            before = parsed[0]
            neighbour.send(HEALTHZ)
            assert (await neighbour.response()).status == 200
            waited.append(parsed[0] - before)
        assert max(waited) <= WAITED
        for task in taking:
            task.cancel()
        for client in clients:
            client.abort()
        invocations = [call for call in container.calls if b"POST" in b"".join(call.heads)]
        assert len(invocations) == ANSWERS
        for call in invocations:
            await soon(call.ended.wait())
        await eventually(lambda: not rounds.busy())


async def _take(reader):
    while await reader.read(65_536):
        pass
