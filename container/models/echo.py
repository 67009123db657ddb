"""echo: everything comes back as it came."""

from __future__ import annotations

from container.model import Invocation, Reply
from container.stream import Stream


class Echo:
    """Returns each frame, type, FIN and bytes, and each body."""

    async def stream(self, stream: Stream) -> None:
        async for part in stream.fragments():
            await stream.send(part)

    async def invoke(self, invocation: Invocation) -> Reply:
        return Reply(invocation.content_type, invocation.length, invocation.body)
