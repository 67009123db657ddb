"""Loop guard: a handler that blocks the event loop is stopped (clause 1.1-2).

All clients of the process wait while a handler neither awaits nor returns, and so does ``/ping``. A
system timer ends that: it interrupts the main thread with an exception. It does so only in the
handler's own code, and the exception is the handler's alone.
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

#: Heartbeats within the limit. Two alarms in one turn of the loop make a handler guilty. At a
#: single alarm it may only be the last of many handlers.
_BEATS = 4
_ALARMS = 2
#: Seconds until the next try, if an alarm came in code that must not be interrupted.
_AGAIN = 0.02
#: Seconds between two warnings.
_QUIET = 10.0

#: Code that an unexpected exception would leave in a broken state. It includes the runtime's own
#: code, except for the shipped models.
_PROTECTED = frozenset(
    {"_weakrefset", "a2wsgi", "aiohttp", "aiosignal", "anyio", "asyncio", "codecs", "concurrent",
     "contextlib", "encodings", "frozenlist", "h11", "httptools", "logging", "multidict",
     "multiprocessing", "partway", "propcache", "queue", "selectors", "signal", "ssl", "threading",
     "uvicorn", "uvloop", "weakref", "websockets", "yarl"}
)  # fmt: skip
#: The name of the code that creates named tuples; some frames of the runtime have it.
_NAMED_TUPLES = "namedtuple_"
#: An interrupted import often makes the module impossible to import again.
_IMPORTING = "importlib._bootstrap"
_MODELS = "partway.container.models."

#: Whether a context belongs to a handler, or to a task that a handler has started: tasks inherit
#: it.
_handling: ContextVar[bool] = ContextVar("handling", default=False)


def watch() -> None:
    """Mark this context as one of a model's handler."""
    _handling.set(True)


class LoopGuard:
    """Stops handlers that block the running loop; for the main thread's loop.

    Owns SIGALRM and the process's real-time timer from :meth:`start` to :meth:`stop`.

    Args:
        limit: seconds that a handler may block the loop.
        warning: seconds after which the log reports that the loop was blocked.
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
        signal.siginterrupt(signal.SIGALRM, False)  # other system calls are restarted by the kernel
        self._due = self._loop.time()
        self._on_beat()

    def stop(self) -> None:
        """Stop the guard; SIGALRM then has its default action."""
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
                    "the event loop stood still: run computations on a worker",
                    seconds=round(late, 2),
                )
            )
        self._suspect = None
        self._set_alarm()
        self._due = now + self._limit / _BEATS
        self._beat = self._loop.call_at(self._due, self._on_beat)

    def _set_alarm(self, seconds: float | None = None) -> None:
        """Set the timer, to repeat: a signal may be lost.

        A signal that arrives while the process is stopped or frozen may go to any of its threads.
        It then does not wake the main thread.
        """
        seconds = self._limit / _ALARMS if seconds is None else seconds
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        # The loop is given, because it may not be running, as between two runs of a test.
        task = asyncio.current_task(self._loop)
        if task is None or task is not self._suspect:
            self._suspect = task
            self._set_alarm()
        elif frame is None or not _handling.get() or not _interruptible(frame):
            self._set_alarm(_AGAIN)
        else:
            self._suspect = None
            self._set_alarm()  # the handler may catch this and go on
            raise HandlerBlocked(
                f"the model blocked the event loop for {self._limit:g} s: "
                "run computations on a worker"
            )


def _interruptible(frame: FrameType) -> bool:
    """Whether a frame belongs to a model or to code that it calls, and no import is under way."""
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
