"""The operations on models: CreateModel, DescribeModel, ListModels, DeleteModel (clause 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partway.gateway.access.authentication import Identity
from partway.gateway.control.catalogue import Catalogue
from partway.gateway.control.errors import ValidationException
from partway.gateway.control.json_rpc import Answer, ControlOperation
from partway.gateway.control.limits import MAX_ENVIRONMENT_BYTES
from partway.gateway.control.listing import page_of
from partway.gateway.control.tags import new_tags


class ModelOperations:
    """The operations on models.

    Args:
        catalogue: where they are.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @property
    def operations(self) -> Mapping[str, ControlOperation]:
        """The operations, by AWS's names of them."""
        return {
            "CreateModel": self.create,
            "DescribeModel": self.describe,
            "ListModels": self.list,
            "DeleteModel": self.delete,
        }

    async def create(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Write a model down; nothing is looked at or downloaded before an endpoint needs it."""
        return await self.make(members, identity, {})

    async def make(
        self, members: Mapping[str, Any], identity: Identity, kept: Mapping[str, Any]
    ) -> Answer:
        """Make a model.

        Args:
            members: CreateModel's.
            identity: who asks.
            kept: what no caller of the API says of a model, nor is told.
        """
        name = members["ModelName"]
        arn = self._catalogue.allowed(identity, "CreateModel", "model", name)
        tags = new_tags(members, identity, arn)
        _check_container(members)
        asked_for = {key: value for key, value in members.items() if key != "Tags"}
        await self._catalogue.create("model", name, asked_for, tags, kept)
        return {"ModelArn": arn}

    async def describe(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Say what a model was made of, its environment too, as AWS does."""
        name = members["ModelName"]
        arn = self._catalogue.allowed(identity, "DescribeModel", "model", name)
        model = self._catalogue.existing("model", name)
        answer = {"EnableNetworkIsolation": False, **model.members}
        if "PrimaryContainer" in answer:
            answer["PrimaryContainer"] = _described(answer["PrimaryContainer"])
        if "Containers" in answer:
            answer["Containers"] = [_described(each) for each in answer["Containers"]]
        return {**answer, "ModelArn": arn, "CreationTime": model.created}

    async def list(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Say which models there are."""
        identity.check("sagemaker:ListModels", "*")
        listed = self._catalogue.listed("model", "Model")
        return page_of("ListModels", "Models", listed, members)

    async def delete(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Remove a model; configurations may still name it, and endpoints have copies."""
        name = members["ModelName"]
        self._catalogue.allowed(identity, "DeleteModel", "model", name)
        await self._catalogue.delete("model", name)
        return None


def _described(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"Mode": "SingleModel", **container}


def _check_container(members: Mapping[str, Any]) -> None:
    """Refuse what each member may be, and not all together.

    Raises:
        ValidationException: the message says what.
    """
    containers = list(members.get("Containers", ()))
    if ("PrimaryContainer" in members) == bool(containers):
        raise ValidationException(
            "One of PrimaryContainer and Containers must be given, and not both."
        )
    if len(containers) > 1:
        raise ValidationException(
            f"{len(containers)} Containers are given; there must be one: several for each instance "
            "are not run here."
        )
    container = containers[0] if containers else members["PrimaryContainer"]
    if "Image" not in container:
        raise ValidationException("The container must have an Image.")
    size = sum(
        len(name.encode()) + len(value.encode())
        for name, value in container.get("Environment", {}).items()
    )
    if size > MAX_ENVIRONMENT_BYTES:
        raise ValidationException(
            f"The Environment of the container has {size} bytes of names and values; it must have "
            f"at most {MAX_ENVIRONMENT_BYTES}."
        )
