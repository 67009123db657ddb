"""The gateway's own errors as OpenAI's clients read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from partway.gateway.http.error_dialects import ErrorResponse
from partway.protocol.errors import (
    ApiError,
    ContainerError,
    ContainerLate,
    ExpiredToken,
    MissingAuthenticationToken,
    UnrecognizedClient,
)
from partway.protocol.openai.errors import error_body

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
    body = error_body(_message(error), status, _CODES.get(error.name, error.name))
    headers = {"Content-Type": "application/json", **error.headers}
    return ErrorResponse(status, headers, body, REQUEST_ID)


def _message(error: ApiError) -> str:
    """Return an error's message: AWS's words stay on AWS's operations."""
    match error:
        case ContainerError() if said := error.original_message.strip():
            return said if said in error.message else f"{error.message}: {said}"
        case ExpiredToken() | MissingAuthenticationToken() | UnrecognizedClient():
            return f"{error.message.removesuffix('.')}; `partway token` makes an API key"
        case _:
            return error.message


def _status(error: ApiError) -> int:
    """Return an error's status; the clients repeat requests after 5xx and 429 by themselves."""
    if isinstance(error, ContainerError):
        return 504 if isinstance(error, ContainerLate) else 502
    return _STATUSES.get(error.name, error.status)
