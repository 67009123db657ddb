"""Errors for clients of AWS's Query protocol: forms in, XML out (STS, IAM, older CloudWatch).

Nothing here answers to it; but whoever asks is to read that, and not that the XML was broken.
"""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from partway.gateway.apis.control.errors import UnknownOperation
from partway.gateway.http.error_dialects import ErrorResponse

#: What a request of that protocol is.
FORM: Final = "application/x-www-form-urlencoded"


class UnknownQuery(UnknownOperation):
    """Nothing here answers to an operation of the Query protocol."""


def aws_query(error: UnknownQuery) -> ErrorResponse:
    """The error as that protocol has it."""
    body = (
        "<ErrorResponse><Error><Type>Sender</Type>"
        f"<Code>{error.name}</Code><Message>{escape(error.message)}</Message>"
        "</Error></ErrorResponse>"
    )
    return ErrorResponse(error.status, {"Content-Type": "text/xml", **error.headers}, body.encode())
