from __future__ import annotations

import json

import pytest

from partway.gateway.http.error_dialects import (
    aws_rest_json,
)
from partway.protocol.errors import (
    ContainerError,
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
