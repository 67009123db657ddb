"""What is alike of models and endpoint configurations: both are made, described, listed, deleted.

Neither runs: it is written down as it was asked for, and endpoints that are made of it have copies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.aws_json.protocol import Answer, ControlOperation
from partway.gateway.apis.control.catalogue import Catalogue
from partway.gateway.apis.control.listing import page_of
from partway.gateway.apis.control.resources import Kind
from partway.gateway.apis.control.tags import new_tags


class DefinitionOperations(ABC):
    """The operations on the resources of a kind that is defined and does not run.

    Attributes:
        kind: of the resources.
        noun: as AWS's names of operations and members have it, such as ``Model``.

    Args:
        catalogue: where they are.
    """

    kind: ClassVar[Kind]
    noun: ClassVar[str]

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @property
    def operations(self) -> Mapping[str, ControlOperation]:
        """The operations, by AWS's names of them."""
        return {
            f"Create{self.noun}": self.create,
            f"Describe{self.noun}": self.describe,
            f"List{self.noun}s": self.list,
            f"Delete{self.noun}": self.delete,
        }

    @abstractmethod
    def _defined(self, members: Mapping[str, Any], identity: Identity) -> Mapping[str, Any]:
        """What is kept of what is asked for.

        Args:
            members: of the input, but for the tags.
            identity: who asks.

        Raises:
            AccessDenied: they may not ask for all of it.
            ValidationException: it cannot be honoured, or does not fit together.
        """

    def _kept(self, identity: Identity) -> Mapping[str, Any]:
        """Notes that the gateway keeps of one that a caller of the API makes."""
        return {}

    @abstractmethod
    def _described(self, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is said of what is kept, by the API's names of members."""

    async def create(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Write a definition down; nothing is looked at or started before an endpoint needs it."""
        return await self.make(members, identity, self._kept(identity))

    async def make(
        self, members: Mapping[str, Any], identity: Identity, kept: Mapping[str, Any]
    ) -> Answer:
        """Make a definition.

        Args:
            members: of the input of the operation that creates one.
            identity: who asks.
            kept: what no caller of the API says of it, nor is told.
        """
        name, arn = self._allowed(f"Create{self.noun}", members, identity)
        tags = new_tags(members, identity, arn)
        asked_for = {key: value for key, value in members.items() if key != "Tags"}
        defined = self._defined(asked_for, identity)
        await self._catalogue.create(self.kind, name, defined, tags, kept)
        return {f"{self.noun}Arn": arn}

    async def describe(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Say what it was made of; a model's environment too, as AWS does."""
        name, arn = self._allowed(f"Describe{self.noun}", members, identity)
        found = self._catalogue.existing(self.kind, name)
        described = {"EnableNetworkIsolation": False, **self._described(found.members)}
        return {**described, f"{self.noun}Arn": arn, "CreationTime": found.created}

    async def list(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Say which there are."""
        operation = f"List{self.noun}s"
        identity.check(f"sagemaker:{operation}", "*")
        return page_of(
            operation, f"{self.noun}s", self._catalogue.listed(self.kind, self.noun), members
        )

    async def delete(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Remove one, also where another resource names it."""
        name, _arn = self._allowed(f"Delete{self.noun}", members, identity)
        await self._catalogue.delete(self.kind, name)
        return None

    def _allowed(
        self, operation: str, members: Mapping[str, Any], identity: Identity
    ) -> tuple[str, str]:
        """Name and ARN of the one that is meant, for who may do that with it.

        Raises:
            AccessDenied: they may not.
        """
        name: str = members[f"{self.noun}Name"]
        return name, self._catalogue.allowed(identity, operation, self.kind, name)
