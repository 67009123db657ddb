"""The target of a stream in an endpoint: path, query, variant, container (clauses 1.6-1, 4-7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

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

# Looked up for each request: lookup of an istr takes a quarter of a text's time.
TARGET_VARIANT: Final = istr("X-Amzn-SageMaker-Target-Variant")
TARGET_CONTAINER: Final = istr("X-Amzn-SageMaker-Target-Container-Hostname")


@dataclass(frozen=True, slots=True)
class InvocationTarget:
    """The target as the client wrote it; empty counts as absent (clause 2.1-3)."""

    path: str = ""
    query: str = ""
    variant: str = ""
    container: str = ""

    @classmethod
    def of_headers(cls, headers: Mapping[str, str]) -> Self:
        """Read the target from a request's headers, whose names are case-insensitive."""
        names = (PATH_HEADER, QUERY_HEADER, TARGET_VARIANT, TARGET_CONTAINER)
        return cls(*(headers.get(name, "") for name in names))

    def path_and_query(self) -> str:
        """Return path and query of the request toward the container.

        Raises:
            InputValidationError: path or query violates its pattern; the message says which.
        """
        if self.path:
            _check_path(self.path)
        query = self.query
        if query and (len(query) > MAX_QUERY_STRING or not QUERY_STRING.fullmatch(query)):
            raise InputValidationError(
                f"ModelQueryString must be up to {MAX_QUERY_STRING} characters of key=value pairs "
                "joined by &, values not empty and percent-encoded",
                "InvalidModelQueryString",
            )
        path = f"/{self.path}" if self.path else DEFAULT_PATH
        return f"{path}?{query}" if query else path

    def check_names(self) -> None:
        """Refuse names that no variant or container can have (clause 4-7).

        Raises:
            InputValidationError: a name is invalid.
        """
        for member, name in (
            ("TargetVariant", self.variant),
            ("TargetContainerHostname", self.container),
        ):
            if name and not is_name(name):
                raise InputValidationError(
                    f"{member} must be up to {MAX_ENDPOINT_NAME} letters, digits and hyphens",
                    f"Invalid{member}",
                )


def _check_path(path: str) -> None:
    """Refuse a path that violates clause 4-7's pattern, and ``.`` and ``..``, which match it."""
    dotted = any(segment in (".", "..") for segment in path.split("/"))
    if len(path) > MAX_INVOCATION_PATH or dotted or not INVOCATION_PATH.fullmatch(path):
        raise InputValidationError(
            f"ModelInvocationPath must have at most {MAX_INVOCATION_PATH} characters. Its "
            "segments, joined by '/', have letters, digits, '-', '.' and '_'; none is '.' or '..'",
            "InvalidModelInvocationPath",
        )
