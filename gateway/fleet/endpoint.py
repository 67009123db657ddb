"""What an endpoint is: its name, its variants, and what runs their instances.

All of it is what an operator has asked for, as values; what runs is the fleet's.
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

#: What SageMaker's own tools call an endpoint's only production variant.
DEFAULT_VARIANT = "AllTraffic"

#: When an engine is to pull an image.
Pull: TypeAlias = Literal["missing", "never", "always"]


@dataclass(frozen=True, slots=True)
class Attached:
    """Containers that somebody else runs, one for each instance.

    Attributes:
        addresses: where they listen.
        tls: whom to believe that they are who they say; None without TLS.
    """

    addresses: tuple[Address, ...]
    tls: Trust | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A command of this machine, started once for each instance.

    Attributes:
        command: program and arguments; nothing is appended, and no shell has a say in it.
        cwd: the folder in which it runs; None for the gateway's own.
    """

    command: tuple[str, ...]
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a container engine, from which each instance is made (clause 1.1-1).

    Attributes:
        name: as the engine knows it, such as ``registry.example/echo:1``.
        pull: when the engine is to pull it.
    """

    name: str
    pull: Pull = "missing"


#: What runs one container.
OneSource: TypeAlias = Attached | Program | Image

#: How the containers of an instance are asked: each with what the one before has answered, or only
#: the one that a request names.
Execution: TypeAlias = Literal["serial", "direct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneContainer:
    """One container of instances that have several.

    Attributes:
        hostname: its name among those of an instance; where an engine runs it, its DNS name too.
        source: what runs it.
        model_data: as a variant's.
        model_maker: as a variant's.
        pinned: as a variant's.
        environment: as a variant's.
        vertex: as a variant's.
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
    """Several containers, of which each instance has one each.

    Attributes:
        each: in the order in which they are asked; each host name is there once.
        execution: how they are asked.
    """

    each: tuple[OneContainer, ...]
    execution: Execution = "serial"


#: What runs the instances of a variant.
Source: TypeAlias = OneSource | Containers


@dataclass(frozen=True, slots=True)
class InstanceTimes:
    """What an instance's life is measured by; seconds, but for ``pings_missed``.

    Attributes:
        startup_timeout: from the start until ``/ping`` is answered with 200 (clause 1.1-3).
        ping_interval: between two pings of one that is in service; 0 for none.
        ping_timeout: for the answer to a ping (clause 1.1-2).
        drain_timeout: for the streams and requests of one that is to stop, to end by themselves.
        stop_timeout: from SIGTERM to SIGKILL (clause 1.1-1).
        pings_missed: in a row, after which an instance takes no more streams.
        download_timeout: for model data to be at hand; None for as long as something of them comes.
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
        """The same with Vertex AI's rule of health."""
        return replace(self, ping_timeout=VERTEX_PING_TIMEOUT, pings_missed=VERTEX_PINGS_MISSED)


