from __future__ import annotations

import asyncio
import json

import pytest

from partway.gateway.http.error_dialects import ErrorResponse
from partway.gateway.http.exchange import NO_HEADERS, Exchange, stated_length
from partway.protocol.errors import ClientLeft, RequestTimeout, RequestTooLarge, ServiceUnavailable


class Recorded(Exchange):
    """An exchange whose body is given, and that writes down how it was answered.

    Args:
        chunks: of the body; behind the last one it is at its end. None for one that never comes.
        headers: of the request.
        peer: address that it comes from.
    """

    def __init__(self, *headers, chunks=(), method="GET", path="/", peer="192.0.2.1"):
        super().__init__(method, path, "", headers, "1.1", peer)
        self.responses = []
        self.said = []
        self._chunks = [*chunks]

    @property
    def answered(self):
        return bool(self.responses or self.said)

    def respond(self, status, body=b"", headers=NO_HEADERS):
        self.responses.append((status, body, dict(headers)))

    async def open(self, status, headers):
        raise NotImplementedError

    async def _read(self):
        chunk = self._chunks.pop(0) if self._chunks else b""
        if chunk is None:
            await asyncio.Event().wait()
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    def _say_continue(self):
        self.said.append(100)

    @property
    def unsent_bytes(self):
        return 0

    async def _begin(self, status, headers, first):
        self.said += [status, first] if first else [status]

    async def _write(self, piece):
        self.said.append(piece)

    async def _end(self, last, otherwise):
        self.said += [piece for piece in (last, otherwise) if piece]
        self.said.append("end")

    def abort(self):
        self.said.append("abort")


# --- The request ---------------------------------------------------------------------------------


async def test_each_exchange_has_an_id_of_its_own():
    assert len({Recorded().request_id for _ in range(10)}) == 10


async def test_no_headers_stay_none():
    with pytest.raises(TypeError):
        NO_HEADERS["x"] = "y"


async def test_headers_of_one_name_are_one_list():
    exchange = Recorded(("X-A", "1"), ("host", "h"), ("x-a", "2"))
    assert exchange.headers["x-A"] == "1, 2"
    assert exchange.headers["Host"] == "h"
    assert exchange.raw_headers == (("X-A", "1"), ("host", "h"), ("x-a", "2"))


def test_a_stated_length_is_a_number_of_64_bits():
    """Python reads none of 5,000 digits, and a container may say what it likes."""
    for said, length in (("7", 7), ("9" * 20, int("9" * 20)), ("9" * 5000, None), ("-1", None)):
        assert stated_length({"Content-Length": said}) == length


async def test_a_body_is_gathered_once():
    exchange = Recorded(chunks=[b"ab", b"c"])
    assert await exchange.body(3) == b"abc"
    assert await exchange.body(3) == b"abc"
    assert [chunk async for chunk in exchange.chunks(3)] == [b"abc"]


async def test_a_body_of_no_bytes():
    exchange = Recorded()
    assert await exchange.body(0) == b""
    assert [chunk async for chunk in exchange.chunks(0)] == []


async def test_a_body_in_chunks():
    exchange = Recorded(chunks=[b"ab", b"c"])
    assert [chunk async for chunk in exchange.chunks(3)] == [b"ab", b"c"]


@pytest.mark.parametrize("take", ["body", "chunks"])
async def test_a_body_over_the_limit(take):
    async def taken(exchange, limit):
        if take == "body":
            return await exchange.body(limit)
        return b"".join([chunk async for chunk in exchange.chunks(limit)])

    with pytest.raises(RequestTooLarge, match="over 2 bytes"):
        await taken(Recorded(chunks=[b"ab", b"c"]), 2)
    never = Recorded(("content-length", "3"), chunks=[None])
    with pytest.raises(RequestTooLarge):
        await taken(never, 2)
    gathered = Recorded(chunks=[b"abc"])
    await gathered.body(3)
    with pytest.raises(RequestTooLarge):
        await taken(gathered, 2)
    assert await taken(Recorded(("content-length", "3"), chunks=[b"abc"]), 3) == b"abc"


async def test_a_body_that_does_not_come():
    with pytest.raises(RequestTimeout, match="was not complete within"):
        await Recorded(chunks=[b"a", None]).body(10, within=0.01)
    with pytest.raises(RequestTimeout, match="paused for"):
        async for _ in Recorded(chunks=[b"a", None]).chunks(10, pause=0.01):
            pass


async def test_a_client_that_leaves():
    with pytest.raises(ClientLeft):
        await Recorded(chunks=[b"a", ClientLeft()]).body(10)


@pytest.mark.parametrize(("header", "said"), [("100-Continue", [100]), ("something", [])])
async def test_the_body_is_asked_for_once_and_only_when_it_is_wanted(header, said):
    exchange = Recorded(("Expect", header), chunks=[b"ab", b"c"])
    assert exchange.said == []
    await exchange.body(3)
    assert exchange.said == said
    refused = Recorded(("Expect", header), ("Content-Length", "4"))
    with pytest.raises(RequestTooLarge):
        await refused.body(3)
    assert refused.said == []


# --- The response --------------------------------------------------------------------------------


@pytest.mark.clause("4-1")
async def test_an_error_becomes_a_response():
    exchange = Recorded()
    exchange.fail(ServiceUnavailable("full"))
    ((status, body, headers),) = exchange.responses
    assert status == 503
    assert json.loads(body) == {"Message": "full", "ErrorCode": "ServiceUnavailable"}
    assert headers["x-amzn-ErrorType"] == "ServiceUnavailableError"


async def test_an_error_in_another_dialect():
    exchange = Recorded()
    exchange.fail(ServiceUnavailable("full"), lambda error: ErrorResponse(599, {"a": "b"}, b"no"))
    assert exchange.responses == [(599, b"no", {"a": "b"})]


async def test_a_response_in_pieces():
    exchange = Recorded()
    await exchange.begin(200)
    await exchange.write(b"a")
    await exchange.write(b"")  # in chunks it would be the last
    await exchange.end()
    exchange.operation_over()
    assert exchange.said == [200, b"a", "end"]


async def test_the_first_piece_may_come_with_the_head():
    exchange = Recorded()
    await exchange.begin(200, first=b"a")
    await exchange.write(b"b")
    assert exchange.said == [200, b"a", b"b"]


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_pieces_of_a_response_that_has_no_body(method, status):
    exchange = Recorded(method=method)
    await exchange.begin(status, first=b"dropped")
    await exchange.write(b"dropped")
    await exchange.end(b"dropped", b"too")
    assert exchange.said == [status, "end"]


async def test_the_last_piece_of_a_response():
    exchange = Recorded()
    await exchange.begin(200)
    await exchange.end(b"last", b"in its place")
    assert exchange.said == [200, b"last", b"in its place", "end"]


async def test_a_response_that_has_not_ended_is_broken_off():
    exchange = Recorded()
    exchange.operation_over()
    assert exchange.said == []
    await exchange.begin(200)
    exchange.operation_over()
    assert exchange.said == [200, "abort"]
