"""How aiohttp is told of the limits of a head, and what its errors say of one."""

from __future__ import annotations

import logging
from typing import Final

from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong

from partway.bounded_heads import EndlessHead
from partway.gateway.serving.heads import head_too_large, target_too_long
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError, InputValidationError
from partway.protocol.limits import MAX_HEADER_LINE, MAX_HEADERS

#: aiohttp's own limits, which are a little over those of a head, since its two parsers count in two
#: ways; two lines' limits differ, since its error tells by the
#: limit alone which of them it was.
MAX_REQUEST_LINE: Final = MAX_HEADER_LINE + 128
MAX_FIELD_LINE: Final = MAX_HEADER_LINE + 64
MAX_LINES: Final = MAX_HEADERS + 2


def unreadable(error: BaseException | None) -> ApiError:
    """Say what is wrong with a head that aiohttp could not read, or not to its end."""
    match error:
        case LineTooLong(args=(_, limit, *_)) if limit == MAX_REQUEST_LINE:
            return target_too_long()
        case LineTooLong() | EndlessHead() | BadHttpMessage(args=("Too many headers received",)):
            return head_too_large()
        case _:
            return InputValidationError("the request is not valid HTTP/1.1", "MalformedRequest")


def origin_form(target: str) -> str:
    """Return a target from its path on: a proxy's client sends a whole URL (RFC 9112 §3.2.2)."""
    if target.lower().startswith(("http://", "https://")):
        _, slash, rest = target.partition("://")[2].partition("/")
        return slash + rest or "/"
    return target


def quiet_logger() -> logging.Logger:
    """Make a logger for aiohttp that never repeats what a client sent, tokens least of all."""
    logger = logging.getLogger("partway.http1")
    logger.addFilter(_without_request_bytes)
    return logger


def _without_request_bytes(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.exc_info = None
        peer = record.args[0] if isinstance(record.args, tuple) and record.args else None
        record.msg = LogLine("bad request", peer=str(peer), reason=type(error).__name__)
        record.args = ()
        record.levelno, record.levelname = logging.INFO, "INFO"
    return True
