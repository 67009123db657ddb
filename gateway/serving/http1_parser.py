"""Requests of HTTP/1.1 as bytes: their heads, and what comes of their bodies.

What is HTTP/1.1 is decided by llhttp, which refuses a length beside a transfer coding, two lengths,
lines that end in a bare LF, folded lines, blanks before a colon and whatever is no token (RFC 9112
§2.2, §5, §6.3, §11.2). What it lets pass, and two parsers might read differently, is refused here:
other codings than ``chunked``, chunks of HTTP/1.0, a head without its host, and the same header
twice where there can be one.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Final, NoReturn
from urllib.parse import urlsplit

import httptools
from multidict import CIMultiDict, istr

from partway.gateway.limits import HTTP1_BYTES_PER_TURN
from partway.gateway.serving.heads import HEADER_OVERHEAD, head_too_large, target_too_long
from partway.gateway.serving.http1_request import Http1Request
from partway.protocol.errors import ApiError, InputValidationError
from partway.protocol.handshake import is_upgrade
from partway.protocol.limits import MAX_HEAD_BYTES, MAX_HEADER_LINE, MAX_HEADERS

#: A proxy's client sends a whole URL (RFC 9112 §3.2.2), whose host is no part of what is limited.
_MAX_TARGET: Final = MAX_HEADER_LINE + 128

#: Bytes that may come in a row with nothing of a request or its body to show for them: what of a
#: head is not finished, chunks' sizes, trailers. A turn more, since they are counted by the turn.
_MAX_IN_VAIN: Final = MAX_HEAD_BYTES + HTTP1_BYTES_PER_TURN

#: Of these a request has one at most (RFC 9110 §5.3: a recipient might take either).
_SINGLE: Final = frozenset(
    {
        *("content-length", "content-location", "content-range", "content-type", "etag"),
        *("host", "max-forwards", "server", "transfer-encoding", "user-agent"),
    }
)

#: An istr is found among headers in a quarter of a text's time.
_CODING: Final = istr("Transfer-Encoding")
_HOST: Final = istr("Host")
_LENGTH: Final = istr("Content-Length")
_UPGRADE: Final = istr("Upgrade")

_VERSIONS: Final = frozenset({"1.0", "1.1"})


class _Replay(enum.Enum):
    """Where the body stands of a request whose head another parser has read."""

    NONE = "none"
    #: The head has been read, and its body is for the next parser.
    DUE = "due"
    #: The next parser is given a head that has been read.
    HEAD = "head"


class RequestBroken(Exception):
    """What the client sent is no valid request.

    Attributes:
        error: what it is answered, where it still can be.
    """

    def __init__(self, error: ApiError, kind: str) -> None:
        super().__init__(kind)
        self.error = error


class RequestParser:
    """Reads the requests of one connection. Whoever feeds it takes what it has made in between.

    Attributes:
        requests: whose heads are whole, and that nobody has taken yet; their bodies may follow.
        last: the request that was begun last; None before the first.
        over: whether what comes is no HTTP any more, behind an upgrade, or nobody's, behind a
            request that was to be the last.
        tail: what came behind an upgrade.
    """

    __slots__ = (
        "_error",
        "_headers",
        "_in_vain",
        "_parser",
        "_replay",
        "_size",
        "_target",
        "last",
        "over",
        "requests",
        "tail",
    )

    def __init__(self) -> None:
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
        self._parser = httptools.HttpRequestParser(self)

    @property
    def held(self) -> int:
        """Bytes of memory that an unfinished head holds, at most."""
        return 2 * self._in_vain + 256 * len(self._headers)

    @property
    def turn(self) -> int:
        """How many bytes are fed at a time: a head may be of a few, and so may a chunk."""
        last = self.last
        if last is None or last.complete or last.length is None:
            return HTTP1_BYTES_PER_TURN
        return max(HTTP1_BYTES_PER_TURN, last.length - last.received)

    def feed(self, data: bytes | memoryview) -> None:
        """Take what the client sent, :attr:`turn` bytes at most.

        Raises:
            RequestBroken: it is no valid request, or the body of the last one is none.
        """
        if self.over:
            if self.last is not None and self.last.upgrades:
                self.tail += data
            return
        self._in_vain += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgraded(bytes(data[upgrade.args[0] :]))
            return
        except httptools.HttpParserError as error:
            last = self.last
            if last is not None and last.complete and not last.keeps and self._error is None:
                self.over = True  # it has said that nothing follows: what does is nobody's
                return
            raise RequestBroken(self._error or _malformed(), type(error).__name__) from None
        if self._in_vain > _MAX_IN_VAIN:
            raise RequestBroken(head_too_large(), "EndlessHead")

    def close(self) -> None:
        """Let go of the parser, which has this object, and so both of them go at once."""
        del self._parser

    # --- What llhttp calls -----------------------------------------------------------------------

    def on_url(self, target: bytes) -> None:
        """Some of the target."""
        if self._replay is _Replay.HEAD:
            return
        self._target += target
        if len(self._target) > _MAX_TARGET:
            self._refuse(target_too_long())

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the head, or of a trailer, which nobody needs."""
        last = self.last
        if last is not None and not last.complete:
            return
        headers = self._headers
        size = len(name) + len(value)
        self._size = whole = self._size + size + HEADER_OVERHEAD
        if len(headers) >= MAX_HEADERS or size > MAX_HEADER_LINE or whole > MAX_HEAD_BYTES:
            self._refuse(head_too_large())
        # llhttp leaves what is blank behind a value (RFC 9110 §5.5).
        text = value.rstrip(b" \t").decode("utf-8", "surrogateescape")
        headers.append((name.decode("ascii"), text))

    def on_headers_complete(self) -> None:
        """A head is whole."""
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
        request = self.last = Http1Request(
            parser.get_method().decode("ascii"),
            path,
            headers,
            together if is_distinct else None,
            version,
            None if coding is not None else int(stated or 0),
            len(target) + size,
            keeps=parser.should_keep_alive(),
        )
        should_upgrade = parser.should_upgrade()
        if request.method == "CONNECT" or (_UPGRADE in together and is_upgrade(together)):
            # What follows it, refused, may be no HTTP: nobody may read it as such.
            request.keeps = False
            request.upgrades = should_upgrade
        if should_upgrade and not (request.upgrades and request.length == 0):
            self._replay = _Replay.DUE
        self.requests.append(request)

    def on_body(self, data: bytes) -> None:
        """Some of a body."""
        self._in_vain = 0
        assert self.last is not None, "a body follows its head"
        self.last.add(data)

    def on_message_complete(self) -> None:
        """The end of a request, or of a head whose body another parser is given."""
        assert self.last is not None, "a head came before"
        if self._replay is not _Replay.DUE:
            self.last.complete = True
            self._in_vain = 0

    # --- Inside ----------------------------------------------------------------------------------

    def _upgraded(self, rest: bytes) -> None:
        """Go on behind a head that asks for another protocol, where llhttp leaves off.

        What it asks for may be unknown here, or its body comes first (RFC 9110 §7.8). llhttp takes
        what follows for neither a body nor a request then; another one does, which is given the
        same framing, and no wish for an upgrade.
        """
        request = self.last
        assert request is not None, "a head came before"
        if self._replay is _Replay.NONE:
            self.over, self.tail = True, rest
            return
        self._replay = _Replay.HEAD
        self._parser = httptools.HttpRequestParser(self)
        framing = f"Content-Length: {request.length}"
        if request.length is None:
            framing = "Transfer-Encoding: chunked"
        if not request.keeps:
            framing += "\r\nConnection: close"
        self._parser.feed_data(f"POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode())
        if rest:
            self.feed(rest)

    def _refuse(self, error: ApiError) -> NoReturn:
        """Stop llhttp, which tells its caller nothing of why."""
        self._error = error
        raise RequestBroken(error, type(error).__name__)


def _origin_form(target: str) -> str:
    """Return a target from its path on: a proxy's client sends a whole URL (RFC 9112 §3.2.2).

    Raises:
        ValueError: it is a URL whose host is none.
    """
    if target[:1] != "/" and target[:8].lower().startswith(("http://", "https://")):
        url = urlsplit(target)
        if not url.hostname:
            raise ValueError("a URL must have a host")
        rest = target.partition("://")[2][len(url.netloc) :]
        # A query may follow the host at once, and a slash in it begins no path (RFC 3986 §3.3).
        return rest if rest[:1] == "/" else "/" + rest
    return target


def _malformed() -> InputValidationError:
    return InputValidationError("the request is not valid HTTP/1.1", "MalformedRequest")
