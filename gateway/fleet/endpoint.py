"""Endpoints as values: name, variants, and the source of their instances.

These values say what an operator has asked for. The fleet holds what actually runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from partway.gateway.fleet.limits import (
    HEALTH_PING_INTERVAL,
    HEALTH_PINGS_MISSED,
    INSTANCE_DRAIN_TIMEOUT,
    PING_TIMEOUT,
    START_TIMEOUT,
    STOP_GRACE,
    VERTEX_PING_TIMEOUT,
    VERTEX_PINGS_MISSED,
)
from partway.gateway.fleet.platform_interface import SAGEMAKER, Surface, VertexContainer
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import HTTPS_PORT, Address
from partway.gateway.storage.places.pinned_path import PinnedPath
from partway.gateway.tls.trust import Trust
from partway.protocol.errors import InputValidationError
from partway.protocol.limits import MAX_ENDPOINT_NAME, is_name

#: SageMaker's own tools give this name to an endpoint's only production variant.
DEFAULT_VARIANT = "AllTraffic"

#: When an engine pulls an image.
Pull: TypeAlias = Literal["missing", "never", "always"]


@dataclass(frozen=True, slots=True)
class Attached:
    """Containers that run outside the gateway, one for each instance.

    Attributes:
        tls: which certificates to accept; None without TLS.
    """

    addresses: tuple[Address, ...]
    tls: Trust | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A command of this machine, started once for each instance.

    Attributes:
        command: program and arguments; nothing is appended, and no shell is involved.
        cwd: the working directory; None for the gateway's own.
    """

    command: tuple[str, ...]
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a container engine, from which each instance is made (clause 1.1-1).

    Attributes:
        name: the image's name at the engine, such as ``registry.example/echo:1``.
    """

    name: str
    pull: Pull = "missing"


@dataclass(frozen=True, slots=True)
class Discovered:
    """Containers that another system starts, watches and stops; it says where they are.

    Attributes:
        service: the name of all of them in that system.
        port: their port, by number or by name; None for their only one.
        endpoint: the endpoint that the service must have been made for; empty for any service.
    """

    service: str
    port: int | str | None = None
    endpoint: str = ""


#: The source of one container.
OneSource: TypeAlias = Attached | Program | Image

#: How an instance's containers are called: "serial" passes each answer on to the next container,
#: "direct" calls only the container that the request names.
Execution: TypeAlias = Literal["serial", "direct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneContainer:
    """One container of an instance that has several; its other attributes are a :class:`Variant`'s.

    Attributes:
        hostname: its name among those of an instance; where an engine runs it, its DNS name too.
    """

    hostname: str
    source: OneSource
    model_data: str | None = None
    model_maker: str | None = None
    pinned: PinnedPath | None = None
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold secrets
    vertex: VertexContainer | None = None


@dataclass(frozen=True, slots=True)
class Containers:
    """The several containers of each instance.

    Attributes:
        each: in the order in which they are called; host names are unique.
    """

    each: tuple[OneContainer, ...]
    execution: Execution = "serial"


#: The source of a variant's instances.
Source: TypeAlias = OneSource | Containers | Discovered

#: Sources whose containers the gateway does not start.
_RUN_OUTSIDE: Final = (Attached, Discovered)


@dataclass(frozen=True, slots=True)
class InstanceTimes:
    """The time limits of an instance, in seconds, and the pings that it may miss.

    Attributes:
        startup_timeout: from the start until ``/ping`` is answered with 200 (clause 1.1-3).
        ping_interval: between two pings of an instance in service; 0 for none.
        ping_timeout: for the answer to a ping (clause 1.1-2).
        drain_timeout: for open streams and requests to end by themselves before a stop.
        stop_timeout: from SIGTERM to SIGKILL (clause 1.1-1).
        pings_missed: misses in a row after which an instance takes no more streams.
        download_timeout: for model data to arrive; None to wait as long as data comes in.
    """

    startup_timeout: float = START_TIMEOUT
    ping_interval: float = HEALTH_PING_INTERVAL
    ping_timeout: float = PING_TIMEOUT
    drain_timeout: float = INSTANCE_DRAIN_TIMEOUT
    stop_timeout: float = STOP_GRACE
    pings_missed: int = HEALTH_PINGS_MISSED
    download_timeout: float | None = None

    @property
    def of_vertex(self) -> InstanceTimes:
        """The same times with Vertex AI's health rule."""
        return replace(self, ping_timeout=VERTEX_PING_TIMEOUT, pings_missed=VERTEX_PINGS_MISSED)


