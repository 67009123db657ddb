"""The outcome of llhttp alone, and the differences that our server may have from it.

httptools hands on what llhttp calls back, and each byte goes in by itself. This module uses no
code of the server. :func:`expected` adds the rules of :data:`DIFFERENCES`, which are written anew
from their sources.
"""

from __future__ import annotations

import enum
import ipaddress
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import httptools

from partway.protocol.limits import (
    HTTP1_BYTES_PER_TURN,
    MAX_HEAD_BYTES,
    MAX_HEADER_LINE,
    MAX_HEADERS,
)

#: How our server differs from llhttp alone, and why.
DIFFERENCES = {
    "another protocol": "we refuse RTSP and ICE, which llhttp reads as HTTP (RFC 9112 §2.3)",
    "another version": "we refuse HTTP/0.9 and HTTP/2.0, which llhttp reads by the rules of "
    "HTTP/1.0 and HTTP/1.1: nobody sends them in this form (RFC 9110 §2.5)",
    "no host": "we refuse HTTP/1.1 without Host (RFC 9112 §3.2)",
    "two of one": "we refuse two fields of which there is one (RFC 9110 §5.3): two readers may "
    "take either. llhttp refuses two lengths alone",
    "another coding": "we refuse codings beside chunked, which we cannot decode (RFC 9112 §6.1)",
    "chunks of HTTP/1.0": "we refuse Transfer-Encoding in HTTP/1.0, whose framing is faulty "
    "(RFC 9112 §6.1)",
    "URL without a host": "we refuse a URL of http that names no host (RFC 9110 §4.2.1)",
    "too large": "we bound targets, heads, and bytes that add nothing to a body; llhttp does not",
    "URL": "we take a target from its path on, where llhttp repeats the URL (RFC 9112 §3.2.2)",
    "unknown upgrade": "we pass over an Upgrade that we do not speak, and read the body and what "
    "follows (RFC 9110 §7.8); llhttp stops behind the head",
    "body before an upgrade": "we read the body of a request for a WebSocket or a tunnel, and "
    "nothing behind it; llhttp stops behind the head",
    "close in a trailer": "we answer 400 to what follows a trailer that says close, since the head "
    "has kept the connection (RFC 9110 §6.5.1); llhttp takes what follows for nobody's",
    "half an upgrade": "we read nothing behind a request whose Upgrade is websocket and whose "
    "Connection does not say so: its client may send frames",
}


class End(enum.Enum):
    """The state of a connection behind the requests that are whole."""

    #: It may have more: another request, or the rest of one.
    OPEN = "open"
    #: It is over, since a request has said so.
    CLOSED = "closed"
    #: It is over, since what follows is no request.
    REFUSED = "refused"


class Whole(NamedTuple):
    """A request that has come to its end."""

    method: bytes
    target: bytes
    body: bytes


class Outcome(NamedTuple):
    """All that a reader makes of a connection's bytes."""

    requests: tuple[Whole, ...]
    end: End


@dataclass
class Read:
    """A request as llhttp has read it.

    Attributes:
        begin: where its first byte is among those of the connection; empty lines may precede it.
        head_end: where its head ends.
        keeps: whether the head leaves the connection open for another request.
        upgrades: whether llhttp takes what follows the head for another protocol.
        most_in_vain: the longest run of bytes that added nothing to the body.
    """

    begin: int
    method: bytes = b""
    target: bytes = b""
    version: str = ""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    head_end: int | None = None
    whole: bool = False
    keeps: bool = False
    upgrades: bool = False
    most_in_vain: int = 0

    def values(self, name: bytes) -> list[bytes]:
        """The values of a field, in lower case."""
        return [value.strip(b" \t").lower() for key, value in self.headers if key.lower() == name]


class Reader:
    """llhttp and nothing else."""

    def __init__(self, data: bytes) -> None:
        self.requests: list[Read] = []
        self.end = End.OPEN
        self._at = self._end_of_last = self._useful = 0
        self._parser = httptools.HttpRequestParser(self)
        for self._at in range(len(data)):
            try:
                self._parser.feed_data(data[self._at : self._at + 1])
            except httptools.HttpParserUpgrade:
                self.requests[-1].upgrades = True
                self.end = End.CLOSED
                break
            except httptools.HttpParserError as error:
                self.end = End.CLOSED if "Connection: close" in str(error) else End.REFUSED
                break
            self._count()
        last = self.requests[-1] if self.requests else None
        if self.end is End.OPEN and last is not None and last.whole and not last.keeps:
            self.end = End.CLOSED  # llhttp passes over empty lines behind it
        del self._parser

    @property
    def outcome(self) -> Outcome:
        """The requests that are whole, and the end."""
        whole = [Whole(each.method, each.target, each.body) for each in self.requests if each.whole]
        return Outcome(tuple(whole), self.end)

    def _count(self) -> None:
        if self.requests and not self.requests[-1].whole:
            last = self.requests[-1]
            last.most_in_vain = max(last.most_in_vain, self._at - self._useful)

    def on_message_begin(self) -> None:
        self.requests.append(Read(self._end_of_last))

    def on_url(self, target: bytes) -> None:
        self.requests[-1].target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.requests[-1].head_end is None:
            self.requests[-1].headers.append((name, value))

    def on_headers_complete(self) -> None:
        last = self.requests[-1]
        last.method = self._parser.get_method()
        last.version = self._parser.get_http_version()
        last.keeps = self._parser.should_keep_alive()
        last.head_end = self._at + 1
        self._useful = self._at

    def on_body(self, data: bytes) -> None:
        self.requests[-1].body += data
        self._useful = self._at

    def on_message_complete(self) -> None:
        self.requests[-1].whole = True
        self._end_of_last = self._useful = self._at + 1


