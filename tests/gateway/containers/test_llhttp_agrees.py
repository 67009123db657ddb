"""Containers' answers are read as llhttp alone reads them, but for the differences of one table."""

from __future__ import annotations

import random
from itertools import pairwise

import httptools
import pytest

from partway.gateway.containers.answers import AnswerBroken, AnswerParser
from partway.protocol.limits import MAX_HEADERS, MAX_INTERIM_RESPONSES

#: How answers are refused that llhttp alone takes, and why.
DIFFERENCES = {
    "another protocol": "llhttp reads RTSP and ICE as HTTP (RFC 9112 §2.3)",
    "another version": "containers speak HTTP/1.0 or HTTP/1.1",
    "another status": "a status has three digits, from 100 to 599 (RFC 9110 §15)",
    "another coding": "nobody here decodes codings beside chunked (RFC 9112 §6.1)",
    "chunks of HTTP/1.0": "the framing of such an answer is faulty (RFC 9112 §6.1)",
    "too many headers": "the bound of heads",
    "too many interim answers": "the bound of answers before the answer",
}

_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_SECOND = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"


def _with(*headers: bytes, body: bytes = b"hello", line: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join((line, *headers, b"", b"")) + body


CASES = {
    "length": _with(b"Content-Length: 5"),
    "until the end": _with(),
    "until the end, HTTP/1.0": _with(line=b"HTTP/1.0 200 OK"),
    "short": _with(b"Content-Length: 9"),
    "two answers": _with(b"Content-Length: 5") + _SECOND,
    "sign": _with(b"Content-Length: +5"),
    "comma": _with(b"Content-Length: 5, 5"),
    "two lengths": _with(b"Content-Length: 5", b"Content-Length: 5"),
    "two other lengths": _with(b"Content-Length: 5", b"Content-Length: 6"),
    "blank before the colon": _with(b"Content-Length : 5"),
    "64 bits": _with(b"Content-Length: 18446744073709551615"),
    "over 64 bits": _with(b"Content-Length: 18446744073709551621"),
    "length and coding": _with(b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    "gzip, chunked": _with(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "identity": _with(b"Transfer-Encoding: identity"),
    "xchunked": _with(b"Transfer-Encoding: xchunked"),
    "two codings": _with(*[b"Transfer-Encoding: chunked"] * 2, body=b"0\r\n\r\n"),
    "chunks of HTTP/1.0": _with(
        b"Transfer-Encoding: chunked", line=b"HTTP/1.0 200 OK", body=b"0\r\n\r\n"
    ),
    "chunks": _CHUNKED + b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nX: a\r\n\r\n" + _SECOND,
    "chunk over 64 bits": _CHUNKED + b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "bare LF behind a size": _CHUNKED + b"5\nhello\r\n0\r\n\r\n",
    "bare LF in an extension": _CHUNKED + b"2;\nxx\r\n5\r\nhello\r\n0\r\n\r\n",
    "length in a trailer": _CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n",
    "no last chunk": _CHUNKED + b"5\r\nhello\r\n",
    "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "bare CR": _with(b"X: a\rContent-Length: 5"),
    "NUL": _with(b"X: a\x00", b"Content-Length: 5"),
    "folded": _with(b"X: a", b" b", b"Content-Length: 5"),
    "no colon": _with(b"X", b"Content-Length: 5"),
    "interim": b"HTTP/1.1 103 Hints\r\nContent-Length: 5\r\n\r\n" + _with(b"Content-Length: 5"),
    "many interim": b"HTTP/1.1 100 Go\r\n\r\n" * 17 + _with(b"Content-Length: 5"),
    "interim alone": b"HTTP/1.1 100 Go\r\n\r\n",
    "switched": b"HTTP/1.1 101 Now\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + _SECOND,
    "204 with a length": _with(b"Content-Length: 5", line=b"HTTP/1.1 204 No"),
    "304 with chunks": _with(b"Transfer-Encoding: chunked", line=b"HTTP/1.1 304 No", body=b""),
    "no reason": _with(b"Content-Length: 5", line=b"HTTP/1.1 200"),
    "status of two digits": _with(b"Content-Length: 5", line=b"HTTP/1.1 20 OK"),
    "status of four digits": _with(b"Content-Length: 5", line=b"HTTP/1.1 2000 OK"),
    "status 600": _with(b"Content-Length: 5", line=b"HTTP/1.1 600 OK"),
    "HTTP/1.2": _with(b"Content-Length: 5", line=b"HTTP/1.2 200 OK"),
    "HTTP/2.0": _with(b"Content-Length: 5", line=b"HTTP/2.0 200 OK"),
    "HTTP/0.9": _with(b"Content-Length: 5", line=b"HTTP/0.9 200 OK"),
    "RTSP": _with(b"Content-Length: 5", line=b"RTSP/1.0 200 OK"),
    "ICE": _with(b"Content-Length: 5", line=b"ICE/1.0 200 OK"),
    "empty lines before": b"\r\n\r\n" + _with(b"Content-Length: 5"),
    "65 headers": _with(*[b"X: a"] * 65, b"Content-Length: 5"),
    "nothing": b"",
}


class Alone:
    """llhttp and nothing else, up to the end of the first answer that is no interim one."""

    def __init__(self, data: bytes) -> None:
        self.answer: tuple[int, bytes] | None = None
        self.wrong: set[str] = set()
        self._body = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._status = self._interim = 0
        self._framed = False
        parser = self._parser = httptools.HttpResponseParser(self)
        if data.lstrip(b"\r\n").startswith((b"RTSP/", b"ICE/")):
            self.wrong.add("another protocol")
        try:
            for at in range(len(data)):
                parser.feed_data(data[at : at + 1])
                if self.answer is not None:
                    break
            else:
                if self._status >= 200 and not self._framed:
                    self.answer = self._status, self._body
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            pass
        del self._parser

    def on_message_begin(self) -> None:
        self._headers, self._status = [], 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._status:
            self._headers.append((name.lower(), value.strip().lower()))

    def on_headers_complete(self) -> None:
        self._status = status = self._parser.get_status_code()
        version = self._parser.get_http_version()
        codings = [value for name, value in self._headers if name == b"transfer-encoding"]
        has_length = any(name == b"content-length" for name, _ in self._headers)
        self._framed = has_length or bool(codings) or status in (204, 304)
        self._interim += 100 <= status < 200
        wrong = {
            "another version": version not in ("1.0", "1.1"),
            "another status": not 100 <= status < 600,
            "another coding": codings not in ([], [b"chunked"]),
            "chunks of HTTP/1.0": bool(codings) and version == "1.0",
            "too many headers": len(self._headers) > MAX_HEADERS,
            "too many interim answers": self._interim > MAX_INTERIM_RESPONSES,
        }
        self.wrong |= {name for name, applies in wrong.items() if applies}

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        if self._status >= 200:
            self.answer = self._status, self._body


def ours(data: bytes, cuts: list[int]) -> tuple[int, bytes] | None:
    """The answer that our reader takes; None where it refuses."""
    parser = AnswerParser(64)
    body = b""
    edges = [0, *cuts, len(data)]
    try:
        for begin, end in pairwise(edges):
            parser.feed(data[begin:end])
            while (piece := parser.take()) is not None:
                body += piece.data
        parser.feed_end()
    except AnswerBroken:
        return None
    return (parser.head.status, body) if parser.head is not None else None


@pytest.mark.parametrize("name", CASES)
def test_each_case_however_it_is_cut(name):
    data = CASES[name]
    alone = Alone(data)
    expected = None if alone.wrong else alone.answer
    draw = random.Random(name)
    ways = [[], list(range(1, len(data))), *([at] for at in range(1, len(data)))]
    ways += [sorted(draw.sample(range(1, len(data)), 3)) for _ in range(20 if data else 0)]
    for cuts in ways:
        assert ours(data, cuts) == expected, (alone.wrong, cuts)


def test_each_difference_has_a_case_that_llhttp_takes():
    readers = [Alone(data) for data in CASES.values()]
    found = [reader.wrong for reader in readers if reader.answer is not None]
    assert set().union(*found) == set(DIFFERENCES)
