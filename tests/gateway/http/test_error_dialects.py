from __future__ import annotations

import json

import pytest

from partway.gateway.http.error_dialects import (
    aws_rest_json,
    aws_runtime,
)
from partway.protocol.errors import (
    AccessDenied,
    ContainerError,
    InputValidationError,
    InternalServerError,
    RequestTooLarge,
    ServiceUnavailable,
    UpgradeRefused,
)


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


@pytest.mark.clause("4-1")
@pytest.mark.parametrize(
    ("error", "status", "name", "members"),
    [
        (
            ServiceUnavailable("full"),
            503,
            "ServiceUnavailableError",
            {"Message": "full", "ErrorCode": "ServiceUnavailable"},
        ),
        (
            ContainerError("no", 403, "who?"),
            424,
            "ModelError",
            {
                "Message": "no",
                "OriginalStatusCode": 403,
                "OriginalMessage": "who?",
                "LogStreamArn": "",
                "ErrorCode": "ModelError",
            },
        ),
    ],
)
def test_awss(error, status, name, members):
    response = aws_rest_json(error)
    assert response.status == status
    assert response.headers == {"Content-Type": "application/json", "x-amzn-ErrorType": name}
    assert json.loads(response.body) == members


def test_an_errors_own_headers_go_with_it():
    refused = UpgradeRefused("another version", 426, {"Sec-WebSocket-Version": "13"})
    assert aws_rest_json(refused).headers["Sec-WebSocket-Version"] == "13"


@pytest.mark.clause("4-5")
@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (InputValidationError("no"), 400, "ValidationError"),
        (RequestTooLarge("no"), 400, "ValidationError"),
        (InternalServerError("no"), 500, "InternalFailure"),
        (ServiceUnavailable("no"), 503, "ServiceUnavailable"),
        (ContainerError("no", 403, "who?"), 424, "ModelError"),
        (AccessDenied("no"), 403, "AccessDeniedException"),
    ],
)
def test_the_runtimes(error, status, name):
    response = aws_runtime(error)
    assert (response.status, response.headers["x-amzn-ErrorType"]) == (status, name)
    members = json.loads(response.body)
    assert members.pop("Message") == "no"
    originals = {"OriginalStatusCode": 403, "OriginalMessage": "who?", "LogStreamArn": ""}
    assert members == (originals if name == "ModelError" else {})
