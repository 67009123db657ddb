"""Errors of the control plane, by AWS's names (clause 5)."""

from __future__ import annotations

from partway.protocol.errors import ApiError, InternalServerError, ServiceUnavailable


class ValidationException(ApiError):
    """The request is not allowed, or conflicts with existing resources."""

    name = "ValidationException"
    status = 400


class SerializationException(ApiError):
    name = "SerializationException"
    status = 400


class UnknownOperation(ApiError):
    name = "UnknownOperationException"
    status = 400


class ResourceLimitExceeded(ApiError):
    name = "ResourceLimitExceeded"
    status = 400


class ResourceInUse(ApiError):
    """The name is taken, in a kind whose names are never used again."""

    name = "ResourceInUse"
    status = 400


class NotWrittenDown(InternalServerError):
    """The change cannot be stored, so it is not made.

    Args:
        why: the reason, for the operator's log.
    """

    def __init__(self, why: str) -> None:
        super().__init__("the gateway cannot store the change; its log has the reason")
        self._why = why

    @property
    def for_operator(self) -> str:
        return f"a change cannot be stored: {self._why}"


class NotReadYet(ServiceUnavailable):
    """The disk has not given the stored resources yet, so requests about them are refused.

    Args:
        why: the reason, for the operator's log.
    """

    def __init__(self, why: str) -> None:
        super().__init__("the gateway cannot read its stored resources yet; its log has the reason")
        self._why = why

    @property
    def for_operator(self) -> str:
        return f"stored resources cannot be read yet: {self._why}"
