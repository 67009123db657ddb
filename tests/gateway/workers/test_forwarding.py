"""partway.gateway.workers.forwarding, and the parent's side: requests over a Unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from partway.gateway.access.authentication import ANYBODY
from partway.gateway.http.exchange import Exchange
from partway.gateway.workers import forwarding as module
from partway.gateway.workers.forwarded_requests import ForwardedRequests
from partway.gateway.workers.forwarding import ParentForwarding
from partway.protocol.errors import ServiceUnavailable
from tests.gateway.http.test_exchange import Recorded
from tests.gateway.workers.rows import shared_rows

Operation = Callable[[Exchange], Awaitable[None]]


@asynccontextmanager
async def parent_of(operation: Operation, path: str, workers: int = 1):
    """Workers of a parent that answers with an operation."""
    requests = ForwardedRequests(operation, has_names=False)
    await requests.start(path)
    try:
        with shared_rows(workers) as rows:
            yield [ParentForwarding(path, each, {"198.51.100.1"}) for each in rows]
    finally:
        requests.close()
        await requests.shutdown(10)


async def forwarded(worker: ParentForwarding, exchange: Recorded) -> Recorded:
    await worker(exchange, ANYBODY, {})
    return exchange


# --- Places --------------------------------------------------------------------------------------


async def test_the_places_of_all_workers_are_bounded(anyio_backend, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "MAX_FORWARDED", 4)
    entered = asyncio.Semaphore(0)
    go_on = asyncio.Event()

    async def operation(exchange: Exchange) -> None:
        if exchange.path != "/metrics":
            entered.release()
            await go_on.wait()
        exchange.respond(200, b"ok")

    async with parent_of(operation, str(tmp_path / "r"), 2) as (one, other):
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


async def test_a_client_that_leaves_gives_its_place_back(anyio_backend, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "MAX_FORWARDED", 1)
    entered = asyncio.Event()

    async def operation(_: Exchange) -> None:
        entered.set()
        await asyncio.Event().wait()

    async with parent_of(operation, str(tmp_path / "r")) as (worker,):
        for _ in range(2):
            task = asyncio.create_task(forwarded(worker, Recorded()))
            await entered.wait()
            entered.clear()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
