"""Plans of endpoints: from an endpoint configuration and its models to the fleet's endpoint.

A request that cannot be honoured is refused by name. The operations that create models and
configurations refuse what they can check alone. This module makes the checks that need both, or
this machine.
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

#: Members of the API's inputs and outputs, by name.
Members = Mapping[str, Any]

#: Prefixes of instance types with GPUs; types with other accelerators begin differently.
_WITH_GPUS: Final = ("ml.g", "ml.p")


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """Copies of an endpoint's configuration and models, so that the originals may be deleted.

    Attributes:
        models: the members of the configuration's models, by the models' names.
        instances: numbers of instances by variant, where they differ from the configuration.
        weights: weights by variant, where they differ from the configuration.
        deployment: the requested ``DeploymentConfig``.
        of_operator: the operator's notes on models, by the models' names; models of the API's
            callers have none.
        makers: the principals that made the models of callers, by the models' names.
        config_maker: the principal that made the configuration; empty if unknown.
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
        name: str = self.config["EndpointConfigName"]
        return name

    @property
    def variants(self) -> tuple[Members, ...]:
        return tuple(self.config["ProductionVariants"])

    @property
    def variant_names(self) -> tuple[str, ...]:
        return tuple(each["VariantName"] for each in self.variants)

    @property
    def asks_for_gpus(self) -> bool:
        return any(_has_gpu(each) for each in self.variants)

    @property
    def names_files(self) -> bool:
        """Whether model data is on this machine; :func:`planned` then looks at the file systems."""
        containers = (one for each in self.variants for one in self.containers_of(each))
        return any(is_local(place) for one in containers for place in named_places(one))

    @property
    def names_containers(self) -> bool:
        """Whether a variant's requests must name their container."""
        return any(self.execution_of(each) == "direct" for each in self.variants)

    @property
    def containers(self) -> int:
        """The number of containers of all instances of all variants."""
        variants = self.variants
        return sum(self.instances_of(each) * len(self.containers_of(each)) for each in variants)

    def instances_of(self, variant: Members) -> int:
        return self.instances.get(variant["VariantName"], variant.get("InitialInstanceCount", 1))

    def weight_of(self, variant: Members) -> float:
        return self.weights.get(variant["VariantName"], variant.get("InitialVariantWeight", 1.0))

    def containers_of(self, variant: Members) -> tuple[Members, ...]:
        """Return a variant's container definitions; raise ValidationException if it has none."""
        model = self.models[variant["ModelName"]]
        containers = [model["PrimaryContainer"]] if "PrimaryContainer" in model else []
        containers += model.get("Containers", ())
        if not containers:
            raise ValidationException(
                f"The model {variant['ModelName']!r} has no container; it must have at least one."
            )
        return tuple(containers)

    def maker_of(self, model: str) -> str | None:
        """Return the principal that made a model; empty if unknown, None for the operator."""
        return None if model in self.of_operator else self.makers.get(model, "")

    def execution_of(self, variant: Members) -> Execution:
        """Return how requests reach the containers of an instance: serially or directly."""
        model = self.models[variant["ModelName"]]
        mode: str = model.get("InferenceExecutionConfig", {}).get("Mode", "Serial")
        return "direct" if mode == "Direct" else "serial"


@dataclass(frozen=True, slots=True)
class ApiSurroundings:
    """The circumstances of the API's endpoints, apart from their configurations.

    Attributes:
        policy: the policy of their streams.
        images: the commands or running containers that replace images.
        roots: the folders that may hold model data of this machine.
        environment: patterns of the variables that programs may be given.
    """

    policy: StreamPolicy
    times: InstanceTimes
    images: Mapping[str, Program | Attached]
    roots: LocalRoots
    gpus: int = 0
    environment: tuple[str, ...] = ()


def planned(name: str, plan: DeploymentPlan, around: ApiSurroundings) -> Endpoint:
    """Return the endpoint that the fleet is to run.

    This looks at the file system if model data is on this machine.

    Raises:
        ValidationException: a part cannot be honoured; the message names it.
    """
    if not any(plan.weight_of(each) for each in plan.variants):
        raise ValidationException(
            "All variants have the weight 0; at least one must have a weight above 0."
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
    """Allow the operator's models every path and variable: the operator may run anything."""
    return dataclasses.replace(around, roots=around.roots.for_operator, environment=EVERY_VARIABLE)


def _check_containers(plan: DeploymentPlan) -> None:
    """Refuse a plan with more containers than one call may start."""
    if plan.containers > MAX_ENDPOINT_CONTAINERS:
        raise ValidationException(
            f"The instances of all variants have {plan.containers} containers together; they "
            f"must have at most {MAX_ENDPOINT_CONTAINERS}."
        )


def _checked_count(variant: str, count: int) -> int:
    if not 1 <= count <= MAX_INSTANCES:
        raise ValidationException(
            f"{count} instances of the variant {variant!r} were requested; it must have from 1 "
            f"to {MAX_INSTANCES}."
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
