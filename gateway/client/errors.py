"""What ends a stream other than cleanly, and whether opening it again makes sense."""

from __future__ import annotations

import json
from collections.abc import Mapping

#: Close codes after which the same stream may well succeed: the server goes away, fails inside,
#: restarts, is busy, or its network broke. What an application says with its own codes
#: (3000–4999) only the application's author knows.
_PASSING_CODES = frozenset({"1001", "1006", "1011", "1012", "1013", "1014"})


class PartwayError(Exception):
    """Base of the errors that end a stream other than cleanly.

    Attributes:
        reconnect: whether opening the stream again makes sense.
    """

    reconnect = False


class GatewayUnreachable(PartwayError):
    """Nothing answers at the URL, or something that does not speak as a gateway does."""

    reconnect = True


class StreamRefused(PartwayError):
    """The gateway answered with an HTTP error instead of a stream (section 4 of the contract).

    Attributes:
        status: the response's status.
        error: the API's name of the error, such as ``ModelError``.
        message: what was wrong.
        original_status: the container's own status, 0 if it did not answer (``ModelError`` only).
        original_message: the beginning of the container's own body.
    """

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        original_status: int = 0,
        original_message: str = "",
    ) -> None:
        super().__init__(f"{error} ({status}): {message}")
        self.status = status
        self.error = error
        self.message = message
        self.original_status = original_status
        self.original_message = original_message
        passing = original_status in (0, 429) or original_status >= 500
        self.reconnect = status >= 500 or status == 429 or (status == 424 and passing)


class ModelStreamFailed(PartwayError):
    """The model's side ended the stream (``ModelStreamError``).

    Attributes:
        code: a WebSocket close code in decimal, or ``InputStreamError`` and the like.
        message: the container's reason.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.reconnect = code in _PASSING_CODES


class PlatformStreamFailed(PartwayError):
    """The gateway ended the stream (``InternalStreamFailure``): drain, lifetime, stall."""

    reconnect = True


class ConnectionLost(PartwayError):
    """The connection to the gateway ended before the stream did, or pings stay unanswered."""

    reconnect = True


class StreamEnded(PartwayError):
    """Something was to be sent, or answered, on a stream or an input that has ended cleanly."""


class BadMessage(PartwayError):
    """A message cannot be given whole: too large, text that is not UTF-8, or cut by the end."""


def refused(status: int, headers: Mapping[str, str], body: bytes) -> StreamRefused:
    """The error that an HTTP response stands for (clause 4-1).

    Args:
        status: the response's status.
        headers: the response's headers, names in lower case.
        body: as much of the response's body as was read.
    """
    error = headers.get("x-amzn-errortype", "")
    try:
        members = json.loads(body)
        return StreamRefused(
            status,
            error,
            str(members["Message"]),
            int(members.get("OriginalStatusCode", 0)),
            str(members.get("OriginalMessage", "")),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        # No gateway's answer: a proxy's, or cut short.
        return StreamRefused(status, error or "HTTP error", body.decode("utf-8", "replace"))
