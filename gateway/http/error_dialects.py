"""Error dialects: the form of an API error in a response, for each family of clients.

A route names the dialect that its clients read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from partway.protocol.errors import ApiError


class ErrorResponse(NamedTuple):
    """An error as one whole response.

    Attributes:
        id_header: the name of a header that repeats the request's id; empty for none.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    id_header: str = ""

    def headers_for(self, request_id: str) -> Mapping[str, str]:
        """Return all headers of the response to one request."""
        return {**self.headers, self.id_header: request_id} if self.id_header else self.headers


#: Makes a response from an error.
ErrorDialect = Callable[[ApiError], ErrorResponse]


def aws_rest_json(error: ApiError) -> ErrorResponse:
    """Write an error in AWS's REST JSON protocol: its name is in a header (clause 4-1)."""
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": error.name, **error.headers}
    return ErrorResponse(error.status, headers, error.body())
