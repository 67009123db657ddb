"""A proxy before an API server that kills its client once a chosen write is made."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import aiohttp
from aiohttp import web

from tests.interop.kubernetes.cluster import Cluster

#: Headers of a request that the API server needs.
_KEPT = ("Authorization", "Content-Type", "Accept")


class KillingProxy:
    """Passes on all requests, and notes writes, except those of leases.

    Attributes:
        url: where it listens.
        writes: those that were made since the last :meth:`kill_at`.
        has_killed: set when the client is killed.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.url = ""
        self.writes: list[str] = []
        self.has_killed = threading.Event()
        self._server, self._ca = cluster.url, cluster.ca
        self._process, self._number = 0, 0

    @classmethod
    @contextmanager
    def before(cls, cluster: Cluster) -> Iterator[Self]:
        """A proxy, in a thread of its own."""
        proxy, loop = cls(cluster), asyncio.new_event_loop()
        listening, ending = threading.Event(), asyncio.Event()
        thread = threading.Thread(
            target=lambda: loop.run_until_complete(proxy._serve(listening.set, ending)),
            name="killing proxy",
        )
        thread.start()
        try:
            assert listening.wait(60), "the proxy does not listen"
            yield proxy
        finally:
            loop.call_soon_threadsafe(ending.set)
            thread.join()
            loop.close()

    def kill_at(self, number: int, process: int) -> None:
        """Kill a process at its nth write from now on; at 0 never."""
        self.writes, self._number, self._process = [], number, process
        self.has_killed.clear()

    async def _serve(self, listening: Callable[[], None], ending: asyncio.Event) -> None:
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", self._relay)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        context = ssl.create_default_context(cafile=self._ca)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(),
        ) as self._session:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            listening()
            await ending.wait()
            await runner.cleanup()

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        is_last = self._note(request)
        headers = {each: request.headers[each] for each in _KEPT if each in request.headers}
        async with self._session.request(
            request.method,
            self._server + request.raw_path,
            headers=headers,
            data=await request.read() or None,
        ) as answer:
            if is_last:
                os.kill(self._process, signal.SIGKILL)
                self.has_killed.set()
                return web.Response(status=502)  # nobody reads it
            given = web.StreamResponse(status=answer.status)
            given.content_type = answer.content_type
            await given.prepare(request)
            async for part in answer.content.iter_any():
                await given.write(part)
        return given

    def _note(self, request: web.Request) -> bool:
        """Note a write, unless it is the next client's; return whether it is the last one."""
        if request.method == "GET" or "/leases" in request.path or self.has_killed.is_set():
            return False
        self.writes.append(f"{request.method} {request.path}")
        return len(self.writes) == self._number
