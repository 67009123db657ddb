"""The model ``chat`` before an upstream: streams, requests, and every way in which one fails."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import pytest
import websockets
from aiohttp import web

from partway.container.models.chat.conversation import MAX_REMEMBERED, RememberedTurns
from partway.container.models.chat.model import Chat
from partway.container.models.chat.settings import ChatSettings
from partway.container.testing import Served, serving
from partway.protocol.openai.errors import error_body
from tests.container.models.chat.upstreams import Answer, FakeUpstream, chunk, in_events, upstream
from tests.wire.peers import eventually

PATIENCE = 20.0
pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


async def hello(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
    return await in_events(request, chunk("", role="assistant"), chunk("Hel"), chunk("lo"))


async def waiting(fake: FakeUpstream, request: web.Request) -> web.StreamResponse:
    """Say one word, and the rest once the test lets it."""
    if len(fake.requests) > 1:
        return await in_events(request, chunk("second"))
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b"data: " + json.dumps(chunk("first")).encode() + b"\n\n")
    await fake.go_on.wait()
    return response


async def broken(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
    return await in_events(request, chunk("Hel"), done=False)


async def unfinished(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b"data: " + json.dumps(chunk("Hel")).encode() + b"\n\n")
    await response.write_eof()
    return response


async def failing(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
    return await in_events(request, chunk("Hel"), {"error": {"message": "no memory"}})


async def silent(fake: FakeUpstream, _: web.Request) -> web.StreamResponse:
    await fake.go_on.wait()
    return web.Response()


async def busy(_: FakeUpstream, __: web.Request) -> web.StreamResponse:
    error = {"error": {"message": "slow down", "code": "rate_limit"}}
    return web.json_response(error, status=429, headers={"retry-after-ms": "5"})


async def wrong(_: FakeUpstream, __: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "no such model"}}, status=404)


class Running:
    """A served model, and its upstreams."""

    def __init__(self, served: Served, fakes: list[FakeUpstream]) -> None:
        self.served = served
        self.fakes = fakes


@pytest.fixture
async def start(anyio_backend: object) -> AsyncIterator[object]:
    """Serves the model before upstreams: ``running = await start(hello, system="…")``."""
    async with AsyncExitStack() as stack:

        async def begin(*answers: Answer, gone: int = 0, **settings: object) -> Running:
            fakes = [await stack.enter_async_context(upstream(each)) for each in answers]
            urls = [*["http://127.0.0.1:9/v1"] * gone, *(fake.url for fake in fakes)]
            model = Chat(ChatSettings(upstreams=tuple(urls), **settings))
            return Running(await stack.enter_async_context(serving(model)), fakes)

        yield begin


async def reply(client) -> list[str]:
    """The fragments of the next message."""
    async with asyncio.timeout(PATIENCE):
        return [fragment async for fragment in client.recv_streaming()]


async def until_closed(client) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            await client.recv()


# --- Conversations in plain text -----------------------------------------------------------------


async def test_a_message_gets_a_message_fragment_by_fragment(start) -> None:
    options = {"temperature": 0}
    running = await start(hello, model="m", system="Be brief.", api_key="secret", options=options)
    async with running.served.stream() as client:
        await client.send("hi {there}")
        assert await reply(client) == ["Hel", "lo", ""]
        await client.send("again")
        assert await reply(client) == ["Hel", "lo", ""]
    (_, first, headers), (_, second, _) = running.fakes[0].requests
    assert first["model"] == "m"
    assert first["stream"] is True
    assert first["temperature"] == 0
    assert headers["Authorization"] == "Bearer secret"
    system = {"role": "system", "content": "Be brief."}
    user = {"role": "user", "content": "hi {there}"}
    said = {"role": "assistant", "content": "Hello"}
    assert first["messages"] == [system, user]
    assert second["messages"] == [system, user, said, {"role": "user", "content": "again"}]


async def test_a_message_during_a_reply_cancels_the_upstream(start) -> None:
    running = await start(waiting)
    async with running.served.stream() as client:
        await client.send("one")
        fragments = client.recv_streaming()
        assert await anext(fragments) == "first"
        await client.send("two")
        assert [each async for each in fragments] == [""]
        assert await reply(client) == ["second", ""]
        await asyncio.wait_for(running.fakes[0].left.wait(), PATIENCE)
    roles = [turn["role"] for turn in running.fakes[0].requests[1][1]["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert running.fakes[0].requests[1][1]["messages"][1]["content"] == "first"


async def test_a_client_that_leaves_cancels_the_upstream(start) -> None:
    running = await start(waiting)
    async with running.served.stream() as client:
        await client.send("one")
        assert await anext(client.recv_streaming()) == "first"
        client.transport.abort()
    await asyncio.wait_for(running.fakes[0].left.wait(), PATIENCE)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (broken, "the upstream's answer broke off: the connection ended before its end"),
        (unfinished, "the upstream's answer broke off: it ended without [DONE]"),
        (failing, "the upstream failed: no memory"),
        (busy, "the upstream answered 429: slow down"),
        (wrong, "the upstream answered 404: no such model"),
        (silent, "the upstream did not answer within 0.2 s"),
    ],
)
async def test_a_failure_ends_the_stream_with_its_reason(start, answer, reason) -> None:
    running = await start(answer, timeout=0.2 if answer is silent else PATIENCE)
    async with running.served.stream() as client:
        await client.send("hi")
        with pytest.raises(websockets.ConnectionClosedError) as caught:
            await until_closed(client)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1011
    assert caught.value.rcvd.reason.startswith(reason)


async def answering_the_second(fake: FakeUpstream, request: web.Request) -> web.StreamResponse:
    if len(fake.requests) > 1:
        return await in_events(request, chunk("second"))
    await fake.go_on.wait()
    return web.Response()


async def test_messages_without_a_reply_are_joined(start) -> None:
    """Some chat templates refuse two turns of a user's in a row."""
    running = await start(answering_the_second)
    async with running.served.stream() as client:
        await client.send("one")
        await eventually(lambda: bool(running.fakes[0].requests))
        await client.send("two")
        assert await reply(client) == [""]
        assert await reply(client) == ["second", ""]
    assert running.fakes[0].requests[1][1]["messages"] == [{"role": "user", "content": "one\ntwo"}]


