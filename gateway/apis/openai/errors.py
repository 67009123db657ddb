"""Errors as OpenAI's clients read them: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from partway.gateway.http.error_dialects import ErrorResponse
from partway.protocol.errors import ApiError, ContainerError, ContainerLate

#: Repeats the request's id; OpenAI's clients put it into their errors.
REQUEST_ID: Final = "x-request-id"

#: Statuses that differ from AWS's: the client must authenticate.
_STATUSES: Final[Mapping[str, int]] = {
    "ExpiredTokenException": 401,
    "IncompleteSignatureException": 401,
    "InvalidSignatureException": 401,
    "MissingAuthenticationTokenException": 401,
    "UnrecognizedClientException": 401,
}

_CODES: Final[Mapping[str, str]] = {
    "InputValidationError": "validation_error",
    "ModelError": "model_error",
}


def openai_object(error: ApiError) -> ErrorResponse:
    """Write one of the gateway's own errors; a container's pass through as they are."""
    status = _status(error)
    found = {
        "message": error.message,
        "type": "invalid_request_error" if status < 500 else "server_error",
        "param": None,
        "code": _CODES.get(error.name, error.name),
    }
    headers = {"Content-Type": "application/json", **error.headers}
    return ErrorResponse(status, headers, error_body(found), REQUEST_ID)


def error_body(error: Mapping[str, object]) -> bytes:
    """Write an error's members as a body, or as the data of an event."""
    return json.dumps({"error": error}).encode()


def _status(error: ApiError) -> int:
    """Return an error's status; the clients repeat requests after 5xx and 429 by themselves."""
    if isinstance(error, ContainerError):
        return 504 if isinstance(error, ContainerLate) else 502
    return _STATUSES.get(error.name, error.status)
