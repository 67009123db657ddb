"""One request of HTTP/1.1, as its connection has read it so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from multidict import CIMultiDict

from partway.protocol.limits import LONG_READ

#: What a header holds of memory beside its bytes, in a list and by its name: measured, on CPython
#: 3.11.
HEADER_HELD_BYTES: Final = 256


class BodyBroken(Exception):
    """What follows of a request's body is not valid HTTP."""


class Http1Head:
    """What a request's head says: nothing in it changes.

    Args:
        method: as it came.
        target: from its path on.
        raw_headers: in their order.
        headers: the same by case-insensitive name; None where two have the same.
        version: of HTTP, ``1.0`` or ``1.1``.
        length: of the body, as stated; None of one in chunks.
        size: of its target and headers, as RFC 9113 §6.5.2 counts.
        keeps: whether the client keeps its connection for another request.
        upgrades: whether it asks for another protocol that is spoken here, or for a tunnel.

    Attributes:
        path: the target up to its question mark.
        query: the target behind it.
        held: bytes of memory that it holds, about.
    """

    __slots__ = (
        *("headers", "held", "keeps", "length", "method", "path", "query"),
        *("raw_headers", "size", "target", "upgrades", "version"),
    )

    def __init__(
        self,
        method: str,
        target: str,
        raw_headers: Sequence[tuple[str, str]],
        headers: CIMultiDict[str] | None,
        version: str,
        length: int | None,
        size: int,
        *,
        keeps: bool,
        upgrades: bool = False,
    ) -> None:
        self.method = method
        self.target = target
        self.raw_headers = raw_headers
        self.headers = headers
        self.path, _, self.query = target.partition("?")
        self.version = version
        self.length = length
        self.size = size
        self.held = size + HEADER_HELD_BYTES * len(raw_headers)
        self.keeps = keeps
        self.upgrades = upgrades


class Waiter(Protocol):
    """A future, by which somebody waits."""

    def done(self) -> bool:
        """Whether it has been told, or given up."""

    def set_result(self, result: None, /) -> None:
        """Tell it."""


class Http1Request:
    """A request's head, and what has come of its body and nobody has taken.

    Args:
        head: the request's.

    Attributes:
        head: the request's.
        received: bytes of its body that have come.
        held: those of them that nobody has taken.
        complete: whether all of it has come.
        broken: whether what follows of its body is not valid HTTP, so that there is no more of it.
        dropped: whether nobody wants the rest of its body.
        wants: bytes that whoever waits needs, so as to go on; with fewer they are told at its end.
        news: done when more has come, for who waits; None while nobody does.
    """

    __slots__ = (
        *("_first", "_long", "_more", "broken", "complete", "dropped", "head", "held", "news"),
        *("received", "wants"),
    )

    def __init__(self, head: Http1Head) -> None:
        self.head = head
        self.received = self.held = 0
        self.complete = False
        self.broken = False
        self.dropped = False
        self.wants = 0
        self.news: Waiter | None = None
        self._first = b""
        #: What is long, as it came, and what is behind it: a list of what dribbles in would take a
        #: multiple of its bytes.
        self._long: list[bytes] | None = None
        self._more: bytearray | None = None

    @classmethod
    def unread(cls) -> Http1Request:
        """What could not be read as a request, and is answered all the same."""
        request = cls(Http1Head("", "/", (), None, "1.1", 0, 0, keeps=False))
        request.complete = True
        return request

    def add(self, data: bytes) -> None:
        """Some of its body has come."""
        self.received += len(data)
        if self.dropped:
            return
        if not self.held:
            self._first = data
        elif self._more is not None:
            self._more += data
        elif len(data) <= LONG_READ:
            self._more = bytearray(data)
        elif self._long is None:
            self._long = [data]
        else:
            self._long.append(data)
        self.held += len(data)

    def take(self) -> bytes:
        """Return what has come and was not taken."""
        data, self._first, self.held = self._first, b"", 0
        if self._long is not None or self._more is not None:
            data = b"".join((data, *(self._long or ()), self._more or b""))
            self._long = self._more = None
        return data

    def drop(self) -> None:
        """Let go of what has come, and of what comes."""
        self.dropped = True
        self.take()

    def tell(self) -> None:
        """Wake who waits for more of it."""
        if self.news is not None and not self.news.done():
            self.news.set_result(None)

    @property
    def enough(self) -> bool:
        """Whether as much is held as whoever waits needs, or no more comes."""
        return self.held >= self.wants or self.complete or self.broken

    @property
    def ended(self) -> bool:
        """Whether all of its body has come, and been taken."""
        return self.complete and not self.held
