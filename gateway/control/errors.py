"""Errors of the control plane, by AWS's names (clause 5)."""

from __future__ import annotations

from partway.protocol.errors import ApiError


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
