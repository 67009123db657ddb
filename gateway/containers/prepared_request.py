"""A request whose body the gateway has: made from a client's, or kept until now."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from partway.gateway.http.connection_admission import uncounted
from partway.gateway.http.exchange import Exchange


class PreparedRequest:
    """The parts of an exchange that an invocation needs, with another body.

    Args:
        body: the whole of it, or a function that yields its pieces; within the caller's limit.
        length: the length of a body in pieces, if it is known.
        of: the client's exchange, whose body has been gathered; None if no client waits.
        request_id: used if no client waits.
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
        return isinstance(self._body, bytes)

    async def body(self, limit: int) -> bytes:
        if isinstance(self._body, bytes):
            return self._body
        async with aclosing(self._body()) as pieces:
            return b"".join([piece async for piece in pieces])

    def chunks(self, limit: int) -> AsyncGenerator[bytes, None]:
        assert not isinstance(self._body, bytes), "it goes in one piece"
        return self._body()

    def let_go_of_body(self) -> None:
        self._body = b""
        if self._exchange is not None:
            self._exchange.let_go_of_body()
