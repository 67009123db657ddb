"""What a client asks of the model beside the stream: path, query, names (clauses 1.6-1, 4-7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from multidict import istr

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

# Looked up for each request: an istr is found among headers in a quarter of a text's time.
TARGET_VARIANT: Final = istr("X-Amzn-SageMaker-Target-Variant")
TARGET_CONTAINER: Final = istr("X-Amzn-SageMaker-Target-Container-Hostname")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the client wrote: path, query, the names of variant and container.

    What is empty counts as absent (clause 2.1-3).
    """

    path: str = ""
    query: str = ""
    variant: str = ""
    container: str = ""


def asked_by_headers(headers: Mapping[str, str]) -> Asked:
    """Return what a request's headers ask for; ``headers`` is case-insensitive."""
    names = (PATH_HEADER, QUERY_HEADER, TARGET_VARIANT, TARGET_CONTAINER)
    return Asked(*(headers.get(name, "") for name in names))


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


def check_names(asked: Asked) -> None:
    """Refuse what cannot be the name of a variant or a container (clause 4-7).

    Raises:
        InputValidationError: it cannot.
    """
    for member, name in (
        ("TargetVariant", asked.variant),
        ("TargetContainerHostname", asked.container),
    ):
        if name and not is_name(name):
            raise InputValidationError(
                f"{member} must be up to {MAX_ENDPOINT_NAME} letters, digits and hyphens",
                f"Invalid{member}",
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
