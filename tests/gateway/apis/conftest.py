"""A control plane without HTTP: its operations, asked as the protocol asks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from partway.gateway.access.authentication import ANYBODY, Identity
from partway.gateway.apis.control.control_plane import ControlPlane
from partway.gateway.apis.control.resources import Resources
from partway.gateway.arns import Arns
from partway.gateway.storage.store.memory import MemoryStore
from tests.gateway.streams.fakes import FakeClock

ACCOUNT = "123456789012"
ARN = f"arn:aws:sagemaker:eu-west-1:{ACCOUNT}:"

ROLE = f"arn:aws:iam::{ACCOUNT}:role/any"


class AskedPlane:
    """A control plane, and the store and the time that it has.

    Attributes:
        now: epoch seconds, a second later after each call.
        store: what is written down.
        plane: the control plane.
    """

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.store = MemoryStore()
        self.resources = Resources(self.store, FakeClock())
        arns = Arns("eu-west-1", ACCOUNT)
        self.plane = ControlPlane(self.resources, arns, lambda: self.now, FakeClock())

    async def __call__(
        self, operation: str, identity: Identity = ANYBODY, **members: Any
    ) -> Mapping[str, Any]:
        """Ask for an operation, and return its output; an empty one where it has none."""
        checked = await self.plane.checked(operation, members)
        answer = await self.plane.operations[operation](checked, identity, "id")
        self.now += 1
        return {} if answer is None else answer

    async def model(self, name: str = "echo", **members: Any) -> str:
        """Make a model, and return its ARN."""
        container = {"Image": "echo", **members.pop("container", {})}
        answer = await self("CreateModel", ModelName=name, PrimaryContainer=container, **members)
        arn: str = answer["ModelArn"]
        return arn


@pytest.fixture
def ask() -> AskedPlane:
    """A control plane that has nothing yet."""
    return AskedPlane()


class Limited:
    """Somebody who may do some things, and all that they were asked leave for."""

    def __init__(self, *may: str) -> None:
        self.asked: list[tuple[str, str]] = []
        self.identity = Identity("somebody", may=self._may)
        self._allowed = may

    def _may(self, action: str, resource: str) -> bool:
        self.asked.append((action, resource))
        return action in self._allowed
