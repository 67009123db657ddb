"""A request whose body the gateway has: made of a client's, or kept until now."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from partway.gateway.http.connection_admission import uncounted
from partway.gateway.http.exchange import Exchange


class PreparedRequest:
    """As much of an exchange as an instance is asked with, and another body.

    Args:
        body: the whole of it, or what makes its pieces; either is within the caller's limit.
        length: of a body in pieces, where it is known.
        of: the client's exchange, whose body has been gathered; None where no client waits.
        request_id: where no client waits.
    """

    def __init__(
        self,
        body: bytes | Callable[[], AsyncGenerator[bytes, None]],
        length: int | None = None,
        *,
        of: Exchange | None = None,
        request_id: str = "",
    ) -> None:
        self.peer = "" if of is None else of.peer
        self.visitor = uncounted() if of is None else of.visitor
        self.request_id = request_id if of is None else of.request_id
        self.noted: dict[str, str] = {} if of is None else of.noted
        self.stated_length = len(body) if isinstance(body, bytes) else length
        self._exchange = of
        self._body = body

    @property
    def gathered(self) -> bool:
        """Whether the whole body is in memory."""
        return isinstance(self._body, bytes)

    async def body(self, limit: int) -> bytes:
        """Return the whole body."""
        if isinstance(self._body, bytes):
            return self._body
        async with aclosing(self._body()) as pieces:
            return b"".join([piece async for piece in pieces])

    def chunks(self, limit: int) -> AsyncGenerator[bytes, None]:
        """Yield a body that is not in memory."""
        assert not isinstance(self._body, bytes), "it goes in one piece"
        return self._body()

    def let_go_of_body(self) -> None:
        """Hold neither body any more."""
        self._body = b""
        if self._exchange is not None:
            self._exchange.let_go_of_body()
