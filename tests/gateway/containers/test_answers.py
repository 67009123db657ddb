"""partway.gateway.containers.answers: what is an answer, however it is cut, and what is none."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from partway.gateway.containers.answers import AnswerBroken, AnswerHead, AnswerParser, AnswerPiece
from partway.gateway.containers.limits import (
    ANSWER_TURN_BYTES,
    MAX_ANSWER_HEAD_BYTES,
    MAX_ANSWER_LENGTH,
)
from partway.protocol.limits import MAX_HEADERS, MAX_INTERIM_RESPONSES

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\n"
WHOLE = 64


def parsed(data, cuts=(), end=False):
    parser = AnswerParser(WHOLE)
    for begin, stop in zip((0, *cuts), (*cuts, len(data)), strict=True):
        parser.feed(data[begin:stop])
    if end:
        parser.feed_end()
    return parser


def taken(parser):
    return list(iter(parser.take, None))


def body(parser):
    return b"".join(piece.data for piece in taken(parser))


@pytest.mark.parametrize("length", [2**63, 2**64 - 1])
def test_a_length_that_no_body_has(length):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    assert not parsed(head % MAX_ANSWER_LENGTH).complete
    with pytest.raises(AnswerBroken, match="its Content-Length is over 9223372036854775807"):
        parsed(head % length)


ANSWERS = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: 1\r\na: 2\r\n\r\nhello", False, 200, b"hello"),
    (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", False, 200, b""),
    (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", True, 200, b"until the end"),
    (b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", True, 500, b""),
    (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", False, 204, b""),
    (CHUNKED + b"2\r\nab\r\n3;x=y\r\ncde\r\n0\r\nT: v\r\n\r\n", False, 200, b"abcde"),
    (
        INTERIM + b"HTTP/1.1 415 No\r\nContent-Length: 2\r\n\r\nno",
        False, 415, b"no",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("data", "end", "status", "expected"), ANSWERS)
def test_an_answer_is_the_same_however_it_is_cut(data, end, status, expected):
    for at in range(len(data) + 1):
        parser = parsed(data, (at,), end)
        assert parser.complete
        assert not parser.trailing
        assert parser.head.status == status
        assert body(parser) == expected
    parser = parsed(data, range(1, len(data)), end)
    assert (parser.complete, parser.head.status, body(parser)) == (True, status, expected)


def test_a_head_as_the_container_wrote_it():
    data = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a:  2\t\r\nX-Obs: \xe9\r\nContent-Length: 0\r\n\r\n"
    head = parsed(data).head
    assert head.headers.getall("X-a") == ["1", "2"]
    assert head.headers["x-obs"] == "\xe9"


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\n\r\n", False),
    ],
)
def test_whether_the_connection_is_kept(head, keeps):
    assert parsed(head).head.keeps is keeps


# --- Chunks --------------------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=1, max_size=WHOLE), max_size=8), st.data())
def test_each_chunk_is_one_piece(chunks, data):
    wire = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks)
    wire += b"0\r\n\r\n"
    cuts = data.draw(st.sets(st.integers(0, len(wire))).map(sorted))
    parser = parsed(wire, cuts)
    assert taken(parser) == [AnswerPiece(each, True) for each in chunks]
    assert parser.complete


def test_a_chunk_is_there_once_its_end_is():
    parser = parsed(CHUNKED + b"3\r\nabc")
    assert parser.take() is None
    parser.feed(b"\r\n")
    assert parser.take() == AnswerPiece(b"abc", True)


def test_a_long_chunk_comes_in_pieces_the_last_of_which_ends_it():
    parser = parsed(CHUNKED + b"c8\r\n")
    for _ in range(4):
        parser.feed(b"x" * 50)
    parser.feed(b"\r\n0\r\n\r\n")
    pieces = taken(parser)
    assert [len(each.data) for each in pieces] == [50] * 4
    assert [each.ends_chunk for each in pieces] == [False] * 3 + [True]


def test_what_is_held_is_counted():
    parser = parsed(CHUNKED + b"2\r\nab\r\n" * 10)
    assert parser.held >= 20
    taken(parser)
    assert parser.held == 0


def test_a_chunk_that_comes_byte_by_byte_costs_its_bytes():
    parser = AnswerParser(10**6)
    parser.feed(CHUNKED + b"%x\r\n" % 200_000)
    tracemalloc.start()
    try:
        for _ in range(100_000):
            parser.feed(b"x")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (parser.held, parser.begun) == (0, 100_000)
    assert held < 200_000
    parser.feed(b"y" * 100_000 + b"\r\n")
    assert parser.begun == 0
    assert body(parser) == b"x" * 100_000 + b"y" * 100_000


# --- What is no answer ---------------------------------------------------------------------------


def line(*headers):
    return b"HTTP/1.1 200 OK\r\n" + b"".join(each + b"\r\n" for each in headers) + b"\r\n"


CODING = "its Transfer-Encoding must be chunked alone, and its version HTTP/1.1"
LATIN = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"nonsense\r\n\r\n", "not valid HTTP/1.1"),
        (line(b"Content-Length: 3", b"Transfer-Encoding: chunked"), "not valid HTTP/1.1"),
        (line(b"Transfer-Encoding: chunked", b"Content-Length: 3"), "not valid HTTP/1.1"),
        (line(b"Content-Length: 3", b"Content-Length: 3"), "not valid HTTP/1.1"),
        (line(b"Content-Length: 3, 3"), "not valid HTTP/1.1"),
        (line(b"Content-Length: +3"), "not valid HTTP/1.1"),
        (line(b"Content-Length: 3a"), "not valid HTTP/1.1"),
        (line(b"Content-Length:"), "not valid HTTP/1.1"),
        (line(b"Content-Length: 99999999999999999999"), "not valid HTTP/1.1"),
        (line(b"Transfer-Encoding: gzip, chunked"), CODING),
        (line(b"Transfer-Encoding: chunked, gzip"), CODING),
        (line(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), CODING),
        (LATIN, CODING),
        (line(b"A : b"), "not valid HTTP/1.1"),
        (line(b"A: b", b" folded"), "not valid HTTP/1.1"),
        (line(b"A: b\0c"), "not valid HTTP/1.1"),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "not valid HTTP/1.1"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/0.9 200 OK\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", "not valid HTTP/1.1"),
        (b"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "does not begin with b'HTTP/'"),
        *(
            (before + name + b" 200 OK\r\nContent-Length: 2\r\n\r\nok", "does not begin with")
            for name in (b"RTSP/1.0", b"RTSP/1.1", b"ICE/1.0", b"ICE/1.1")
            for before in (b"", b"\r\n", INTERIM)
        ),
        (b"HTTP/1.1 999 OK\r\n\r\n", "status 999"),
        (b"HTTP/1.1 099 OK\r\n\r\n", "status 99"),
        (b"HTTP/1.1 101 Up\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n", "another protocol"),
        (b"HTTP/1.1 101 Up\r\n\r\n", "another protocol"),
        (CHUNKED + b"0x2\r\nab\r\n", "not valid HTTP/1.1"),
        (CHUNKED + b"-2\r\nab\r\n", "not valid HTTP/1.1"),
        (CHUNKED + b"fffffffffffffffff\r\n", "not valid HTTP/1.1"),
        (CHUNKED + b"2\r\nabc\r\n", "not valid HTTP/1.1"),
        (CHUNKED + b"2\nab\n", "not valid HTTP/1.1"),
    ],
)
def test_what_is_refused(data, said):
    for cuts in ((), range(1, len(data))):
        with pytest.raises(AnswerBroken, match=said):
            parsed(data, cuts)


def test_headers_are_bounded():
    parsed(line(*[b"A: b"] * (MAX_HEADERS - 1), b"Content-Length: 0"))
    with pytest.raises(AnswerBroken, match=f"more than {MAX_HEADERS} headers"):
        parsed(line(*[b"A: b"] * (MAX_HEADERS + 1)))


@pytest.mark.parametrize(
    "beginning",
    [b"HTTP/1.1 200 OK\r\nA: ", b"HTTP/1.1 200 ", CHUNKED + b"1;", CHUNKED + b"0\r\nT: "],
)
def test_a_line_without_end_comes_to_one(beginning):
    data = beginning + b"a" * 2 * MAX_ANSWER_HEAD_BYTES
    with pytest.raises(AnswerBroken, match=f"over {MAX_ANSWER_HEAD_BYTES} bytes"):
        parsed(data, range(1000, len(data), 1000))


@pytest.mark.parametrize("line", [b"HTTP/1.1 103 Hints\r\nA: " + b"a" * 1000, b"\r\n"])
def test_no_lines_without_end_come_before_an_answer(line):
    data = line * (2 * MAX_ANSWER_HEAD_BYTES // len(line))
    with pytest.raises(AnswerBroken, match=f"over {MAX_ANSWER_HEAD_BYTES} bytes"):
        parsed(data, range(1000, len(data), 1000))


def test_interim_answers_are_bounded():
    interim = b"HTTP/1.1 103 Hints\r\n\r\n"
    assert parsed(interim * MAX_INTERIM_RESPONSES + line(b"Content-Length: 0")).complete
    with pytest.raises(AnswerBroken, match="interim answers"):
        parsed(interim * (MAX_INTERIM_RESPONSES + 1))


def test_a_long_body_is_no_line_without_end():
    parser = parsed(CHUNKED + b"%x\r\n" % (ANSWER_TURN_BYTES * 4))
    for _ in range(4):
        parser.feed(b"x" * ANSWER_TURN_BYTES)
    parser.feed(b"\r\n0\r\n\r\n")
    assert len(body(parser)) == ANSWER_TURN_BYTES * 4


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "before the head"),
        (b"HTTP/1.1 200 OK\r\nA", "before the head"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "before the head"),
        (line(b"Content-Length: 3") + b"ab", "in the middle of the body"),
        (CHUNKED, "in the middle of the body"),
        (CHUNKED + b"2\r\nab\r\n0\r\n", "in the middle of the body"),
    ],
)
def test_an_end_before_the_answers_end(data, said):
    with pytest.raises(AnswerBroken, match=said):
        parsed(data, end=True)


@pytest.mark.parametrize("behind", [b"HTTP/1.1 200 OK\r\n\r\n", b"x", b"HTTP"])
@pytest.mark.parametrize(
    "answer",
    [
        line(b"Content-Length: 2") + b"ok",
        CHUNKED + b"2\r\nok\r\n0\r\n\r\n",
        line(b"Connection: close", b"Content-Length: 2") + b"ok",
    ],
)
def test_bytes_behind_the_end_are_seen_and_change_nothing(answer, behind):
    for cuts in ((), (len(answer),)):
        parser = parsed(answer + behind, cuts)
        assert parser.complete
        assert parser.trailing
        assert parser.head.status == 200
        assert body(parser) == b"ok"


# --- Lengths, dates, chunks ----------------------------------------------------------------------

PLAIN = b"HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 5\r\nB: 2\r\n\r\nhello"
DATED = PLAIN.replace(b"A: 1", b"Date: Tue, 15 Nov 1994 08:12:31 GMT")
IN_CHUNKS = CHUNKED + b"5\r\nhello\r\n7\r\n, again\r\n0\r\n\r\n"


@pytest.mark.parametrize("number", [b"", b"-5", b"+5", b"5a", b"0x5", b"5, 5", b"9" * 20])
def test_a_length_must_be_a_number(number):
    with pytest.raises(AnswerBroken):
        parsed(PLAIN.replace(b"5", number))


@pytest.mark.parametrize("lines", [b"\r\n", b"\r\n\r\n", b"\r\n\r\n\r\n\r\n"])
def test_empty_lines_before_a_head_are_no_head(lines):
    assert body(parsed(lines + IN_CHUNKS)) == b"hello, again"


def test_a_date_is_no_header_of_a_head():
    assert list(parsed(DATED.replace(b"B: 2", b"DATE: now\r\nB: 2")).head.headers) == ["B"]


@pytest.mark.parametrize("at", range(len(IN_CHUNKS)))
def test_chunks_are_the_same_however_they_are_cut(at):
    parser = parsed(IN_CHUNKS, (at,))
    assert taken(parser) == [AnswerPiece(b"hello", True), AnswerPiece(b", again", True)]
    assert (parser.complete, parser.trailing, parser.begun) == (True, False, 0)


@pytest.mark.parametrize("size", [b"+5", b"0x5", b"5_", b" 5", b"", b"\xb25", b"5\n", b"6", b"4"])
def test_a_chunk_must_be_as_long_as_its_line_says(size):
    with pytest.raises(AnswerBroken, match=r"not valid HTTP/1\.1"):
        parsed(IN_CHUNKS.replace(b"5\r\n", size + b"\r\n"))


def test_an_answer_in_a_body_is_that_bodys():
    head = PLAIN.removesuffix(b"hello").replace(b"5", b"%d" % len(PLAIN))
    parser = parsed(head + PLAIN, (len(head),))
    assert (parser.complete, parser.head.length, body(parser)) == (True, len(PLAIN), PLAIN)


#: What a container may say, each by itself right, or wrong, or hiding an answer in a body.
SAID = [
    *(PLAIN, DATED, PLAIN.replace(b"A", b"a"), PLAIN.replace(b"5\r", b"5\t\r")),
    *(data for data, _, _, _ in ANSWERS),
    *(IN_CHUNKS, IN_CHUNKS + b"0", IN_CHUNKS + b"\r\n", IN_CHUNKS.replace(b"7\r", b"6\r")),
    IN_CHUNKS.replace(b"7\r\n, again", b"%x\r\n%b" % (2 * WHOLE, b"x" * 2 * WHOLE)),
    PLAIN.removesuffix(b"hello").replace(b"5", b"%d" % len(PLAIN)) + PLAIN,
    line(b"Content-Length: 4") + b"\r\n\r\n",
    *(PLAIN + b"\r\n", PLAIN + b"H", PLAIN[:-1], PLAIN.replace(b"5", b"x")),
    PLAIN.replace(b"5", b"%d" % 2**63),
]


def outcome(data, cuts):
    """What a parser says of an answer that comes in pieces, up to the connection's end."""
    try:
        parser = parsed(data, cuts, end=True)
    except AnswerBroken as broken:
        return str(broken)
    return parser.head, body(parser), parser.complete


@given(st.sampled_from(SAID), st.data())
def test_any_bytes_say_the_same_however_they_are_cut(said, data):
    head_ends = len(said) - len(said.partition(b"\r\n\r\n")[2])
    around = st.integers(max(0, head_ends - 9), min(len(said), head_ends + 9))
    cuts = data.draw(st.lists(around, max_size=3).map(sorted))
    assert outcome(said, cuts) == outcome(said, ())


def test_what_is_handed_back():
    headers = CIMultiDict({"content-type": "a/b", "x": "1", "Bad": "caf\xe9", "Long": "a" * 1025})
    names = {"Content-Type": "X-Type", "Bad": "Bad", "Long": "Long", "Absent": "Absent"}
    head = AnswerHead(200, headers, None, chunked=True, keeps=True)
    assert head.handed_back(names) == {"X-Type": "a/b"}
