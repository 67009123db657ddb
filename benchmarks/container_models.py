"""The model under load: the first one that an author would write."""

from __future__ import annotations

from partway.container import Model, Stream


class Echo(Model):
    """Sends every message back."""

    async def stream(self, stream: Stream) -> None:
        async for message in stream.messages():
            await stream.send(message)
