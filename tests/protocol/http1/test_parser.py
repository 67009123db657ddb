"""Requests of HTTP/1.1 as bytes: heads, bodies, and what is no request."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.http1.parser import RequestBroken, RequestParser
from partway.protocol.limits import HTTP1_BYTES_PER_TURN, KIB, MAX_HEAD_BYTES, MAX_HEADERS
from tests.protocol.http1.parsed_heads import ALIKE, ODD, UNLIKE, fed, heads, outcome

PLAIN = b"POST /a?b=c HTTP/1.1\r\nHost: a\r\nX-One: 1 \t\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nX-Trailer: 1\r\n\r\n"
)
BARE = b"GET /d HTTP/1.0\r\n\r\n"
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


def seen(parser):
    """The requests of a parser: what of them has come, and whether that is all."""
    return [
        (
            *(each.head.method, each.head.target, each.head.version),
            *(each.take(), each.complete, each.head.keeps),
        )
        for each in parser.requests
    ]


THREE = [
    ("POST", "/a?b=c", "1.1", b"hello", True, True),
    ("POST", "/c", "1.1", b"hello", True, True),
    ("GET", "/d", "1.0", b"", True, False),
]


@given(st.lists(st.integers(0, len(PLAIN + CHUNKED + BARE)), max_size=6))
def test_it_is_the_same_however_it_is_cut(cuts):
    whole = PLAIN + CHUNKED + BARE
    edges = [0, *sorted(cuts), len(whole)]
    parser = fed(*(whole[a:b] for a, b in pairwise(edges)))
    assert seen(parser) == THREE


def test_byte_by_byte():
    assert seen(fed(*(bytes([each]) for each in PLAIN + CHUNKED + BARE))) == THREE


REST = b"\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
OTHERS = [
    *(b"GET / RTSP/1.0", b"GET / RTSP/1.1", b"POST / RTSP/1.0", b"POST / RTSP/1.1"),
    *(b"OPTIONS * RTSP/1.0", b"DESCRIBE /a RTSP/1.0", b"SOURCE /a ICE/1.0"),
    *(b"GET /", b"GET / HTTP/0.9", b"GET / HTTP/2.0", b"GET / HTTP/1.2", b"GET / http/1.1"),
    b"GET / HTTP/1.1 RTSP/1.0",
]


def feed_pieces(parser, data, ends):
    for begin, end in pairwise((0, *ends)):
        parser.feed(data[begin:end])


@pytest.mark.parametrize("line", OTHERS)
@pytest.mark.parametrize("before", [b"", b"\r\n", PLAIN, CHUNKED, PLAIN + b"\r\n" + CHUNKED])
def test_another_protocol_is_no_request(line, before):
    """Behind other requests, too, and however it is cut."""
    data = before + line + REST
    cuts = [(at, len(data)) for at in range(1, len(data))] + [tuple(range(1, len(data) + 1))]
    for each in cuts:
        parser = RequestParser()
        with pytest.raises(RequestBroken):
            feed_pieces(parser, data, each)
        assert len(parser.requests) == before.count(b"POST")


def test_a_name_of_another_protocol_elsewhere_is_no_harm():
    text = b"GET / RTSP/1.0\r\n\r\nSOURCE / ICE/1.0\r\n\r\n"
    head = b"POST /a HTTP/1.1\r\nHost: a\r\nX: RTSP/1.0\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(text) + text
    whole += head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(text) + text
    whole += b"\r\n0\r\nX: RTSP/1.0\r\n\r\n"
    for size in (1, 3, 7, len(whole)):
        parser = fed(*(whole[at : at + size] for at in range(0, len(whole), size)))
        assert [each.take() for each in parser.requests] == [text, text]
        assert all(each.complete for each in parser.requests)


def test_headers_as_they_came_and_by_their_names():
    (request,) = fed(PLAIN).requests
    assert request.head.raw_headers == [("Host", "a"), ("X-One", "1"), ("Content-Length", "5")]
    assert request.head.headers["x-one"] == "1"
    assert request.head.length == 5
    assert request.head.size == len("/a?b=c") + len("HostaX-One1 \tContent-Length5") + 96


def test_headers_of_the_same_name_are_joined_by_whoever_needs_them():
    (request,) = fed(b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nx: 2\r\n\r\n").requests
    assert request.head.headers is None
    assert request.head.raw_headers[1:] == [("X", "1"), ("x", "2")]


def test_bytes_that_are_no_utf_8_come_through():
    (request,) = fed(b"GET / HTTP/1.1\r\nHost: a\r\nX: \xfe\r\n\r\n").requests
    assert request.head.headers["x"].encode("utf-8", "surrogateescape") == b"\xfe"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("http://a:1/b?c", "/b?c"),
        ("HTTPS://a", "/"),
        ("http://a?b=/c", "/?b=/c"),
        ("/http://a/b", "/http://a/b"),
        ("*", "*"),
    ],
)
def test_a_target_is_taken_from_its_path_on(target, path):
    method = b"OPTIONS" if target == "*" else b"GET"
    (request,) = fed(b"%b %b HTTP/1.1\r\nHost: a\r\n\r\n" % (method, target.encode())).requests
    assert request.head.target == path


def test_a_body_is_held_until_it_is_taken_and_its_end_is_known():
    parser = fed(PLAIN[:-2])
    (request,) = parser.requests
    assert (request.held, request.complete) == (3, False)
    parser.feed(PLAIN[-2:])
    assert (request.held, request.complete) == (5, True)


def test_a_stated_length_is_parsed_at_once_and_chunks_in_turns():
    parser = RequestParser()
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
    assert parser.turn() == HTTP1_BYTES_PER_TURN
    parser.feed(head + b"xx")
    assert parser.turn() == 999_998
    parser.feed(bytes(999_998))
    assert parser.turn() == HTTP1_BYTES_PER_TURN
    parser.feed(CHUNKED[:-30])
    assert parser.turn() == HTTP1_BYTES_PER_TURN


@pytest.mark.parametrize("first", [0, 1, 4096, 5000, 100_000])
@pytest.mark.parametrize("second", [0, 1, 5000])
def test_what_comes_with_a_head_that_comes_again_is_taken_as_bytes(first, second):
    """Whether it is all there is of the body, or there is more."""
    body = bytes(range(256)) * 500
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    parser = fed(head, body)
    parser.feed(head + body[:first])
    if second:
        parser.feed(body[first : first + second])
    request = parser.requests[-1]
    taken = request.take()
    assert (type(taken), taken) == (bytes, body[: first + second])
    parser.feed(body[first + second :])
    assert (request.take(), request.complete) == (body[first + second :], True)


# --- What is no request --------------------------------------------------------------------------

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"
BROKEN = {
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
    "two types": HEAD + b"Content-Type: a\r\ncontent-type: a\r\n\r\n",
    "the same length twice": HEAD + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "codings in two lines": HEAD + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
    "another coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "no coding at all": HEAD + b"Transfer-Encoding: identity\r\n\r\n",
    "chunks of 1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/2.0 in words": b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "HTTP/0.9": b"GET / HTTP/0.9\r\n\r\n",
    "a target of more than ASCII": b"GET /\xc3\xb6 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a URL without a host": b"GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n",
    "a URL whose host is none": b"GET http://[a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown method": b"FETCH / HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
def test_what_two_parsers_might_read_differently_is_refused(sent):
    parser = RequestParser()
    with pytest.raises(RequestBroken) as refused:
        parser.feed(sent)
    assert refused.value.error.status == 400
    assert not parser.requests
    assert parser.last is None


def test_what_is_wrong_behind_a_request_leaves_it_whole():
    parser = RequestParser()
    with pytest.raises(RequestBroken):
        parser.feed(PLAIN + b"no request\r\n\r\n")
    assert seen(parser) == THREE[:1]


@pytest.mark.parametrize("rest", [b"xyz\r\n", b"-1\r\n", b"1\r\nab\r\n", b"1\nx\n"])
def test_a_body_that_is_not_chunks_leaves_its_request_unfinished(rest):
    parser = RequestParser()
    with pytest.raises(RequestBroken):
        parser.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n" + rest)
    assert parser.last is parser.requests[0]
    assert not parser.last.complete


# --- Bounds --------------------------------------------------------------------------------------

ENDLESS = {
    "a target": (b"GET /" + b"a" * 40 * KIB, 414),
    "a value": (b"GET / HTTP/1.1\r\nX: " + b"a" * 40 * KIB, 431),
    "a name": (b"GET / HTTP/1.1\r\n" + b"x" * 40 * KIB, 431),
    "short lines": (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 100, 431),
    "long lines": (b"GET / HTTP/1.1\r\n" + (b"x: " + b"v" * 8000 + b"\r\n") * 6, 431),
    "lines that are none": (b"\r\n" * 20 * KIB, 431),
    "trailers": (CHUNKED[:-2] + b"x: y\r\n" * 10 * KIB, 431),
    "a chunk's extension": (CHUNKED[:70] + b";" + b"x" * 40 * KIB, 431),
}


@pytest.mark.parametrize(("sent", "status"), ENDLESS.values(), ids=ENDLESS)
def test_what_is_never_finished_is_refused_before_it_holds_much(sent, status):
    parser = RequestParser()
    refused = None
    tracemalloc.start()
    begun, _ = tracemalloc.get_traced_memory()
    most = 0
    for at in range(0, len(sent), 500):
        try:
            parser.feed(sent[at : at + 500])
        except RequestBroken as broken:
            refused = broken.error.status
            break
        most = max(most, tracemalloc.get_traced_memory()[0] - begun)
        assert parser.held <= 64 * KIB
    tracemalloc.stop()
    assert refused == status
    assert most < 64 * KIB


def test_the_largest_head_is_read():
    size = MAX_HEAD_BYTES // MAX_HEADERS - 40
    lines = b"".join(b"x-%03d: %b\r\n" % (n, b"v" * (size - 5)) for n in range(MAX_HEADERS - 1))
    sent = b"GET / HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n"
    (request,) = fed(*(sent[at : at + 4096] for at in range(0, len(sent), 4096))).requests
    assert len(request.head.raw_headers) == MAX_HEADERS


def many_headers(size):
    """A head of as many headers as there may be, whose values have so many bytes."""
    lines = b"".join(b"%x:%b\r\n" % (n + 256, b"v" * size) for n in range(MAX_HEADERS - 1))
    return b"GET / HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n"


@pytest.mark.parametrize("size", [1, 20, 200])
def test_the_last_head_weighs_what_it_holds_while_the_next_one_is_waited_for(size):
    parsers = [RequestParser() for _ in range(50)]
    before = parsers[0].held
    tracemalloc.start()
    begun, _ = tracemalloc.get_traced_memory()
    for parser in parsers:
        parser.feed(many_headers(size))
        parser.requests.popleft()
    held = (tracemalloc.get_traced_memory()[0] - begun) / len(parsers)
    tracemalloc.stop()
    assert before == 0
    assert 0.75 * held < parsers[0].held < 1.5 * held


# --- Ends and upgrades ---------------------------------------------------------------------------


def test_what_follows_a_request_that_was_to_be_the_last_is_nobodys():
    last = b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    parser = fed(last + BARE, BARE)
    assert seen(parser) == [("GET", "/a", "1.1", b"", True, False)]
    assert parser.over
    assert parser.tail == b""


UPGRADE = b"GET /w HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def test_what_follows_an_upgrade_is_kept_as_it_is():
    parser = fed(UPGRADE + b"\x81", b"GET / HTTP/1.1\r\n")
    (request,) = parser.requests
    assert request.head.upgrades
    assert not request.head.keeps
    assert parser.over
    assert parser.tail == b"\x81GET / HTTP/1.1\r\n"


def test_a_tunnel_is_no_request_behind_its_head():
    parser = fed(b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n" + BARE)
    assert [(each.head.method, each.head.keeps) for each in parser.requests] == [("CONNECT", False)]
    assert parser.tail == BARE


@pytest.mark.parametrize("cut", [None, 1, 30])
@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"Content-Length: 5\r\n", b"hello"),
        (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
        (b"", b""),
    ],
    ids=["length", "chunks", "none"],
)
def test_an_upgrade_to_what_is_not_spoken_here_is_let_be(framing, body, cut):
    """Java's client asks for h2c with each first request, whatever its body (RFC 9110 §7.8)."""
    sent = HEAD + H2C + framing + b"\r\n" + body + PLAIN
    pieces = [sent] if cut is None else [sent[at : at + cut] for at in range(0, len(sent), cut)]
    parser = fed(*pieces)
    assert seen(parser) == [
        ("POST", "/", "1.1", b"hello" if body else b"", True, True),
        THREE[0],
    ]
    assert not parser.over


