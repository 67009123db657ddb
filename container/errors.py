"""Errors that a model, or the runtime on its behalf, reports to a client."""

from __future__ import annotations

import asyncio
import logging
import sysconfig
import traceback
from pathlib import Path
from typing import ClassVar, Final

from partway.log_lines import LogLine
from partway.protocol.limits import REFUSAL_BODY_BYTES
from partway.protocol.websocket.close_codes import INTERNAL_ERROR, TRY_AGAIN_LATER, is_legal

#: Frames shown: the last ones of the author's own code.
_MOST_FRAMES: Final = 4
#: Characters of a message; with the frames, the text stays below the limit of what a gateway passes
#: on.
_MOST_CHARACTERS: Final = 600
_MOST_LINE: Final = 160

_PATHS: Final = sysconfig.get_paths()
#: Folders without the author's code: Python, installed packages, and ours.
_NOT_THEIRS: Final = (
    *(_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).parents[1]),
)


class ModelError(Exception):
    """An error whose reason is meant for the client. Of other exceptions it only sees the type.

    Args:
        code: the Close code, once the stream is open: 1011, or 4000–4999 for codes of your own.
        status: the HTTP status, before the stream is open and on ``/invocations``.

    Raises:
        ValueError: the code must not be sent (RFC 6455 §7.4), or the status is not 400 to 599.
    """

    #: Whether the model raised the error on purpose; then the log needs no traceback.
    foreseen: ClassVar[bool] = True

    def __init__(self, reason: str, *, code: int = INTERNAL_ERROR, status: int = 500) -> None:
        super().__init__(reason)
        if not is_legal(code):
            raise ValueError(f"close code {code} must not be sent (RFC 6455 §7.4)")
        if not 400 <= status <= 599:
            raise ValueError(f"status {status} was given; an error's status must be 400 to 599")
        self.reason = reason
        self.code = code
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling from a worker process, for any signature of a subclass's init."""
        return _revived, (type(self), self.args, self.__dict__)


def _revived(kind: type[ModelError], args: tuple[object, ...], state: dict[str, object]) -> object:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class BodyError(Exception):
    """A request's body is refused, by the client's fault."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Busy(ModelError):
    """Too much work waits already: Close 1013, or 503."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, code=TRY_AGAIN_LATER, status=503)


class TooSlow(ModelError):
    """A job's deadline passed while it was computing: Close 1011, or 504."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, status=504)


class WorkerDied(ModelError):
    """The worker process that computed has died: Close 1011, or 500."""


class HandlerBlocked(ModelError):
    """A handler blocked the event loop, and so every other client, for too long."""

    foreseen = False


class LoadFailed(Exception):
    """The model could not be loaded; ``__cause__`` has the reason."""


class SettingsRefused(ValueError):
    """Variables of a model's settings are wrong; the text has a line for each fault."""


class CannotServe(Exception):
    """A server cannot serve, or cannot go on, for a reason outside it; the text says which."""


def without_frames(error: asyncio.CancelledError) -> asyncio.CancelledError:
    """Return a cancellation without its traceback, to be raised again where a task ends.

    In Python 3.11 a frame of ``asyncio.TaskGroup`` refers to the cancellation, and the traceback to
    that frame. Together they keep the task's objects until the garbage collector runs.
    """
    return error.with_traceback(None)


def cause_of(error: BaseException) -> BaseException:
    """Return the single exception by which a group of tasks failed, or the group if they differ."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def reason_of(error: BaseException) -> str:
    """Return the part of a model's exception that a client may see.

    For a :class:`ModelError` that is the reason, for others the type: their message may quote other
    clients' input.
    """
    if isinstance(error, ModelError):
        return error.reason
    return f"the model failed: {type(error).__name__}"


def shown_reason_of(error: BaseException) -> str:
    """Return the reason of a :class:`ModelError`; for others see :func:`shown_error`."""
    return error.reason if isinstance(error, ModelError) else shown_error(error)


def shown_error(error: BaseException) -> str:
    """Format the type and message of an exception, and the last frames of the author's code.

    The text has at most :data:`~partway.protocol.limits.REFUSAL_BODY_BYTES` bytes, the limit of a
    gateway.
    """
    message = str(error)[:_MOST_CHARACTERS]
    name = type(error).__name__
    lines = [f"the model failed: {name}: {message}" if message else f"the model failed: {name}"]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)]
    for frame in own[-_MOST_FRAMES:]:
        lines.append(
            f'  File "{frame.filename[-_MOST_LINE:]}", line {frame.lineno}, in {frame.name}'
        )
        if frame.line:
            lines.append(f"    {frame.line[:_MOST_LINE]}")
    text = "\n".join(lines).encode()[: REFUSAL_BODY_BYTES - 1]
    return text.decode(errors="ignore")


def log_failure(
    log: logging.Logger, what: str, error: BaseException, *, request_id: str | None = None
) -> None:
    """Log the exception of a model's handler, with a traceback unless it was raised on purpose.

    ``what`` names the failed operation, such as a stream.
    """
    whose = {"what": what} if request_id is None else {"what": what, "request_id": request_id}
    if isinstance(error, ModelError) and error.foreseen:
        log.info(LogLine("the model reported an error", **whose, reason=error.reason))
    else:
        log.error(LogLine("the model failed", **whose), exc_info=error)
