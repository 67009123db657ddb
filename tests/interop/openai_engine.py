"""An engine with more paths than the documentation's: limits, uploads, a realtime session."""

from __future__ import annotations

import json
import sys

from aiohttp import web


async def ping(_: web.Request) -> web.Response:
    return web.Response()


async def chat(request: web.Request) -> web.StreamResponse:
    asked = await request.json()
    said = asked["messages"][-1]["content"]
    if said == "busy":
        error = {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}
        headers = {"retry-after-ms": "1", "x-ratelimit-limit-requests": "7"}
        return web.json_response({"error": error}, status=429, headers=headers)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    choice = {"index": 0, "finish_reason": None, "delta": {"content": repr(asked["model"])}}
    event = {"id": "1", "created": 0, "object": "chat.completion.chunk", "choices": [choice]}
    await response.write(b"data: " + json.dumps({**event, "model": "m"}).encode() + b"\n\n")
    if said == "break":
        assert request.transport is not None
        request.transport.abort()
        return response
    await response.write(b"data: [DONE]\n\n")
    return response


async def transcription(request: web.Request) -> web.Response:
    form = await request.post()
    upload = form["file"]
    assert isinstance(upload, web.FileField)
    return web.json_response({"text": f"{form['model']!r} {len(upload.file.read())}"})


async def realtime(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    session = {"type": "realtime", "model": request.query_string}
    await socket.send_json({"type": "session.created", "event_id": "1", "session": session})
    async for message in socket:
        await socket.send_str(message.data)
    return socket


app = web.Application(client_max_size=1 << 26)
app.router.add_get("/ping", ping)
app.router.add_post("/v1/chat/completions", chat)
app.router.add_post("/v1/audio/transcriptions", transcription)
app.router.add_get("/v1/realtime", realtime)
web.run_app(app, port=int(sys.argv[1]), print=None)
