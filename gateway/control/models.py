"""The operations on models: CreateModel, DescribeModel, ListModels, DeleteModel (clause 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        _check_containers(members)
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


def _check_containers(members: Mapping[str, Any]) -> None:
    """Refuse what each member may be, and not all together.

    Raises:
        ValidationException: the message says what.
    """
    containers = list(members.get("Containers", ()))
    if ("PrimaryContainer" in members) == bool(containers):
        raise ValidationException(
            "One of PrimaryContainer and Containers must be given, and not both."
        )
    mode = members.get("InferenceExecutionConfig", {}).get("Mode")
    if mode == "Direct" and not containers:
        raise ValidationException(
            "The Mode of InferenceExecutionConfig is Direct; the model must have Containers, and "
            "no PrimaryContainer."
        )
    _check_hostnames([each.get("ContainerHostname") for each in containers])
    several = containers or [members["PrimaryContainer"]]
    for number, container in enumerate(several, 1):
        if "Image" not in container:
            which = "The container" if len(several) == 1 else f"Number {number} of the Containers"
            raise ValidationException(f"{which} must have an Image.")
    size = sum(
        len(name.encode()) + len(value.encode())
        for container in several
        for name, value in container.get("Environment", {}).items()
    )
    if size > MAX_ENVIRONMENT_BYTES:
        whose = "the container" if len(several) == 1 else "all the Containers"
        raise ValidationException(
            f"The Environment of {whose} has {size} bytes of names and values; it must have at "
            f"most {MAX_ENVIRONMENT_BYTES}."
        )


def _check_hostnames(hostnames: Sequence[str | None]) -> None:
    """Refuse names by which containers could not be told apart.

    Raises:
        ValidationException: some have none though others have; or two have the same.
    """
    named = [each for each in hostnames if each]
    if named and len(named) < len(hostnames):
        raise ValidationException(
            f"{len(named)} of {len(hostnames)} Containers have a ContainerHostname; all must have "
            "one, or none."
        )
    for each in named:
        if named.count(each) > 1:
            raise ValidationException(
                f"The ContainerHostname {each!r} is given to several Containers; each must have "
                "its own."
            )