def test_an_upgrade_with_a_body_has_it_first_and_nothing_behind_it():
    sent = UPGRADE[:-2] + b"Content-Length: 5\r\n\r\nhello" + BARE
    parser = fed(sent)
    assert seen(parser) == [("GET", "/w", "1.1", b"hello", True, False)]
    assert parser.over


# --- Heads that come again -----------------------------------------------------------------------


@pytest.mark.parametrize("cut", [len(PLAIN) - 5, len(PLAIN) - 2, len(PLAIN)])
def test_a_head_that_comes_again_is_read_again(cut):
    again = PLAIN[:-5] + b"other"
    parser = fed(PLAIN, again[:cut], again[cut:], PLAIN)
    first, second, third = heads(parser)
    assert first.raw_headers == second.raw_headers == third.raw_headers
    bodies = [(b"hello", True), (b"other", True), (b"hello", True)]
    assert [each[3:5] for each in seen(parser)] == bodies


def test_a_body_that_is_still_to_come_is_waited_for():
    parser = fed(PLAIN, PLAIN[:-2])
    last = parser.last
    assert (last.held, last.complete, parser.turn()) == (3, False, HTTP1_BYTES_PER_TURN)
    parser.feed(PLAIN[-2:] + BARE)
    assert (last.take(), last.complete) == (b"hello", True)
    assert parser.last.head.version == "1.0"


