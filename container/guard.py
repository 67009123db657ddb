"""Keeping the event loop free: a handler that computes on it is stopped (clause 1.1-2).

Every client of the process waits while a handler neither awaits nor returns, and ``/ping`` with
them. A timer of the system ends that: it interrupts the main thread, in the handler's own code and
nowhere else, with an exception that is the handler's alone.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextvars import ContextVar
from types import FrameType

from partway.container.errors import HandlerBlocked
from partway.container.limits import BLOCK_LIMIT, BLOCK_WARNING
from partway.log_lines import LogLine

_log = logging.getLogger("partway.container.guard")

#: Beats within the limit; and alarms, of which two in one turn of the loop make a handler guilty:
#: at one alone it may merely be the last of a crowd.
_BEATS = 4
_ALARMS = 2
#: After an alarm that fell into code that may not be interrupted.
_AGAIN = 0.02
#: Seconds between two warnings.
_QUIET = 10.0

#: Code in which an exception out of nowhere would leave something undone. The runtime's own is
#: there too, but for the models that come with it.
_PROTECTED = frozenset(
    {"_weakrefset", "a2wsgi", "aiohttp", "aiosignal", "anyio", "asyncio", "codecs", "concurrent",
     "contextlib", "encodings", "frozenlist", "h11", "httptools", "logging", "multidict",
     "multiprocessing", "partway", "propcache", "queue", "selectors", "signal", "ssl", "threading",
     "uvicorn", "uvloop", "weakref", "websockets", "yarl"}
)  # fmt: skip
#: Where a named tuple is made: the runtime's frames are some.
_NAMED_TUPLES = "namedtuple_"
#: A module whose import is broken off cannot be imported again, as often as not.
_IMPORTING = "importlib._bootstrap"
_MODELS = "partway.container.models."

#: Whether a handler runs in a context, or what a handler has started: tasks inherit this.
_handling: ContextVar[bool] = ContextVar("handling", default=False)


def watch() -> None:
    """Say that a model's handler runs in this context."""
    _handling.set(True)


class LoopGuard:
    """Stops handlers that keep the running loop; for the main thread's loop.

    Owns SIGALRM and the process's real-time timer from :meth:`start` to :meth:`stop`.

    Args:
        limit: seconds that a handler may keep the loop.
        warning: seconds after which the log says that the loop stood still.
    """

    def __init__(self, limit: float = BLOCK_LIMIT, warning: float = BLOCK_WARNING) -> None:
        self._limit = limit
        self._warning = warning
        self._loop = asyncio.get_running_loop()
        self._beat: asyncio.TimerHandle | None = None
        self._suspect: asyncio.Task[object] | None = None
        self._due = 0.0
        self._quiet_until = 0.0

    def start(self) -> None:
        """Begin to watch the running loop.

        Raises:
            ValueError: the calling thread is not the main thread.
        """
        signal.signal(signal.SIGALRM, self._on_alarm)
        signal.siginterrupt(signal.SIGALRM, False)  # other system calls go on by themselves
        self._due = self._loop.time()
        self._on_beat()

    def stop(self) -> None:
        """End the watch; SIGALRM is then as in a new process."""
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _on_beat(self) -> None:
        now = self._loop.time()
        late = now - self._due
        if late >= self._limit or (late >= self._warning and now >= self._quiet_until):
            self._quiet_until = now + _QUIET
            _log.warning(
                LogLine(
                    "the event loop stood still: what computes belongs on a worker",
                    seconds=round(late, 2),
                )
            )
        self._suspect = None
        self._set_alarm()
        self._due = now + self._limit / _BEATS
        self._beat = self._loop.call_at(self._due, self._on_beat)

    def _set_alarm(self, seconds: float | None = None) -> None:
        """Set it, to repeat: one may be lost.

        What comes due while the process is stopped, or frozen, is given to any of its threads, and
        the main thread is not woken by it from what it waits for.
        """
        seconds = self._limit / _ALARMS if seconds is None else seconds
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        # The loop by name: while it does not run, as between two runs of a test, asking for the
        # current one raises.
        task = asyncio.current_task(self._loop)
        if task is None or task is not self._suspect:
            self._suspect = task
            self._set_alarm()
        elif frame is None or not _handling.get() or not _interruptible(frame):
            self._set_alarm(_AGAIN)
        else:
            self._suspect = None
            self._set_alarm()  # it may catch this, and go on
            raise HandlerBlocked(
                f"the model kept the event loop for {self._limit:g} s: "
                "what computes belongs on a worker"
            )


def _interruptible(frame: FrameType) -> bool:
    """Whether a frame is a model's, or of what a model calls, and no import is under way."""
    module = _module(frame)
    if module.startswith(_NAMED_TUPLES):
        return False
    if not module.startswith(_MODELS) and module.partition(".")[0] in _PROTECTED:
        return False
    outer: FrameType | None = frame
    while outer is not None:
        if _module(outer) == _IMPORTING:
            return False
        outer = outer.f_back
    return True


def _module(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name
