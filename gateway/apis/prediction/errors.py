"""Errors for clients of predictions: in the forms of Google, KServe, TF Serving and gRPC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from partway.gateway.http.error_dialects import ErrorResponse
from partway.protocol.errors import ApiError, ContainerError, ContainerLate
from partway.protocol.grpc.metadata import HEAD, Code, status
from partway.protocol.json.strict import NotJson, parsed

#: Statuses of the gateway's own refusals that differ from AWS's: the client must authenticate.
_OF_PREDICTION: Mapping[str, int] = {
    "ExpiredTokenException": 401,
    "MissingAuthenticationTokenException": 401,
    "UnrecognizedClientException": 401,
}

#: Statuses of a container that its client gets unchanged: the client's own mistakes, and requests
#: to wait. All others count as trouble between gateway and container. So do 401 and 403, with which
#: the container has refused the gateway.
_KEPT: Final = frozenset({400, 404, 409, 413, 415, 422, 429, 503})

#: Statuses whose ``Retry-After`` is passed on to a client.
_WAIT: Final = frozenset({429, 503})

#: Google's names of statuses (google.rpc.Code).
_CODES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def prediction_object(error: ApiError) -> ErrorResponse:
    """Return an error as Google's clients read it: ``{"error": {"code", "message", "status"}}``."""
    status = _prediction_status(error)
    found = {
        "code": status,
        "message": _prediction_text(error),
        "status": _CODES.get(status, "UNKNOWN"),
    }
    return _prediction_error(error, status, found)


def prediction_text(error: ApiError) -> ErrorResponse:
    """Return an error as ``{"error": "…"}``: the document's form, and KServe's and TF Serving's."""
    return _prediction_error(error, _prediction_status(error), _prediction_text(error))


# --- gRPC ----------------------------------------------------------------------------------------

#: gRPC's statuses of errors whose code differs from Google's REST, by the name of the error …
_CALLS: Mapping[str, Code] = {
    "DeadlineExceededException": Code.DEADLINE_EXCEEDED,
    "RequestEntityTooLargeException": Code.RESOURCE_EXHAUSTED,
    "UnknownOperationException": Code.UNIMPLEMENTED,
    "UnsupportedMediaTypeException": Code.UNIMPLEMENTED,
}

#: … and by the ErrorCode.
_CALLS_BY_CODE: Mapping[object, Code] = {
    "MalformedMessage": Code.INTERNAL,
    "MessageCount": Code.UNIMPLEMENTED,
    "UnsupportedEncoding": Code.UNIMPLEMENTED,
}


def grpc_status(error: ApiError) -> ErrorResponse:
    """Return a head that is the whole response, with the call's status (Trailers-Only)."""
    name = _CODES.get(_prediction_status(error), "UNKNOWN")
    by_name = _CALLS.get(error.name, Code[name])
    code = _CALLS_BY_CODE.get(error.members.get("ErrorCode"), by_name)
    headers = {**HEAD, **status(code, _prediction_text(error)), **_prediction_headers(error)}
    return ErrorResponse(200, headers, b"")


# --- Shared parts --------------------------------------------------------------------------------


def _prediction_status(error: ApiError) -> int:
    if error.members.get("ErrorCode") == "EndpointNotFound":
        return 404
    if isinstance(error, ContainerLate):
        return 504
    if isinstance(error, ContainerError):
        return error.original_status if error.original_status in _KEPT else 502
    return _OF_PREDICTION.get(error.name, error.status)


def _prediction_text(error: ApiError) -> str:
    """Return the message; a container's own words are returned alone, if there are any."""
    if not isinstance(error, ContainerError):
        return error.message
    said = error.original_message.strip()
    if not said:
        answered = error.original_status
        return f"the container answered {answered} and said nothing" if answered else error.message
    try:
        found = parsed(said.encode())
    except NotJson:
        return said
    within = found.get("error") if isinstance(found, dict) else None
    if isinstance(within, dict):  # the form of Google's services and of OpenAI's
        within = within.get("message")
    return within if isinstance(within, str) else said


def _prediction_headers(error: ApiError) -> Mapping[str, str]:
    if isinstance(error, ContainerError) and error.retry_after and error.original_status in _WAIT:
        return {**error.headers, "Retry-After": error.retry_after}
    return error.headers


def _prediction_error(error: ApiError, status: int, found: object) -> ErrorResponse:
    headers = {"Content-Type": "application/json", **_prediction_headers(error)}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return ErrorResponse(status, headers, json.dumps({"error": found}).encode())
