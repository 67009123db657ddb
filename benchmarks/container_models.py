"""The model under load: what an author writes who has read one page."""

from __future__ import annotations

from partway.container import Model, Stream


class Echo(Model):
    """Says every message again."""

    async def stream(self, stream: Stream) -> None:
        async for message in stream.messages():
            await stream.send(message)
