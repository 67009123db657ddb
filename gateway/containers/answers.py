"""Parsing a container's answer: its head, and its body in pieces that keep the bounds of chunks.

llhttp decides what is HTTP/1.1. It refuses two lengths, a length beside a transfer coding, lines
that end in a bare LF and malformed numbers (RFC 9112 §6.3, §11.2). This module refuses further
unreliable forms that llhttp lets pass: other codings than ``chunked``, and chunks of HTTP/1.0.

llhttp also reads RTSP and ICE as if they were HTTP, and does not say which of them it has read. So
the name at the beginning of a status line is checked before llhttp gets the line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import httptools
from multidict import CIMultiDict, istr

from partway.gateway.containers.container_requests import HEADER_VALUE
from partway.gateway.containers.limits import (
    ANSWER_TURN_BYTES,
    MAX_ANSWER_HEAD_BYTES,
    MAX_ANSWER_LENGTH,
)
from partway.protocol.limits import MAX_HEADERS, MAX_INTERIM_RESPONSES, PART_OVERHEAD

#: Statuses whose answers to a POST have no body (RFC 9110 §6.4.1).
_BODILESS: Final = frozenset({204, 304})
#: Lookup of an istr takes a quarter of a text's time.
_CODING: Final = istr("Transfer-Encoding")
_DATE: Final = istr("Date")
_LENGTH: Final = istr("Content-Length")

_STATUSES: Final = range(200, 600)
#: Limit of a value that is handed back: AWS's model bounds content type and custom attributes so.
_HANDED_BACK_CHARACTERS: Final = 1024
_LINE_ENDS: Final = b"\r\n"
#: The beginning of every status line, and the position of the status in it (RFC 9112 §4). llhttp
#: refuses lines of another form.
_NAME: Final = b"HTTP/"
_STATUS_AT: Final = len(b"HTTP/1.1 ")
#: A member lookup in an enumeration takes as long as twenty lines of this module.
_SWITCHING_PROTOCOLS: Final = int(HTTPStatus.SWITCHING_PROTOCOLS)


class AnswerBroken(Exception):
    """The container's answer is invalid; the message says what is wrong."""


