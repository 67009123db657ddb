"""partway.gateway.apis.runtime.errors: names and statuses of boto3's runtime."""

from __future__ import annotations

import json

import pytest

from partway.gateway.apis.runtime.errors import aws_runtime
from partway.protocol.errors import (
    AccessDenied,
    ContainerError,
    InputValidationError,
    InternalServerError,
    RequestTooLarge,
    ServiceUnavailable,
)


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