def test_the_oldest_turns_are_dropped_up_to_a_user_s() -> None:
    turns = RememberedTurns(4)
    for number in range(4):
        turns.add("user", f"u{number}")
        turns.add("assistant", f"a{number}")
    assert [turn["content"] for turn in turns.all] == ["u2", "a2", "u3", "a3"]
    turns.add("user", "x" * MAX_REMEMBERED)
    assert [turn["role"] for turn in turns.all] == ["user"]


async def test_the_log_asks_about_the_url_of_an_upstream_that_answers_404(
    start, caplog: pytest.LogCaptureFixture
) -> None:
    running = await start(wrong)
    async with running.served.stream() as client:
        await client.send("hi")
        with pytest.raises(websockets.ConnectionClosedError):
            await until_closed(client)
    upstream = f"upstream={running.fakes[0].url} path=chat/completions status=404"
    assert f"does its URL end in /v1? {upstream}" in caplog.text


# --- Several upstreams ---------------------------------------------------------------------------


@pytest.mark.parametrize("first", [busy, None], ids=["busy", "not there"])
async def test_another_upstream_is_tried_before_the_first_byte(start, first) -> None:
    answers = (hello,) if first is None else (first, hello)
    running = await start(*answers, gone=int(first is None))
    async with running.served.stream() as client:
        await client.send("hi")
        assert await reply(client) == ["Hel", "lo", ""]


@pytest.mark.parametrize("first", [wrong, broken])
async def test_no_other_upstream_is_tried_after_that(start, first) -> None:
    running = await start(first, hello)
    async with running.served.stream() as client:
        await client.send("hi")
        with pytest.raises(websockets.ConnectionClosedError):
            await until_closed(client)
    assert running.fakes[1].requests == []


async def test_no_upstream_at_all(start) -> None:
    running = await start(gone=2)
    async with running.served.stream() as client:
        await client.send("hi")
        with pytest.raises(websockets.ConnectionClosedError, match="no upstream can be reached"):
            await client.recv()


# --- Chunks, unchanged ---------------------------------------------------------------------------