@dataclass(slots=True)
class AnswerHead:
    """The head of an answer; it never changes.

    Attributes:
        status: from 200 to 599.
        headers: by case-insensitive names, without Content-Length and Date.
        length: the stated length of its body; None if none is stated, as for a body in chunks.
        chunked: whether its body comes in chunks; else it has a length, or ends with the
            connection.
        keeps: whether the connection may be used again.
    """

    status: int
    headers: CIMultiDict[str]
    length: int | None
    chunked: bool
    keeps: bool

    def handed_back(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that the client gets, or the next container.

        Args:
            names: the headers to hand back, and the names that their receiver knows.
        """
        headers = self.headers
        return {
            known: value
            for name, known in names.items()
            if (value := headers.get(name))
            and len(value) <= _HANDED_BACK_CHARACTERS
            and HEADER_VALUE.fullmatch(value)
        }


@dataclass(slots=True)
class AnswerPiece:
    """A piece of an answer's body.

    Attributes:
        data: never empty.
        ends_chunk: whether a chunk ends here. Without chunks, each read counts as one.
    """

    data: bytes
    ends_chunk: bool


class AnswerParser:
    """Parses one answer. The caller takes the pieces between feeds.

    Args:
        whole_chunk: a chunk of up to so many bytes is one piece; a longer one comes in several.

    Attributes:
        head: the answer's, once it is complete; interim ones are skipped (RFC 9110 §15.2).
        held: the memory that the pieces take, in bytes.
        trailing: whether bytes came after the end, so that the connection cannot be trusted.
    """

    __slots__ = (
        *("_chunk", "_headers", "_in_vain", "_interim", "_is_interim", "_is_named", "_parser"),
        *("_reason", "_unnamed", "_until_end", "_whole_chunk"),
        *("complete", "head", "held", "pieces", "trailing"),
    )

    def __init__(self, whole_chunk: int) -> None:
        self.head: AnswerHead | None = None
        self.pieces: deque[AnswerPiece] = deque()
        self.held = 0
        self.complete = False
        self.trailing = False
        self._whole_chunk = whole_chunk
        self._headers: list[tuple[str, str]] = []
        self._chunk = bytearray()  # bytes of an unfinished chunk
        self._interim = 0
        self._in_vain = 0  # bytes since the last useful ones
        self._until_end = False
        self._reason = ""
        #: The first bytes of a status line, while they are too few to check.
        self._unnamed = b""
        #: Whether the name and the status of the current head have been checked, and whether it is
        #: an interim head.
        self._is_named = self._is_interim = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes | memoryview) -> None:
        """Take bytes from the container, at most ANSWER_TURN_BYTES of an answer in chunks.

        Raises:
            AnswerBroken: the answer is invalid.
        """
        if self.complete:
            self.trailing |= bool(data)
        elif self.head is not None or (self._is_named and not self._is_interim):
            self._feed_llhttp(data)
        else:
            self._parse_beginning(self._unnamed + bytes(data))

    def _parse_beginning(self, data: bytes) -> None:
        """Have llhttp read the beginning of a head, and the interim ones before it.

        An interim head goes in line by line, since another status line follows it.
        """
        self._unnamed = b""
        while data:
            if not self._is_named:
                line = data.lstrip(_LINE_ENDS)  # llhttp skips empty lines
                self._in_vain += len(data) - len(line)
                data = line
                if not data.startswith(_NAME) and not _NAME.startswith(data):
                    self._refuse(f"it is not valid HTTP/1.1: it does not begin with {_NAME!r}")
                if len(data) <= _STATUS_AT:
                    self._unnamed = data
                    self._check_in_vain()
                    return
                self._is_named = True
                self._is_interim = data[_STATUS_AT : _STATUS_AT + 1] == b"1"
            size = len(data)
            if self._is_interim:
                size = data.find(b"\n") + 1 or size
            self._feed_llhttp(data[:size])
            data = data[size:]

    def _feed_llhttp(self, data: bytes | memoryview) -> None:
        self._in_vain += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if self.complete:  # the answer is complete, and the fault came after it
                self.trailing = True
                return
            raise AnswerBroken(self._reason or f"it is not valid HTTP/1.1: {error}") from None
        self._check_in_vain()

    def _check_in_vain(self) -> None:
        """Refuse a line or a head without an end."""
        if self._in_vain > MAX_ANSWER_HEAD_BYTES and not self.complete:
            what = "head" if self.head is None else "chunk's line or trailer"
            raise AnswerBroken(f"a {what} is over {MAX_ANSWER_HEAD_BYTES} bytes")

    def feed_end(self) -> None:
        """Note that the container's side of the connection has ended.

        Raises:
            AnswerBroken: the answer is incomplete.
        """
        if self.complete:
            return
        if self.head is None:
            raise AnswerBroken("the connection ended before the head of an answer")
        if not self._until_end:
            raise AnswerBroken("the connection ended in the middle of the body")
        self.complete = True

    def take(self) -> AnswerPiece | None:
        if not self.pieces:
            return None
        piece = self.pieces.popleft()
        self.held -= len(piece.data) + PART_OVERHEAD
        return piece

    @property
    def begun(self) -> int:
        """Bytes of an unfinished chunk, which are no piece yet.

        The container is not held back for them: otherwise their end could not come.
        """
        return len(self._chunk)

    @property
    def turn(self) -> int | None:
        """How many bytes to feed at a time; None for any number."""
        unchunked = self.head is not None and not self.head.chunked
        return None if unchunked else ANSWER_TURN_BYTES

    def close(self) -> None:
        """Release the parser, which refers to this object, so that both are freed at once."""
        del self._parser

    # --- Called by llhttp ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a head: the answer's, or another one after its end, which is refused."""
        if self.complete:
            self._refuse("another answer follows it")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header of the head; headers of a trailer are ignored."""
        if self.head is not None:
            return
        headers = self._headers
        if len(headers) >= MAX_HEADERS:
            self._refuse(f"it has more than {MAX_HEADERS} headers")
        headers.append((name.decode("ascii"), value.decode("latin-1").strip(" \t")))

    def on_headers_complete(self) -> None:
        self._in_vain = 0
        parser = self._parser
        status = parser.get_status_code()
        headers = CIMultiDict(self._headers)
        self._headers = []
        if status == _SWITCHING_PROTOCOLS:
            self._refuse("it changes to another protocol, but the request did not ask for that")
        if 100 <= status < 200:
            self._interim += 1
            if self._interim > MAX_INTERIM_RESPONSES:
                self._refuse(f"more than {MAX_INTERIM_RESPONSES} interim answers came before it")
            return
        version = parser.get_http_version()
        if status not in _STATUSES or version not in ("1.1", "1.0"):
            self._refuse(f"it is not HTTP/1.1: status {status} of HTTP/{version}")
        is_chunked = _CODING in headers
        if is_chunked:
            codings = [each.lower() for each in headers.getall(_CODING)]
            if codings != ["chunked"] or version != "1.1":
                self._refuse(
                    "its Transfer-Encoding must be chunked alone, and its version HTTP/1.1"
                )
        headers.popall(_DATE, None)
        stated = headers.pop(_LENGTH, None)
        length = None if stated is None else int(stated)
        if length is not None and length > MAX_ANSWER_LENGTH:  # llhttp accepts twice as much
            self._refuse(f"its Content-Length is over {MAX_ANSWER_LENGTH}")
        self._until_end = not (is_chunked or length is not None or status in _BODILESS)
        keeps = parser.should_keep_alive()
        self.head = AnswerHead(status, headers, length, is_chunked, keeps)

    def on_body(self, data: bytes) -> None:
        self._in_vain = 0
        assert self.head is not None, "a body follows its head"
        if not self.head.chunked:
            self._hand_over(data, ends_chunk=True)
            return
        if self._chunk and len(self._chunk) + len(data) > self._whole_chunk:
            self._hand_over_chunk(ends_chunk=False)
        self._chunk += data

    def on_chunk_header(self) -> None:
        self._in_vain = 0

    def on_chunk_complete(self) -> None:
        """End a chunk; the last one is empty."""
        if self._chunk:
            self._hand_over_chunk(ends_chunk=True)

    def on_message_complete(self) -> None:
        if self.head is not None:
            self.complete = True
        else:
            self._is_named = False

    def _hand_over_chunk(self, *, ends_chunk: bool) -> None:
        self._hand_over(bytes(self._chunk), ends_chunk=ends_chunk)
        self._chunk = bytearray()

    def _hand_over(self, data: bytes, *, ends_chunk: bool) -> None:
        self.pieces.append(AnswerPiece(data, ends_chunk))
        self.held += len(data) + PART_OVERHEAD

    def _refuse(self, reason: str) -> None:
        self._reason = reason
        raise AnswerBroken(reason)
