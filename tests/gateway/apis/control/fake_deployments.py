"""Deployments that go as a test says, for whatever asks for one."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from partway.gateway.apis.control.deployments import DeploymentAsked
from partway.protocol.errors import ApiError


def said(
    state: str,
    config: str = "chat-v1",
    reason: str = "",
    *,
    name: str = "chat",
    created: float = 1.0,
) -> dict[str, Any]:
    """What DescribeEndpoint says, of all that it says."""
    answer = {
        "EndpointName": name,
        "EndpointStatus": state,
        "EndpointConfigName": config,
        "CreationTime": created,
    }
    return {**answer, "FailureReason": reason} if reason else answer


class FakeDeployments:
    """Deployments of which each is begun, whatever it is.

    Attributes:
        described: what is said of the endpoint, look by look; the last of it for ever.
        asked: what was to be deployed, by the endpoints' names.
        deleted: the endpoints that were to go.
        refusal: what a change is refused with; None for none.
        operation: by which endpoints are begun.
        gone: what they have no more.
    """

    def __init__(self) -> None:
        self.described: deque[Mapping[str, Any] | None] = deque([None])
        self.asked: list[tuple[str, DeploymentAsked]] = []
        self.deleted: list[str] = []
        self.refusal: ApiError | None = None
        self.operation = "CreateEndpoint"
        self.gone: list[str] = []

    async def describe(self, name: str) -> Mapping[str, Any] | None:
        return self.described[0] if len(self.described) == 1 else self.described.popleft()

    async def deploy(self, name: str, asked: DeploymentAsked) -> Mapping[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append((name, asked))
        new = f"{name}-v1"
        return {
            "ModelName": new,
            "EndpointConfigName": new,
            "Operation": self.operation,
            "Gone": self.gone,
        }

    async def delete(self, name: str) -> Mapping[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        self.deleted.append(name)
        return {"Deleted": [f"endpoint/{name}", f"endpoint-config/{name}-v1", f"model/{name}-v1"]}
