"""A container that serves OpenAI's path, and mutants of it (clauses 1.7-1 to 1.7-5)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

from tests.gateway.workbench.conformance.mutants.base import Container, Request
from tests.gateway.workbench.conformance.mutants.registry import mutant

CHAT = "/v1/chat/completions"
KNOWN = {"model", "messages", "max_tokens", "stream", "stream_options", "store", "metadata"}
WORDS = 32
#: Seconds between two words: a client that leaves with the first is seen before the last.
PAUSE = 0.01


class Refused(Exception):
    """A request that is not served: its status and message."""


class ChatContainer(Container):
    """What the mutants are made of: a model that counts."""

    async def serve(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if request.path.startswith("/v1/") and "upgrade" not in request.headers:
            await self.openai(request, writer)
            return request.headers.get("connection", "").lower() != "close"
        return await super().serve(request, reader, writer)

    async def openai(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if (request.method, request.path) != ("POST", CHAT):
            await self.unknown(request, writer)
            return
        try:
            asked = self.read(request.body)
        except Refused as refused:
            await self.refuse(writer, *refused.args)
            return
        if asked.get("stream"):
            await self.stream_answer(writer, asked)
        else:
            await self.whole(writer, asked)

    async def unknown(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await self.refuse(writer, 404, "no such path")

    def read(self, body: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(body)
        except ValueError:
            raise Refused(400, "the body is not JSON") from None
        if not asked.get("messages"):
            raise Refused(400, "messages: missing")
        return asked

    async def refuse(self, writer: asyncio.StreamWriter, status: int, message: str) -> None:
        error = {"message": message, "type": "invalid_request_error"}
        await self.send_json(writer, {"error": error}, status)

    async def send_json(
        self, writer: asyncio.StreamWriter, document: object, status: int = 200
    ) -> None:
        body = json.dumps(document).encode()
        writer.write(f"HTTP/1.1 {status} .\r\n{self.json_type()}".encode())
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()

    def json_type(self) -> str:
        return "Content-Type: application/json; charset=utf-8\r\n"

    # --- A whole answer ---------------------------------------------------------------------------

    async def whole(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        await self.send_json(writer, self.completion(asked))

    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        words = [f"{number} " for number in range(asked.get("max_tokens", WORDS))]
        return {"object": "chat.completion", "choices": [self.choice("".join(words))]}

    def choice(self, text: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        return {"index": 0, "message": message, "finish_reason": "stop"}

    # --- An answer in events ----------------------------------------------------------------------

    async def stream_answer(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\n{self.event_type()}".encode())
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
        async for event in self.events(asked):
            await self.send_chunk(writer, event)
            await asyncio.sleep(PAUSE)
        await self.send_chunk(writer, b"")

    async def send_chunk(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Send a chunk; an empty one is the last.

        Raises:
            ConnectionError: the client has left. A transport of uvloop would raise a RuntimeError.
        """
        if writer.is_closing():
            raise ConnectionResetError
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()

    def event_type(self) -> str:
        return "Content-Type: text/event-stream\r\n"

    async def events(self, asked: dict[str, Any]) -> AsyncIterator[bytes]:
        yield b": it begins\n\n"
        for number in range(asked.get("max_tokens", WORDS)):
            yield self.event(self.chunk({"content": f"{number} "}))
        yield self.event(self.last_chunk())
        if (asked.get("stream_options") or {}).get("include_usage"):
            yield self.event(self.usage_chunk())
        yield self.done()

    def event(self, chunk: dict[str, Any]) -> bytes:
        return b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n"

    def chunk(self, delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"object": "chat.completion.chunk", "choices": [choice]}

    def last_chunk(self) -> dict[str, Any]:
        return self.chunk({}, "stop")

    def usage_chunk(self) -> dict[str, Any]:
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {"object": "chat.completion.chunk", "choices": [], "usage": usage}

    def done(self) -> bytes:
        return b"data: [DONE]\n\n"


# --- One answer -----------------------------------------------------------------------------------