async def test_chunks_are_messages_unchanged(start) -> None:
    async def tools(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
        return await in_events(request, chunk("", tool_calls=[{"index": 0}]), {"usage": 7})

    running = await start(tools, model="m")
    async with running.served.stream("v1/chat/completions") as client:
        asked = {"messages": [{"role": "tool", "content": "7"}], "tools": [{}], "model": ""}
        await client.send(json.dumps(asked))
        got = [await client.recv() for _ in range(3)]
    assert [json.loads(each) for each in got[:2]] == [
        chunk("", tool_calls=[{"index": 0}]),
        {"usage": 7},
    ]
    assert got[2] == "[DONE]"
    assert running.fakes[0].requests[0][1] == {**asked, "model": "m", "stream": True}


async def test_chunks_that_break_off_end_with_an_error_and_never_with_done(start) -> None:
    running = await start(broken)
    async with running.served.stream("v1/chat/completions") as client:
        await client.send('{"messages": []}')
        assert json.loads(await client.recv()) == chunk("Hel")
        error = json.loads(await client.recv())["error"]
        assert error["message"].startswith("the upstream's answer broke off: ")
        with pytest.raises(websockets.ConnectionClosedError):
            await client.recv()


async def test_a_message_that_is_no_request_is_refused(start) -> None:
    running = await start(hello)
    async with running.served.stream("v1/chat/completions") as client:
        await client.send("hi")
        with pytest.raises(websockets.ConnectionClosedError, match="must be a JSON object"):
            await client.recv()


# --- Requests ------------------------------------------------------------------------------------


async def post(url: str, path: str, body: object) -> tuple[int, dict[str, str], bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/{path}", json=body) as response,
    ):
        return response.status, dict(response.headers), await response.read()


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("invocations", "chat/completions"),
        ("v1/chat/completions", "chat/completions"),
        ("v1/completions", "completions"),
        ("v1/embeddings", "embeddings"),
        ("v1/responses", "responses"),
    ],
)
async def test_a_request_is_forwarded(start, path, there) -> None:
    running = await start(hello, model="m")
    status, headers, body = await post(running.served.url, path, {"a": 1, "model": ""})
    assert (status, headers["Content-Type"]) == (200, "text/event-stream")
    assert body.endswith(b"data: [DONE]\n\n")
    line, asked, _ = running.fakes[0].requests[0]
    assert line == f"POST /v1/{there}"
    assert asked == {"a": 1, "model": "m"}


async def test_models_are_the_upstream_s(start) -> None:
    running = await start(hello)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{running.served.url}/v1/models") as response,
    ):
        assert response.status == 200
    assert running.fakes[0].requests[0][0] == "GET /v1/models"


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [(busy, 429, "slow down"), (wrong, 404, "no such model"), (None, 502, "no upstream can be")],
)
async def test_a_refusal_passes_through(start, answer, status, says) -> None:
    running = await (start(gone=1) if answer is None else start(answer))
    found, headers, body = await post(running.served.url, "v1/chat/completions", {})
    assert found == status
    assert json.loads(body)["error"]["message"].startswith(says)
    assert headers.get("retry-after-ms") == ("5" if answer is busy else None)


async def compressed(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
    assert request.headers["Accept-Encoding"] == "identity"
    return web.Response(body=gzip.compress(bytes(10_000)), headers={"Content-Encoding": "gzip"})


async def test_a_compressed_answer_is_refused(start) -> None:
    running = await start(compressed)
    found, _, body = await post(running.served.url, "v1/chat/completions", {})
    assert found == 502
    says = "the upstream's answer must not be compressed"
    assert json.loads(body)["error"]["message"] == says


async def made(_: FakeUpstream, __: web.Request) -> web.StreamResponse:
    return web.json_response({"id": "1"}, status=201)


async def nothing(_: FakeUpstream, __: web.Request) -> web.StreamResponse:
    return web.Response(status=204)


async def elsewhere(_: FakeUpstream, __: web.Request) -> web.StreamResponse:
    return web.Response(status=307, headers={"Location": "/v1/elsewhere"})


LONG = json.dumps({"error": {"message": "no " + "x" * 2000}}).encode()


async def in_pieces(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=400, headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for piece in (LONG[:100], LONG[100:]):
        await response.write(piece)
    return response


async def too_long(_: FakeUpstream, __: web.Request) -> web.StreamResponse:
    return web.Response(status=400, body=b"x" * 200_000)


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (made, 201, b'{"id": "1"}'),
        (nothing, 204, b""),
        (elsewhere, 502, b""),
        (in_pieces, 400, LONG),
        (too_long, 400, error_body("x" * 200, 400)),
    ],
    ids=["201", "204", "a redirect", "a refusal in pieces", "a refusal that is too long"],
)
async def test_status_and_body_pass_through(start, answer, status, body) -> None:
    running = await start(answer)
    assert (await post(running.served.url, "v1/responses", {}))[::2] == (status, body)
    assert len(running.fakes[0].requests) == 1


async def test_an_answer_that_breaks_off_is_not_whole(start) -> None:
    running = await start(broken)
    with pytest.raises(aiohttp.ClientPayloadError):
        await post(running.served.url, "v1/chat/completions", {"stream": True})
