"""What a parser of HTTP/1.1 makes of bytes, and heads that resemble one another."""

from __future__ import annotations

from partway.protocol.http1.parser import RequestBroken, RequestParser


def fed(*pieces):
    """A parser that was given these."""
    parser = RequestParser()
    for piece in pieces:
        parser.feed(piece)
    return parser


def heads(parser):
    return [each.head for each in parser.requests]


def outcome(pieces):
    """All that a parser says of these pieces."""
    parser = RequestParser()
    refused, along = None, []
    try:
        for piece in pieces:
            rest = piece
            while rest:
                size = parser.turn()
                turn, rest = rest[:size], rest[size:]
                parser.feed(turn)
                along.append((len(parser.requests), parser.turn(), parser.over))
    except RequestBroken as broken:
        refused = (str(broken), broken.error.status, str(broken.error))
    requests = [
        (
            *(each.head.method, each.head.target, list(each.head.raw_headers)),
            *(each.head.headers, each.head.version, each.head.length, each.head.size),
            *(each.head.keeps, each.head.upgrades, each.received, each.take(), each.complete),
        )
        for each in parser.requests
    ]
    return requests, along, refused, parser.over, parser.tail


def signed(target=b"/endpoints/a/invocations", **more):
    body = more.get("body", b"hello")
    lines = [
        b"POST %b HTTP/1.1" % target,
        b"Host: a",
        more.get("date_is", b"X-Amz-Date: ") + more.get("date", b"20261126T120000Z"),
        b"Authorization: AWS4-HMAC-SHA256 Credential=a/b, Signature="
        + more.get("signature", b"0" * 64),
        b"amz-sdk-invocation-id: " + more.get("id", b"1-2-3"),
        b"Content-Length: %d" % more.get("length", len(body)),
        b"X-One: " + more.get("one", b"1"),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


#: Each like the first: it differs in what a client says anew, in its target and its length.
ALIKE = [
    signed(),
    signed(signature=b"1" * 64, id=b"another one", date=b"20261126T120001Z"),
    signed(body=b"a longer one", id=b"1"),
    signed(target=b"/endpoints/b-1/invocations", body=b""),
    signed(target=b"/base/endpoints/%61/invocations"),
]
#: Others, in which not all that a client says anew is as most say it.
ODD = [
    signed(id=b"1  2"),
    signed(id=b"1 "),
    signed(id=b""),
    signed(id=b"attempt=1; max=3"),
    signed(signature=b"none"),
    signed(date_is=b"X-Amz-Date:  "),
    signed(date=b"20261126T120000Z \t"),
    signed(signature=b"0" * 64 + b" "),
    signed(target=b"/endpoints/a/invocations?b=c"),
    signed(target=b"http://a/endpoints/a/invocations"),
    signed().replace(b"Content-Length: 5", b"Content-Length: 5 "),
    signed().replace(b"X-Amz-Date", b"X-Amz-Date: 1\r\nX-Amz-Date"),
    signed().replace(b"AWS4-HMAC-SHA256 ", b"Bearer "),
    b"\r\n" + signed(),
    signed(target=b"*").replace(b"POST", b"OPTIONS"),
]
#: Each unlike it, or like it and wrong.
UNLIKE = [
    signed(one=b"2"),
    signed(date_is=b"x-amz-date: "),
    signed(date_is=b"X-Amz-Date:"),
    signed(target=b"/endpoints/a/invocations?b=c"),
    signed(target=b"*"),
    signed(target=b"/a HTTP/1.1\r\nX: /b"),
    signed(target=b"/ b"),
    signed(target=b""),
    signed().replace(b"POST /endpoints/a/invocations HTTP/1.1", b"/evil"),
    b"/evil" + b"\r\n" + signed(),
    signed(target=b"/\xff"),
    signed(id=b""),
    signed(id=b" 1"),
    signed(id=b"1 "),
    signed(id=b"1\r\nX: 2"),
    signed(id=b"1\nX: 2"),
    signed(id=b"1\rX: 2"),
    signed(id=b"1\r\n 2"),
    signed(id=b"\x00"),
    signed(id=b"\xfe"),
    signed(signature=b"\t"),
    signed(signature=b""),
    signed(signature=b"0" * 63),
    signed(signature=b"0" * 64 + b", Signature=" + b"0" * 64),
    signed().replace(b"a/b", b"a/c"),
    signed(length=1234567890123456),
    signed(length=4),
    signed(length=6),
    signed().replace(b"Length: 5", b"Length: +5"),
    signed().replace(b"Length: 5", b"Length: 05"),
    signed().replace(b"Length: 5", b"Length: 5 "),
    signed().replace(b"Length: 5", b"Length: 5, 5"),
    signed().replace(b"Length: 5", b"Length: "),
    signed().replace(b"POST", b"PUT"),
    signed().replace(b"HTTP/1.1", b"HTTP/1.0"),
    signed().replace(b"X-One", b"Content-Length"),
    signed().replace(b"X-One: 1", b"Transfer-Encoding: chunked"),
]
