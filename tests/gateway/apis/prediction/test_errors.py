"""partway.gateway.apis.prediction.errors: each error, as clients of predictions read it."""

from __future__ import annotations

import json

import pytest

from partway.gateway.apis.prediction.errors import (
    grpc_status,
    prediction_object,
    prediction_text,
)
from partway.protocol.errors import (
    AccessDenied,
    ContainerError,
    ContainerLate,
    DeadlineExceeded,
    InputValidationError,
    InternalServerError,
    NotFound,
    RequestTimeout,
    RequestTooLarge,
    ServiceUnavailable,
    UnknownEndpoint,
    UnrecognizedClient,
    UpgradeRefused,
)

SAID_NOTHING = "the container answered 500 and said nothing"


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InputValidationError("no"), 3, "no"),
        (InputValidationError("no", "MalformedMessage"), 13, "no"),
        (InputValidationError("no", "MessageCount"), 12, "no"),
        (InputValidationError("no", "UnsupportedEncoding"), 12, "no"),
        (UnknownEndpoint("no"), 5, "no"),
        (UnrecognizedClient("no"), 16, "no"),
        (AccessDenied("no"), 7, "no"),
        (NotFound("no"), 12, "no"),
        (RequestTooLarge("no"), 8, "no"),
        (RequestTimeout("no"), 4, "no"),
        (DeadlineExceeded("no"), 4, "no"),
        (InternalServerError("no"), 13, "no"),
        (ServiceUnavailable("no"), 14, "no"),
        (UpgradeRefused("no", 426, {}), 2, "no"),
        (ContainerError("no", 500, '{"error": "Divide é"}'), 13, "Divide %C3%A9"),
    ],
)
def test_calls_of_grpc(error, code, text):
    found = grpc_status(error)
    assert (found.status, found.body) == (200, b"")
    assert found.headers["Content-Type"] == "application/grpc"
    assert found.headers["grpc-accept-encoding"] == "identity,gzip,deflate"
    assert (found.headers["grpc-status"], found.headers["grpc-message"]) == (str(code), text)
    assert error.headers.items() <= found.headers.items()


@pytest.mark.parametrize(
    ("error", "status", "code", "text"),
    [
        (InputValidationError("no"), 400, "INVALID_ARGUMENT", "no"),
        (UnknownEndpoint("no"), 404, "NOT_FOUND", "no"),
        (UnrecognizedClient("no"), 401, "UNAUTHENTICATED", "no"),
        (AccessDenied("no"), 403, "PERMISSION_DENIED", "no"),
        (RequestTooLarge("no"), 413, "INVALID_ARGUMENT", "no"),
        (InternalServerError("no"), 500, "INTERNAL", "no"),
        (ServiceUnavailable("no"), 503, "UNAVAILABLE", "no"),
        (UpgradeRefused("no", 426, {}), 426, "UNKNOWN", "no"),
        (ContainerError("no", 500, "who?\n"), 502, "INTERNAL", "who?"),
        (ContainerError("no", 500, " "), 502, "INTERNAL", SAID_NOTHING),
        (ContainerError("no"), 502, "INTERNAL", "no"),
        (ContainerLate("late"), 504, "DEADLINE_EXCEEDED", "late"),
        (ContainerError("no", 500, '{"error": "Divide"}'), 502, "INTERNAL", "Divide"),
        (ContainerError("no", 500, '{"error": 5}'), 502, "INTERNAL", '{"error": 5}'),
        (ContainerError("no", 500, "[" * 4096), 502, "INTERNAL", "[" * 4096),
    ],
)
def test_online_predictions(error, status, code, text):
    found = prediction_object(error)
    expected = {"error": {"code": status, "message": text, "status": code}}
    assert (found.status, json.loads(found.body)) == (status, expected)
    plain = prediction_text(error)
    assert (plain.status, json.loads(plain.body)) == (status, {"error": text})
    assert found.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)
    assert found.headers["Content-Type"] == "application/json"