WITHIN = b"POST /e HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n"
IN_CHUNKS = WITHIN % b"Transfer-Encoding: chunked" + b"%x\r\n" % len(PLAIN)
LAST = WITHIN % b"Connection: close"


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ((PLAIN, IN_CHUNKS, PLAIN, b"\r\n0\r\n\r\n"), [b"hello", PLAIN]),
        ((PLAIN, PLAIN[:9], PLAIN[9:-5], PLAIN[:5]), [b"hello", PLAIN[:5]]),
        ((PLAIN, WITHIN % b"Content-Length: %d" % len(PLAIN), PLAIN), [b"hello", PLAIN]),
        ((PLAIN, LAST, PLAIN), [b"hello", b""]),
        ((PLAIN + b"POST", PLAIN[4:], PLAIN + b"POST", PLAIN[4:]), [b"hello"] * 4),
        ((PLAIN + b"\r\n", PLAIN + b"\r\n", PLAIN), [b"hello"] * 3),
    ],
    ids=["in a chunk", "in a body", "in a long body", "behind the last", "cut", "empty lines"],
)
def test_the_bytes_of_a_head_are_one_where_a_request_begins(pieces, expected):
    assert [each.take() for each in fed(*pieces).requests] == expected


#: What a client may send, each by itself right, or wrong, or hiding a request in a body.
SENT = [
    *(PLAIN, PLAIN[:-5] + b"again", PLAIN.replace(b"X-One", b"x-one"), CHUNKED, BARE),
    b"GET /d HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD /d HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    b"POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(PLAIN) + PLAIN,
    b"POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
    b"POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
    b"POST /f HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    b"POST /f HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
    HEAD + H2C + b"Content-Length: 2\r\n\r\nok",
    b"GET /g HTTP/1.1\r\nHost: a\r\nX: 1\r\nx: 2\r\n\r\n",
    HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    *(b"\r\n", b"\r", b"\n", b"no request\r\n\r\n", PLAIN[:20], b"\r\n\r\n", b"0\r\n\r\n"),
    *(*ALIKE, *UNLIKE),
]