#: Of containers that are nobody's to watch: their first failed connection says enough.
UNWATCHED: Final = InstanceTimes(ping_interval=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A production variant: instances that are all alike.

    Attributes:
        source: what runs the instances.
        name: reported as ``x-amzn-invoked-production-variant``, and what ``TargetVariant`` names.
        instances: how many there are to be; of attached ones as many as there are addresses.
        weight: the variant's share of the endpoint's streams and requests is its weight's share of
            all weights.
        model_data: a folder, a ``tar.gz``, or either at ``s3://``, seen by an instance as its model
            directory; None for an empty one.
        model_maker: the principal whose leave is asked for to read them; empty if it is unknown,
            None if nobody is asked.
        pinned: model data of this machine that a caller has named, as they were then.
        environment: further variables of the instances, as pairs in the order of their names.
        gpus: of each instance.
        cpus: of each instance, as an engine limits them; None for no limit.
        memory: of each instance, in bytes; None for no limit.
        container_hostname: the instance's own DNS name (clause 1.1-7); None for the engine's
            choice.
        times: what an instance's life is measured by.
        vertex: what is asked of a container that is written for Vertex AI; None for one that is
            written for SageMaker.
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
        """The containers of an instance that has several; empty where it has one."""
        return self.source.each if isinstance(self.source, Containers) else ()

    @property
    def sources(self) -> tuple[OneSource, ...]:
        """What runs the containers of an instance, be it one or several."""
        if isinstance(self.source, Containers):
            return tuple(each.source for each in self.source.each)
        return (self.source,)

    @property
    def launched(self) -> int:
        """How many containers are launched for one instance."""
        return sum(not isinstance(each, Attached) for each in self.sources)

    def of(self, container: OneContainer) -> Variant:
        """What one container of an instance is, as if it were the only one."""
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
        """The paths at which its containers answer, as those of an endpoint."""
        return SAGEMAKER if self.vertex is None else self.vertex.surface(endpoint, self.name)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint, as it is to be.

    Attributes:
        name: the name by which clients call the endpoint (clause 4-7).
        policy: what the endpoint's streams may do.
        variants: by which it is answered, one at least; each name is there once.
        prediction: how its containers are asked for predictions.
        config: the name of the configuration that says all this; empty where settings do.
    """

    name: str
    policy: StreamPolicy
    variants: tuple[Variant, ...]
    prediction: PredictionPolicy = field(default_factory=PredictionPolicy)
    config: str = field(default="", compare=False)

    @property
    def is_attached(self) -> bool:
        """Whether nothing has to be launched for it."""
        return all(isinstance(each.source, Attached) for each in self.variants)

    @property
    def launched(self) -> int:
        """How many containers are launched for it, when all its instances are there."""
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
        """Make an endpoint of one container that somebody else runs."""
        source = Attached((address,), tls)
        return cls(name, policy, (Variant(source=source, name=variant, times=times),))


@dataclass(frozen=True, slots=True)
class Place:
    """Where one stream or request goes: an instance of an endpoint.

    Attributes:
        endpoint: the endpoint's name.
        container: where the instance listens.
        policy: what the endpoint's streams may do.
        variant: the name of the instance's variant.
        tls: whom to believe that the instance is who it says; None without TLS.
        has_log: whether what the instance prints is kept here.
        hostname: the container's among those of its instance; empty for an only one.
        containers: where each is of an instance that has several; this is the first one's place.
        execution: how these are asked.
        surface: the paths at which the container answers.
        url: where the instance is, for the operator to read.
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
        object.__setattr__(self, "url", url)  # each request notes it

    @classmethod
    def of(cls, endpoint: Endpoint, variant: Variant, address: Address, hostname: str = "") -> Self:
        """Where one container is.

        Args:
            endpoint: whose instance the container belongs to.
            variant: what the container is, as if it were its instance's only one.
            address: where it listens.
            hostname: its name among those of its instance; empty for an only one.
        """
        source = variant.source
        return cls(
            *(endpoint.name, address, endpoint.policy, variant.name),
            tls=source.tls if isinstance(source, Attached) else None,
            has_log=not isinstance(source, Attached),
            hostname=hostname,
            surface=variant.surface(endpoint.name),
        )

    def with_policy(self, policy: StreamPolicy) -> Place:
        """The same place, with another policy of the endpoint's streams."""
        containers = tuple(replace(each, policy=policy) for each in self.containers)
        return replace(self, policy=policy, containers=containers)


def places(endpoint: Endpoint) -> list[Place]:
    """Where the attached containers of an endpoint are."""
    return [
        Place.of(endpoint, variant, address)
        for variant in endpoint.variants
        if isinstance(variant.source, Attached)
        for address in variant.source.addresses
    ]


def check_name(name: str) -> None:
    """Refuse what cannot be an endpoint's name (clause 4-7).

    Raises:
        InputValidationError: it cannot.
    """
    if not is_name(name):
        raise InputValidationError(
            f"an endpoint's name must be up to {MAX_ENDPOINT_NAME} letters, digits and "
            "hyphens, and neither begin nor end with a hyphen",
            "InvalidEndpointName",
        )


def is_tls(url: str) -> bool:
    """Whether a container's URL asks for TLS."""
    return urlsplit(url).scheme in ("https", "wss")


def container_url(address: Address, tls: Trust | None) -> str:
    """Where a container is, for the operator to read: what :func:`container_address` would take."""
    return f"{'http' if tls is None else 'https'}://{address}"


def container_address(url: str, *, tls: bool = False) -> Address:
    """Read a container's URL.

    Args:
        url: what was given.
        tls: whether it may be ``https://HOST[:PORT]`` too.

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
