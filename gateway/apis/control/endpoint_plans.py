"""From an endpoint configuration and its models to what the fleet runs.

What cannot be honoured is refused by name. The operations that create models and configurations
refuse what they can see by themselves; here is refused what takes both, or this machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from partway.gateway.apis.control.environments import EVERY_VARIABLE, environment_of
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.model_data_permission import model_data_of, named_places
from partway.gateway.apis.control.operator_models import command_of
from partway.gateway.apis.control.vertex_models import vertex_of, without_what_it_says
from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    Endpoint,
    Execution,
    Image,
    InstanceTimes,
    OneContainer,
    OneSource,
    Program,
    Variant,
)
from partway.gateway.fleet.launchers.images import is_image, resolve_image
from partway.gateway.fleet.limits import MAX_ENDPOINT_CONTAINERS, MAX_INSTANCES
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.locations import is_local
from partway.gateway.storage.places.pinned_path import PinnedPath

#: Members of the API's inputs and outputs, by their names.
Members = Mapping[str, Any]

#: Types of instances that have GPUs, but for those that have the makers' own accelerators.
_WITH_GPUS: Final = ("ml.g", "ml.p")


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What an endpoint is made of: copies, so that what they were made from may be deleted.

    Attributes:
        config: the members of its configuration.
        models: those of the models that the configuration names, by the models' names.
        instances: by variant, how many there are to be where the configuration says otherwise.
        weights: likewise the weights.
        deployment: how it was asked to be deployed, in the API's words.
        of_operator: what the gateway's operator says of models beside that, by the models' names;
            those of the API's callers are not in it.
        makers: the principals that made the models of callers, by the models' names.
        config_maker: the principal that made the configuration; empty if it is unknown.
    """

    config: Members = field(repr=False)
    models: Mapping[str, Members] = field(repr=False)
    instances: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    deployment: Members = field(default_factory=dict)
    of_operator: Mapping[str, Members] = field(default_factory=dict, repr=False)
    makers: Mapping[str, str] = field(default_factory=dict)
    config_maker: str = ""

    @property
    def config_name(self) -> str:
        """The configuration's name."""
        name: str = self.config["EndpointConfigName"]
        return name

    @property
    def variants(self) -> tuple[Members, ...]:
        """The configuration's variants."""
        return tuple(self.config["ProductionVariants"])

    @property
    def variant_names(self) -> tuple[str, ...]:
        """The names of the variants."""
        return tuple(each["VariantName"] for each in self.variants)

    @property
    def asks_for_gpus(self) -> bool:
        """Whether any variant's instances are of a type that has GPUs."""
        return any(_has_gpu(each) for each in self.variants)

    @property
    def names_files(self) -> bool:
        """Whether model data are on this machine: :func:`planned` looks at its file systems."""
        containers = (one for each in self.variants for one in self.containers_of(each))
        return any(is_local(place) for one in containers for place in named_places(one))

    @property
    def names_containers(self) -> bool:
        """Whether any variant's requests must each name the container that they are for."""
        return any(self.execution_of(each) == "direct" for each in self.variants)

    @property
    def containers(self) -> int:
        """How many containers the instances of all variants have."""
        variants = self.variants
        return sum(self.instances_of(each) * len(self.containers_of(each)) for each in variants)

    def instances_of(self, variant: Members) -> int:
        """How many instances a variant is to have."""
        return self.instances.get(variant["VariantName"], variant.get("InitialInstanceCount", 1))

    def weight_of(self, variant: Members) -> float:
        """A variant's weight."""
        return self.weights.get(variant["VariantName"], variant.get("InitialVariantWeight", 1.0))

    def containers_of(self, variant: Members) -> tuple[Members, ...]:
        """The definitions of the containers that each of a variant's instances has.

        Raises:
            ValidationException: its model has none.
        """
        model = self.models[variant["ModelName"]]
        containers = [model["PrimaryContainer"]] if "PrimaryContainer" in model else []
        containers += model.get("Containers", ())
        if not containers:
            raise ValidationException(
                f"The model {variant['ModelName']!r} has no container; it must have one at least."
            )
        return tuple(containers)

    def maker_of(self, model: str) -> str | None:
        """The principal that made a model; empty if that is unknown, None for the operator's."""
        return None if model in self.of_operator else self.makers.get(model, "")

    def execution_of(self, variant: Members) -> Execution:
        """How several containers of an instance of a variant are asked."""
        model = self.models[variant["ModelName"]]
        mode: str = model.get("InferenceExecutionConfig", {}).get("Mode", "Serial")
        return "direct" if mode == "Direct" else "serial"


@dataclass(frozen=True, slots=True)
class ApiSurroundings:
    """What endpoints of the API have from outside of their configurations.

    Attributes:
        policy: of their streams.
        times: of their instances, where a configuration says nothing.
        images: commands, or running containers, that stand for images.
        roots: below which model data of this machine may be.
        gpus: how many there are on this machine.
        environment: patterns of the variables that programs may be given.
    """

    policy: StreamPolicy
    times: InstanceTimes
    images: Mapping[str, Program | Attached]
    roots: LocalRoots
    gpus: int = 0
    environment: tuple[str, ...] = ()