#: For containers that the gateway does not watch: their first failed connection is enough.
UNWATCHED: Final = InstanceTimes(ping_interval=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A production variant: a number of identical instances.

    Attributes:
        name: reported as ``x-amzn-invoked-production-variant``, and what ``TargetVariant`` names.
        instances: how many to keep running; for attached containers, the number of addresses; of no
            meaning for discovered ones.
        weight: the variant's share of the endpoint's traffic is its weight divided by the sum of
            all weights.
        model_data: a folder, a ``tar.gz``, or either at ``s3://``, which an instance sees as its
            model directory; None for an empty one.
        model_maker: the principal who must be allowed to read the model data; empty if unknown,
            None if no permission is checked.
        pinned: model data of this machine that a caller has named, as found at that time.
        environment: further variables of the instances, as pairs in the order of their names.
        gpus: GPUs of each instance.
        cpus: CPU limit of each instance at an engine; None for no limit.
        memory: the memory of each instance, in bytes; None for no limit.
        container_hostname: the instance's own DNS name (clause 1.1-7); None for the engine's
            choice.
        vertex: settings of a container written for Vertex AI; None for one written for SageMaker.
    """

    source: Source
    name: str = DEFAULT_VARIANT
    instances: int = 1
    weight: float = 1.0
    model_data: str | None = None
    model_maker: str | None = None
    pinned: PinnedPath | None = None
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold secrets
    gpus: int = 0
    cpus: float | None = None
    memory: int | None = None
    container_hostname: str | None = None
    times: InstanceTimes = InstanceTimes()
    vertex: VertexContainer | None = None

    @property
    def containers(self) -> tuple[OneContainer, ...]:
        """The containers of an instance that has several; empty if it has one."""
        return self.source.each if isinstance(self.source, Containers) else ()

    @property
    def sources(self) -> tuple[OneSource | Discovered, ...]:
        if isinstance(self.source, Containers):
            return tuple(each.source for each in self.source.each)
        return (self.source,)

    @property
    def launched(self) -> int:
        return sum(not isinstance(each, _RUN_OUTSIDE) for each in self.sources)

    def of(self, container: OneContainer) -> Variant:
        """Return a variant that describes one of several containers as if it were alone."""
        return replace(
            self,
            source=container.source,
            model_data=container.model_data,
            model_maker=container.model_maker,
            pinned=container.pinned,
            environment=container.environment,
            container_hostname=container.hostname,
            vertex=container.vertex,
        )

    def surface(self, endpoint: str) -> Surface:
        return SAGEMAKER if self.vertex is None else self.vertex.surface(endpoint, self.name)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint, as an operator has asked for it.

    Attributes:
        name: the name by which clients call the endpoint (clause 4-7).
        variants: at least one; names are unique.
        config: the name of the endpoint configuration; empty for an endpoint of the settings.
    """

    name: str
    policy: StreamPolicy
    variants: tuple[Variant, ...]
    prediction: PredictionPolicy = field(default_factory=PredictionPolicy)
    config: str = field(default="", compare=False)

    @property
    def is_attached(self) -> bool:
        """Whether no container has to be launched."""
        return all(isinstance(each.source, Attached) for each in self.variants)

    @property
    def is_discovered(self) -> bool:
        """Whether another system starts its containers and says where they are."""
        return any(isinstance(each.source, Discovered) for each in self.variants)

    @property
    def launched(self) -> int:
        return sum(each.instances * each.launched for each in self.variants)

    @classmethod
    def attached(
        cls,
        name: str,
        address: Address,
        policy: StreamPolicy,
        *,
        variant: str = DEFAULT_VARIANT,
        tls: Trust | None = None,
        times: InstanceTimes = UNWATCHED,
    ) -> Endpoint:
        """Make an endpoint with one container that runs outside the gateway."""
        source = Attached((address,), tls)
        return cls(name, policy, (Variant(source=source, name=variant, times=times),))


@dataclass(frozen=True, slots=True)
class Place:
    """An instance of an endpoint as the target of a stream or request.

    Attributes:
        has_log: whether the gateway keeps the instance's output.
        hostname: the container's host name within its instance; empty for an only container.
        containers: the place of each container of an instance that has several; the place itself is
            then the first one's.
    """

    endpoint: str
    container: Address
    policy: StreamPolicy
    variant: str = DEFAULT_VARIANT
    tls: Trust | None = None
    has_log: bool = False
    hostname: str = ""
    containers: tuple[Place, ...] = ()
    execution: Execution = "serial"
    surface: Surface = SAGEMAKER
    url: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        url = container_url(self.container, self.tls)
        if self.containers:
            url = ", ".join(f"{each.hostname} {each.url}" for each in self.containers)
        object.__setattr__(self, "url", url)  # computed once, since each request logs it

    @classmethod
    def of(cls, endpoint: Endpoint, variant: Variant, address: Address, hostname: str = "") -> Self:
        """Make the place of one container.

        ``variant`` describes the container as if it were its instance's only one. ``hostname`` is
        empty for an only container.
        """
        source = variant.source
        return cls(
            *(endpoint.name, address, endpoint.policy, variant.name),
            tls=source.tls if isinstance(source, Attached) else None,
            has_log=not isinstance(source, _RUN_OUTSIDE),
            hostname=hostname,
            surface=variant.surface(endpoint.name),
        )

    def with_policy(self, policy: StreamPolicy) -> Place:
        containers = tuple(replace(each, policy=policy) for each in self.containers)
        return replace(self, policy=policy, containers=containers)


def places(endpoint: Endpoint) -> list[Place]:
    """Return the places of an endpoint's attached containers."""
    return [
        Place.of(endpoint, variant, address)
        for variant in endpoint.variants
        if isinstance(variant.source, Attached)
        for address in variant.source.addresses
    ]


def check_name(name: str) -> None:
    """Refuse a name that no endpoint can have (clause 4-7).

    Raises:
        InputValidationError: the name is invalid.
    """
    if not is_name(name):
        raise InputValidationError(
            f"an endpoint's name must be up to {MAX_ENDPOINT_NAME} letters, digits and "
            "hyphens, and neither begin nor end with a hyphen",
            "InvalidEndpointName",
        )


def is_tls(url: str) -> bool:
    return urlsplit(url).scheme in ("https", "wss")


def container_url(address: Address, tls: Trust | None) -> str:
    """Return a container's URL for the operator; :func:`container_address` reads it back."""
    return f"{'http' if tls is None else 'https'}://{address}"


def container_address(url: str, *, tls: bool = False) -> Address:
    """Read a container's URL.

    ``tls`` allows ``https://HOST[:PORT]`` too.

    Raises:
        ValueError: the URL is not ``http://HOST:PORT``; the message says what is wrong.
    """
    parts = urlsplit(url)
    schemes = ("http", "ws", "https", "wss") if tls else ("http", "ws")
    if parts.scheme not in schemes:
        begins = "http:// or https://" if tls else "http://"
        raise ValueError(f"{url!r} is not a container's URL: it must begin with {begins}")
    if not parts.hostname:
        raise ValueError(f"{url!r} names no host: it must be http://HOST:PORT")
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
        raise ValueError(
            f"{url!r} has more than host and port: it must be http://HOST:PORT; "
            "a path comes with each request instead"
        )
    default = HTTPS_PORT if is_tls(url) else 8080
    return Address(parts.hostname, default if parts.port is None else parts.port)
