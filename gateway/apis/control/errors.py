"""Errors of the control plane, by AWS's names (clause 5)."""

from __future__ import annotations

from partway.protocol.errors import ApiError, InternalServerError, ServiceUnavailable


class ValidationException(ApiError):
    """What is asked for is not allowed, or conflicts with what there is."""

    name = "ValidationException"
    status = 400


class SerializationException(ApiError):
    """The request's body is not what the operation's input is made of."""

    name = "SerializationException"
    status = 400


class UnknownOperation(ApiError):
    """Nothing here answers to this ``X-Amz-Target``."""

    name = "UnknownOperationException"
    status = 400


class ResourceLimitExceeded(ApiError):
    """There are as many resources of a kind as there may be."""

    name = "ResourceLimitExceeded"
    status = 400


class ResourceInUse(ApiError):
    """There is one of its name already, of a kind whose names are never used again."""

    name = "ResourceInUse"
    status = 400


class NotWrittenDown(InternalServerError):
    """What is asked for cannot be written down, so it is not done.

    Args:
        why: for the operator's log.
    """

    def __init__(self, why: str) -> None:
        super().__init__("the gateway cannot write down what was asked for; its log has the reason")
        self._why = why

    @property
    def for_operator(self) -> str:
        return f"nothing can be written down: {self._why}"


class NotReadYet(ServiceUnavailable):
    """The disk has not given what was created through the gateway, so nothing is said of it.

    Args:
        why: for the operator's log.
    """

    def __init__(self, why: str) -> None:
        super().__init__(
            "the gateway cannot read yet what was created through it; its log has the reason"
        )
        self._why = why

    @property
    def for_operator(self) -> str:
        return f"what was created cannot be read yet: {self._why}"