def planned(name: str, plan: DeploymentPlan, around: ApiSurroundings) -> Endpoint:
    """What the fleet is to run for an endpoint.

    Looks at the file system where model data are on this machine.

    Args:
        name: the endpoint's.
        plan: what it is made of.
        around: what it has from elsewhere.

    Raises:
        ValidationException: something of it cannot be honoured; the message names it.
    """
    if not any(plan.weight_of(each) for each in plan.variants):
        raise ValidationException(
            "The weight of each variant is 0; one at least must have a weight above 0."
        )
    variants = tuple(_variant_of(plan, each, around) for each in plan.variants)
    _check_containers(plan)
    return Endpoint(name, around.policy, variants, config=plan.config_name)


def _variant_of(plan: DeploymentPlan, variant: Members, around: ApiSurroundings) -> Variant:
    model, definitions = variant["ModelName"], plan.containers_of(variant)
    of_operator, execution = plan.of_operator.get(model), plan.execution_of(variant)
    if of_operator is not None:
        around = _for_operator(around)
    containers = tuple(
        _container_of(plan, model, number, each, around)
        for number, each in enumerate(definitions, 1)
    )
    several = Variant(
        source=Containers(containers, execution),
        name=variant["VariantName"],
        instances=_checked_count(variant["VariantName"], plan.instances_of(variant)),
        weight=plan.weight_of(variant),
        gpus=min(1, around.gpus) if _has_gpu(variant) else 0,
        times=_times_of(variant, containers, around.times),
    )
    if len(containers) > 1 or execution == "direct":
        return several
    (only,) = containers
    hostname = definitions[0].get("ContainerHostname") if isinstance(only.source, Image) else None
    return dataclasses.replace(several.of(only), container_hostname=hostname)


def _container_of(
    plan: DeploymentPlan, model: str, number: int, container: Members, around: ApiSurroundings
) -> OneContainer:
    of_operator = plan.of_operator.get(model)
    source = command_of(of_operator or {}) or _source_of(model, container, around)
    # A container that runs already has its model.
    attached = isinstance(source, Attached)
    model_data = None if attached else model_data_of(container, around.roots)
    if (vertex := vertex_of(container)) is not None:
        container = without_what_it_says(container)
    return OneContainer(
        hostname=container.get("ContainerHostname") or f"container-{number}",
        source=source,
        model_data=model_data,
        model_maker=None if model_data is None else plan.maker_of(model),
        pinned=None if of_operator is not None else _pinned(model_data),
        environment=environment_of(model, container, source, around.environment),
        vertex=vertex,
    )


def _for_operator(around: ApiSurroundings) -> ApiSurroundings:
    """What models of the gateway's operator have: who runs it may run everything as it does."""
    return dataclasses.replace(around, roots=around.roots.for_operator, environment=EVERY_VARIABLE)


def _check_containers(plan: DeploymentPlan) -> None:
    """Refuse more programs than one call may start."""
    if plan.containers > MAX_ENDPOINT_CONTAINERS:
        raise ValidationException(
            f"The instances of all variants have {plan.containers} containers; there must be "
            f"at most {MAX_ENDPOINT_CONTAINERS}."
        )


def _checked_count(variant: str, count: int) -> int:
    if not 1 <= count <= MAX_INSTANCES:
        raise ValidationException(
            f"{count} instances of the variant {variant!r} are asked for; there must be from 1 to "
            f"{MAX_INSTANCES}."
        )
    return count


def _source_of(model: str, container: Members, around: ApiSurroundings) -> OneSource:
    uri = container.get("Image", "")
    if uri not in around.images and not is_image(uri):
        raise ValidationException(
            f"{uri!r} is the Image of the model {model!r}; it must be an image's name, such as "
            "chat:1 or registry.example/chat:1."
        )
    return resolve_image(uri, around.images)


def _has_gpu(variant: Members) -> bool:
    kind: str = variant.get("InstanceType", "")
    return kind.startswith(_WITH_GPUS)


def _times_of(
    variant: Members, containers: Iterable[OneContainer], times: InstanceTimes
) -> InstanceTimes:
    if all(each.vertex is not None for each in containers):
        times = times.of_vertex
    startup = variant.get("ContainerStartupHealthCheckTimeoutInSeconds", times.startup_timeout)
    download = variant.get("ModelDataDownloadTimeoutInSeconds", times.download_timeout)
    return dataclasses.replace(times, startup_timeout=startup, download_timeout=download)


def _pinned(model_data: str | None) -> PinnedPath | None:
    if model_data is None or not is_local(model_data):
        return None
    return PinnedPath.of(Path(model_data))
