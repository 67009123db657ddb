"""partway.gateway.containers.prepared_request: a body in memory, and one in pieces."""

from __future__ import annotations

import pytest

from partway.gateway.containers.prepared_request import PreparedRequest
from tests.gateway.containers.containers import pieces_of
from tests.gateway.http.test_exchange import Recorded

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


async def test_of_a_clients_exchange_all_but_the_body_is_the_same():
    exchange = Recorded(chunks=[b"sent"])
    assert await exchange.body(4) == b"sent"
    request = PreparedRequest(b"made", of=exchange)
    assert (request.peer, request.request_id) == ("192.0.2.1", exchange.request_id)
    assert request.visitor is exchange.visitor
    assert request.noted is exchange.noted
    assert (request.stated_length, request.gathered) == (4, True)
    assert await request.body(4) == b"made"
    request.let_go_of_body()
    assert await request.body(4) == b""
    assert await exchange.body(4) == b""


async def test_a_body_in_pieces():
    request = PreparedRequest(lambda: pieces_of([b"a", b"b"]), 2, request_id="id")
    assert (request.peer, request.request_id, request.noted) == ("", "id", {})
    assert (request.stated_length, request.gathered) == (2, False)
    assert [piece async for piece in request.chunks(2)] == [b"a", b"b"]
    assert await request.body(2) == b"ab"
