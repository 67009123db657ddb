"""Errors of the HTTP API: name, status and members.

Section 4 of the contract. Errors inside a running stream are events: :mod:`partway.protocol.parts`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar, Final

#: Characters of a client's text that a message repeats: two media types with their parameters.
QUOTED_CHARACTERS: Final = 128

#: The header that says that a later retry of the same request fails too, and its one value. The
#: status alone does not say so.
RETRY_HEADER: Final = "x-partway-retry"

NEVER: Final = "no"


def quoted(words: str) -> str:
    """Quote text from a client: printable ASCII, with an ellipsis if it was cut."""
    if len(words) > QUOTED_CHARACTERS:
        words = words[: QUOTED_CHARACTERS - 3] + "..."
    return ascii(words)


class ClientLeft(ConnectionError):
    """The client has left before the exchange was over, or does not read its response."""

    def __init__(self, message: str = "the client left") -> None:
        super().__init__(message)


class ApiError(Exception):
    """An error that a client gets as an HTTP response (clause 4-1).

    Args:
        message: what was wrong, where, and what to do; becomes ``Message``.
        members: further members of the JSON body, sent as they are.
    """

    #: The error's name, sent as ``x-amzn-ErrorType``.
    name: ClassVar[str]
    status: int
    #: Further headers of the response.
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(self, message: str, **members: str | int) -> None:
        super().__init__(message)
        self.message = message
        self.members = members

    @property
    def for_operator(self) -> str:
        """The message for the operator's log, which may say more than the client is told."""
        return self.message

    def body(self) -> bytes:
        """The JSON body (clause 4-1)."""
        return json.dumps({"Message": self.message, **self.members}).encode()


class InputValidationError(ApiError):
    """The request is wrong; sending it again will not help (clause 4-2)."""

    name = "InputValidationError"
    status = 400

    def __init__(self, message: str, code: str = "InvalidInput") -> None:
        super().__init__(message, ErrorCode=code)


class UnknownEndpoint(InputValidationError):
    """No endpoint has the name that the client gave (clause 4-6)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "EndpointNotFound")


class UpgradeRefused(InputValidationError):
    """A WebSocket was asked for in a way that cannot be granted (RFC 6455 §4.2.1, §4.4)."""

    def __init__(self, message: str, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(message, "BadUpgrade")
        self.status = status
        self.headers = headers


class AccessDenied(ApiError):
    """The caller may not do this (clauses 2.4-6, 3-4)."""

    name = "AccessDeniedException"
    status = 403


class MissingAuthenticationToken(ApiError):
    """The request does not say who sends it (clause 2.4-6)."""

    name = "MissingAuthenticationTokenException"
    status = 403


class UnrecognizedClient(ApiError):
    """No principal has this key or token (clause 2.4-6)."""

    name = "UnrecognizedClientException"
    status = 403

    def __init__(
        self, message: str = "The security token included in the request is invalid."
    ) -> None:
        super().__init__(message)


class InvalidSignature(ApiError):
    """The request differs from the signed one, or its scope or time is wrong (clause 2.4-6)."""

    name = "InvalidSignatureException"
    status = 403


class ExpiredToken(ApiError):
    """The key has expired (clause 2.4-6)."""

    name = "ExpiredTokenException"
    status = 403

    def __init__(
        self, message: str = "The security token included in the request is expired"
    ) -> None:
        super().__init__(message)


class IncompleteSignature(ApiError):
    """The credentials of the request cannot be parsed (clause 2.4-6)."""

    name = "IncompleteSignatureException"
    status = 400


class NotFound(ApiError):
    """No operation has this path. AWS uses the same name."""

    name = "UnknownOperationException"
    status = 404


class MethodNotAllowed(ApiError):
    """The path has operations, but none for this method (RFC 9110 §15.5.6)."""

    name = "MethodNotAllowedException"
    status = 405

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        listed = ", ".join(sorted(allowed))
        super().__init__(f"the method {method} was given; on this path it must be {listed}")
        self.headers = {"Allow": listed}


class TargetTooLong(ApiError):
    """The request's path and query are over the limit (RFC 9110 §15.5.15)."""

    name = "RequestURITooLongException"
    status = 414


class HeadTooLarge(ApiError):
    """The request's headers are over one of the limits (RFC 6585 §5)."""

    name = "RequestHeaderFieldsTooLargeException"
    status = 431


class RequestTooLarge(ApiError):
    """The request's body is over the limit (RFC 9110 §15.5.14)."""

    name = "RequestEntityTooLargeException"
    status = 413


class RequestTimeout(ApiError):
    """The request's body has not come in time (RFC 9110 §15.5.9)."""

    name = "RequestTimeoutException"
    status = 408


class UnsupportedMediaType(ApiError):
    """The request's body is of a type that the operation does not take (RFC 9110 §15.5.16)."""

    name = "UnsupportedMediaTypeException"
    status = 415


class UnsupportedCoding(UnsupportedMediaType):
    """The request's body has a content coding that is not supported (RFC 9110 §15.5.16).

    Args:
        known: the codings that are read, for ``Accept-Encoding`` of the response.
    """

    def __init__(self, message: str, known: tuple[str, ...] = ("gzip", "deflate")) -> None:
        super().__init__(message)
        self.headers = {"Accept-Encoding": ", ".join(known)}


class UnsupportedHttpVersion(ApiError):
    """The operation is not available over this HTTP version (RFC 9110 §15.6.6)."""

    name = "HTTPVersionNotSupportedException"
    status = 505


class DeadlineExceeded(ApiError):
    """The client's deadline for the answer has passed."""

    name = "DeadlineExceededException"
    status = 504


class ContainerError(ApiError):
    """The container refused the stream or could not be reached: AWS's ``ModelError`` (4-3, 4-6).

    Args:
        original_status: the container's own HTTP status, 0 if it gave none.
        original_message: the beginning of the container's own body.
        for_operator: the message for the operator, if it names the container's address; by default
            ``message``.
        passing: whether the fault may pass by itself. A wrong certificate does not.
        retry_after: the container's own ``Retry-After``; empty if it sent none.
    """

    name = "ModelError"
    status = 424

    def __init__(
        self,
        message: str,
        original_status: int = 0,
        original_message: str = "",
        for_operator: str | None = None,
        *,
        passing: bool = True,
        retry_after: str = "",
    ) -> None:
        super().__init__(
            message,
            OriginalStatusCode=original_status,
            OriginalMessage=original_message,
            LogStreamArn="",  # filled in by the caller that knows the instance's log
            ErrorCode="ModelError",
        )
        self._for_operator = for_operator
        self.original_status = original_status
        self.original_message = original_message
        self.retry_after = retry_after
        if not passing:
            self.headers = {RETRY_HEADER: NEVER}

    @property
    def for_operator(self) -> str:
        return self.message if self._for_operator is None else self._for_operator


class ContainerUnreachable(ContainerError):
    """No connection to the container could be opened. It has seen nothing of the request."""


class ContainerLate(ContainerError):
    """The container has the request, but its answer or the next part of it is late."""


class ContainerBroke(ContainerError):
    """The container has the request, but its answer is invalid or incomplete."""


class InternalServerError(ApiError):
    """The gateway's own fault (clause 4-4)."""

    name = "InternalServerError"
    status = 500

    def __init__(self, message: str = "the gateway failed; its log has the reason") -> None:
        super().__init__(message)


class ServiceUnavailable(ApiError):
    """The gateway is full, or draining: try elsewhere, or later (clauses 4-4, 4-6)."""

    name = "ServiceUnavailableError"
    status = 503

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode="ServiceUnavailable")