@pytest.mark.parametrize("other", [*ALIKE, *ODD, *UNLIKE])
@pytest.mark.parametrize("first", [*ALIKE, *ODD])
def test_a_head_says_the_same_whatever_came_before_it(first, other):
    alone, _, refused, over, _ = outcome([other])
    after = outcome([first, other])
    assert (after[0][1:], after[2:4]) == (alone, (refused, over))


@given(st.lists(st.sampled_from(SENT), min_size=2, max_size=8), st.data())
def test_requests_are_the_same_however_their_bytes_are_cut(sent, data):
    ends = [0]
    for each in sent:  # where a body begins, and where the next begins
        _, _, body = each.partition(b"\r\n\r\n")
        ends += [ends[-1] + len(each) - len(body), ends[-1] + len(each)]
    whole = b"".join(sent)
    around = st.sampled_from(ends).flatmap(lambda end: st.integers(end - 9, end + 9))
    cuts = data.draw(st.lists(around, max_size=6))
    edges = sorted({0, len(whole), *(cut for cut in cuts if 0 < cut < len(whole))})
    requests, _, refused, over, tail = outcome([whole[a:b] for a, b in pairwise(edges)])
    expected, _, refused_at_once, *ended = outcome([whole])
    assert (requests, bool(refused), [over, tail]) == (expected, bool(refused_at_once), ended)
