"""The lifespan of an ASGI app: its startup and shutdown.

uvicorn could run it, but opens the port only afterwards; ``/ping`` must answer while the app loads.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from partway.container.hosting.asgi_messages import App, Message, Scope
from partway.container.limits import CANCEL_GRACE
from partway.log_lines import LogLine

_log = logging.getLogger("partway.container.app")


class Lifespan:
    """Runs an app's lifespan, in a task of its own.

    After :meth:`startup` the owner must call :meth:`shutdown`, even if the startup failed.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self.state: dict[str, Any] = {}
        self._task: asyncio.Future[None] | None = None
        loop = asyncio.get_running_loop()
        #: The app's answer to the startup: None, or the reason of its failure.
        self._startup: asyncio.Future[str | None] = loop.create_future()
        self._shutdown: asyncio.Future[None] = loop.create_future()
        self._told_to_start = False
        self._told_to_stop = asyncio.Event()
        self._ready = False

    async def startup(self) -> None:
        """Wait until the app is ready. An app without a lifespan is ready at once.

        Raises:
            Exception: the app's exception after it reported a failed startup.
            RuntimeError: the app reported a failed startup, and raised nothing.
        """
        scope: Scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        task = self._task = asyncio.ensure_future(self._app(scope, self._receive, self._send))
        await asyncio.wait((task, self._startup), return_when=asyncio.FIRST_COMPLETED)
        if not self._startup.done():
            # uvicorn's rule: an app that raises or returns at the startup message has no lifespan.
            _log.debug("the app has no lifespan", exc_info=task.exception())
            return
        failure = self._startup.result()
        if failure is not None:
            await asyncio.wait((task,), timeout=CANCEL_GRACE)
            error = task.exception() if task.done() and not task.cancelled() else None
            raise error or RuntimeError(failure or "the app says that its startup has failed")
        self._ready = True

    async def shutdown(self, patience: float) -> None:
        """Have the app clean up; after ``patience`` seconds it is cancelled."""
        task = self._task
        if task is None:
            return
        if self._ready and not task.done():
            self._told_to_stop.set()
            await asyncio.wait(
                (task, self._shutdown), timeout=patience, return_when=asyncio.FIRST_COMPLETED
            )
            if self._shutdown.done():
                await asyncio.wait((task,), timeout=CANCEL_GRACE)
            elif not task.done():
                late = "the app's lifespan did not end in time"
                _log.warning(LogLine(late, seconds=round(patience, 1)))
        task.cancel()
        await asyncio.wait((task,), timeout=CANCEL_GRACE)
        if self._ready and task.done() and not task.cancelled() and task.exception() is not None:
            _log.error("the app's lifespan failed", exc_info=task.exception())

    async def _receive(self) -> Message:
        if not self._told_to_start:
            self._told_to_start = True
            return {"type": "lifespan.startup"}
        await self._told_to_stop.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: Message) -> None:
        match message["type"]:
            case "lifespan.startup.complete" if not self._startup.done():
                self._startup.set_result(None)
            case "lifespan.startup.failed" if not self._startup.done():
                self._startup.set_result(message.get("message", ""))
            case "lifespan.shutdown.complete" if not self._shutdown.done():
                self._shutdown.set_result(None)
            case "lifespan.shutdown.failed" if not self._shutdown.done():
                said = str(message.get("message", ""))
                _log.error(LogLine("the app's shutdown failed", reason=said))
                self._shutdown.set_result(None)
            case kind:
                raise RuntimeError(f"the app must not send {kind} at this point of its lifespan")
