"""One request and its answer, whichever HTTP version carries it.

Operations are written against this and never against a server library's request.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

from protocol.connection import FrameConnection
from protocol.errors import ApiError

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Exchange(ABC):
    """A request, and the way to answer it once.

    Attributes:
        method: the request's.
        path: raw, still percent-encoded, without the query.
        query: raw, without the question mark.
        headers: case-insensitive; those of one name are joined by commas.
        version: of HTTP, such as ``1.1``.
        peer: address of the client, for logs.
        request_id: sent back as ``x-amzn-requestid``.
    """

    def __init__(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        version: str,
        peer: str,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.version = version
        self.peer = peer
        self.request_id = str(uuid.uuid4())

    @property
    @abstractmethod
    def answered(self) -> bool:
        """Whether a response has begun: it is too late for another."""

    @abstractmethod
    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        """Answer with a whole response."""

    @abstractmethod
    def abort(self) -> None:
        """Break off: an answer has begun that cannot be finished."""

    def fail(self, error: ApiError) -> None:
        """Answer with an API error (clause 4-1)."""
        self.respond(
            error.status,
            error.body(),
            {"Content-Type": "application/json", "x-amzn-ErrorType": error.name, **error.headers},
        )


class UpgradableExchange(Exchange):
    """An exchange whose transport can become a WebSocket: HTTP/1.1's."""

    @abstractmethod
    async def upgrade(self, headers: Mapping[str, str]) -> None:
        """Write the 101; :meth:`hand_over` follows."""

    @abstractmethod
    def hand_over(self, connection: FrameConnection) -> None:
        """Give the upgraded transport to ``connection``, with any bytes read behind the head."""
