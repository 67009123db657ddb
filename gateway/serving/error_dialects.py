"""How an error of the API reads in a response, for each family of clients.

A route names the dialect that its clients read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from partway.protocol.errors import ApiError


class ErrorResponse(NamedTuple):
    """An error as one whole response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


#: Makes a response of an error.
ErrorDialect = Callable[[ApiError], ErrorResponse]


def aws_rest_json(error: ApiError) -> ErrorResponse:
    """AWS's REST JSON protocol: the name in a header, the members in the body (clause 4-1)."""
    headers = {
        "Content-Type": "application/json",
        "x-amzn-ErrorType": error.name,
        **error.headers,
    }
    return ErrorResponse(error.status, headers, error.body())
