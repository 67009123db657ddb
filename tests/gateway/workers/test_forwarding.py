"""partway.gateway.workers.forwarding, and the parent's side: requests over a Unix socket."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from partway.gateway.access.authentication import ANYBODY
from partway.gateway.http.connection_admission import uncounted
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.unauthenticated_clients import Account
from partway.gateway.kept_state import NOTHING_KEPT
from partway.gateway.limits import STRANGER_REQUEST
from partway.gateway.workers import forwarded_requests, link
from partway.gateway.workers import forwarding as module
from partway.gateway.workers.forwarded_requests import ForwardedRequests
from partway.gateway.workers.forwarding import ParentForwarding
from partway.gateway.workers.supervision import WorkersError
from partway.protocol.errors import (
    ClientLeft,
    InputValidationError,
    RequestTimeout,
    RequestTooLarge,
    ServiceUnavailable,
)
from tests.gateway.http.test_exchange import Recorded
from tests.gateway.workers.rows import shared_rows

Operation = Callable[[Exchange], Awaitable[None]]


def is_up() -> None:
    """A parent answers."""


@asynccontextmanager
async def parent_of(operation: Operation, workers: int = 1):
    """Workers of a parent that answers with an operation."""
    requests = ForwardedRequests(operation, print, NOTHING_KEPT)
    path = requests.open()
    await requests.start()
    try:
        with shared_rows(workers) as rows:
            yield [ParentForwarding(path, is_up, each, {"198.51.100.1"}) for each in rows]
    finally:
        requests.close()
        await requests.shutdown(10)


async def forwarded(worker: ParentForwarding, exchange: Recorded) -> Recorded:
    await worker(exchange, ANYBODY, {})
    return exchange


# --- Places --------------------------------------------------------------------------------------


async def test_the_places_of_all_workers_are_bounded(anyio_backend, monkeypatch):
    monkeypatch.setattr(module, "MAX_FORWARDED", 4)
    entered = asyncio.Semaphore(0)
    go_on = asyncio.Event()

    async def operation(exchange: Exchange) -> None:
        if exchange.path != "/metrics":
            entered.release()
            await go_on.wait()
        exchange.respond(200, b"ok")

    async with parent_of(operation, 2) as (one, other):
        under_way = []

        async def begin(worker: ParentForwarding, peer: str) -> None:
            exchange = Recorded(peer=peer)
            under_way.append(asyncio.create_task(forwarded(worker, exchange)))
            await entered.acquire()

        await begin(one, "192.0.2.1")
        await begin(other, "192.0.2.1")
        with pytest.raises(ServiceUnavailable, match="2 requests of one address"):
            await forwarded(one, Recorded(peer="192.0.2.1"))
        await begin(one, "198.51.100.1")
        await begin(one, "198.51.100.1")  # a proxy has no share
        with pytest.raises(ServiceUnavailable, match="4 requests of all clients"):
            await forwarded(other, Recorded(peer="192.0.2.2"))
        reserved = Recorded(path="/metrics")
        await one.reserved_route(module._ROOT).operation(reserved, ANYBODY, {})
        assert reserved.responses[0][:2] == (200, b"ok")
        go_on.set()
        for each in under_way:
            assert (await each).responses[0][:2] == (200, b"ok")
        assert (await forwarded(other, Recorded(peer="192.0.2.2"))).responses


async def test_a_client_that_leaves_gives_its_place_back(anyio_backend, monkeypatch):
    monkeypatch.setattr(module, "MAX_FORWARDED", 2)
    entered = asyncio.Event()

    async def operation(_: Exchange) -> None:
        entered.set()
        await asyncio.Event().wait()

    async with parent_of(operation) as (worker,):
        for _ in range(2):
            task = asyncio.create_task(forwarded(worker, Recorded()))
            await entered.wait()
            entered.clear()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


# --- Requests ------------------------------------------------------------------------------------


async def test_a_request_comes_as_its_client_has_sent_it(anyio_backend):
    """Also with bytes that are not UTF-8."""
    seen = []

    async def operation(exchange: Exchange) -> None:
        seen.append((exchange.method, exchange.path, tuple(exchange.raw_headers), exchange.peer))
        exchange.respond(200, await exchange.body(100), {"X-A": "caf\udce9"})

    sent = Recorded(("X-B", "caf\udce9"), chunks=[b"ab", b"c"], method="PUT", path="/\udce9")
    async with parent_of(operation) as (worker,):
        await forwarded(worker, sent)
    assert seen == [("PUT", "/\udce9", (("X-B", "caf\udce9"),), "192.0.2.1")]
    assert sent.responses == [(200, b"abc", {"X-A": "caf\udce9"})]


async def test_an_answer_in_pieces(anyio_backend):
    async def operation(exchange: Exchange) -> None:
        await exchange.begin(200, {"A": "b"}, b"1")
        async for chunk in exchange.chunks(100):
            await exchange.write(chunk)
        await exchange.end(b"4")

    async with parent_of(operation) as (worker,):
        found = await forwarded(worker, Recorded(chunks=[b"2", b"3"]))
    assert found.said == [200, b"1", b"2", b"3", b"4", "end"]


async def test_an_answer_before_the_body_has_come_arrives(anyio_backend):
    """The parent has read one piece, and the client goes on sending."""

    async def operation(exchange: Exchange) -> None:
        async for _ in exchange.chunks(1_000_000):
            break
        exchange.respond(413, b"too much")

    async with parent_of(operation) as (worker,):
        for size in (1, 500_000):
            found = await forwarded(worker, Recorded(chunks=[b"1" * size, b"2" * size, None]))
            assert found.responses[0][:2] == (413, b"too much")


async def test_a_fault_after_the_answer_replaces_it(anyio_backend):
    async def operation(exchange: Exchange) -> None:
        exchange.respond(200, b"good")
        raise RuntimeError("a check after the answer has failed")

    async with parent_of(operation) as (worker,):
        found = await forwarded(worker, Recorded())
    ((status, _, headers),) = found.responses
    assert (status, headers["x-amzn-ErrorType"]) == (500, "InternalServerError")


async def test_an_answer_that_is_too_long_is_a_fault(anyio_backend, monkeypatch):
    monkeypatch.setattr(link, "MAX_MESSAGE", 10_000)

    async def operation(exchange: Exchange) -> None:
        exchange.respond(200, b"1" * 10_000)

    async with parent_of(operation) as (worker,):
        found = await forwarded(worker, Recorded())
    assert found.responses[0][0] == 500


@pytest.mark.parametrize(
    "error",
    [
        InputValidationError("not HTTP", "MalformedBody"),
        RequestTimeout("too slow"),
        RequestTooLarge("too large"),
    ],
)
async def test_the_errors_of_a_body_are_the_parents(anyio_backend, error):
    caught = []

    async def operation(exchange: Exchange) -> None:
        try:
            await exchange.body(100)
        except type(error) as found:
            caught.append(found.message)
        exchange.respond(400)

    async with parent_of(operation) as (worker,):
        found = await forwarded(worker, Recorded(chunks=[b"1", error]))
    assert caught == [error.message]
    assert found.responses[0][0] == 400


# --- Costs ---------------------------------------------------------------------------------------


class Drawn(Account):
    """An account that sums what is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.known = True
        self.sum = 0.0

    def draw(self, seconds: float) -> None:
        self.sum += seconds


