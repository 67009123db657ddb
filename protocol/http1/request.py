"""One request of HTTP/1.1, as its connection has read it so far."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from multidict import CIMultiDict

from partway.protocol.http1.facts import ANEW, Facts
from partway.protocol.limits import LONG_READ
from partway.protocol.sigv4_request import to_bytes

#: What a header holds of memory beside its bytes, in a list and by its name: measured, on CPython
#: 3.11.
HEADER_HELD_BYTES: Final = 256

#: Where a length stands among headers, which says how a request is read on.
LENGTH: Final = "content-length"

#: Of an Authorization header that reads like this, only the signature is said anew.
AUTHORIZATION: Final = "authorization"
#: Under this name, which no header has, is the signature of such a header.
SIGNATURE: Final = "authorization signature"
_SIGNED: Final = re.compile(rb"AWS4[!-~ ]+[, ]Signature=([0-9a-f]{64})")

#: A value that is said anew is the same to everybody (RFC 9110 §5.5), and to who signs it as it
#: stands: visible ASCII, with single blanks between.
SAID_ANEW: Final = re.compile(rb"[!-~]+(?: [!-~]+)*")


class BodyBroken(Exception):
    """What follows of a request's body is not valid HTTP."""


class Http1Head:
    """What a request's head says: nothing in it changes, and requests of the same bytes share it.

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
        facts: what others have worked out from it alone, but for what it says anew; see
            :class:`Fact`.
        anew: by names in lower case, values as they came of headers that say another one in those
            that are like it, each :data:`SAID_ANEW`, and the :data:`SIGNATURE`; all of these have
            the same names. None until :meth:`says_anew` was asked.
    """

    __slots__ = (
        *("_first", "_headers", "_raw_headers", "anew", "facts", "held", "keeps", "length"),
        *("method", "path", "query", "size", "target", "upgrades", "version"),
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
        self.path, _, self.query = target.partition("?")
        self.version = version
        self.length = length
        self.size = size
        self.held = size + HEADER_HELD_BYTES * len(raw_headers)
        self.keeps = keeps
        self.upgrades = upgrades
        self.facts: Facts = {}
        self.anew: Mapping[str, bytes] | None = None
        self._first: Http1Head | None = None
        self._raw_headers: Sequence[tuple[str, str]] | None = raw_headers
        self._headers = headers

    def changed(self, target: str, anew: Mapping[str, bytes], length: int, size: int) -> Http1Head:
        """A head that is like this one, which is the first.

        Args:
            target: the other's; a path, if it is another one.
            anew: as of this class.
            length: of its body.
            size: as of this class.
        """
        # Written out, and not by the initializer: one is made of each request.
        head = Http1Head.__new__(Http1Head)
        head.method = self.method
        head.target = target
        if target is self.target:
            head.path, head.query = self.path, self.query
        else:
            head.path, head.query = target, ""
        head.version = self.version
        head.length = length
        head.size = size
        head.keeps = self.keeps
        head.upgrades = self.upgrades
        head.facts = self.facts
        head.anew = anew
        head.held = 2 * self.held  # it has the first besides
        head._first = self  # noqa: SLF001 of this class
        head._raw_headers = head._headers = None  # noqa: SLF001
        return head

    def says_anew(self) -> Mapping[str, bytes]:
        """What is ``anew`` of this class, worked out if it is not yet."""
        anew = self.anew
        if anew is None:
            anew = self.anew = {}
            for name, value in self.raw_headers:
                lower, said = name.lower(), to_bytes(value)
                if lower == AUTHORIZATION and (signed := _SIGNED.fullmatch(said)):
                    anew[SIGNATURE] = signed[1]
                elif (lower in ANEW or lower == LENGTH) and SAID_ANEW.fullmatch(said):
                    anew[lower] = said
        return anew

    def weighs_as(self, other: Http1Head) -> bool:
        """Whether it holds as much as the head before it on its connection, and as many bytes came.

        So does all else that is remembered of heads there: it changes with these alone.
        """
        return self.held == other.held and self.size == other.size

    @property
    def first(self) -> Http1Head:
        """The head that was read before all those that it is like; itself, if it is the first."""
        return self._first or self

    @property
    def raw_headers(self) -> Sequence[tuple[str, str]]:
        """Its headers in their order."""
        raw_headers = self._raw_headers
        if raw_headers is None:
            first = self.first
            anew = {name: value.decode("ascii") for name, value in self.says_anew().items()}
            if SIGNATURE in anew:
                assert first.headers is not None, "others are like a head of distinct headers"
                said = first.headers[AUTHORIZATION]
                anew[AUTHORIZATION] = said[: -len(first.says_anew()[SIGNATURE])] + anew[SIGNATURE]
            of_first = first.raw_headers
            raw_headers = [(name, anew.get(name.lower(), value)) for name, value in of_first]
            self._raw_headers = raw_headers
        return raw_headers

    @property
    def headers(self) -> CIMultiDict[str] | None:
        """The same by case-insensitive name; None where two have the same."""
        if self._headers is None and self._first is not None:
            self._headers = CIMultiDict(self.raw_headers)
        return self._headers


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
        body: what has come of its body with it.

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

    def __init__(self, head: Http1Head, body: bytes | memoryview = b"") -> None:
        self.head = head
        self.received = self.held = len(body)
        self.complete = False
        self.broken = False
        self.dropped = False
        self.wants = 0
        self.news: Waiter | None = None
        self._first: bytes | memoryview = body
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
        return bytes(data)  # which copies nothing of what are bytes

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
