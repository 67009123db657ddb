"""A server of exchanges that are answered as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from partway.container.serving.exchange import RuntimeExchange
from partway.container.serving.server import ExchangeServer
from tests.container.wire import RawClient, raw_client

#: Serves what is answered so; gives the server, and a client.
Serve = Callable[..., Any]


@pytest.fixture
def serve(no_leaks: None) -> Serve:
    @asynccontextmanager
    async def serving(
        handle: Callable[[RuntimeExchange], Awaitable[None]], **options: Any
    ) -> AsyncIterator[tuple[ExchangeServer, RawClient]]:
        server = ExchangeServer(handle, **options)
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(server.protocol, "127.0.0.1", 0)
        try:
            async with raw_client(listener.sockets[0].getsockname()[1]) as client:
                yield server, client
        finally:
            listener.close()
            await server.shutdown(1)

    return serving
