"""What an HTTP/1.1 head may hold before it is whole: aiohttp bounds lines alone.

aiohttp keeps each header twice, as bytes and as text, until the head is finished. Its limits are
those of a line and of their number, and 64 lines of 8 KiB are a megabyte.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiohttp import StreamReader, web
from aiohttp.http import HttpRequestParser
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE, RequestHandler

from partway.container.gathered_bodies import GATHERED_UP_TO, GatheredBody, GatheringProtocol
from partway.protocol.limits import KIB
from partway.protocol.unread_bodies import unread_form

#: What an unfinished head may hold. The largest that is answered (16 KiB by RFC 9113 §6.5.2, in 64
#: headers) holds 47 KiB; with its connection this is under 64 KiB.
MAX_HELD: Final = 48 * KIB

#: What a header holds beside its bytes: two tuples, two names, a text and a bytes object.
_LINE: Final = 256

#: Bytes given to the parser at once: as many of the next head may be in what finishes a request.
#: What is known to be a body's may be any number: it has no head in it.
_PIECE: Final = 4 * KIB

#: A body of which so much is yet to come is not given to the parser, which copies what it is given;
#: another parser, which is made in the time of a tenth of these copies, reads what is behind it.
_LONG_BODY: Final = 64 * KIB

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
        another: makes another one, for the same connection.
        gathers: called when a body begins that can be gathered where it stays; whether it is.
    """

    def __init__(
        self,
        parser: Any,
        another: Callable[[], Any],
        gathers: Callable[[], bool] = lambda: False,
    ) -> None:
        self._parser = parser
        self._another = another
        self._gathers = gathers
        self._gathered: GatheredBody | None = None
        self._body: StreamReader | None = None
        self._length = 0  # of that body, where its head says it
        self._owed = 0  # of it, what is yet to come and is no parser's
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
        self._pass_on_gathered()
        messages: list[tuple[Any, StreamReader]] = []
        while True:
            if self._owed:
                data = self._take_owed(data)
                if not data:
                    return messages, False, b""
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
            if self._left() >= _LONG_BODY and not (message.upgrade or message.method == "CONNECT"):
                self._owed, self._parser = self._left(), self._another()
                if self._length <= GATHERED_UP_TO and unread_form(message.headers) is not None:
                    self._begin_to_gather(body)
        elif body is None or before == (body.total_bytes, body.is_eof()):
            self._measure(piece)
            return parsed
        self._size, self._lines, self._widest = 0, 0, 2
        if body.is_eof() and len(piece) <= _PIECE and not piece.isascii():
            # It may hold the beginning of the next head.
            self._size, self._widest = len(piece), _width(piece)
        return parsed

    def _take_owed(self, data: bytes) -> bytes:
        """Take some of a body that no parser is given; returns what is left of the data."""
        body, owed = self._body, self._owed
        assert body is not None, "its head has come"
        piece, data = data[:owed], data[owed:]
        if self._gathered is not None:
            self._gathered.add(piece)
            self._owed = owed - len(piece)
            self._pass_on_gathered()
            return data
        if len(piece) == owed:
            body.set_read_chunk_size(self._length)  # nothing is held back behind its end
        body.feed_data(piece)
        self._owed = owed - len(piece)
        if not self._owed:
            body.feed_eof()
        return data

    # --- Bodies that are gathered where they stay ------------------------------------------------

    @property
    def gathered(self) -> GatheredBody | None:
        """The body whose bytes come next, if it is gathered where it stays."""
        return self._gathered if self._owed else None

    def gathered_more(self, size: int) -> None:
        """Note that so many bytes of that body have come."""
        assert self._gathered is not None, "who has filled its room had it from here"
        self._gathered.filled(size)
        self._owed -= size
        if not self._owed:
            # Not now: the loop holds the room until this has returned.
            asyncio.get_running_loop().call_soon(self._pass_on_gathered)

    def _begin_to_gather(self, body: StreamReader) -> None:
        """Gather a body of which some has been fed, if it can be."""
        if self._gathers():
            begun = body.read_nowait()
            self._gathered = GatheredBody(self._length)
            self._gathered.add(begun)

    def _pass_on_gathered(self) -> None:
        """Feed a body that has been gathered, if there is one."""
        gathered, body = self._gathered, self._body
        if gathered is None or gathered.left:
            return
        assert body is not None, "it is this one"
        self._gathered = None
        body.set_read_chunk_size(self._length)
        body.feed_data(gathered.whole())
        body.feed_eof()

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
        if not self._owed:
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

        def another() -> HttpRequestParser:
            return HttpRequestParser(
                *(handler, handler._loop, handler._read_bufsize),  # noqa: SLF001
                max_line_size=handler.max_line_size,
                max_field_size=handler.max_field_size,
                max_headers=handler.max_headers,
                payload_exception=web.RequestPayloadError,
                auto_decompress=False,
                max_msg_queue_size=MAX_MSG_QUEUE_SIZE,
            )

        def gathers() -> bool:
            transport = handler.transport
            if transport is not None and transport.get_protocol() is handler:
                GatheringProtocol(transport, handler, parser)
            return transport is not None

        parser = BoundedParser(handler._parser, another, gathers)  # noqa: SLF001
        handler._parser = parser  # type: ignore[assignment]  # noqa: SLF001
        return handler
