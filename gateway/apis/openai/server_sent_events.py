"""A container's server-sent events for OpenAI's clients."""

from __future__ import annotations

from typing import Final

from partway.gateway.http.exchange import Exchange
from partway.protocol.openai.errors import error_body
from partway.protocol.parts import StreamError

_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LONGEST_END: Final = max(map(len, _EVENT_ENDS))


class ServerSentEvents:
    """A container's events, unchanged; if they break off, an error event says why.

    OpenAI's clients raise an exception with the message of such an event. An event that has begun
    cannot be completed, so the response is then broken off like any other.
    """

    def __init__(self) -> None:
        self._last = b"\n\n"

    def chunk(self, data: bytes) -> bytes:
        self._last = (self._last + data[-_LONGEST_END:])[-_LONGEST_END:]
        return data

    async def end(self, exchange: Exchange, error: StreamError | None) -> None:
        """End the response, with an error event if the answer broke off between two events."""
        if error is None:
            await exchange.end()
        elif self._last.endswith(_EVENT_ENDS):
            body = error_body(error.message, 500, "model_error")
            await exchange.end(b"data: " + body + b"\n\n")
