"""A request of HTTP/1.1 as it is read: its body, taken by whoever wants it."""

from __future__ import annotations

import asyncio

import pytest

from partway.protocol.http1.request import Http1Head, Http1Request


@pytest.fixture
def request_():
    return Http1Request(Http1Head("POST", "/", (), None, "1.1", None, 0, keeps=True))


def test_what_has_come_is_taken_once(request_):
    for piece in (b"a", b"bc", b"d"):
        request_.add(piece)
    assert (request_.received, request_.held) == (4, 4)
    assert request_.take() == b"abcd"
    assert request_.take() == b""
    request_.add(b"e")
    assert (request_.take(), request_.received, request_.held) == (b"e", 5, 0)


def test_a_single_piece_is_not_copied(request_):
    piece = b"x" * 1000
    request_.add(piece)
    assert request_.take() is piece


def test_long_pieces_and_short_ones_are_taken_in_their_order(request_):
    pieces = [b"a", b"b" * 5000, b"c" * 9000, b"d", b"e" * 5000, b"f"]
    for _ in range(2):
        for piece in pieces:
            request_.add(piece)
        assert request_.take() == b"".join(pieces)
    assert request_.take() == b""


def test_it_has_ended_when_all_has_been_taken(request_):
    request_.add(b"a")
    request_.complete = True
    assert not request_.ended
    request_.take()
    assert request_.ended


def test_what_nobody_wants_is_counted_and_not_held(request_):
    request_.add(b"ab")
    request_.drop()
    request_.add(b"cd")
    assert (request_.received, request_.held, request_.take()) == (4, 0, b"")


async def test_who_waits_is_told_once(request_):
    request_.tell()  # nobody waits
    request_.news = asyncio.get_running_loop().create_future()
    request_.tell()
    request_.tell()
    assert request_.news.done()


def test_what_is_no_request_ends_its_connection():
    unread = Http1Request.unread()
    assert unread.complete
    assert not unread.head.keeps