@pytest.mark.parametrize("is_recognised", [False, True])
async def test_an_unknown_sender_is_charged_for_the_parents_time(anyio_backend, is_recognised):
    async def operation(exchange: Exchange) -> None:
        if is_recognised:
            exchange.recognised()
        else:
            exchange.visit.cost(0.01)  # as the dispatcher does
        exchange.respond(403)

    account = Drawn()
    exchange = Recorded()
    exchange.visitor = uncounted(account)
    async with parent_of(operation) as (worker,):
        await forwarded(worker, exchange)
    assert exchange.is_recognised is is_recognised
    assert account.sum == pytest.approx(0 if is_recognised else STRANGER_REQUEST + 0.01)


# --- Ends ----------------------------------------------------------------------------------------


async def test_a_client_that_leaves_in_the_middle_of_its_body(anyio_backend):
    """Each read says so, and the client gets no other error."""
    reads = []

    async def operation(exchange: Exchange) -> None:
        for _ in range(3):
            try:
                reads.append(await exchange._read())
            except ClientLeft:
                reads.append(None)
        raise ClientLeft

    async with parent_of(operation) as (worker,):
        with pytest.raises(ClientLeft):
            await forwarded(worker, Recorded(chunks=[b"1", ClientLeft()]))
    assert reads == [b"1", None, None]


