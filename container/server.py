"""Listening, loading, and coming to an end: what makes a runtime a process."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from pathlib import Path

from container.errors import LoadFailed
from container.health import Health
from container.limits import ACCEPT_BACKLOG, CANCEL_GRACE
from container.model import Model
from container.runtime import Runtime
from container.workers import Workers
from protocol.closing import GOING_AWAY
from protocol.limits import SHUTDOWN_GRACE, SHUTDOWN_HARD, SHUTDOWN_SPREAD

#: Where the platform puts a model's artifacts (clause 1.1-6).
MODEL_DIR = Path("/opt/ml/model")

_log = logging.getLogger("partway.container.server")


@dataclass(frozen=True, slots=True)
class ShutdownTimes:
    """How long a shutdown takes at most, in seconds; in all less than the 30 before SIGKILL.

    Attributes:
        grace: streams and invocations may end by themselves.
        spread: those that have not are closed one after the other.
        hard: they say goodbye.
    """

    grace: float = SHUTDOWN_GRACE
    spread: float = SHUTDOWN_SPREAD
    hard: float = SHUTDOWN_HARD


class ModelServer:
    """A model on a TCP port: everything of section 1.1, from :meth:`start` to :meth:`stopped`.

    Rules of the end (clause 1.1-1: SIGTERM, and SIGKILL 30 s later):
        1. At the first :meth:`stop` /ping answers 503 and nothing new begins. The port stays open,
           so that whoever asks hears so.
        2. What runs may end by itself for ``times.grace``.
        3. Streams that are left get Close 1001, spread over ``times.spread`` so that their clients
           do not come back as a herd.
        4. After ``times.hard`` connections are aborted and handlers cancelled.
        5. As soon as nothing runs, nobody waits. A second :meth:`stop` skips 2 and the spread.

    Args:
        model: what answers.
        host: the address to listen on.
        port: 0 takes a free one.
        model_dir: what the model loads from.
        times: of the shutdown.
    """

    def __init__(
        self,
        model: Model,
        host: str = "127.0.0.1",
        port: int = 0,
        model_dir: Path = MODEL_DIR,
        times: ShutdownTimes = ShutdownTimes(),
    ) -> None:
        self._model = model
        self._host = host
        self._port = port
        self._model_dir = model_dir
        self._times = times
        self._workers = model.workers = Workers(model)
        self._health = Health(model.healthy, self._workers.trouble)
        self.runtime = Runtime(model, self._health, on_idle=self._nudge_shutdown)
        self._listener: asyncio.Server | None = None
        self._stopping = asyncio.Event()
        self._hastened = False
        self._nudge = asyncio.Event()

    async def start(self) -> int:
        """Listen; returns the port. /ping answers 503 from here until the model is loaded.

        Raises:
            OSError: the address is taken, or is none of ours.
        """
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self.runtime.http, self._host, self._port, backlog=ACCEPT_BACKLOG
        )
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def load(self) -> None:
        """Load the model, on its workers; returns early if it is stopped.

        Raises:
            LoadFailed: it could not be loaded.
        """
        began = time.monotonic()
        name = type(self._model).__name__
        _log.info("loading %s from %s", name, self._model_dir)
        loading = asyncio.create_task(self._workers.start(self._model_dir), name="loading")
        stopping = asyncio.create_task(self._stopping.wait(), name="stopping")
        try:
            await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
            if loading.done():
                loading.result()
                self._health.set_loaded()
                _log.info("%s is loaded, in %.1f s", name, time.monotonic() - began)
        except Exception as error:
            raise LoadFailed(f"{name} could not be loaded from {self._model_dir}") from error
        finally:
            for task in (loading, stopping):
                task.cancel()
            await asyncio.wait((loading, stopping))

    def stop(self) -> None:
        """Begin the end; a second time, hasten it. A signal handler may call this."""
        if self._stopping.is_set():
            self._hastened = True
            self._nudge.set()
        self._stopping.set()

    async def stopped(self) -> None:
        """Wait for :meth:`stop`, then see everything to its end."""
        try:
            await self._stopping.wait()
            await self._drain()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End at once: connections are aborted, handlers cancelled, workers ended."""
        if self._listener is not None:
            self._listener.close()
        await self.runtime.abort(CANCEL_GRACE)  # rule 4
        await self._workers.stop()

    async def _drain(self) -> None:
        runtime = self.runtime
        runtime.draining = True  # rule 1
        _log.info("stopping: %d streams open", len(runtime.streams))
        await self._pause(self._times.grace)  # rule 2
        left = list(runtime.streams)
        for stream in left:  # rule 3
            stream.close(GOING_AWAY, "the container is stopping")
            await self._pause(self._times.spread / len(left))
        self._hastened = False
        self._nudge.clear()
        await self._pause(self._times.hard)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not once nothing runs or the end is hastened (rule 5)."""
        if self.runtime.idle or self._hastened:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._nudge.wait()
        except TimeoutError:
            return

    def _nudge_shutdown(self) -> None:
        if self.runtime.draining:
            self._nudge.set()
