"""What an HTTP/1.1 head may hold before it is whole: aiohttp bounds lines alone.

aiohttp keeps each header twice, as bytes and as text, until the head is finished. Its limits are
those of a line and of their number, and 64 lines of 8 KiB are a megabyte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aiohttp import StreamReader, web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.web_protocol import RequestHandler

from partway.protocol.limits import KIB

#: What an unfinished head may hold. The largest that is answered (16 KiB by RFC 9113 §6.5.2, in 64
#: headers) holds 47 KiB; with its connection this is under 64 KiB.
MAX_HELD: Final = 48 * KIB

#: What a header holds beside its bytes: two tuples, two names, a text and a bytes object.
_LINE: Final = 256

#: Bytes given to the parser at once: as many of the next head may be in what finishes a request.
#: What is known to be a body's may be any number: it has no head in it.
_PIECE: Final = 4 * KIB

#: What the parser returns: messages with their bodies, whether the connection is upgraded, and what
#: is no longer HTTP.
_Parsed = tuple[Sequence[tuple[Any, StreamReader]], bool, bytes]

_NOTHING: Final[_Parsed] = ((), False, b"")


class EndlessHead(BadHttpMessage):
    """A head, or the trailers of a body, that hold too much before they are whole."""


class BoundedParser:
    """Stands in the place of aiohttp's parser of requests, and bounds what a head may hold there.

    Whatever is parsed without a request or a byte of a body to show for it belongs to a head, to
    trailers or to chunk sizes. Their parser keeps them, so they are measured: as much as MAX_HELD
    may come in a row.

    Args:
        parser: aiohttp's, of one connection.
    """

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._body: StreamReader | None = None
        self._length = 0  # of that body, where its head says it
        # Of what has come of an unfinished head: its bytes, its lines, and bytes held for each.
        self._size = self._lines = 0
        self._widest = 2
        self._rest = b""
        self._paused = False
        self._given_up = False

    @property
    def held(self) -> int:
        """Bytes of memory that the parser holds of an unfinished head, at most."""
        return self._size * self._widest + self._lines * _LINE

    def feed_data(self, data: bytes) -> _Parsed:
        """Parse, as aiohttp's parser does.

        Raises:
            EndlessHead: a head holds more than MAX_HELD; what comes after that is dropped.
            HttpProcessingError: what aiohttp's parser raises.
        """
        if self._given_up:
            return _NOTHING
        data = self._rest + data if self._rest else data
        self._rest = b""
        self._paused = False
        messages: list[tuple[Any, StreamReader]] = []
        while True:
            size = max(_PIECE, self._left())
            piece, data = data[:size], data[size:]
            found, upgraded, tail = self._feed(piece)
            messages += found
            if upgraded:
                return messages, True, tail + data
            if not data:
                return messages, False, tail
            if self._paused:  # by the body that it has fed
                self._rest = data
                return messages, False, tail

    def _left(self) -> int:
        """How many bytes come next that can only be the body's."""
        return 0 if self._body is None else self._length - self._body.total_bytes

    def _feed(self, piece: bytes) -> _Parsed:
        body = self._body
        before = (body.total_bytes, body.is_eof()) if body is not None else None
        parsed: _Parsed = self._parser.feed_data(piece)
        if parsed[0]:
            message, body = parsed[0][-1]
            self._body, self._length = body, int(message.headers.get("Content-Length", 0))
        elif body is None or before == (body.total_bytes, body.is_eof()):
            self._measure(piece)
            return parsed
        self._size, self._lines, self._widest = 0, 0, 2
        if body.is_eof() and len(piece) <= _PIECE and not piece.isascii():
            # It may hold the beginning of the next head.
            self._size, self._widest = len(piece), _width(piece)
        return parsed

    def _measure(self, piece: bytes) -> None:
        """Count a piece of a head."""
        self._size += len(piece)
        self._lines += piece.count(b"\n")
        self._widest = max(self._widest, _width(piece))
        if self.held > MAX_HELD:
            self._given_up = True
            if self._body is not None and not self._body.is_eof():
                self._body.set_exception(web.RequestPayloadError("endless trailers"))
            raise EndlessHead("the head or the trailers of a request are too large")

    # --- As they are -----------------------------------------------------------------------------

    def feed_eof(self) -> Any:
        """Note that nothing more comes."""
        return self._parser.feed_eof()

    def pause_reading(self) -> None:
        """Stop behind what is being fed: the body's reader has enough."""
        self._paused = True
        self._parser.pause_reading()

    def message_consumed(self) -> None:
        """Note that a request has been taken."""
        self._parser.message_consumed()

    def set_upgraded(self, val: bool) -> None:
        """Say whether what follows is no longer HTTP."""
        self._parser.set_upgraded(val)


def _width(piece: bytes) -> int:
    """Bytes held for each byte of a header: as it came, and as text.

    A text takes as much for each character as its widest one needs: a byte, two, or four where it
    is over U+FFFF. What is no UTF-8 becomes surrogates, of two.
    """
    return 2 if piece.isascii() else 5 if max(piece) >= 0xF0 else 3


class BoundedServer(web.Server):
    """aiohttp's server, of whose connections no unfinished head holds more than MAX_HELD."""

    def __call__(self) -> RequestHandler:
        handler = super().__call__()
        handler._parser = BoundedParser(handler._parser)  # type: ignore[assignment]  # noqa: SLF001
        return handler
