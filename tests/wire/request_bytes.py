"""Bytes that two parsers of HTTP/1.1 may read differently, by the classes of request smuggling.

Each case is the input of one connection, and :data:`NEXT` follows it. A parser that has misread the
case does not see ``GET /next``, or sees it too early.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.wire.mutated_aws_requests import recorded

NEXT = b"GET /next HTTP/1.1\r\nHost: next\r\n\r\n"

#: A request that must stay a part of the body that it is in.
INNER = b"GET /inner HTTP/1.1\r\nHost: inner\r\n\r\n"

_HOST = b"Host: a"
_CHUNKS = b"5\r\nhello\r\n0\r\n\r\n"
_CHUNKED = b"Transfer-Encoding: chunked"


def request(*headers: bytes, line: bytes = b"POST /first HTTP/1.1", body: bytes = b"") -> bytes:
    """A request with these header lines and no other."""
    return b"\r\n".join((line, *headers, b"", b"")) + body


def _post(*headers: bytes, body: bytes = b"hello") -> bytes:
    return request(_HOST, *headers, body=body)


def _get(line: bytes, *headers: bytes) -> bytes:
    return request(_HOST, *headers, line=line)


def _chunks(body: bytes) -> bytes:
    return _post(_CHUNKED, body=body)


def _length(value: bytes) -> bytes:
    return _post(b"Content-Length: " + value)


def _coding(value: bytes) -> bytes:
    return _post(b"Transfer-Encoding: " + value, body=_CHUNKS)


_LENGTHS = {
    "plain": _length(b"5"),
    "zero in front": _length(b"05"),
    "sign": _length(b"+5"),
    "minus": _length(b"-5"),
    "hexadecimal": _length(b"0x5"),
    "comma, the same": _length(b"5, 5"),
    "comma, another": _length(b"5, 6"),
    "list that begins empty": _length(b", 5"),
    "two numbers": _length(b"5 5"),
    "letters": _length(b"5a"),
    "fraction": _length(b"5.0"),
    "underscore": _length(b"0_5"),
    "other digits": _length("٥".encode()),
    "empty": _length(b""),
    "blanks around": _length(b"  5  "),
    "tabs around": _length(b"\t5\t"),
    "vertical tab": _length(b"\x0b5"),
    "over 63 bits": _length(b"9223372036854775808"),
    "the last of 64 bits": _length(b"18446744073709551615"),
    "over 64 bits": _length(b"18446744073709551621"),
    "twice, the same": _post(b"Content-Length: 5", b"Content-Length: 5"),
    "twice, another": _post(b"Content-Length: 5", b"Content-Length: 0"),
    "twice, by case": _post(b"Content-Length: 5", b"content-length: 5"),
    "blank before the colon": _post(b"Content-Length : 5"),
    "tab before the colon": _post(b"Content-Length\t: 5"),
    "underscore in the name": _post(b"Content_Length: 5", body=b""),
    "of GET": request(_HOST, b"Content-Length: 5", line=b"GET /first HTTP/1.1", body=b"hello"),
    "of HEAD": request(_HOST, b"Content-Length: 5", line=b"HEAD /first HTTP/1.1", body=b"hello"),
    "zero, and a request": _post(b"Content-Length: 0", body=INNER),
    "none, and bytes": _post(body=b"hello"),
    "a request within": _post(b"Content-Length: %d" % len(INNER), body=INNER),
    "short of its body": _post(b"Content-Length: 4"),
    "over its body": _post(b"Content-Length: 500"),
}

_CODINGS = {
    "plain": _coding(b"chunked"),
    "upper case": _coding(b"CHUNKED"),
    "no blank": _post(b"Transfer-Encoding:chunked", body=_CHUNKS),
    "blanks around": _coding(b"  chunked  "),
    "tabs around": _coding(b"\tchunked\t"),
    "vertical tab": _coding(b"\x0bchunked"),
    "twice in a line": _coding(b"chunked, chunked"),
    "identity behind": _coding(b"chunked, identity"),
    "identity before": _coding(b"identity, chunked"),
    "gzip before": _coding(b"gzip, chunked"),
    "comma behind": _coding(b"chunked,"),
    "comma before": _coding(b", chunked"),
    "identity": _post(b"Transfer-Encoding: identity", body=b""),
    "unknown": _coding(b"xchunked"),
    "longer name": _coding(b"chunkedx"),
    "parameter": _coding(b"chunked;q=1"),
    "quoted": _coding(b'"chunked"'),
    "empty": _coding(b""),
    "two lines, the same": _post(_CHUNKED, _CHUNKED, body=_CHUNKS),
    "two lines, identity first": _post(b"Transfer-Encoding: identity", _CHUNKED, body=_CHUNKS),
    "two lines, identity last": _post(_CHUNKED, b"Transfer-Encoding: identity", body=_CHUNKS),
    "two lines, gzip first": _post(b"Transfer-Encoding: gzip", _CHUNKED, body=_CHUNKS),
    "name in upper case": _post(b"TRANSFER-ENCODING: chunked", body=_CHUNKS),
    "underscore in the name": _post(b"Transfer_Encoding: chunked", body=b""),
    "blank before the colon": _post(b"Transfer-Encoding : chunked", body=_CHUNKS),
    "NUL in the name": _post(b"Transfer-Encoding\x00: chunked", body=_CHUNKS),
    "folded": _post(b"Transfer-Encoding:\r\n chunked", body=_CHUNKS),
    "behind a bare LF": _post(b"X: a\nTransfer-Encoding: chunked", body=_CHUNKS),
    "behind a bare CR": _post(b"X: a\rTransfer-Encoding: chunked", body=_CHUNKS),
    "length before (CL.TE)": _post(
        b"Content-Length: %d" % len(b"0\r\n\r\n" + INNER),
        _CHUNKED,
        body=b"0\r\n\r\n" + INNER,
    ),
    "length behind (TE.CL)": _post(
        _CHUNKED,
        b"Content-Length: 4",
        body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER),
    ),
    "length, and an odd coding (CL.TE)": _post(
        b"Content-Length: 5", b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"
    ),
    "of HTTP/1.0": request(_HOST, _CHUNKED, line=b"POST /first HTTP/1.0", body=_CHUNKS),
    "of HTTP/1.0, kept": request(
        *(_HOST, _CHUNKED, b"Connection: keep-alive"),
        line=b"POST /first HTTP/1.0",
        body=_CHUNKS,
    ),
    "of GET": request(_HOST, _CHUNKED, line=b"GET /first HTTP/1.1", body=_CHUNKS),
}

_LINES = {
    "bare LF throughout": b"GET /first HTTP/1.1\nHost: a\n\n",
    "bare LF behind the request line": b"GET /first HTTP/1.1\nHost: a\r\n\r\n",
    "bare LF behind a header": b"GET /first HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "bare LF for the empty line": b"GET /first HTTP/1.1\r\nHost: a\r\n\n",
    "CR CR LF": b"GET /first HTTP/1.1\r\nHost: a\r\r\n\r\n",
    "bare CR in a value": _get(b"GET /first HTTP/1.1", b"X: a\rb"),
    "bare CR for the empty line": b"GET /first HTTP/1.1\r\nHost: a\r\n\r",
    "LF CR": b"GET /first HTTP/1.1\n\rHost: a\n\r\n\r",
    "NUL in a value": _get(b"GET /first HTTP/1.1", b"X: a\x00b"),
    "NUL in a name": _get(b"GET /first HTTP/1.1", b"X\x00: a"),
    "control in a value": _get(b"GET /first HTTP/1.1", b"X: a\x01b"),
    "DEL in a value": _get(b"GET /first HTTP/1.1", b"X: a\x7fb"),
    "form feed in a value": _get(b"GET /first HTTP/1.1", b"X: a\x0cb"),
    "tab in a value": _get(b"GET /first HTTP/1.1", b"X: a\tb"),
    "UTF-8 in a value": _get(b"GET /first HTTP/1.1", "X: ö".encode()),
    "no UTF-8 in a value": _get(b"GET /first HTTP/1.1", b"X: \xff"),
    "UTF-8 in a name": _get(b"GET /first HTTP/1.1", "ö: x".encode()),
    "delimiter in a name": _get(b"GET /first HTTP/1.1", b"X(y): a"),
    "blank in a name": _get(b"GET /first HTTP/1.1", b"X y: a"),
    "blank before a name": _get(b"GET /first HTTP/1.1", b" X: a"),
    "blank before the first name": request(b" Host: a", line=b"GET /first HTTP/1.1"),
    "blank before a colon": _get(b"GET /first HTTP/1.1", b"X : a"),
    "tab before a colon": _get(b"GET /first HTTP/1.1", b"X\t: a"),
    "no colon": _get(b"GET /first HTTP/1.1", b"X"),
    "no name": _get(b"GET /first HTTP/1.1", b": a"),
    "no value": _get(b"GET /first HTTP/1.1", b"X:"),
    "folded": _get(b"GET /first HTTP/1.1", b"X: a\r\n b"),
    "folded by a tab": _get(b"GET /first HTTP/1.1", b"X: a\r\n\tb"),
    "a line of blanks": _get(b"GET /first HTTP/1.1", b"  "),
    "empty line before": b"\r\n" + _get(b"GET /first HTTP/1.1"),
    "empty lines before": b"\r\n\r\n\r\n" + _get(b"GET /first HTTP/1.1"),
    "bare LF before": b"\n" + _get(b"GET /first HTTP/1.1"),
    "bare CR before": b"\r" + _get(b"GET /first HTTP/1.1"),
    "blank before": b" " + _get(b"GET /first HTTP/1.1"),
}

_REQUEST_LINES = {
    "plain": _get(b"GET /first HTTP/1.1"),
    "method in lower case": _get(b"get /first HTTP/1.1"),
    "method in mixed case": _get(b"Get /first HTTP/1.1"),
    "unknown method": _get(b"FETCH /first HTTP/1.1"),
    "method with a delimiter": _get(b"GE(T /first HTTP/1.1"),
    "rare method": _get(b"PROPFIND /first HTTP/1.1"),
    "two blanks before the target": _get(b"GET  /first HTTP/1.1"),
    "two blanks before the version": _get(b"GET /first  HTTP/1.1"),
    "tab before the target": _get(b"GET\t/first HTTP/1.1"),
    "tab before the version": _get(b"GET /first\tHTTP/1.1"),
    "blank at the end": _get(b"GET /first HTTP/1.1 "),
    "no version (HTTP/0.9)": b"GET /first\r\n",
    "HTTP/0.9": _get(b"GET /first HTTP/0.9"),
    "HTTP/1.2": _get(b"GET /first HTTP/1.2"),
    "HTTP/1.10": _get(b"GET /first HTTP/1.10"),
    "HTTP/01.1": _get(b"GET /first HTTP/01.1"),
    "HTTP/1": _get(b"GET /first HTTP/1"),
    "HTTP/2.0": _get(b"GET /first HTTP/2.0"),
    "HTTP/3.0": _get(b"GET /first HTTP/3.0"),
    "version in lower case": _get(b"GET /first http/1.1"),
    "blank in the version": _get(b"GET /first HTTP /1.1"),
    "letter behind the version": _get(b"GET /first HTTP/1.1x"),
    "two versions": _get(b"GET /first HTTP/1.1 HTTP/1.1"),
    "RTSP": _get(b"DESCRIBE /first RTSP/1.0"),
    "RTSP by a method of HTTP": _get(b"GET /first RTSP/1.0"),
    "ICE": _get(b"SOURCE /first ICE/1.0"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "blank in the target": _get(b"GET /fi rst HTTP/1.1"),
    "NUL in the target": _get(b"GET /fi\x00rst HTTP/1.1"),
    "control in the target": _get(b"GET /fi\x01rst HTTP/1.1"),
    "DEL in the target": _get(b"GET /fi\x7frst HTTP/1.1"),
    "UTF-8 in the target": _get("GET /ö HTTP/1.1".encode()),
    "no UTF-8 in the target": _get(b"GET /\xff HTTP/1.1"),
    "fragment": _get(b"GET /first#x HTTP/1.1"),
    "backslash": _get(b"GET \\first HTTP/1.1"),
    "two slashes": _get(b"GET //b/first HTTP/1.1"),
    "dots": _get(b"GET /a/../first HTTP/1.1"),
    "escapes": _get(b"GET /%2e%2e/%0d%0aX:%20a HTTP/1.1"),
    "broken escape": _get(b"GET /%zz HTTP/1.1"),
    "query": _get(b"GET /first?a=b&c HTTP/1.1"),
    "query alone": _get(b"GET ?a=b HTTP/1.1"),
    "no slash": _get(b"GET first HTTP/1.1"),
    "no target": _get(b"GET HTTP/1.1"),
    "asterisk of OPTIONS": _get(b"OPTIONS * HTTP/1.1"),
    "asterisk of GET": _get(b"GET * HTTP/1.1"),
}

_URLS = {
    "the same host": request(_HOST, line=b"GET http://a/first HTTP/1.1"),
    "another host": request(_HOST, line=b"GET http://b/first HTTP/1.1"),
    "HTTPS": request(_HOST, line=b"GET HTTPS://a/first HTTP/1.1"),
    "no path": request(_HOST, line=b"GET http://a HTTP/1.1"),
    "query and no path": request(_HOST, line=b"GET http://a?b=/c HTTP/1.1"),
    "port": request(b"Host: a:1", line=b"GET http://a:1/first HTTP/1.1"),
    "user": request(_HOST, line=b"GET http://u@a/first HTTP/1.1"),
    "user alone": request(_HOST, line=b"GET http://u@/first HTTP/1.1"),
    "address in brackets": request(b"Host: [::1]", line=b"GET http://[::1]/first HTTP/1.1"),
    "bracket left open": request(_HOST, line=b"GET http://[a/first HTTP/1.1"),
    "no host": request(_HOST, line=b"GET http:///first HTTP/1.1"),
    "nothing behind": request(_HOST, line=b"GET http:// HTTP/1.1"),
    "another scheme": request(_HOST, line=b"GET ftp://a/first HTTP/1.1"),
    "no host in the head": request(b"X: a", line=b"GET http://a/first HTTP/1.1"),
    "within a path": request(_HOST, line=b"GET /http://b/first HTTP/1.1"),
}

_HOSTS = {
    "none": request(b"X: a", line=b"GET /first HTTP/1.1"),
    "none, of HTTP/1.0": request(b"X: a", line=b"GET /first HTTP/1.0"),
    "two": request(_HOST, b"Host: b", line=b"GET /first HTTP/1.1"),
    "two, the same": request(_HOST, b"host: a", line=b"GET /first HTTP/1.1"),
    "empty": request(b"Host:", line=b"GET /first HTTP/1.1"),
    "list": request(b"Host: a, b", line=b"GET /first HTTP/1.1"),
    "path": request(b"Host: a/b", line=b"GET /first HTTP/1.1"),
    "user": request(b"Host: u@a", line=b"GET /first HTTP/1.1"),
    "blank": request(b"Host: a b", line=b"GET /first HTTP/1.1"),
    "two types of body": _post(b"Content-Type: a/b", b"Content-Type: c/d", body=b""),
}

_SIZES = {
    "plain": _chunks(_CHUNKS),
    "extension": _chunks(b"5;a=b\r\nhello\r\n0\r\n\r\n"),
    "extension without a value": _chunks(b"5;a\r\nhello\r\n0\r\n\r\n"),
    "quoted extension": _chunks(b'5;a="b;\\"c"\r\nhello\r\n0\r\n\r\n'),
    "quote left open": _chunks(b'5;a="b\r\nhello\r\n0\r\n\r\n'),
    "semicolon alone": _chunks(b"5;\r\nhello\r\n0\r\n\r\n"),
    "blank before an extension": _chunks(b"5 ;a=b\r\nhello\r\n0\r\n\r\n"),
    "bare LF in an extension": _chunks(b"5;a\nhello\r\n0\r\n\r\n"),
    "bare LF, and a size behind it": _chunks(b"2;\nxx\r\n5\r\nhello\r\n0\r\n\r\n"),
    "bare CR in an extension": _chunks(b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    "NUL in an extension": _chunks(b"5;a\x00b\r\nhello\r\n0\r\n\r\n"),
    "extension of the last": _chunks(b"5\r\nhello\r\n0;a=b\r\n\r\n"),
    "long extension": _chunks(b"5;a=" + b"b" * 60_000 + b"\r\nhello\r\n0\r\n\r\n"),
    "upper case": _chunks(b"A\r\n0123456789\r\n0\r\n\r\n"),
    "zeros in front": _chunks(b"0005\r\nhello\r\n0\r\n\r\n"),
    "thirty zeros in front": _chunks(b"0" * 30 + b"5\r\nhello\r\n0\r\n\r\n"),
    "zeros for the last": _chunks(b"5\r\nhello\r\n000\r\n\r\n"),
    "hexadecimal": _chunks(b"0x5\r\nhello\r\n0\r\n\r\n"),
    "sign": _chunks(b"+5\r\nhello\r\n0\r\n\r\n"),
    "minus": _chunks(b"-5\r\nhello\r\n0\r\n\r\n"),
    "blank before": _chunks(b" 5\r\nhello\r\n0\r\n\r\n"),
    "blank behind": _chunks(b"5 \r\nhello\r\n0\r\n\r\n"),
    "tab behind": _chunks(b"5\t\r\nhello\r\n0\r\n\r\n"),
    "empty": _chunks(b"\r\nhello\r\n0\r\n\r\n"),
    "letters": _chunks(b"5g\r\nhello\r\n0\r\n\r\n"),
    "over 64 bits": _chunks(b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "the last of 64 bits": _chunks(b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    "the last of 63 bits": _chunks(b"7fffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    "bare LF behind": _chunks(b"5\nhello\r\n0\r\n\r\n"),
    "bare CR behind": _chunks(b"5\rhello\r\n0\r\n\r\n"),
    "bare LF behind the data": _chunks(b"5\r\nhello\n0\r\n\r\n"),
    "nothing behind the data": _chunks(b"5\r\nhello0\r\n\r\n"),
    "other bytes behind the data": _chunks(b"5\r\nhelloXX0\r\n\r\n"),
    "longer data": _chunks(b"5\r\nhello world\r\n0\r\n\r\n"),
    "bare LF behind the last": _chunks(b"5\r\nhello\r\n0\n\r\n"),
    "bare LF for the empty line": _chunks(b"5\r\nhello\r\n0\r\n\n"),
    "no empty line": _chunks(b"5\r\nhello\r\n0\r\n"),
    "a request within": _chunks(b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER)),
    "a request behind": _chunks(b"0\r\n\r\n" + INNER),
    "trailer": _chunks(b"5\r\nhello\r\n0\r\nX: a\r\n\r\n"),
    "length in a trailer": _chunks(b"5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n"),
    "coding in a trailer": _chunks(b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "host in a trailer": _chunks(b"5\r\nhello\r\n0\r\nHost: b\r\n\r\n"),
    "close in a trailer": _chunks(b"5\r\nhello\r\n0\r\nConnection: close\r\n\r\n"),
    "keep-alive in a trailer": _post(
        _CHUNKED, b"Connection: close", body=b"0\r\nConnection: keep-alive\r\n\r\n"
    ),
    "upgrade in a trailer": _chunks(b"0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
    "trailer without a colon": _chunks(b"5\r\nhello\r\n0\r\nX\r\n\r\n"),
    "bare LF behind a trailer": _chunks(b"5\r\nhello\r\n0\r\nX: a\n\r\n"),
    "folded trailer": _chunks(b"5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n"),
}

_WEBSOCKET = (
    *(b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Version: 13"),
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
_H2C = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")

_CONNECTIONS = {
    "HTTP/1.0": _get(b"GET /first HTTP/1.0"),
    "HTTP/1.0, kept": _get(b"GET /first HTTP/1.0", b"Connection: keep-alive"),
    "HTTP/1.0, kept, in upper case": _get(b"GET /first HTTP/1.0", b"Connection: Keep-Alive"),
    "HTTP/1.0 with a length": request(
        *(_HOST, b"Content-Length: 5", b"Connection: keep-alive"),
        line=b"POST /first HTTP/1.0",
        body=b"hello",
    ),
    "HTTP/1.0, bytes and no length": request(_HOST, line=b"POST /first HTTP/1.0", body=b"hello"),
    "close": _get(b"GET /first HTTP/1.1", b"Connection: close"),
    "close in upper case": _get(b"GET /first HTTP/1.1", b"Connection: CLOSE"),
    "close in a list": _get(b"GET /first HTTP/1.1", b"Connection: x, close"),
    "close and keep-alive": _get(b"GET /first HTTP/1.1", b"Connection: close, keep-alive"),
    "close in a second line": _get(
        b"GET /first HTTP/1.1", b"Connection: keep-alive", b"Connection: close"
    ),
    "close with a body": _post(b"Content-Length: 5", b"Connection: close"),
    "close in a longer name": _get(b"GET /first HTTP/1.1", b"Connection: closed"),
    "of a proxy": _get(b"GET /first HTTP/1.1", b"Proxy-Connection: close"),
    "that names the length": _post(b"Content-Length: 5", b"Connection: Content-Length"),
    "that names the coding": _post(_CHUNKED, b"Connection: Transfer-Encoding", body=_CHUNKS),
    "100-continue": _post(b"Content-Length: 5", b"Expect: 100-continue"),
    "100-continue with chunks": _post(_CHUNKED, b"Expect: 100-continue", body=_CHUNKS),
    "another expectation": _post(b"Content-Length: 5", b"Expect: x"),
    "WebSocket": _get(b"GET /first HTTP/1.1", *_WEBSOCKET),
    "WebSocket with a length": request(
        *(_HOST, *_WEBSOCKET, b"Content-Length: 5"),
        line=b"GET /first HTTP/1.1",
        body=b"hello",
    ),
    "WebSocket with chunks": request(
        _HOST, *_WEBSOCKET, _CHUNKED, line=b"GET /first HTTP/1.1", body=_CHUNKS
    ),
    "WebSocket without Connection": _get(b"GET /first HTTP/1.1", b"Upgrade: websocket"),
    "h2c": _get(b"GET /first HTTP/1.1", *_H2C),
    "h2c with a length": _post(*_H2C, b"Content-Length: 5"),
    "h2c with chunks": _post(*_H2C, _CHUNKED, body=_CHUNKS),
    "h2c with a length, and the last": _post(
        b"Connection: Upgrade, close", b"Upgrade: h2c", b"Content-Length: 5"
    ),
    "another protocol": _get(b"GET /first HTTP/1.1", b"Connection: upgrade", b"Upgrade: x/1"),
    "another protocol without Connection": _get(b"GET /first HTTP/1.1", b"Upgrade: x/1"),
    "Connection: Upgrade alone": _get(b"GET /first HTTP/1.1", b"Connection: Upgrade"),
    "CONNECT": request(b"Host: a:1", line=b"CONNECT a:1 HTTP/1.1"),
    "CONNECT with a length": request(
        b"Host: a:1", b"Content-Length: 5", line=b"CONNECT a:1 HTTP/1.1", body=b"hello"
    ),
    "CONNECT of a path": request(_HOST, line=b"CONNECT /first HTTP/1.1"),
}

_GOOD = _post(b"Content-Length: 5", b"X: 1")

_PIPELINES = {
    "two": _get(b"GET /one HTTP/1.1") + _get(b"GET /two HTTP/1.1"),
    "five, of all kinds": (
        _get(b"GET /one HTTP/1.1")
        + _post(b"Content-Length: 5")
        + _chunks(_CHUNKS)
        + _get(b"HEAD /four HTTP/1.1")
        + _get(b"DELETE /five HTTP/1.1", b"Content-Length: 0")
    ),
    "the same, twice": _GOOD * 2,
    "the same with a shorter length": _GOOD + _GOOD.replace(b"Length: 5", b"Length: 4"),
    "the same with a longer length": _GOOD + _GOOD.replace(b"Length: 5", b"Length: 9"),
    "the same in chunks": _GOOD + _GOOD.replace(b"Content-Length: 5", _CHUNKED)[:-5] + _CHUNKS,
    "the same and a coding": _GOOD + _post(b"Content-Length: 5", b"X: 1", _CHUNKED),
    "the same and a second length": _GOOD + _post(b"Content-Length: 5", b"Content-Length: 5"),
    "the same and no host": _GOOD + _GOOD.replace(b"Host: a", b"Hosu: a"),
    "the same with a bare LF": _GOOD + _GOOD.replace(b"X: 1\r\n", b"X: 1\n"),
    "the same with a control": _GOOD + _GOOD.replace(b"X: 1", b"X: \x01"),
    "the same with a bare CR": _GOOD + _GOOD.replace(b"X: 1", b"X: \r"),
    "the same with a NUL": _GOOD + _GOOD.replace(b"X: 1", b"X: \x00"),
    "the same with a sign": _GOOD + _GOOD.replace(b"Length: 5", b"Length: +"),
    "the same with a blank in a name": _GOOD + _GOOD.replace(b"X: 1", b"X : "),
    "the same of another version": _GOOD + _GOOD.replace(b"HTTP/1.1", b"HTTP/1.2"),
    "the same of RTSP": _GOOD + _GOOD.replace(b"HTTP/1.1", b"RTSP/1.1"),
    "the same to another host": _GOOD + _GOOD.replace(b"Host: a", b"Host: b"),
    "the same, and close": _GOOD + _GOOD.replace(b"X: 1", b"Connection: close"),
    "the same behind an empty line": _GOOD + b"\r\n" + _GOOD,
    "garbage behind": _GOOD + b"hello\r\n\r\n",
    "NUL behind": _GOOD + b"\x00",
    "a frame of HTTP/2 behind": _GOOD + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)),
}

_LIMITS = {
    "64 headers": request(_HOST, *[b"X: a"] * 63, line=b"GET /first HTTP/1.1"),
    "65 headers": request(_HOST, *[b"X: a"] * 64, line=b"GET /first HTTP/1.1"),
    "200 headers": request(_HOST, *[b"X: a"] * 199, line=b"GET /first HTTP/1.1"),
    "a header of 6,000 bytes": _get(b"GET /first HTTP/1.1", b"X: " + b"a" * 6000),
    "a header of 9,000 bytes": _get(b"GET /first HTTP/1.1", b"X: " + b"a" * 9000),
    "headers of 20,000 bytes": request(
        _HOST, *[b"X: " + b"a" * 5000] * 4, line=b"GET /first HTTP/1.1"
    ),
    "headers of 60,000 bytes": request(
        _HOST, *[b"X: " + b"a" * 6000] * 10, line=b"GET /first HTTP/1.1"
    ),
    "a target of 6,000 bytes": _get(b"GET /" + b"a" * 6000 + b" HTTP/1.1"),
    "a target of 9,000 bytes": _get(b"GET /" + b"a" * 9000 + b" HTTP/1.1"),
}

CLASSES = {
    "length": _LENGTHS,
    "coding": _CODINGS,
    "line": _LINES,
    "request line": _REQUEST_LINES,
    "URL": _URLS,
    "host": _HOSTS,
    "chunk": _SIZES,
    "connection": _CONNECTIONS,
    "pipeline": _PIPELINES,
    "limit": _LIMITS,
}

#: By ``class: name``, each without :data:`NEXT`.
CASES = {f"{kind}: {name}": sent for kind, cases in CLASSES.items() for name, sent in cases.items()}

# --- Recorded requests, altered at random ---------------------------------------------------------

_ODD_BYTES = [b"\r", b"\n", b"\r\n", b"\x00", b"\t", b" ", b":", b";", b",", b"\x7f", b"\xff", b"0"]

_ODD_LINES = [
    *(b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: +5", b"Content-Length : 5"),
    *(_CHUNKED, b"Transfer-Encoding: xchunked", b"Transfer-Encoding : chunked", b" folded"),
    *(b"Connection: close", b"Connection: keep-alive", b"Connection: Upgrade", b"Upgrade: h2c"),
    *(b"Upgrade: websocket", b"Expect: 100-continue", b"Host: b", b"X: a\nY: b", b"X: a\rY: b"),
    *(b"Content-Type: a/b", b"no colon", b": no name"),
]

_LINE_END = b"\r\n"


def altered(count: int, seed: int) -> Iterator[bytes]:
    """Pipelines of recorded requests, most of them altered; the same for the same seed."""
    draw = random.Random(seed)
    wires = [each.wire.replace(b"Connection: close\r\n", b"") for each in recorded()]
    short = [wire for wire in wires if len(wire) < 2000]
    for _ in range(count):
        pipeline = [draw.choice(short) for _ in range(draw.choice((1, 1, 2, 3)))]
        at = draw.randrange(len(pipeline))
        for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
            pipeline[at] = _altered_once(draw, pipeline[at])
        yield b"".join(pipeline)


def _altered_once(draw: random.Random, sent: bytes) -> bytes:
    head, empty_line, body = sent.partition(b"\r\n\r\n")
    lines = head.split(_LINE_END)
    at = draw.randrange(len(head) + 1)
    line = draw.randrange(len(lines))
    match draw.randrange(9):
        case 0:
            head = head[:at] + draw.choice(_ODD_BYTES) + head[at:]
        case 1:
            head = head[:at] + draw.choice(_ODD_BYTES) + head[at + 1 :]
        case 2:
            head = head[:at] + head[at + 1 :]
        case 3:
            lines.insert(draw.randrange(1, len(lines) + 1), draw.choice(_ODD_LINES))
            head = _LINE_END.join(lines)
        case 4:
            lines.insert(line, lines[line])
            head = _LINE_END.join(lines)
        case 5:
            del lines[line]
            head = _LINE_END.join(lines)
        case 6:
            lines[line] = lines[line].swapcase()
            head = _LINE_END.join(lines)
        case 7:
            body = draw.choice((b"", body[:-1], body + b"x", _CHUNKS, body + INNER))
        case 8:
            kept = [each for each in lines if not each.lower().startswith(b"content-length")]
            head = _LINE_END.join([*kept, _CHUNKED])
            size = draw.choice((b"%x", b"0%x", b"%x;a=b", b"%x ", b"+%x", b"%x;a\n")) % len(body)
            body = b"%b\r\n%b\r\n0\r\n\r\n" % (size, body)
    return head + empty_line + body
