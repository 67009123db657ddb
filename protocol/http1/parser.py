"""HTTP/1.1 request parsing: bytes → heads and bodies.

llhttp parses. It refuses a length beside a transfer coding, two lengths, and lines that end in a
bare LF. It also refuses folded lines, blanks before a colon, and names that are not tokens (RFC
9112 §2.2, §5, §6.3, §11.2).

llhttp accepts some input that two parsers might read differently. This module refuses it: other
codings than ``chunked``, chunks of HTTP/1.0, a head without its host, and a repeated header that
may appear only once.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import Final, NoReturn
from urllib.parse import urlsplit

import httptools
from multidict import CIMultiDict, istr

from partway.protocol.errors import ApiError, InputValidationError
from partway.protocol.http.head_limits import HEADER_OVERHEAD, head_too_large, target_too_long
from partway.protocol.http1.request import HEADER_HELD_BYTES, Http1Head, Http1Request
from partway.protocol.limits import (
    HTTP1_BYTES_PER_TURN,
    MAX_HEAD_BYTES,
    MAX_HEADER_LINE,
    MAX_HEADERS,
)
from partway.protocol.websocket.handshake import is_upgrade

#: A client of a proxy sends a whole URL (RFC 9112 §3.2.2); its host does not count towards the
#: limit.
_MAX_TARGET: Final = MAX_HEADER_LINE + 128

#: Most bytes in a row that add nothing to a request or its body: an unfinished head, chunk sizes,
#: trailers. One turn is added, because they are counted once per turn.
_MAX_IN_VAIN: Final = MAX_HEAD_BYTES + HTTP1_BYTES_PER_TURN

_HEAD_ENDS: Final = b"\r\n\r\n"
#: Bytes of _HEAD_ENDS that may have come with an earlier read.
_BEFORE_END: Final = len(_HEAD_ENDS) - 1

#: Headers that a request may have once at most (RFC 9110 §5.3: a recipient might take either).
_SINGLE: Final = frozenset(
    {
        *("content-length", "content-location", "content-range", "content-type", "etag"),
        *("host", "max-forwards", "server", "transfer-encoding", "user-agent"),
    }
)

#: Looking up an istr among headers takes a quarter of the time of a str.
_CODING: Final = istr("Transfer-Encoding")
_HOST: Final = istr("Host")
_LENGTH: Final = istr("Content-Length")
_UPGRADE: Final = istr("Upgrade")

_VERSIONS: Final = frozenset({"1.0", "1.1"})
#: A request line ends with one of these (RFC 9112 §3), each of the same length.
_LINE_ENDS: Final = (b" HTTP/1.1\r\n", b" HTTP/1.0\r\n")
_LINE_END_BYTES: Final = len(_LINE_ENDS[0])
_EMPTY_LINE: Final = b"\r\n"


class _Replay(enum.Enum):
    """State of the body of a request whose head another llhttp parser has read."""

    NONE = "none"
    #: The head has been read, and its body is for the next parser.
    DUE = "due"
    #: The next parser is given a stand-in for the head.
    HEAD = "head"


class RequestBroken(Exception):
    """Input that is not a valid request.

    Attributes:
        error: the answer to it, where one can still be sent.
    """

    def __init__(self, error: ApiError, kind: str) -> None:
        super().__init__(kind)
        self.error = error


class RequestParser:
    """Reads the requests of one connection. Its owner takes the finished ones between two feeds.

    Attributes:
        requests: requests with a whole head that nobody has taken yet; their bodies may follow.
        last: the request that was begun last; None before the first.
        over: whether further input is not parsed: after an upgrade, or after a request that was to
            be the last.
        tail: the bytes after an upgrade.
    """

    __slots__ = (
        *("_between", "_error", "_fed", "_headers", "_in_vain", "_line", "_new_request", "_parser"),
        *("_replay", "_size", "_target", "last", "over", "requests", "tail"),
    )

    def __init__(self, new_request: Callable[[Http1Head], Http1Request] = Http1Request) -> None:
        self.requests: deque[Http1Request] = deque()
        self.last: Http1Request | None = None
        self.over = False
        self.tail = b""
        self._target = b""
        self._headers: list[tuple[str, str]] = []
        self._size = 0
        self._in_vain = 0
        self._error: ApiError | None = None
        self._replay = _Replay.NONE
        #: The last bytes of an unfinished request line; None after it.
        self._line: bytes | None = b""
        #: The last bytes that llhttp was given: the end of a head may have begun in them.
        self._fed = b""
        #: Whether llhttp is at a place where a request may begin.
        self._between = True
        self._new_request = new_request
        self._parser = httptools.HttpRequestParser(self)

    @property
    def held(self) -> int:
        """Memory, in bytes, of the unfinished head and of the last finished one.

        The last head is kept until the next one has come, however long its client waits with that.
        """
        held = 2 * self._in_vain + HEADER_HELD_BYTES * len(self._headers)
        return held if self.last is None else held + self.last.head.held

    @property
    def awaits_more(self) -> bool:
        """Whether a request has begun but not ended."""
        last = self.last
        if last is not None and last.complete and not last.head.keeps:
            return False
        return not self._between

    @property
    def in_stated_body(self) -> bool:
        """Whether more is to come of a body with a stated length."""
        last = self.last
        return last is not None and not last.complete and last.head.length is not None

    def turn(self) -> int:
        """How many of the available bytes may be fed in one turn.

        A head may take a few bytes, and so may a chunk. A body of a stated length takes any number.
        """
        last = self.last
        if last is None or last.complete or last.head.length is None:
            return HTTP1_BYTES_PER_TURN
        return max(HTTP1_BYTES_PER_TURN, last.head.length - last.received)

    def feed(self, data: bytes) -> None:
        """Parse the client's bytes, :meth:`turn` of them at most.

        Raises:
            RequestBroken: they are not a valid request, or break the body of the last one.
        """
        if self.over:
            if self.last is not None and self.last.head.upgrades:
                self.tail += data
            return
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        """Have llhttp read the bytes, and no request together with the next one.

        llhttp reads RTSP and ICE as if they were HTTP, and does not say which protocol it has read.
        So each request line is checked here, and each has to begin where llhttp stops.
        """
        while data:
            size = self._up_to_an_end(data)
            piece, data = (data, b"") if size == len(data) else (data[:size], data[size:])
            if self._line is not None:
                self._look_at_line(self._line, piece)
            self._fed = (self._fed + piece[-_BEFORE_END:])[-_BEFORE_END:]
            self._in_vain += size
            try:
                self._parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                self._upgraded(piece[upgrade.args[0] :] + data)
                return
            except httptools.HttpParserError as error:
                last = self.last
                if last is not None and last.complete and not last.head.keeps and not self._error:
                    self.over = True  # the client said that nothing follows: the rest is ignored
                    return
                self._between = False
                raise RequestBroken(self._error or _malformed(), type(error).__name__) from None
            if self._in_vain > _MAX_IN_VAIN:
                raise RequestBroken(head_too_large(), "EndlessHead")

    def _up_to_an_end(self, data: bytes) -> int:
        """How many bytes may be fed without feeding two requests together.

        A body of a stated length ends there. All other requests end with an empty line.
        """
        last = self.last
        if last is not None and not last.complete and last.head.length is not None:
            return min(len(data), last.head.length - last.received)
        end = (self._fed + data).find(_HEAD_ENDS)
        return len(data) if end < 0 else end + len(_HEAD_ENDS) - len(self._fed)

    def _look_at_line(self, before: bytes, data: bytes) -> None:
        """Refuse a request line that does not end with HTTP/1.1 or HTTP/1.0.

        ``before`` holds the last bytes of the line from earlier reads; empty at its beginning.

        Raises:
            RequestBroken: the line is of another protocol.
        """
        if not before:
            data = data.lstrip(_EMPTY_LINE)  # llhttp skips empty lines
        end = data.find(b"\n") + 1
        if not end:
            self._line = (before + data)[-_LINE_END_BYTES:]
            return
        line = before + data[:end] if before else data[:end]
        if not line.endswith(_LINE_ENDS):
            self._between = False
            raise RequestBroken(_malformed(), "OtherProtocol")
        self._line = None

    def close(self) -> None:
        """Let go of the parser; it refers to this object, and so both are freed at once."""
        del self._parser

    # --- What llhttp calls -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._between = False

    def on_url(self, target: bytes) -> None:
        if self._replay is _Replay.HEAD:
            return
        self._target += target
        if len(self._target) > _MAX_TARGET:
            self._refuse(target_too_long())

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header of the head; a trailer's headers are ignored."""
        last = self.last
        if last is not None and not last.complete:
            return
        headers = self._headers
        size = len(name) + len(value)
        self._size = whole = self._size + size + HEADER_OVERHEAD
        if len(headers) >= MAX_HEADERS or size > MAX_HEADER_LINE or whole > MAX_HEAD_BYTES:
            self._refuse(head_too_large())
        # llhttp keeps blanks after a value (RFC 9110 §5.5).
        text = value.rstrip(b" \t").decode("utf-8", "surrogateescape")
        headers.append((name.decode("ascii"), text))

    def on_headers_complete(self) -> None:
        if self._replay is _Replay.HEAD:
            self._replay = _Replay.NONE
            return
        parser = self._parser
        target, self._target = self._target, b""
        headers, self._headers = self._headers, []
        size, self._size, self._in_vain = self._size, 0, 0
        together = CIMultiDict(headers)
        version = parser.get_http_version()
        if version not in _VERSIONS or (_HOST not in together and version == "1.1"):
            self._refuse(_malformed())
        is_distinct = len(set(map(str.lower, together))) == len(headers)
        if not is_distinct and any(len(together.getall(name, ())) > 1 for name in _SINGLE):
            self._refuse(_malformed())
        coding = together.get(_CODING)
        if coding is not None and (coding.lower() != "chunked" or version == "1.0"):
            self._refuse(_malformed())
        stated = together.get(_LENGTH)
        try:
            path = _origin_form(target.decode("utf-8", "surrogateescape"))
        except ValueError:
            self._refuse(_malformed())
        method = parser.get_method().decode("ascii")
        keeps, upgrades = parser.should_keep_alive(), False
        should_upgrade = parser.should_upgrade()
        if method == "CONNECT" or (_UPGRADE in together and is_upgrade(together)):
            # If the upgrade is refused, the bytes after it may not be HTTP. They must not be
            # parsed.
            keeps, upgrades = False, should_upgrade
        length = None if coding is not None else int(stated or 0)
        by_name = together if is_distinct else None
        whole = len(target) + size
        head = Http1Head(
            *(method, path, headers, by_name, version, length, whole),
            keeps=keeps,
            upgrades=upgrades,
        )
        request = self.last = self._new_request(head)
        if should_upgrade and not (upgrades and length == 0):
            self._replay = _Replay.DUE
        self.requests.append(request)

    def on_body(self, data: bytes) -> None:
        self._in_vain = 0
        assert self.last is not None, "a body follows its head"
        self.last.add(data)

    def on_message_complete(self) -> None:
        """Take the end of a request, or of a head whose body goes to another parser."""
        assert self.last is not None, "a head came before"
        if self._replay is not _Replay.DUE:
            self.last.complete = True
            self._in_vain = 0
            self._between = self.last.head.keeps
            self._line = b"" if self._between else None
            self._fed = b""

    # --- Inside ----------------------------------------------------------------------------------

    def _upgraded(self, rest: bytes) -> None:
        """Continue after a head that asks for another protocol, where llhttp stops.

        The protocol may be unknown here, or the request's body comes first (RFC 9110 §7.8). llhttp
        then reads the following bytes neither as a body nor as a request. So another parser reads
        them, after a stand-in head with the same framing and no upgrade.
        """
        request = self.last
        assert request is not None, "a head came before"
        if self._replay is _Replay.NONE:
            self.over, self.tail = True, rest
            return
        self._replay = _Replay.HEAD
        self._parser = httptools.HttpRequestParser(self)
        framing = f"Content-Length: {request.head.length}"
        if request.head.length is None:
            framing = "Transfer-Encoding: chunked"
        if not request.head.keeps:
            framing += "\r\nConnection: close"
        self._parser.feed_data(f"POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode())
        if rest:
            self.feed(rest)

    def _refuse(self, error: ApiError) -> NoReturn:
        """Stop llhttp, which does not pass the reason on to its caller."""
        self._error = error
        raise RequestBroken(error, type(error).__name__)


def _origin_form(target: str) -> str:
    """Return a target from its path on; a client of a proxy sends a whole URL.

    Raises:
        ValueError: the target is a URL without a host. RFC 9112 §3.2.2 describes URLs as targets.
    """
    if target[:1] != "/" and target[:8].lower().startswith(("http://", "https://")):
        url = urlsplit(target)
        if not url.hostname:
            raise ValueError("a URL must have a host")
        rest = target.partition("://")[2][len(url.netloc) :]
        # A query may follow the host at once; a slash in the query does not begin a path (RFC 3986
        # §3.3).
        return rest if rest[:1] == "/" else "/" + rest
    return target


def _malformed() -> InputValidationError:
    return InputValidationError("the request is not valid HTTP/1.1", "MalformedRequest")
