"""partway.gateway.fleet.health.ping_answer: the status, in whatever pieces it comes."""

from __future__ import annotations

import errno
import ssl

import pytest

from partway.gateway.fleet.health.ping_answer import (
    MAX_HEAD,
    MAX_PIECES,
    NoAnswer,
    PingAnswer,
    cut,
)

EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("whole", [OK, EARLY + OK, b"HTTP/1.0 200\n\n"])
def test_it_is_there_with_the_end_of_its_line(whole):
    answer = PingAnswer()
    said = [answer.take(bytes([each])) for each in whole]
    final = said.index(200)
    assert not any(said[:final])
    assert whole[final : final + 1] == b"\n"


@pytest.mark.parametrize("first", [b"nonsense\r\n", b"HTTP/2 200\r\n", b"HTTP/1.1 020 A\r\n"])
def test_what_is_no_answer(first):
    with pytest.raises(NoAnswer, match="does not begin with a status line"):
        PingAnswer().take(first)


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 100 Continue\r\n"])
def test_a_line_without_an_end_is_waited_for_only_so_long(first):
    answer = PingAnswer()
    assert answer.take(first + b"a" * (MAX_HEAD - len(first) - 1)) is None
    with pytest.raises(NoAnswer):
        answer.take(b"a")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "the connection was closed before the answer"),
        (ConnectionResetError(errno.ECONNRESET, "asyncio's own words"), "Connection reset by peer"),
        (ssl.SSLError(1, "a record is wrong"), "('a record is wrong',)"),
        (ConnectionError("no number"), "no number"),
    ],
)
def test_what_is_said_of_an_end_before_it(error, said):
    assert said.strip("()',") in str(cut(error))


def test_an_answer_in_tiny_pieces_is_waited_for_only_so_long():
    answer = PingAnswer()
    pieces = [b"HTTP/1.1 100 Continue\r\n", *[b"a"] * (MAX_PIECES - 1)]
    assert [answer.take(piece) for piece in pieces] == [None] * MAX_PIECES
    with pytest.raises(NoAnswer, match="a few bytes at a time"):
        answer.take(b"a")
