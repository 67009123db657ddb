"""The operations that models and endpoint configurations share: create, describe, list and delete.

Neither runs. A definition is stored as it was requested, and endpoints keep copies.
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
        noun: the noun in AWS's names of operations and members, such as ``Model``.
    """

    kind: ClassVar[Kind]
    noun: ClassVar[str]

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @property
    def operations(self) -> Mapping[str, ControlOperation]:
        return {
            f"Create{self.noun}": self.create,
            f"Describe{self.noun}": self.describe,
            f"List{self.noun}s": self.list,
            f"Delete{self.noun}": self.delete,
        }

    @abstractmethod
    def _defined(self, members: Mapping[str, Any], identity: Identity) -> Mapping[str, Any]:
        """Return the members to store.

        Args:
            members: the input, without tags.

        Raises:
            AccessDenied: the caller lacks a permission.
            ValidationException: a member cannot be honoured, or members conflict.
        """

    def _kept(self, identity: Identity) -> Mapping[str, Any]:
        """Return the gateway's notes on a definition that a caller of the API makes."""
        return {}

    @abstractmethod
    def _described(self, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the described members, by the API's names, from the stored ones."""

    async def create(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Store a definition; nothing is looked up or started before an endpoint needs it."""
        return await self.make(members, identity, self._kept(identity))

    async def make(
        self, members: Mapping[str, Any], identity: Identity, kept: Mapping[str, Any]
    ) -> Answer:
        """Make a definition.

        Args:
            kept: notes that no caller of the API sets or sees.
        """
        name, arn = self._allowed(f"Create{self.noun}", members, identity)
        tags = new_tags(members, identity, arn)
        asked_for = {key: value for key, value in members.items() if key != "Tags"}
        defined = self._defined(asked_for, identity)
        await self._catalogue.create(self.kind, name, defined, tags, kept)
        return {f"{self.noun}Arn": arn}

    async def describe(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Describe a definition, including a model's environment, as AWS does."""
        name, arn = self._allowed(f"Describe{self.noun}", members, identity)
        found = self._catalogue.existing(self.kind, name)
        described = {"EnableNetworkIsolation": False, **self._described(found.members)}
        return {**described, f"{self.noun}Arn": arn, "CreationTime": found.created}

    async def list(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        operation = f"List{self.noun}s"
        identity.check(f"sagemaker:{operation}", "*")
        return page_of(
            operation, f"{self.noun}s", self._catalogue.listed(self.kind, self.noun), members
        )

    async def delete(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Remove a definition, even if another resource names it."""
        name, _arn = self._allowed(f"Delete{self.noun}", members, identity)
        await self._catalogue.delete(self.kind, name)
        return None

    def _allowed(
        self, operation: str, members: Mapping[str, Any], identity: Identity
    ) -> tuple[str, str]:
        """Return a definition's name and ARN, or raise AccessDenied."""
        name: str = members[f"{self.noun}Name"]
        return name, self._catalogue.allowed(identity, operation, self.kind, name)
