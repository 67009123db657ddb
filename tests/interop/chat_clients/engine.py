"""A stub of a server such as vLLM: it says what its last message says, and obeys every option.

It answers at OpenAI's paths, and at ``/invocations`` as SageMaker's containers do. Some messages
have an effect of their own:

=================  ===============================================================================
``count``          numbers without an end, until the client leaves
``be busy``        429, with a time to wait
``fail``           400, with a reason
=================  ===============================================================================

A request with tools gets a call of the first tool, and the tool's result gets an answer. A request
with a JSON schema gets an object that follows it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

REASON = "the stub was told to fail"
BUSY = "the stub was told to be busy"

#: Events of the endless answer are this many seconds apart.
PAUSE = 0.01

#: Numbers of an answer without an end. No test takes as long.
ENDLESS = 100_000

_HEAD = {"id": "chatcmpl-stub", "created": 1, "model": "stub"}


class Engine:
    """The stub.

    Attributes:
        url: where it listens.
        left: how many clients have left in the middle of an answer.
        asked: the body of the request before, or an empty object.
    """

    def __init__(self) -> None:
        self.url = ""
        self.left = 0
        self.asked: Mapping[str, Any] = {}
        self._news = asyncio.Condition()

    @classmethod
    @asynccontextmanager
    async def start(cls) -> AsyncIterator[Engine]:
        """Serve it on a free port."""
        engine = cls()
        app = web.Application(client_max_size=1 << 24)
        app.router.add_get("/ping", _ping)
        app.router.add_get("/v1/models", _models)
        app.router.add_post("/v1/chat/completions", engine.chat)
        app.router.add_post("/v1/completions", engine.completion)
        app.router.add_post("/v1/embeddings", engine.embeddings)
        app.router.add_post("/invocations", engine.invocations)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            engine.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield engine
        finally:
            await runner.cleanup()

    async def lost_more_than(self, before: int) -> None:
        """Return once more clients have left than before."""
        async with self._news:
            await self._news.wait_for(lambda: self.left > before)

    # --- Operations ------------------------------------------------------------------------------

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.asked = asked = await request.json()
        text = _said(asked["messages"][-1])
        match text:
            case "fail":
                return _error(400, REASON)
            case "be busy":
                return _error(429, BUSY)
            case "count":
                return await self._count(request, lambda text: _chunk({"content": text}))
        delta, reason = _answer(asked, text)
        usage = _usage(text, delta.get("content") or "")
        if not asked.get("stream"):
            message = {"role": "assistant", "content": None, **delta}
            choice = {"index": 0, "message": message, "finish_reason": reason}
            whole = {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage}
            return web.json_response(whole)
        deltas = [{"role": "assistant", "content": ""}, *_pieces(delta), {}]
        last = len(deltas) - 1
        events: list[dict[str, Any]] = [
            _chunk(each, reason if at == last else None) for at, each in enumerate(deltas)
        ]
        if (asked.get("stream_options") or {}).get("include_usage"):
            events.append({**_HEAD, "object": _CHUNK, "choices": [], "usage": usage})
        return await _in_events(request, *events)

    async def completion(self, request: web.Request) -> web.StreamResponse:
        self.asked = asked = await request.json()
        text = asked["prompt"].upper()
        match asked["prompt"]:
            case "fail":
                return _error(400, REASON)
            case "count":
                return await self._count(request, lambda text: {"choices": [{"text": text}]})
        head = {**_HEAD, "object": "text_completion"}
        if not asked.get("stream"):
            choice = {"index": 0, "text": text, "finish_reason": "stop"}
            whole = {**head, "choices": [choice], "usage": _usage(asked["prompt"], text)}
            return web.json_response(whole)
        choices = [
            *({"index": 0, "text": word, "finish_reason": None} for word in _words(text)),
            {"index": 0, "text": "", "finish_reason": "stop"},
        ]
        return await _in_events(request, *({**head, "choices": [each]} for each in choices))

    async def embeddings(self, request: web.Request) -> web.Response:
        self.asked = asked = await request.json()
        given = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        data = [
            {"object": "embedding", "index": at, "embedding": [float(len(each)), 0.5]}
            for at, each in enumerate(given)
        ]
        usage = {"prompt_tokens": len(given), "total_tokens": len(given)}
        return web.json_response({"object": "list", "data": data, "model": "stub", "usage": usage})

    async def invocations(self, request: web.Request) -> web.StreamResponse:
        """Answer as a chat completion, or in text-generation-inference's form to ``inputs``."""
        asked = await request.json()
        if "inputs" not in asked:
            return await self.chat(request)
        self.asked = asked
        text = asked["inputs"].upper()
        if asked["inputs"] == "fail":
            return _error(400, REASON)
        if asked["inputs"] == "count":
            return await self._count(request, lambda text: {"token": {"text": text}})
        if not asked.get("stream"):
            return web.json_response([{"generated_text": text}])
        tokens = [{"token": {"text": word}, "generated_text": None} for word in _words(text)]
        return await _in_events(request, *tokens, done=False)

    async def _count(
        self, request: web.Request, event: Callable[[str], object]
    ) -> web.StreamResponse:
        response = await _begun(request)
        try:
            for number in range(ENDLESS):
                await response.write(_event(event(f"{number} ")))
                await asyncio.sleep(PAUSE)  # an engine has its pace
        except (asyncio.CancelledError, ConnectionError):
            async with self._news:
                self.left += 1
                self._news.notify_all()
            raise
        return response


