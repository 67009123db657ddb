"""A request's body, whose chunks are kept apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.serving.chunks import ChunkedRequest
from partway.protocol.http1.parser import RequestParser
from partway.protocol.http1.request import Http1Head
from partway.protocol.limits import PART_OVERHEAD

Make = Callable[[int | None], ChunkedRequest]


@pytest.fixture
def made() -> Make:
    def make(length: int | None) -> ChunkedRequest:
        return ChunkedRequest(Http1Head("POST", "/", (), None, "1.1", length, 0, keeps=True))

    return make


def taken(request: ChunkedRequest) -> list[bytes]:
    found = []
    while request.held:
        found.append(request.take())
    return found


def test_chunks_are_taken_one_by_one(made: Make) -> None:
    request = made(None)
    for chunk in (b"a", b"bc", b"d" * 9000):
        request.add(chunk)
    assert request.received == 9003
    assert taken(request) == [b"a", b"bc", b"d" * 9000]
    assert (request.held, request.take()) == (0, b"")


def test_a_tiny_chunk_weighs_what_it_takes(made: Make) -> None:
    request = made(None)
    for _ in range(1000):
        request.add(b"x")
    assert request.held == 1000 * (1 + PART_OVERHEAD)
    request.take()
    assert request.held == 999 * (1 + PART_OVERHEAD)


def test_what_has_a_length_is_one_piece(made: Make) -> None:
    request = made(7)
    for piece in (b"a", b"bc", b"defg"):
        request.add(piece)
    assert (request.held, taken(request)) == (7, [b"abcdefg"])


@pytest.mark.parametrize("length", [None, 4])
def test_what_nobody_wants_is_let_go(made: Make, length: int | None) -> None:
    request = made(length)
    request.add(b"a")
    request.add(b"b")
    request.drop()
    request.add(b"cd")
    assert (request.received, request.held, request.take()) == (4, 0, b"")


@pytest.mark.clause("1.1-5")
@given(st.lists(st.binary(min_size=1, max_size=300), max_size=20), st.integers(1, 500))
def test_no_item_is_of_two_chunks_however_they_come(chunks: list[bytes], at: int) -> None:
    parser = RequestParser(new_request=ChunkedRequest)
    sent = b"POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent += b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    for start in range(0, len(sent), at):
        parser.feed(sent[start : start + at])
    (request,) = parser.requests
    assert isinstance(request, ChunkedRequest)
    items = taken(request)
    for chunk in chunks:
        whole = b""
        while len(whole) < len(chunk):
            whole += items.pop(0)
        assert whole == chunk
    assert (items, request.complete) == ([], True)
