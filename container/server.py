"""Lifecycle of a model server: listening, loading, and shutting down."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

from partway.container.errors import LoadFailed, SettingsRefused, log_failure
from partway.container.health import Health
from partway.container.limits import (
    ACCEPT_BACKLOG,
    CANCEL_GRACE,
    FINISH_TIMEOUT,
    UNLOAD_GRACE,
)
from partway.container.model import Model
from partway.container.runtime import Runtime
from partway.container.shutdown import Shutdown, ShutdownTimes
from partway.container.threads import in_thread
from partway.container.workers import Processes, Workers
from partway.log_lines import LogLine

#: The platform's folder of a model's artifacts (clause 1.1-6).
MODEL_DIR = Path("/opt/ml/model")

_TIMES = ShutdownTimes()

_log = logging.getLogger("partway.container.server")


class ModelServer:
    """A model on a TCP port, by section 1.1, from :meth:`start` to :meth:`stopped`.

    Args:
        port: the TCP port; 0 takes a free one.
        times: the time limits of the shutdown's parts.
        finish_timeout: seconds of silence allowed to a stream's handler after its input has ended.
        show_errors: whether clients are shown the model's exceptions; for development.

    Raises:
        TypeError: the model has handlers that cannot be called, or that its workers cannot run.
        SettingsRefused: the environment has wrong settings of the model.
    """

    def __init__(
        self,
        model: Model,
        host: str = "127.0.0.1",
        port: int = 0,
        model_dir: Path = MODEL_DIR,
        times: ShutdownTimes = _TIMES,
        finish_timeout: float = FINISH_TIMEOUT,
        *,
        show_errors: bool = False,
    ) -> None:
        self._model = model
        self._host = host
        self._port = port
        self._model_dir = model_dir
        if model.settings_type is not None and model.settings is None:
            model.settings = model.settings_type.from_environment(os.environ)
        self._workers = model.workers = Workers(model)
        self._health = Health(model.healthy, self._workers.trouble)
        self.runtime = Runtime(
            model,
            self._health,
            finish_timeout=finish_timeout,
            show_errors=show_errors,
            jobs=lambda: self._workers.figures,
        )
        self._shutdown = Shutdown(self.runtime.activity, times)
        self._listener: asyncio.Server | None = None
        self._loaded = False

    async def start(self) -> int:
        """Listen, and return the port. /ping answers 503 until the model is loaded.

        Raises:
            OSError: the address is taken, or does not belong to this machine.
        """
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self.runtime.http.protocol, self._host, self._port, backlog=ACCEPT_BACKLOG
        )
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def load(self) -> None:
        """Load the model, on its workers; return early if the server is stopped.

        Raises:
            LoadFailed: the model could not be loaded.
            SettingsRefused: a setting of the model is wrong, as only its loading finds out.
        """
        try:
            await self._shutdown.unless_stopped(self._load())
        except SettingsRefused:
            raise
        except Exception as error:
            missing = (
                "" if self._model_dir.is_dir() else ", a folder that does not exist (--model-dir)"
            )
            name = type(self._model).__name__
            raise LoadFailed(
                f"{name} could not be loaded from {self._model_dir}{missing}"
            ) from error

    def stop(self) -> None:
        """Begin to shut down; called again, hasten. A signal handler may call this."""
        self._shutdown.stop()

    async def stopped(self) -> None:
        """Wait for :meth:`stop`, then complete the shutdown."""
        try:
            await self._shutdown.begun()
            await self._shutdown.drain()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End at once: connections are aborted, handlers cancelled, workers ended."""
        if self._listener is not None:
            self._listener.close()
        await self.runtime.abort(CANCEL_GRACE)
        await self._workers.stop()
        await self._unload()

    async def _unload(self) -> None:
        if not self._loaded or isinstance(self._model.runs_on, Processes):
            return
        self._loaded = False
        unloading = in_thread(self._model.unload, name="partway-unload")
        await asyncio.wait((unloading,), timeout=UNLOAD_GRACE)
        if not unloading.done():
            _log.warning(LogLine("the model's unload() takes too long", seconds=UNLOAD_GRACE))
        elif (error := unloading.exception()) is not None:
            log_failure(_log, "unload", error)

    async def _load(self) -> None:
        began = time.monotonic()
        name = type(self._model).__name__
        _log.info(LogLine("loading the model", model=name, folder=str(self._model_dir)))
        await self._workers.start(self._model_dir)
        self._loaded = True
        self._health.set_loaded()
        took = round(time.monotonic() - began, 1)
        _log.info(LogLine("the model is loaded", model=name, seconds=took))