def expected(data: bytes) -> tuple[Outcome, set[str]]:
    """The outcome that our server must have, and its differences from llhttp alone."""
    used: set[str] = set()
    whole: list[Whole] = []
    reader = Reader(data)
    for each in reader.requests:
        line, line_end, _ = data[each.begin :].lstrip(b"\r\n").partition(b"\n")
        wrong = _wrong_line(line) if line_end else None
        if each.head_end is not None:
            wrong = wrong or _wrong_head(each)
        elif _is_too_large(each):
            wrong = wrong or "too large"
        if wrong is not None:
            # llhttp may go on to refuse the same request.
            differs = each.whole or each.upgrades or reader.end is not End.REFUSED
            return Outcome(tuple(whole), End.REFUSED), used | ({wrong} if differs else set())
        if each.head_end is None:
            break
        target = _origin_form(each.target)
        if target != each.target:
            used.add("URL")
        is_websocket = each.values(b"upgrade")[:1] == [b"websocket"]
        ends_http = is_websocket or each.method == b"CONNECT"
        if each.upgrades:
            rest, rest_used = _behind_upgrade(data, each, target, ends_http=ends_http)
            return Outcome((*whole, *rest.requests), rest.end), used | rest_used
        if not each.whole:
            break
        whole.append(Whole(each.method, target, each.body))
        if ends_http:
            return Outcome(tuple(whole), End.CLOSED), used | {"half an upgrade"}
    if reader.end is End.CLOSED and reader.requests[-1].keeps:
        return Outcome(tuple(whole), End.REFUSED), used | {"close in a trailer"}
    return Outcome(tuple(whole), reader.end), used


def _behind_upgrade(
    data: bytes, request: Read, target: bytes, *, ends_http: bool
) -> tuple[Outcome, set[str]]:
    """Read on where llhttp stops: the same bytes without the wish for another protocol."""
    has_body = request.values(b"content-length") not in ([], [b"0"])
    has_body = has_body or bool(request.values(b"transfer-encoding"))
    if ends_http and not has_body:
        return Outcome((Whole(request.method, target, b""),), End.CLOSED), set()
    head = data[request.begin : request.head_end].lstrip(b"\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"upgrade:")]
    lines[0] = f"POST / HTTP/{request.version}".encode()
    rest, used = expected(b"\r\n".join(lines) + data[request.head_end :])
    requests = list(rest.requests)
    if requests:
        requests[0] = Whole(request.method, target, requests[0].body)
    if ends_http:
        end = End.CLOSED if requests else rest.end
        return Outcome(tuple(requests[:1]), end), {"body before an upgrade"}
    return Outcome(tuple(requests), rest.end), used | {"unknown upgrade"}


#: RFC 9110 says of each that it is no list.
_SINGLE = (
    *(b"content-length", b"content-location", b"content-range", b"content-type", b"etag"),
    *(b"host", b"max-forwards", b"server", b"transfer-encoding", b"user-agent"),
)


def _wrong_line(line: bytes) -> str | None:
    version = line.rstrip(b"\r").rpartition(b" ")[2]
    if not version.startswith(b"HTTP/"):
        return "another protocol"
    return None if version in (b"HTTP/1.0", b"HTTP/1.1") else "another version"


def _wrong_head(head: Read) -> str | None:
    """The rule by which our server refuses a head that llhttp accepts; None for none."""
    names = Counter(name.lower() for name, _ in head.headers)
    codings = head.values(b"transfer-encoding")
    wrong = {
        "too large": _is_too_large(head),
        "no host": head.version == "1.1" and b"host" not in names,
        "two of one": any(names[name] > 1 for name in _SINGLE),
        "another coding": codings not in ([], [b"chunked"]),
        "chunks of HTTP/1.0": bool(codings) and head.version == "1.0",
        "URL without a host": _origin_form(head.target) == b"",
    }
    return next((name for name, applies in wrong.items() if applies), None)


def _is_too_large(head: Read) -> bool:
    sizes = [len(name) + len(value) for name, value in head.headers]
    return (
        len(sizes) > MAX_HEADERS
        or max(sizes, default=0) > MAX_HEADER_LINE
        or sum(sizes) + 32 * len(sizes) > MAX_HEAD_BYTES
        or len(head.target) > MAX_HEADER_LINE + 128
        or head.most_in_vain > MAX_HEAD_BYTES + 2 * HTTP1_BYTES_PER_TURN
    )


def _origin_form(target: bytes) -> bytes:
    """A target from its path on; empty for a URL without a host."""
    url = re.fullmatch(rb"(?i:https?)://([^/?#]*)(.*)", target)
    if url is None:
        return target
    host, rest = url[1].rpartition(b"@")[2], url[2]
    if b"[" in host or b"]" in host:
        literal = re.fullmatch(rb"\[([0-9a-fA-F:.]+)\](:\d*)?", host)
        try:
            ipaddress.ip_address(literal[1].decode() if literal else "")
        except ValueError:
            return b""
    elif not host.partition(b":")[0]:
        return b""
    return rest if rest[:1] == b"/" else b"/" + rest
