"""Shouts back what it is told."""

import asyncio
import os
import time

from aiohttp import web


def model(prompt):
    time.sleep(0.3)  # it computes
    return prompt.upper()


async def talk(request):
    socket = web.WebSocketResponse(max_msg_size=(16 << 20) + 1)
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(await asyncio.to_thread(model, message.data))
    return socket


async def ping(_request):
    return web.Response()


async def invocations(request):
    return web.Response(text=await asyncio.to_thread(model, await request.text()))


app = web.Application()
app.add_routes(
    [
        web.get("/ping", ping),
        web.post("/ping", ping),
        web.post("/invocations", invocations),
        web.get("/invocations-bidirectional-stream", talk),
    ]
)

if __name__ == "__main__":
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    web.run_app(app, host="0.0.0.0", port=port, shutdown_timeout=5)
