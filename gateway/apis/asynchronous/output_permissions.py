"""Permissions of an endpoint configuration's maker to store answers and to publish notices.

The gateway does both with its own credentials, long after the configuration was made. So it checks
``s3:PutObject`` before each try and each upload, and ``sns:Publish`` before each delivery.
"""

from __future__ import annotations

from collections.abc import Callable

from partway.gateway.access.creator_permission import MakersLeave
from partway.gateway.apis.asynchronous.requests import AsyncRequest, AttemptFailed, FailureCause
from partway.gateway.arns import Arns
from partway.gateway.storage.places.locations import checked_arn


class OutputPermissions:
    """Checks the current permissions of the makers of endpoint configurations.

    Args:
        may: whether a principal (first) has permission for an action (second) on an ARN (third).
    """

    def __init__(self, may: Callable[[str, str, str], bool], arns: Arns) -> None:
        made, remedy = "the endpoint configuration", "create it anew, and update the endpoint"
        self._leave = MakersLeave(may, arns, made, remedy)

    def check_answer(self, request: AsyncRequest) -> None:
        """Raise AttemptFailed, which names maker and permission, if an answer may not be put."""
        if why := self.refusal_to_put(request.maker, request.output):
            words = f"The answer may not be stored at {request.output}: {why}."
            raise AttemptFailed(FailureCause.ACCESS, words)

    def refusal_to_put(self, maker: str, location: str) -> str:
        """Return why a principal may not store a file at a location; empty if it may."""
        try:
            resource = checked_arn(location)
        except ValueError as error:
            return str(error)
        return self._leave.refusal(maker, "s3:PutObject", resource)

    def refusal_to_publish(self, maker: str, topic: str) -> str:
        """Return why a principal may not publish to a topic's ARN; empty if it may."""
        return self._leave.refusal(maker, "sns:Publish", topic)
