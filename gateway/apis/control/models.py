"""The operations on models: CreateModel, DescribeModel, ListModels, DeleteModel (clause 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.control.definitions import DefinitionOperations
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.limits import MAX_ENVIRONMENT_BYTES
from partway.gateway.apis.control.model_data_permission import check_may_read
from partway.gateway.apis.control.resources import kept_of_maker


class ModelOperations(DefinitionOperations):
    kind = "model"
    noun = "Model"

    def _defined(self, members: Mapping[str, Any], identity: Identity) -> Mapping[str, Any]:
        for each in _check_containers(members):
            check_may_read(identity, each)
        return members

    def _kept(self, identity: Identity) -> Mapping[str, Any]:
        return kept_of_maker(identity.principal)

    def _described(self, members: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = dict(members)
        if "PrimaryContainer" in answer:
            answer["PrimaryContainer"] = _container_described(answer["PrimaryContainer"])
        if "Containers" in answer:
            answer["Containers"] = [_container_described(each) for each in answer["Containers"]]
        return answer


def _container_described(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"Mode": "SingleModel", **container}


def _check_containers(members: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Refuse containers whose members are allowed alone, and not together.

    Returns:
        The containers.

    Raises:
        ValidationException: the message names the conflict.
    """
    containers = list(members.get("Containers", ()))
    if ("PrimaryContainer" in members) == bool(containers):
        raise ValidationException(
            "Either PrimaryContainer or Containers must be given, and not both."
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
            which = (
                "The container" if len(several) == 1 else f"Container {number} of the Containers"
            )
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
    return several


def _check_hostnames(hostnames: Sequence[str | None]) -> None:
    """Raise ValidationException if only some containers have a hostname, or two have the same."""
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
