"""Messages between this process and a worker process, through their pipe.

Each message is one byte of kind and a body. Some bodies are pickled, as noted below.
"""

from __future__ import annotations

import pickle
import traceback
from typing import Any, Final

from partway.container.errors import ModelError
from partway.container.limits import MAX_TRACEBACK

#: To the worker: a job that returns, or one that yields; pickled (method, args, kwargs).
CALL: Final = b"c"
ITERATE: Final = b"i"
#: Let more items of the job come: their number in decimal.
GRANT: Final = b"g"
#: The job is no longer wanted.
GIVE_UP: Final = b"x"

#: From the worker: the model is loaded, or could not be loaded; then an error.
LOADED: Final = b"l"
FAILED: Final = b"f"
#: Of a job: an item, pickled; then the return value, pickled, or an error.
ITEM: Final = b"y"
RESULT: Final = b"r"
ERROR: Final = b"e"


def pack(kind: bytes, value: object, what: str) -> bytes:
    """Make a message with a value, which ``what`` names in the error.

    Raises:
        TypeError: the value cannot be pickled.
    """
    try:
        return kind + pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except BaseException as error:  # the model's own __reduce__ may raise anything
        raise TypeError(f"{what} cannot be sent between processes: {error}") from error


def unpack(message: bytes, what: str) -> Any:
    """Return the value in a message.

    Raises:
        TypeError: the value cannot be unpickled on this side.
    """
    try:
        return pickle.loads(memoryview(message)[1:])  # noqa: S301 (from our own process)
    except BaseException as error:  # its __setstate__ may raise anything too
        raise TypeError(f"{what} cannot be sent between processes: {error}") from error


def pack_error(kind: bytes, error: Exception) -> bytes:
    """Make a message with an exception, and its traceback as text; never fails."""
    text = "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
    try:
        whole = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        pickle.loads(whole)  # noqa: S301 (many can be taken apart, and not be put together)
    except BaseException:
        error = _substitute(error)
        whole = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
    return kind + pickle.dumps((whole, text), pickle.HIGHEST_PROTOCOL)


def unpack_error(message: bytes) -> Exception:
    """Return the exception in a message, with the worker's traceback as a note for the log."""
    whole, text = pickle.loads(memoryview(message)[1:])  # noqa: S301 (from our own process)
    error: object
    try:
        error = pickle.loads(whole)  # noqa: S301
    except BaseException as failure:
        error = RuntimeError(f"an exception of a worker process cannot be rebuilt: {failure}")
    if not isinstance(error, Exception):
        error = RuntimeError(f"a worker process raised {type(error).__name__}")
    error.add_note(f"In the worker process:\n\n{text}")
    return error


def _substitute(error: Exception) -> Exception:
    """Make an exception with the same text as one that cannot be pickled."""
    if isinstance(error, ModelError):
        return ModelError(error.reason, code=error.code, status=error.status)
    return RuntimeError("".join(traceback.format_exception_only(error)).strip()[-MAX_TRACEBACK:])
