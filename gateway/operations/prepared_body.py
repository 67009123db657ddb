"""A request whose container gets another body than its client has sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

from partway.gateway.serving.exchange import Exchange
from partway.protocol.prediction import PredictRequest


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


class UnreadInstances(PreparedBody):
    """An exchange whose body is read as one of predict once it is clear that no container does.

    Args:
        exchange: the client's, whose body has been gathered.
        data: the body.
        read: reads it; it raises what clients are told of one that is no such body.

    Attributes:
        request: what was read; None while nobody has asked for the body, so that it went unread.
    """

    def __init__(
        self, exchange: Exchange, data: bytes, read: Callable[[], Awaitable[PredictRequest]]
    ) -> None:
        super().__init__(exchange, data)
        self.request: PredictRequest | None = None
        self._read = read

    def body_at_hand(self, limit: int) -> bytes | None:
        """The body, once it has been read."""
        return None if self.request is None else self._data

    async def body(self, limit: int) -> bytes:
        """The body, read; what the client has sent was held to the limit."""
        if self.request is None:
            self.request = await self._read()
            self._data = self.request.body
        return self._data
