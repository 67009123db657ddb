"""Errors with the names of boto3's ``sagemaker-runtime`` (clause 4-5)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from partway.gateway.http.error_dialects import ErrorResponse
from partway.protocol.errors import ApiError

#: Names and statuses of our errors in InvokeEndpoint and related operations (clause 4-5).
_NAMES: Mapping[str, tuple[str, int]] = {
    "InputValidationError": ("ValidationError", 400),
    "RequestEntityTooLargeException": ("ValidationError", 400),
    "InternalServerError": ("InternalFailure", 500),
    "ServiceUnavailableError": ("ServiceUnavailable", 503),
}


def aws_runtime(error: ApiError) -> ErrorResponse:
    """Write an error with the names of boto3's ``sagemaker-runtime`` (clause 4-5).

    The protocol is AWS's REST JSON. The service model's errors have no ``ErrorCode``.
    """
    name, status = _NAMES.get(error.name, (error.name, error.status))
    members = {key: value for key, value in error.members.items() if key != "ErrorCode"}
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": name, **error.headers}
    return ErrorResponse(
        status, headers, json.dumps({"Message": error.message, **members}).encode()
    )
