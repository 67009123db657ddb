"""Apps that do what a test says, and a server for them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from partway.container.hosting.asgi import AppServer
from partway.container.hosting.asgi_messages import Receive, Scope, Send
from partway.container.shutdown import ShutdownTimes
from tests.container.wire import QUICK, RawClient

Handler = Callable[[Scope, Receive, Send], Awaitable[None]]


async def respond(send: Send, status: int = 200, body: bytes = b"", **headers: str) -> None:
    """Answer a request with a length."""
    lines = {"content-length": str(len(body)), **headers}
    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in lines.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


async def whole_body(receive: Receive) -> bytes | None:
    """A request's body; None if its client leaves."""
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            return body
    return None


async def echo_request(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers requests with their body, but knows no /ping."""
    if scope["path"] in ("/ping", "/execution-parameters"):
        await respond(send, 404, b"not found")
        return
    body = await whole_body(receive)
    if body is not None:
        await respond(send, body=body)


async def echo_stream(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers messages with themselves, and ends with its client."""
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


class Scripted:
    """An ASGI app made of a test's functions; without a lifespan it knows none."""

    def __init__(
        self,
        request: Handler = echo_request,
        stream: Handler = echo_stream,
        lifespan: Handler | None = None,
    ) -> None:
        self.request = request
        self.stream = stream
        self.lifespan = lifespan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.request(scope, receive, send)
        elif scope["type"] == "websocket":
            await self.stream(scope, receive, send)
        elif self.lifespan is not None:
            await self.lifespan(scope, receive, send)
        else:
            raise NotImplementedError(scope["type"])


#: What NAME names; put there by :func:`serving`.
app: Any = None
NAME = f"{__name__}:app"


@asynccontextmanager
async def serving(
    served: object = None, times: ShutdownTimes = QUICK
) -> AsyncIterator[tuple[AppServer, int]]:
    """An app that is loaded, on a port; stopped at the end."""
    sys.modules[__name__].app = served or Scripted()  # type: ignore[attr-defined]
    server = AppServer(NAME, times=times)
    port = await server.start()
    stopped = asyncio.create_task(server.stopped())
    try:
        await server.load()
        yield server, port
    finally:
        server.stop()
        server.stop()
        await stopped


class Response:
    """A whole HTTP response; header names in lower case."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        self.status = int(first.split(" ")[1])
        self.headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        self.body = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(client: RawClient, request: str, body: bytes = b"", *headers: str) -> Response:
    """Send a request (``"GET /ping"``) and read its response, which has a length."""
    lines = [f"{request} HTTP/1.1", "Host: c", f"Content-Length: {len(body)}", *headers, "", ""]
    client.send("\r\n".join(lines).encode() + body)
    return await response(client)


async def response(client: RawClient) -> Response:
    found = Response(await client.head())
    found.body = await client.reader.readexactly(int(found.headers["content-length"]))
    return found
