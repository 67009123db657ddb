"""The model ``echo``: it returns everything unchanged."""

from __future__ import annotations

from partway.container.model import Model, Reply, Request
from partway.container.stream import Stream


class Echo(Model):
    """Returns each frame, type, FIN and bytes, and each body."""

    async def stream(self, stream: Stream) -> None:
        async for part in stream.fragments():
            await stream.send_part(part)

    async def invoke(self, request: Request) -> Reply:
        return Reply(request.body, request.content_type, length=request.length)
