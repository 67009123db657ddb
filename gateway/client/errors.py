"""Errors that end a stream, and whether opening it again makes sense."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from partway.gateway.network.dialling import Unreachable, Untrusted
from partway.protocol.errors import NEVER, RETRY_HEADER

#: Close codes after which the same stream may succeed. The model's server goes away, is lost,
#: restarts, is busy, or is behind a proxy that did not reach it. Not 1011: the same input would
#: raise the model's exception again. Codes of applications (3000–4999) have meanings unknown here.
_PASSING_CODES: Final = frozenset({"1001", "1006", "1012", "1013", "1014"})

#: Statuses below 500 after which the same request may be granted: too slow, too early, too many
#: (RFC 9110 §15.5.9, RFC 8470 §5.2, RFC 6585 §4). Statuses from 500 on after which it will not,
#: since the server does not support it (RFC 9110 §15.6.2, §15.6.6).
_PASSING_STATUSES: Final = frozenset({408, 425, 429})
_LASTING_STATUSES: Final = frozenset({501, 505})

#: AWS's APIs send this name with status 400 and mean 429.
_THROTTLED: Final = "ThrottlingException"


#: Remedies for a certificate, by the kind of fault.
_REMEDIES: Final = {
    "name": (
        "the URL must have a name that is in the certificate: `partway certs --name NAME` adds a "
        "name to the local CA's certificate"
    ),
    "time": (
        "renew the certificate, or correct this machine's clock: `partway certs` renews the "
        "local CA's certificate"
    ),
    "root": (
        "its root must be in the file that ca= (--ca FILE) or SSL_CERT_FILE names: `partway "
        "certs` makes the local CA's root, and prints where it is"
    ),
}


class PartwayError(Exception):
    """Base of the errors that end a stream other than cleanly.

    Attributes:
        reconnect: whether opening the same stream again can help.
    """

    reconnect = False


class GatewayUnreachable(PartwayError):
    """Nothing answers at the URL, or the server there is not a gateway.

    ``reconnect`` is false if the next attempt must fail too: the host's name is unknown, its
    certificate is not trusted, or the server there speaks another protocol.
    """

    def __init__(self, message: str, *, reconnect: bool = True) -> None:
        super().__init__(message)
        self.reconnect = reconnect


class StreamRefused(PartwayError):
    """The gateway answered with an HTTP error instead of a stream (section 4 of the contract).

    Attributes:
        error: the API's name of the error, such as ``ModelError``.
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
        *,
        lasting: bool = False,
    ) -> None:
        super().__init__(f"{error} ({status}): {message}")
        self.status = status
        self.error = error
        self.message = message
        self.original_status = original_status
        self.original_message = original_message
        if status == 424 and original_status:  # 0: the container was not reached (clause 4-6)
            # 500 is like 1011 on a stream: an exception of the model's own.
            self.reconnect = original_status != 500 and _passes(original_status)
        else:
            throttled = error.partition(":")[0] == _THROTTLED
            self.reconnect = throttled or status == 424 or _passes(status)
        if lasting:  # the gateway knows more than the status says
            self.reconnect = False


def _passes(status: int) -> bool:
    """Say whether a request that was answered with this status may be granted later."""
    return status in _PASSING_STATUSES or (status >= 500 and status not in _LASTING_STATUSES)


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
    """A message was to be sent or answered on a stream or an input that has ended cleanly."""


class BadMessage(PartwayError):
    """A message cannot be given whole: too large, text that is not UTF-8, or cut by the end."""


def unreachable(url: str, error: Unreachable) -> GatewayUnreachable:
    """Make the error for a stream that was not opened; for a certificate, it names the remedy."""
    why = f"cannot open a stream to {url}: {error}"
    if isinstance(error, Untrusted):
        why = f"{why.rstrip('.')}; {_REMEDIES[error.wrong]}"
    return GatewayUnreachable(why, reconnect=error.passing)


def refused(status: int, headers: Mapping[str, str], body: bytes) -> StreamRefused:
    """Make the error for an HTTP response (clause 4-1).

    Args:
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
            lasting=headers.get(RETRY_HEADER) == NEVER,
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        # Not a gateway's answer: a proxy's, or cut short.
        return StreamRefused(status, error or "HTTP error", body.decode("utf-8", "replace"))
