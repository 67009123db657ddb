"""What a client asks of the model beside the stream: path, query, variant (clauses 1.6-1, 4-7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from partway.gateway.streams.container_leg import DEFAULT_PATH
from partway.protocol.errors import InputValidationError
from partway.protocol.limits import (
    INVOCATION_PATH,
    MAX_ENDPOINT_NAME,
    MAX_INVOCATION_PATH,
    MAX_QUERY_STRING,
    QUERY_STRING,
    is_name,
)

PATH_HEADER = "X-Amzn-SageMaker-Model-Invocation-Path"
QUERY_HEADER = "X-Amzn-SageMaker-Model-Query-String"
VARIANT_HEADER = "X-Amzn-SageMaker-Target-Variant"


@dataclass(frozen=True, slots=True)
class Asked:
    """Path, query and variant as the client wrote them; empty counts as absent (clause 2.1-3)."""

    path: str = ""
    query: str = ""
    variant: str = ""


def asked_by_headers(headers: Mapping[str, str]) -> Asked:
    """Return what a request's headers ask for; ``headers`` is case-insensitive."""
    return Asked(
        headers.get(PATH_HEADER, ""), headers.get(QUERY_HEADER, ""), headers.get(VARIANT_HEADER, "")
    )


def container_target(asked: Asked) -> str:
    """Return the path and query of the request toward the container.

    Raises:
        InputValidationError: path or query is against its pattern; the message says which.
    """
    if asked.path:
        _check_path(asked.path)
    if asked.query and (
        len(asked.query) > MAX_QUERY_STRING or not QUERY_STRING.fullmatch(asked.query)
    ):
        raise InputValidationError(
            f"ModelQueryString must be up to {MAX_QUERY_STRING} characters of key=value pairs "
            "joined by &, values not empty and percent-encoded",
            "InvalidModelQueryString",
        )
    target = f"/{asked.path}" if asked.path else DEFAULT_PATH
    return f"{target}?{asked.query}" if asked.query else target


def check_variant(asked: Asked) -> None:
    """Refuse what cannot be a variant's name (clause 4-7).

    Raises:
        InputValidationError: it cannot.
    """
    if asked.variant and not is_name(asked.variant):
        raise InputValidationError(
            f"TargetVariant must be up to {MAX_ENDPOINT_NAME} letters, digits and hyphens",
            "InvalidTargetVariant",
        )


def _check_path(path: str) -> None:
    """Refuse a path against clause 4-7's pattern, and ``.`` and ``..``, which match the pattern."""
    dotted = any(segment in (".", "..") for segment in path.split("/"))
    if len(path) > MAX_INVOCATION_PATH or dotted or not INVOCATION_PATH.fullmatch(path):
        raise InputValidationError(
            f"ModelInvocationPath must be up to {MAX_INVOCATION_PATH} characters, segments of "
            "letters, digits, '-', '.' and '_' joined by '/', no leading slash, no '.' or '..'",
            "InvalidModelInvocationPath",
        )
