"""A stream of chat completion requests, whose chunks pass through unchanged."""

from __future__ import annotations

from contextlib import aclosing

from partway.container.errors import ModelError
from partway.container.models.chat.upstream import AsksUpstreams
from partway.container.models.openai_events import DONE
from partway.container.session import Session
from partway.protocol.openai.errors import error_body
from partway.protocol.openai.json_members import BodyFault, with_members
from partway.protocol.websocket.close_codes import POLICY_VIOLATION


class ChunkSession(Session[AsksUpstreams]):
    """Each message is a chat completion request; its answer's chunks come back, then ``[DONE]``.

    A message that comes during an answer ends the answer.
    """

    async def text(self, message: str) -> None:
        await self.binary(message.encode("utf-8", "replace"))

    async def binary(self, message: bytes) -> None:
        await self.interrupt()
        self.spawn(self._send_chunks(self._streamed(message)))

    async def _send_chunks(self, body: bytes) -> None:
        try:
            async with aclosing(self.model.upstreams.events(body)) as events:
                async for data in events:
                    await self.stream.send(data.decode("utf-8", "replace"))
        except ModelError as error:
            await self.stream.send(error_body(error.reason, error.status).decode())
            raise
        await self.stream.send(DONE.decode())

    def _streamed(self, message: bytes) -> bytes:
        """Return a request with ``stream``, and with a model if it names none.

        Raises:
            ModelError: the message is not a JSON object.
        """
        try:
            return with_members(message, {"stream": True}, {"model": self.model.settings.model})
        except BodyFault as fault:
            raise ModelError(
                f"a message must be a chat completion request: {fault}", code=POLICY_VIOLATION
            ) from None
