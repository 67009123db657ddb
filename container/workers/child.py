"""The inside of a worker process: it loads the model, then does one job after the other."""

from __future__ import annotations

import importlib
import io
import os
import pickle
import signal
import sys
import threading
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import NoReturn, cast

from partway.container.limits import ITEMS_HELD
from partway.container.threads import ordinary
from partway.container.workers.job_execution import Gate, perform
from partway.container.workers.pipe_messages import (
    ERROR,
    FAILED,
    GIVE_UP,
    GRANT,
    ITEM,
    ITERATE,
    LOADED,
    RESULT,
    pack,
    pack_error,
    unpack,
)
from partway.container.workers.settings import Loadable
from partway.log_lines import LogFormat, start_logging


@dataclass(frozen=True, slots=True)
class Origin:
    """The data that a worker process is created from.

    Attributes:
        name: the class's name there, with dots where the class is inside another one.
        log_level: the log's level in the process that starts the worker.
        settings: the model's, pickled: unpickling may import the model, which must be done where a
            failure is reported.
    """

    module: str
    name: str
    model_dir: Path
    log_level: int
    log_format: LogFormat
    settings: bytes

    def make(self) -> Loadable:
        """Create the model, without loading it."""
        kind = attrgetter(self.name)(importlib.import_module(self.module))
        model = kind()
        settings = pickle.loads(self.settings)  # noqa: S301 (from the process that starts this one)
        if settings is not None:
            model.settings = settings
        return cast("Loadable", model)


def main(pipe: Connection, origin: Origin) -> NoReturn:
    """Do jobs in this worker process until its parent closes the pipe or kills the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # Ctrl-C and service managers signal all processes, but the parent has jobs to end. SIG_IGN
        # would be inherited by programs that the model starts.
        signal.signal(number, _leave_it_to_the_parent)
        signal.siginterrupt(number, False)
    # Programs that the model starts must not hold the pipe open after this process.
    os.set_inheritable(pipe.fileno(), False)
    os.register_at_fork(after_in_child=pipe.close)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a killed process flushes nothing
    start_logging(origin.log_level, origin.log_format, process=True)
    _Child(pipe).run(origin)


def _leave_it_to_the_parent(number: int, frame: FrameType | None) -> None:
    """Ignore a signal: the parent process gets it too, and ends this one."""


class _Child:
    """Listens on a thread, and computes on the main thread, as libraries expect."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._jobs: SimpleQueue[tuple[bytes, Gate]] = SimpleQueue()
        self._gate = Gate(0)

    def run(self, origin: Origin) -> NoReturn:
        threading.Thread(target=self._listen, name="partway-pipe", daemon=True).start()
        try:
            model = origin.make()
            model.load(origin.model_dir)
        except BaseException as error:
            self._pipe.send_bytes(pack_error(FAILED, ordinary(error)))
            _leave(1)
        self._pipe.send_bytes(LOADED)
        while True:
            self._pipe.send_bytes(self._answer(model, *self._jobs.get()))

    def _listen(self) -> NoReturn:
        """Listen to the parent. When it is gone, end this process even if it computes."""
        try:
            while True:
                self._hear(self._pipe.recv_bytes())
        finally:
            os._exit(1)

    def _hear(self, message: bytes) -> None:
        kind = message[:1]
        if kind == GRANT:
            self._gate.grant(int(message[1:]))
        elif kind == GIVE_UP:
            self._gate.close()
        else:
            self._gate = Gate(ITEMS_HELD)
            self._jobs.put((message, self._gate))

    def _answer(self, model: Loadable, message: bytes, gate: Gate) -> bytes:
        """Do a job, and return its final message; keep no reference to the job."""
        try:
            name, args, kwargs = unpack(message, "an argument of the method")
        except TypeError as error:
            return pack_error(ERROR, error)

        def emit(item: object) -> None:
            self._pipe.send_bytes(pack(ITEM, item, f"an item of {name}()"))

        call = partial(getattr(model, name), *args, **kwargs)
        outcome = perform(call, gate, emit if message[:1] == ITERATE else None)
        if outcome.error is not None:
            return pack_error(ERROR, outcome.error)
        try:
            return pack(RESULT, outcome.value, f"the result of {name}()")
        except TypeError as error:
            return pack_error(ERROR, error)


def _leave(status: int) -> NoReturn:
    """End the process without waiting for the model's threads."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)
