"""``inputs`` on ``/invocations`` of ``chat``, before an upstream that completes text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from partway.container.models.chat import text_inputs
from partway.container.models.chat.model import Chat
from partway.container.models.chat.settings import ChatSettings
from partway.container.testing import serving
from tests.container.models.chat.upstreams import Answer, FakeUpstream, in_events, upstream

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


def piece(text: str | None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text}]}


async def hello(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
    return await in_events(request, piece("Hel"), piece(""), piece("lo \ud83d"), {"choices": []})


async def failing(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
    return await in_events(request, piece("Hel"), {"error": {"message": "no memory"}})


async def wrong(_: FakeUpstream, __: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "no such model"}}, status=404)


async def endless(fake: FakeUpstream, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b"data: " + json.dumps(piece("first")).encode() + b"\n\n")
    await fake.go_on.wait()
    return response


class Running:
    """A served model, and its upstream."""

    def __init__(self, url: str, fake: FakeUpstream) -> None:
        self.url = f"{url}/invocations"
        self.fake = fake

    async def ask(self, **members: object) -> tuple[int, bytes]:
        return await self.send(json.dumps(members).encode())

    async def send(self, body: bytes) -> tuple[int, bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                self.url, data=body, headers={"Content-Type": "application/json"}
            ) as response,
        ):
            return response.status, await response.read()


@pytest.fixture
async def start(anyio_backend: object) -> AsyncIterator[object]:
    """Serves the model before an upstream: ``running = await start(hello)``."""
    async with AsyncExitStack() as stack:

        async def begin(answer: Answer) -> Running:
            fake = await stack.enter_async_context(upstream(answer))
            served = await stack.enter_async_context(serving(Chat(ChatSettings((fake.url,), "m"))))
            return Running(served.url, fake)

        yield begin


def events_of(body: bytes) -> list[Any]:
    return [json.loads(each.removeprefix(b"data: ")) for each in body.split(b"\n\n")[:-1]]


async def test_a_whole_answer(start) -> None:
    running = await start(hello)
    parameters = {"max_new_tokens": 8, "top_k": 3, "do_sample": False, "details": True}
    status, body = await running.ask(inputs="hi ", parameters=parameters)
    assert (status, json.loads(body)) == (200, [{"generated_text": "Hello ?"}])
    ((line, asked, _),) = running.fake.requests
    assert line == "POST /v1/completions"
    sent = {"max_tokens": 8, "top_k": 3, "temperature": 0}
    assert asked == {"model": "m", "prompt": "hi ", **sent, "stream": True}
    _, body = await running.ask(inputs="hi ", parameters={"return_full_text": True})
    assert json.loads(body) == [{"generated_text": "hi Hello ?"}]


async def test_of_a_repeated_member_the_last_counts(start) -> None:
    running = await start(hello)
    await running.send(
        b'{"inputs": "\\ud83d", "stream": 1, "inputs": "hi \\ud83d", "stream": null}'
    )
    ((_, asked, _),) = running.fake.requests
    assert asked["prompt"] == "hi \ud83d"


@pytest.mark.parametrize(
    "body",
    [
        b'{"inputs": %b}' % (b"1" * 5000),
        b'{"inputs": "hi", "parameters": %b}' % (b"[" * 900 + b"]" * 900),
        b'{"inputs": "hi", "parameters": {"top_k": %b}}' % (b"1" * 5000),
    ],
)
async def test_a_value_that_cannot_be_read_is_refused(start, body) -> None:
    """JSON allows numbers of any length; Python's reader takes up to 4,300 digits."""
    running = await start(hello)
    status, answer = await running.send(body)
    assert status == 400
    assert json.loads(answer)["error"]["message"].startswith(("inputs: ", "parameters: "))


async def test_a_member_without_a_meaning_is_not_read(start) -> None:
    running = await start(hello)
    status, _ = await running.send(b'{"inputs": "x", "a": %b}' % (b"1" * 5000))
    assert status == 200


async def test_an_answer_in_events(start) -> None:
    running = await start(hello)
    status, body = await running.ask(inputs="hi", stream=True)
    *tokens, last = events_of(body)
    assert (status, [each["token"]["text"] for each in tokens]) == (200, ["Hel", "lo ?"])
    assert [each["generated_text"] for each in tokens] == [None, None]
    assert (last["token"]["text"], last["generated_text"]) == ("", "Hello ?")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_upstream_s_refusal_passes_through(start, stream) -> None:
    running = await start(wrong)
    status, body = await running.ask(inputs="hi", stream=stream)
    assert (status, json.loads(body)) == (404, {"error": {"message": "no such model"}})


async def test_an_upstream_that_fails_in_its_answer(start) -> None:
    running = await start(failing)
    status, body = await running.ask(inputs="hi", stream=True)
    first, last = events_of(body)
    assert (status, first["token"]["text"]) == (200, "Hel")
    assert last["error"]["message"] == "the upstream failed: no memory"
    status, body = await running.ask(inputs="hi")
    assert (status, json.loads(body)["error"]["message"]) == (500, "the upstream failed: no memory")


async def test_an_answer_that_is_too_long(start, monkeypatch) -> None:
    monkeypatch.setattr(text_inputs, "MAX_ANSWER_BYTES", 60)
    running = await start(hello)
    status, body = await running.ask(inputs="hi")
    reason = "the upstream's answer has more than 60 bytes"
    assert (status, json.loads(body)["error"]["message"]) == (502, reason)


async def test_a_client_that_leaves_ends_the_upstream_s_work(start) -> None:
    running = await start(endless)
    async with (
        aiohttp.ClientSession() as session,
        session.post(running.url, json={"inputs": "hi", "stream": True}) as response,
    ):
        assert b"first" in await response.content.readuntil(b"\n\n")
    await asyncio.wait_for(running.fake.left.wait(), 20.0)


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"inputs": ["a"]}, "inputs: must be one string"),
        ({"inputs": "a", "parameters": 1}, "parameters: must be an object"),
        ({"inputs": "a", "stream": 1}, "stream: must be true or false"),
    ],
)
async def test_a_member_of_another_type_is_refused(start, members, says) -> None:
    running = await start(hello)
    status, body = await running.ask(**members)
    assert (status, json.loads(body)["error"]["message"]) == (400, says)
    assert running.fake.requests == []


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"messages": [], "inputs": "a"}, "chat/completions"),
        ({"prompt": "a"}, "completions"),
        ({"input": "a"}, "embeddings"),
        ({}, "chat/completions"),
    ],
)
async def test_the_path_is_that_of_the_body_s_form(start, members, path) -> None:
    running = await start(wrong)
    await running.ask(**members)
    ((line, asked, _),) = running.fake.requests
    assert (line, asked) == (f"POST /v1/{path}", {**members, "model": "m"})


async def test_events_that_are_closed_before_they_begin(anyio_backend: object) -> None:
    async def events():
        yield json.dumps(piece("Hel")).encode()
        yield json.dumps(piece("lo")).encode()

    source = events()
    pieces = text_inputs.CompletionPieces(source)
    tokens = text_inputs.TokenEvents(pieces, await anext(pieces))
    await tokens.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(source)