async def test_a_client_that_leaves_ends_an_operation_that_does_not_read(anyio_backend):
    """A piece of the body has come meanwhile, which nobody has taken."""
    entered = asyncio.Event()
    ended = asyncio.Event()

    async def operation(exchange: Exchange) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await exchange._read()
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with parent_of(operation) as (worker,):
        task = asyncio.create_task(forwarded(worker, Recorded(chunks=[b"1", b"2"])))
        await entered.wait()
        task.cancel()
        await ended.wait()


async def test_a_client_that_takes_no_answer_has_left(anyio_backend):
    class Gone(Recorded):
        async def _write(self, piece: bytes) -> None:
            raise ClientLeft

    async def operation(exchange: Exchange) -> None:
        await exchange.begin(200)
        await exchange.write(b"1")
        await exchange.end()

    async with parent_of(operation) as (worker,):
        with pytest.raises(ClientLeft):
            await forwarded(worker, Gone())


async def test_a_parent_that_is_gone_is_an_error(anyio_backend, tmp_path):
    with shared_rows(1) as (counts,):
        worker = ParentForwarding(str(tmp_path / "nothing"), is_up, counts, ())
        with pytest.raises(ServiceUnavailable, match="takes no request now"):
            await forwarded(worker, Recorded())


async def test_a_request_that_no_parent_takes_waits_for_a_time(anyio_backend, monkeypatch):
    """The socket is there, as between two parents; the place is given back."""
    monkeypatch.setattr(module, "MAX_FORWARDED", 2)
    monkeypatch.setattr(module, "HANDOVER_TIMEOUT", 0.01)
    requests = ForwardedRequests(lambda _: asyncio.sleep(0), print, NOTHING_KEPT)
    path = requests.open()
    with shared_rows(1) as (counts,):
        worker = ParentForwarding(path, is_up, counts, ())
        for _ in range(2):
            with pytest.raises(ServiceUnavailable, match="takes no request now") as refused:
                await forwarded(worker, Recorded())
            assert refused.value.headers["Retry-After"] == "1"
    requests.close()
    await requests.shutdown(0)


async def test_a_connection_that_says_nothing_holds_up_no_upgrade(anyio_backend, monkeypatch):
    monkeypatch.setattr(forwarded_requests, "FORWARD_TIMEOUT", 0.01)
    requests = ForwardedRequests(lambda _: asyncio.sleep(0), print, NOTHING_KEPT)
    path = requests.open()
    await requests.start()
    reader, writer = await asyncio.open_unix_connection(path)
    async with asyncio.timeout(10):
        assert await reader.read() == b""
        await requests.answered()
    writer.close()
    requests.close()
    await requests.shutdown(0)


async def test_a_parent_that_breaks_off_is_an_error(anyio_backend):
    async def operation(exchange: Exchange) -> None:
        exchange.abort()

    async with parent_of(operation) as (worker,):
        with pytest.raises(ServiceUnavailable, match="has ended"):
            await forwarded(worker, Recorded())


async def test_a_long_path_is_named(anyio_backend, monkeypatch, tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    requests = ForwardedRequests(lambda _: asyncio.sleep(0), print, NOTHING_KEPT)
    with pytest.raises(WorkersError, match="set TMPDIR to a folder with a short path"):
        requests.open()
    await requests.shutdown(0)
