"""HTTP/1.1 request: its head, and the bytes read so far of its body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from multidict import CIMultiDict

from partway.protocol.limits import LONG_READ

#: Memory of a header beside its bytes, in a list and by its name: measured on CPython 3.11.
HEADER_HELD_BYTES: Final = 256


class BodyBroken(Exception):
    """The rest of a request's body is not valid HTTP."""


class Http1Head:
    """A request's head; it never changes.

    Args:
        method: as it came.
        target: from its path on.
        raw_headers: in their order.
        headers: the same by case-insensitive name; None if a name is repeated.
        version: the version of HTTP, ``1.0`` or ``1.1``.
        length: the body's stated length; None if it is chunked.
        size: the size of its target and headers, as RFC 9113 §6.5.2 counts.
        keeps: whether the client keeps its connection for another request.
        upgrades: whether it asks for another protocol that is spoken here, or for a tunnel.

    Attributes:
        path: the target up to its question mark.
        query: the target after its question mark.
        held: memory of the head in bytes, approximately.
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
    def done(self) -> bool: ...

    def set_result(self, result: None, /) -> None: ...


class Http1Request:
    """A request's head, and the bytes of its body that have not been taken.

    Attributes:
        received: bytes of the body that have come.
        held: bytes of the body that have come and were not taken.
        complete: whether the whole body has come.
        broken: whether the rest of the body is not valid HTTP, so that no more of it comes.
        dropped: whether nobody wants the rest of the body.
        wants: bytes that the waiting task needs to go on; with fewer it is woken at the body's end.
        news: resolved when more has come; None while no task waits.
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
        #: Long reads as they came, and the short reads after them in one buffer: a list of tiny
        #: reads would take a multiple of their bytes.
        self._long: list[bytes] | None = None
        self._more: bytearray | None = None

    @classmethod
    def unread(cls) -> Http1Request:
        """Make a stand-in for input that could not be read as a request but is answered."""
        request = cls(Http1Head("", "/", (), None, "1.1", 0, 0, keeps=False))
        request.complete = True
        return request

    def add(self, data: bytes) -> None:
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
        data, self._first, self.held = self._first, b"", 0
        if self._long is not None or self._more is not None:
            data = b"".join((data, *(self._long or ()), self._more or b""))
            self._long = self._more = None
        return data

    def drop(self) -> None:
        """Free the held bytes, and drop all further ones."""
        self.dropped = True
        self.take()

    def tell(self) -> None:
        if self.news is not None and not self.news.done():
            self.news.set_result(None)

    @property
    def enough(self) -> bool:
        """Whether as much is held as the waiting task needs, or no more comes."""
        return self.held >= self.wants or self.complete or self.broken

    @property
    def ended(self) -> bool:
        """Whether the whole body has come and been taken."""
        return self.complete and not self.held