@mutant("openai.chat")
class WantsModel(ChatContainer):
    """Answers 404 to a model other than its own."""

    def read(self, body: bytes) -> dict[str, Any]:
        asked = super().read(body)
        if asked.get("model") != "counter":
            raise Refused(404, "the model does not exist")
        return asked


@mutant("openai.chat")
class WantsKey(ChatContainer):
    """Answers 401 to every request below /v1 without a key."""

    async def openai(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if "authorization" not in request.headers:
            await self.refuse(writer, 401, "a key is missing")
            return
        await super().openai(request, writer)


@mutant("openai.chat")
class AnswersAsText(ChatContainer):
    """Sends JSON as text/plain."""

    def json_type(self) -> str:
        return "Content-Type: text/plain\r\n"


@mutant("openai.chat")
class AnswersAsCompletion(ChatContainer):
    """Answers a chat in the form of a text completion."""

    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        choice = {"index": 0, "text": "1", "finish_reason": "stop"}
        return {"object": "text_completion", "choices": [choice]}


@mutant("openai.chat")
class NoMessage(ChatContainer):
    """Puts the text where no client looks."""

    def choice(self, text: str) -> dict[str, Any]:
        return {"index": 0, "text": text, "finish_reason": "stop"}


@mutant("openai.chat")
class NoFinishReason(ChatContainer):
    """Does not say why a whole answer ends."""

    def choice(self, text: str) -> dict[str, Any]:
        return {**super().choice(text), "finish_reason": None}


@mutant("openai.chat")
class DiesOfEmptyObject(ChatContainer):
    """Ends with a request without members."""

    def read(self, body: bytes) -> dict[str, Any]:
        if body == b"{}":
            os._exit(3)
        return super().read(body)


# --- An answer in events --------------------------------------------------------------------------


@mutant("openai.stream")
class IgnoresStream(ChatContainer):
    """Sends a whole answer where events were asked for."""

    async def stream_answer(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        await self.whole(writer, asked)


@mutant("openai.stream")
class EventsAsLines(ChatContainer):
    """Sends one JSON object in a line, without data:."""

    def event(self, chunk: dict[str, Any]) -> bytes:
        return json.dumps(chunk).encode() + b"\n"


@mutant("openai.stream")
class EventsAsJson(ChatContainer):
    """Sends events as application/json."""

    def event_type(self) -> str:
        return "Content-Type: application/json\r\n"


@mutant("openai.stream")
class EventsOfText(ChatContainer):
    """Sends plain words as events."""

    def event(self, chunk: dict[str, Any]) -> bytes:
        return b"data: word\n\n"


@mutant("openai.stream")
class WholeMessages(ChatContainer):
    """Sends events with a message instead of a delta."""

    def chunk(self, delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "message": delta, "finish_reason": reason}
        return {"object": "chat.completion.chunk", "choices": [choice]}


@mutant("openai.stream")
class WrongObject(ChatContainer):
    """Names the wrong object in events."""

    def chunk(self, delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        return {**super().chunk(delta, reason), "object": "chat.completion"}


@mutant("openai.end")
class NeverDone(ChatContainer):
    """Ends events without [DONE]."""

    def done(self) -> bytes:
        return b": it ends\n\n"


@mutant("openai.end")
class NoReasonInEvents(ChatContainer):
    """Does not say in events why the answer ends."""

    def last_chunk(self) -> dict[str, Any]:
        return self.chunk({})


@mutant("openai.unbuffered")
class BuffersEvents(ChatContainer):
    """Sends all events when the last one is ready."""

    async def stream_answer(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        body = b"".join([event async for event in self.events(asked)])
        writer.write(f"HTTP/1.1 200 OK\r\n{self.event_type()}".encode())
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()


@mutant("openai.unbuffered")
class BuffersChunks(ChatContainer):
    """Sends all events in one chunk when the last one is ready, as a proxy does that buffers."""

    async def stream_answer(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        body = b"".join([event async for event in self.events(asked)])
        writer.write(f"HTTP/1.1 200 OK\r\n{self.event_type()}".encode())
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
        await self.send_chunk(writer, body)
        await self.send_chunk(writer, b"")


@mutant("openai.usage")
class CountsNoTokens(ChatContainer):
    """Ignores stream_options."""

    def usage_chunk(self) -> dict[str, Any]:
        return self.chunk({})


@mutant("openai.usage")
class RefusesStreamOptions(ChatContainer):
    """Answers 400 to stream_options."""

    def read(self, body: bytes) -> dict[str, Any]:
        asked = super().read(body)
        if "stream_options" in asked:
            raise Refused(400, "stream_options: not here")
        return asked


# --- Other requests -------------------------------------------------------------------------------


@mutant("openai.members")
class RefusesMembers(ChatContainer):
    """Answers 400 to a member that it does not know, and does not name it."""

    def read(self, body: bytes) -> dict[str, Any]:
        asked = super().read(body)
        if not asked.keys() <= KNOWN:
            raise Refused(400, "the request is not valid")
        return asked


@mutant("openai.members")
class FailsOnMembers(ChatContainer):
    """Answers 500 to a member that it does not know, and names it."""

    def read(self, body: bytes) -> dict[str, Any]:
        asked = super().read(body)
        if unknown := asked.keys() - KNOWN:
            raise Refused(500, f"TypeError: unexpected keyword argument {unknown}")
        return asked


@mutant("openai.invalid")
class FailsOnInvalid(ChatContainer):
    """Answers 500 to a request that is not JSON."""

    def read(self, body: bytes) -> dict[str, Any]:
        if not body.startswith(b"{"):
            raise Refused(500, "JSONDecodeError")
        return super().read(body)


@mutant("openai.invalid")
class DetailsOfInvalid(ChatContainer):
    """Refuses a request in FastAPI's form."""

    async def refuse(self, writer: asyncio.StreamWriter, status: int, message: str) -> None:
        await self.send_json(writer, {"detail": message}, status)


@mutant("openai.invalid")
class TakesNoMessages(ChatContainer):
    """Answers a request without messages."""

    def read(self, body: bytes) -> dict[str, Any]:
        return super().read(body.replace(b"8}", b'8, "messages": [1]}'))


class Slots(ChatContainer):
    """Holds a slot for each answer in events, and never gives one back after a fault."""

    slots = 4

    async def stream_answer(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        if not self.slots:
            await self.refuse(writer, 429, "no slot is free")
            return
        self.slots -= 1
        await super().stream_answer(writer, asked)
        self.slots += 1


@mutant("openai.after")
class KeepsSlots(Slots):
    """Has four slots, and never gives that of a client back that has left."""


@mutant("openai.after")
class BarsAfterRefusals(ChatContainer):
    """Answers no chat after five refusals."""

    refusals = 0

    def read(self, body: bytes) -> dict[str, Any]:
        if self.refusals >= 5:
            raise Refused(503, "too many faults")
        try:
            return super().read(body)
        except Refused:
            self.refusals += 1
            raise


@mutant("openai.after")
class DiesOfLostClient(ChatContainer):
    """Ends with the first client that leaves in the middle of an answer."""

    async def stream_answer(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        try:
            await super().stream_answer(writer, asked)
        except ConnectionError:
            os._exit(4)


# --- Paths ----------------------------------------------------------------------------------------


@mutant("openai.unknown")
class OkForUnknown(ChatContainer):
    """Answers 200 to a path that it does not serve."""

    async def unknown(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await self.send_json(writer, {})


@mutant("openai.paths")
class MorePaths(ChatContainer):
    """Serves embeddings and a list of models too."""

    async def unknown(self, request: Request, writer: asyncio.StreamWriter) -> None:
        match request.path:
            case "/v1/models" if request.method == "GET":
                await self.send_json(writer, {"object": "list", "data": []})
            case "/v1/embeddings":
                await self.refuse(writer, 400, "input: missing")
            case _:
                await super().unknown(request, writer)


@mutant("openai.paths")
class OnlyRealtime(Container):
    """Serves OpenAI's WebSocket path, and no other one of OpenAI's."""

    def admits(self, request: Request) -> int:
        return 0 if request.path == "/v1/realtime" else super().admits(request)
