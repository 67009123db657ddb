"""Errors as Kubernetes' clients read them: a Status object with a reason, a code and details."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar, Final

from partway.gateway.http.error_dialects import ErrorResponse
from partway.protocol.errors import ApiError


class KubernetesError(ApiError):
    """A refusal that has a reason of Kubernetes' own (``metav1.StatusReason``).

    Args:
        message: what was wrong, where, and what to do.
        details: of the Status, such as ``name``, ``group`` and ``kind``.
    """

    reason: ClassVar[str]

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details
        #: The Status' own, as a list's.
        self.metadata: Mapping[str, str] = {}


class ObjectNotFound(KubernetesError):
    """There is no such object, or no such resource."""

    name = reason = "NotFound"
    status = 404


class ObjectExists(KubernetesError):
    """An object of this name is there already."""

    name = reason = "AlreadyExists"
    status = 409


class ObjectConflict(KubernetesError):
    """The object has changed, is being deleted, or has a name that is taken."""

    name = reason = "Conflict"
    status = 409


class InvalidObject(KubernetesError):
    """The object cannot be honoured; the causes name its members.

    Args:
        message: what is wrong.
        causes: ``reason``, ``message`` and ``field`` of each fault.
        details: as of :class:`KubernetesError`.
    """

    name = reason = "Invalid"
    status = 422

    def __init__(
        self, message: str, causes: Sequence[Mapping[str, str]] = (), **details: Any
    ) -> None:
        super().__init__(message, **details, causes=list(causes))


class BadKubernetesRequest(KubernetesError):
    """The request is not one that can be read."""

    name = reason = "BadRequest"
    status = 400


class VersionExpired(KubernetesError):
    """What has changed since this resourceVersion is not known any more: list again.

    Args:
        message: what is known no more.
        again: what the rest of the list can be had by, as it is now; empty for nothing.
        details: as of :class:`KubernetesError`.
    """

    name = reason = "Expired"
    status = 410

    def __init__(self, message: str, again: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        if again:
            self.metadata = {"continue": again}


class VersionAhead(KubernetesError):
    """This resourceVersion is yet to come: it is another gateway's."""

    name = reason = "Timeout"
    status = 504


class PatchTypeUnsupported(KubernetesError):
    """A body of this type is not read here."""

    name = reason = "UnsupportedMediaType"
    status = 415


class FormNotAcceptable(KubernetesError):
    """None of the forms that the client accepts is there."""

    name = reason = "NotAcceptable"
    status = 406


class TooManyRequests(KubernetesError):
    """As many watches as may be are open, or as many objects as may be there."""

    name = reason = "TooManyRequests"
    status = 429


#: Errors of the control plane and of who asks, whose status or reason is another one here.
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

#: And by their status, all others.
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
    """An error as a Status object (``metav1.Status``)."""
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
    """The dialect of Kubernetes' clients."""
    said = status_of(error)
    headers = {"Content-Type": "application/json", **error.headers}
    if said["code"] == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return ErrorResponse(said["code"], headers, json.dumps(said).encode())
