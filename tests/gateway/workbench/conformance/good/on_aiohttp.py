"""A container on aiohttp."""

from __future__ import annotations

import os
import sys

from aiohttp import WSMsgType, web


async def ping(request: web.Request) -> web.Response:
    return web.Response()


async def invocations(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    async for piece in request.content.iter_any():
        await response.write(piece)
    return response


async def stream(request: web.Request) -> web.WebSocketResponse:
    # It takes what has fewer bytes than its limit, and a part may have 16 MiB.
    socket = web.WebSocketResponse(max_msg_size=(16 << 20) + 1, compress=False)
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            await socket.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await socket.send_bytes(message.data)
    return socket


def application() -> web.Application:
    app = web.Application(client_max_size=16 << 20)
    app.router.add_get("/ping", ping)
    app.router.add_post("/ping", ping)
    app.router.add_post("/invocations", invocations)
    app.router.add_get("/invocations-bidirectional-stream", stream)
    return app


if __name__ == "__main__":
    if sys.argv[1:] != ["serve"]:
        sys.exit("usage: on_aiohttp.py serve")
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    web.run_app(application(), host="0.0.0.0", port=port, shutdown_timeout=5)
