"""Errors in Kubernetes' form: a Status object with a reason, a code and details."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar, Final

from partway.gateway.http.error_dialects import ErrorResponse
from partway.protocol.errors import ApiError


class KubernetesError(ApiError):
    """A refusal with a reason of Kubernetes' own (``metav1.StatusReason``).

    Args:
        details: the details of the Status, such as ``name``, ``group`` and ``kind``.
    """

    reason: ClassVar[str]

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details
        #: The metadata of the Status, in the form of a list's.
        self.metadata: Mapping[str, str] = {}


class ObjectNotFound(KubernetesError):
    name = reason = "NotFound"
    status = 404


class ObjectExists(KubernetesError):
    name = reason = "AlreadyExists"
    status = 409


class ObjectConflict(KubernetesError):
    """The object has changed, is being deleted, or has a name that is taken."""

    name = reason = "Conflict"
    status = 409


class InvalidObject(KubernetesError):
    """The object cannot be honoured; the causes name its members.

    Args:
        causes: ``reason``, ``message`` and ``field`` of each fault.
    """

    name = reason = "Invalid"
    status = 422

    def __init__(
        self, message: str, causes: Sequence[Mapping[str, str]] = (), **details: Any
    ) -> None:
        super().__init__(message, **details, causes=list(causes))


class BadKubernetesRequest(KubernetesError):
    name = reason = "BadRequest"
    status = 400


class VersionExpired(KubernetesError):
    """The changes since this resourceVersion are forgotten: the client must list again.

    Args:
        again: a token for the rest of the list in its current state; empty for none.
    """

    name = reason = "Expired"
    status = 410

    def __init__(self, message: str, again: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        if again:
            self.metadata = {"continue": again}


class VersionAhead(KubernetesError):
    """This resourceVersion is in the future: it comes from another gateway."""

    name = reason = "Timeout"
    status = 504


class PatchTypeUnsupported(KubernetesError):
    name = reason = "UnsupportedMediaType"
    status = 415


class FormNotAcceptable(KubernetesError):
    """The server has none of the formats that the client accepts."""

    name = reason = "NotAcceptable"
    status = 406


class TooManyRequests(KubernetesError):
    name = reason = "TooManyRequests"
    status = 429


#: Status and reason of errors that have others here, by the names of authentication's and the
#: control plane's errors.
_REASONS: Final[Mapping[str, tuple[int, str]]] = {
    "AccessDeniedException": (403, "Forbidden"),
    "ExpiredTokenException": (401, "Unauthorized"),
    "IncompleteSignatureException": (401, "Unauthorized"),
    "InvalidSignatureException": (401, "Unauthorized"),
    "MissingAuthenticationTokenException": (401, "Unauthorized"),
    "ResourceLimitExceeded": (429, "TooManyRequests"),
    "UnrecognizedClientException": (401, "Unauthorized"),
    "ValidationException": (422, "Invalid"),
}

#: Reasons of all other errors, by their status.
_BY_STATUS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    404: "NotFound",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    500: "InternalError",
    503: "ServiceUnavailable",
}


def status_of(error: ApiError) -> dict[str, Any]:
    """Return an error as a Status object (``metav1.Status``)."""
    if isinstance(error, KubernetesError):
        code, reason, details = error.status, error.reason, error.details
        metadata = error.metadata
    else:
        by_status = (error.status, _BY_STATUS.get(error.status, ""))
        code, reason = _REASONS.get(error.name, by_status)
        details, metadata = {}, {}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": dict(metadata),
        "status": "Failure",
        "message": error.message,
        **({"reason": reason} if reason else {}),
        **({"details": details} if details else {}),
        "code": code,
    }


def kubernetes_status(error: ApiError) -> ErrorResponse:
    """Return an error in the form of Kubernetes' clients."""
    said = status_of(error)
    headers = {"Content-Type": "application/json", **error.headers}
    if said["code"] == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return ErrorResponse(said["code"], headers, json.dumps(said).encode())
