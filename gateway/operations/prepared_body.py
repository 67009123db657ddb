"""A request whose container gets another body than its client has sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from partway.gateway.http.exchange import Exchange


class PreparedBody:
    """An exchange as instances are asked with it, with a body of the gateway's making.

    Args:
        exchange: the client's, whose body has been gathered.
        data: the body that a container gets.
    """

    gathered = True

    def __init__(self, exchange: Exchange, data: bytes) -> None:
        self.peer = exchange.peer
        self.visitor = exchange.visitor
        self.request_id = exchange.request_id
        self.stated_length: int | None = len(data)
        self.noted = exchange.noted
        self._exchange = exchange
        self._data = data

    def body_at_hand(self, limit: int) -> bytes | None:
        """The body; what the client has sent was held to the limit."""
        return self._data

    async def body(self, limit: int) -> bytes:
        """The body; what the client has sent was held to the limit."""
        return self._data

    async def chunks(self, limit: int) -> AsyncGenerator[bytes, None]:
        """Yield the body, in one piece."""
        yield self._data

    def let_go_of_body(self) -> None:
        """Hold neither body any more."""
        self._data = b""
        self._exchange.let_go_of_body()