async def _ping(_: web.Request) -> web.Response:
    return web.Response()


async def _models(_: web.Request) -> web.Response:
    model = {"id": "stub", "object": "model", "created": 1, "owned_by": "nobody"}
    return web.json_response({"object": "list", "data": [model]})


# --- Answers -------------------------------------------------------------------------------------

_CHUNK = "chat.completion.chunk"


def _said(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = " ".join(each["text"] for each in content if each["type"] == "text")
    return f"the tool said {content}" if message["role"] == "tool" else content


def _answer(asked: Mapping[str, Any], text: str) -> tuple[dict[str, Any], str]:
    """Return the answer's message but for its role, and why it ends."""
    schema = (asked.get("response_format") or {}).get("json_schema")
    if schema is not None:
        return {"content": json.dumps(_example(schema["schema"]))}, "stop"
    tools = asked.get("tools")
    if tools and asked["messages"][-1]["role"] != "tool":
        function = tools[0]["function"]
        arguments = json.dumps(_example(function.get("parameters") or {}))
        call = {"name": function["name"], "arguments": arguments}
        calls = [{"index": 0, "id": "call-1", "type": "function", "function": call}]
        return {"tool_calls": calls}, "tool_calls"
    return {"content": text.upper()}, "stop"


def _example(schema: Mapping[str, Any]) -> Any:
    """Return a value that follows a schema of the types that the clients here use."""
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: _example(each) for name, each in properties.items()}
        case "integer" | "number":
            return 7
        case _:
            return "Oslo"


def _pieces(delta: dict[str, Any]) -> list[dict[str, Any]]:
    if "content" in delta:
        return [{"content": word} for word in _words(delta["content"])]
    (call,) = delta["tool_calls"]
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    half = len(arguments) // 2
    begin = {**call, "function": {"name": name, "arguments": ""}}
    return [
        {"tool_calls": [begin]},
        *(
            {"tool_calls": [{"index": 0, "function": {"arguments": each}}]}
            for each in (arguments[:half], arguments[half:])
        ),
    ]


def _words(text: str) -> list[str]:
    """Return the words, each but the first with the space before it."""
    first, *others = text.split(" ")
    return [first, *(f" {word}" for word in others)]


def _usage(prompt: str, answer: str) -> dict[str, int]:
    counts = len(prompt.split()), len(answer.split())
    return {
        "prompt_tokens": counts[0],
        "completion_tokens": counts[1],
        "total_tokens": sum(counts),
    }


def _chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {**_HEAD, "object": _CHUNK, "choices": [choice]}


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


async def _begun(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


async def _in_events(
    request: web.Request, *events: object, done: bool = True
) -> web.StreamResponse:
    response = await _begun(request)
    for event in events:
        await response.write(_event(event))
    if done:
        await response.write(b"data: [DONE]\n\n")
    return response


def _error(status: int, reason: str) -> web.Response:
    error = {"message": reason, "type": "invalid_request_error", "code": None, "param": None}
    body = json.dumps({"error": error}, ensure_ascii=False)
    return web.json_response(text=body, status=status, headers={"retry-after-ms": "1"})
