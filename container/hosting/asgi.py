"""Hosting of an application instead of a model: ASGI or WSGI, on uvicorn (section 1.1)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from partway.container.errors import LoadFailed
from partway.container.hosting.asgi_app import load_app, missing_extra
from partway.container.hosting.asgi_guard import Guard
from partway.container.hosting.asgi_lifespan import Lifespan
from partway.container.hosting.asgi_messages import App
from partway.container.limits import CANCEL_GRACE
from partway.container.shutdown import Shutdown, ShutdownTimes
from partway.container.threads import in_thread
from partway.log_lines import LogLine

if TYPE_CHECKING:
    from partway.container.hosting.asgi_uvicorn import WebServer

__all__ = ["AppServer", "load_app"]

#: Least time for the end of an app's lifespan, however long the rest of the shutdown took. With it,
#: and the cancelling before and after, the shutdown ends 27 s after SIGTERM.
LIFESPAN_GRACE = 1.0

_TIMES = ShutdownTimes()

_log = logging.getLogger("partway.container.server")


class AppServer:
    """An application on a TCP port, from :meth:`start` to :meth:`stopped`.

    It ends by the rules of :class:`~partway.container.shutdown.Shutdown`. The app's lifespan is
    shut down after all streams and requests, before the process ends.

    Args:
        app: ``module:attribute``; imported by :meth:`load`.
        port: the TCP port; 0 takes a free one.
        times: the time limits of the shutdown's parts.

    Raises:
        LoadFailed: uvicorn is not installed.
    """

    def __init__(
        self,
        app: str,
        host: str = "127.0.0.1",
        port: int = 0,
        times: ShutdownTimes = _TIMES,
    ) -> None:
        try:
            from partway.container.hosting.asgi_uvicorn import WebServer
        except ModuleNotFoundError as error:
            raise LoadFailed(f"the application {app} cannot be served") from missing_extra(error)
        self._name = app
        self._host = host
        self._port = port
        self._times = times
        self.guard = Guard()
        self._shutdown = Shutdown(self.guard.activity, times)
        self._web: WebServer = WebServer(self.guard)
        self._lifespan: Lifespan | None = None
        self._over_at = 0.0

    async def start(self) -> int:
        """Listen, and return the port. /ping answers 503 until the app is loaded.

        Raises:
            OSError: the address is taken, or does not belong to this machine.
        """
        return await self._web.listen(self._host, self._port)

    async def load(self) -> None:
        """Import the app, on a thread, and complete its lifespan's startup.

        The call returns early if the server is stopped.

        Raises:
            LoadFailed: the app could not be loaded.
        """
        try:
            await self._shutdown.unless_stopped(self._load())
        except Exception as error:
            raise LoadFailed(f"the application {self._name} could not be loaded") from error

    async def _load(self) -> None:
        began = time.monotonic()
        _log.info(LogLine("loading the application", app=self._name))
        loop = asyncio.get_running_loop()
        app = await in_thread(_import, self._name, loop, name="partway-load")
        self._lifespan = Lifespan(app)
        await self._lifespan.startup()
        self.guard.let_answer(app, self._lifespan.state)
        took = round(time.monotonic() - began, 1)
        _log.info(LogLine("the application is loaded", app=self._name, seconds=took))

    def stop(self) -> None:
        """Begin to shut down; called again, hasten. A signal handler may call this."""
        self._shutdown.stop()

    async def stopped(self) -> None:
        """Wait for :meth:`stop`, then complete the shutdown."""
        try:
            await self._shutdown.begun()
            await self._drain()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End at once: connections are aborted, handlers cancelled, the lifespan ended."""
        self._web.abort()
        await self.guard.abort(CANCEL_GRACE)
        if self._lifespan is not None:
            left = self._over_at - asyncio.get_running_loop().time()
            await self._lifespan.shutdown(max(left, LIFESPAN_GRACE))
        await self._web.aclose()

    async def _drain(self) -> None:
        times, clock = self._times, asyncio.get_running_loop().time
        self._over_at = clock() + times.grace + times.spread + times.hard
        await self._shutdown.drain()
        if self._shutdown.hastened:
            self._over_at = min(self._over_at, clock() + times.hard)
        if self.guard.activity.idle:
            await self._web.finish(min(times.hard, self._over_at - clock()))


def _import(name: str, loop: asyncio.AbstractEventLoop) -> App:
    """Import an app on this thread, for the loop of another thread.

    A module that asks for the event loop gets the one that its handlers will run on.
    """
    asyncio.set_event_loop(loop)
    return load_app(name)
