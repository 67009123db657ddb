"""Settings: flags over environment over TOML over defaults, in one typed tree.

::

    host = "127.0.0.1"
    allow_origins = ["https://chat.example"]

    [stream]                      # of every endpoint
    input_end = "drain"

    [endpoints.echo]
    url = "http://127.0.0.1:8080"
    normal_close = "end"          # of this one
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, get_origin

from partway.gateway.apis import manifests
from partway.gateway.apis.control.manifest import ControlSettings
from partway.gateway.configuration.expected import (
    keys_of,
    taken_apart,
)
from partway.gateway.configuration.messages import SettingsError, error_of
from partway.gateway.configuration.reader import Document, checked, read_toml
from partway.gateway.fleet.endpoint import Attached, Endpoint, InstanceTimes, Program
from partway.gateway.fleet.processes.commands import program_of
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.limits import (
    SHARE_OF_ONE,
)
from partway.gateway.network.dialling import is_loopback
from partway.gateway.settings.caller_permissions import (
    check_results,
    check_roots,
)
from partway.gateway.settings.endpoint_context import Surroundings, times_of
from partway.gateway.settings.endpoint_flags import endpoint_of_flag
from partway.gateway.settings.shared_values import InstanceTable
from partway.gateway.settings.top_level import NO_APIS, CommonTables, TopLevel
from partway.gateway.storage.files import user_data_folder
from partway.gateway.tls.trust import TlsError, Trust
from partway.service_links import is_link

if TYPE_CHECKING:
    from partway.gateway.settings.cluster_table import ClusterTable

#: Water marks: the low one is at most the high one.
_MARKS: Final = frozenset({"low_water", "high_water"})

#: The settings of each kind, with their types.
TOP_LEVEL = keys_of(TopLevel) or {}
_OF_STREAMS = keys_of(StreamPolicy) or {}
_OF_INSTANCES = keys_of(InstanceTable) or {}


def variable_of(name: str) -> str:
    return f"PARTWAY_{name.upper()}"


#: The variables of all settings: of the whole gateway, and of the streams and the instances of all
#: endpoints.
VARIABLES: Final = frozenset(map(variable_of, (*TOP_LEVEL, *_OF_STREAMS, *_OF_INSTANCES)))


@dataclass(frozen=True)
class Settings(ControlSettings, TopLevel):
    """All settings. Times in seconds.

    The manifests of APIs define further ones.

    Attributes:
        port: to listen on; 0 picks a free one.
        workers: processes that relay; 1 for one process that does everything.
        tls_port: to listen on with TLS; None for no such port, 0 picks a free one.
        tls_cert: certificate chain of that port, PEM; None for one of the local CA's.
        tls_names: further names in the local CA's certificate.
        region: AWS's name of the region, as in clients' settings and signatures.
        account: the number of the AWS account, for ARNs.
        apis: the names of the APIs that are served beside streams.
        principals: file of the principals, for ``sigv4``.
        insecure: whether to allow listening beyond loopback without authentication.
        log_level: the level of the log on standard error.
        container_ca: roots for ``https://`` containers, PEM; None for the system's.
        allow_origins: web pages' origins that may open streams; ``*`` for all.
        max_streams: open at once.
        max_streams_per_connection: open at once on one HTTP/2 connection.
        max_streams_per_principal: open at once; None for half of ``max_streams``.
        max_requests: under way at once.
        max_requests_per_principal: under way at once; None for half of ``max_requests``.
        max_invocation_body: bytes of the body of one request.
        max_gathered_bytes: the most bytes of all bodies that are held whole at a time.
        max_connections: open at once.
        max_connections_per_address: open at once; None for half of ``max_connections``.
        trusted_proxies: addresses and networks of proxies that carry many clients: they have no
            share, and their connections are not closed to make room.
        shutdown_grace: for streams to end by themselves after SIGTERM.
        shutdown_spread: over which the rest are ended.
        shutdown_hard: for their last bytes.
        data_dir: folder of the gateway's data; None for one of the user's, by the port.
        model_data_quota: bytes of all model data that are kept at a time.
        max_containers: that are launched for all endpoints and transform jobs.
        images: commands, or running containers, that replace images, by image name. A settings file
            has only commands.
        policy: the policy of the streams of endpoints outside the settings.
        times: the times of those endpoints' instances.
        cluster: the cluster of discovered endpoints; None without a file.
    """

    endpoints: tuple[Endpoint, ...] = ()
    images: Mapping[str, Program | Attached] = field(default_factory=dict)
    policy: StreamPolicy = field(default_factory=StreamPolicy)
    times: InstanceTimes = field(default_factory=InstanceTimes)
    cluster: ClusterTable | None = None

    def of_worker(self) -> Self:
        """Return the settings of a worker, which has no endpoints of its own."""
        return dataclasses.replace(self, endpoints=(), images={}, cluster=None)

    @property
    def streams_per_principal(self) -> int:
        return self.max_streams_per_principal or _share(self.max_streams)

    @property
    def requests_per_principal(self) -> int:
        return self.max_requests_per_principal or _share(self.max_requests)

    @property
    def gathered_bytes_of_one(self) -> int:
        """How many bytes of gathered bodies one address, or one access key, may have."""
        return _share(self.max_gathered_bytes)

    @property
    def async_requests_of_one(self) -> int:
        """How many asynchronous requests one endpoint, or one principal, may have."""
        return _share(self.max_async_requests)

    @property
    def connections_per_address(self) -> int:
        return self.max_connections_per_address or _share(self.max_connections)

    @property
    def limits(self) -> Mapping[str, int]:
        """Each limit in force, by its setting's name: numbers at a time, and bytes."""
        shares = {
            "max_streams_per_principal": self.streams_per_principal,
            "max_requests_per_principal": self.requests_per_principal,
            "max_connections_per_address": self.connections_per_address,
        }
        names = (each for each in TOP_LEVEL if each.startswith("max_") or each.endswith("_quota"))
        return {name: shares.get(name) or getattr(self, name) for name in names}

    def check(self) -> None:
        """Refuse unsafe and contradictory settings.

        Raises:
            SettingsError: says what is wrong, and what to do.
        """
        for name, needed in manifests.missing(self.apis):
            raise SettingsError(
                f"apis: {name} needs {needed}, which is not in the list; add {needed}, or leave "
                f"{name} out"
            )
        if self.auth == "none" and not self.insecure and not is_loopback(self.host):
            raise SettingsError(
                f"listening on {self.host} without authentication lets anyone on the network "
                "use the endpoints; add --auth sigv4, or --insecure if you want that, or "
                "listen on 127.0.0.1"
            )
        if self.auth == "sigv4" and self.principals is None:
            raise SettingsError(
                "--auth sigv4 needs --principals FILE, which lists the principals and their keys"
            )
        if self.auth == "none" and self.principals is not None:
            raise SettingsError(
                "--principals needs --auth sigv4, but --auth has the value none: add --auth sigv4, "
                "or leave --principals out"
            )
        if self.workers > 1 and not hasattr(os, "pidfd_open"):
            raise SettingsError("workers must be 1 here: more than one need Linux")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsError("--tls-cert and --tls-key go together: give both, or neither")
        if self.tls_port is None and (self.tls_cert is not None or self.tls_names):
            raise SettingsError(
                "a certificate needs a TLS port: add --tls-port, as in --tls-port 8443"
            )
        for name in ("max_invocation_body", "max_prediction_body"):
            if self.gathered_bytes_of_one < (most := getattr(self, name)):
                raise SettingsError(
                    f"max_gathered_bytes must be at least {SHARE_OF_ONE} times {name}, "
                    f"{SHARE_OF_ONE * most} bytes: one client may use 1/{SHARE_OF_ONE} of it, and "
                    "the gateway holds a signed body whole"
                )
        containers = sum(each.launched for each in self.endpoints)
        if containers > self.max_containers:
            raise SettingsError(
                f"the endpoints have {containers} containers; max_containers is "
                f"{self.max_containers}; it must be at least {containers}"
            )
        _check_names(self.endpoints)


def _check_names(endpoints: Iterable[Endpoint]) -> None:
    """Refuse endpoints with the same ARN: a permission for one would hold for the other.

    Raises:
        SettingsError: the names of two differ only in case, and ARNs have them in lower case.
    """
    names: dict[str, str] = {}
    for endpoint in endpoints:
        other = names.setdefault(endpoint.name.lower(), endpoint.name)
        if other != endpoint.name:
            raise SettingsError(
                f"endpoints {other} and {endpoint.name}: their names differ only in case, so both "
                "would have the same ARN; one of them must have another name"
            )


def _share(of_all: int) -> int:
    return max(1, of_all // SHARE_OF_ONE)


def load(
    flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None = None
) -> Settings:
    """Load all settings.

    Args:
        flags: those given, by setting's name; ``endpoints`` as ``NAME=…`` strings.
        environment: ``PARTWAY_HOST`` and so on, lists separated by commas. ``PARTWAY_LIFETIME`` and
            the like override the file's ``[stream]`` and ``[instance]``.
        config: a TOML file; its folder is the base of relative paths in it.

    Raises:
        SettingsError: says what is wrong, and where.
    """
    folder = None if config is None else config.absolute().parent
    if config is None:  # checking an empty file would take a tenth of the start
        document, file = Document("", {}), CommonTables()
    else:
        from partway.gateway.settings.settings_file import SettingsFile, cluster_of

        document = read_toml(config)
        file = document.as_table(SettingsFile)
    values: dict[str, Any] = {
        name: _placed(getattr(file, name), folder) for name in document.members if name in TOP_LEVEL
    }
    values |= _of_the_environment(TOP_LEVEL, environment)
    for name, value in flags.items():
        if name != "endpoints":
            values[name] = checked(TOP_LEVEL[name], value, f"--{name.replace('_', '-')}")
    of_streams = _of_the_environment(_OF_STREAMS, environment)
    of_instances = document.members.get("instance", {}).keys()
    times = times_of(InstanceTimes(), {key: getattr(file.instance, key) for key in of_instances})
    around = Surroundings(
        dataclasses.replace(file.stream, **of_streams),
        times_of(times, _of_the_environment(_OF_INSTANCES, environment)),
        Trust(values.get("container_ca")),
        {name: program_of(words, folder) for name, words in file.images.items()},
        folder,
    )
    endpoints = _of_the_file(file, document, around, of_streams.keys() & _MARKS)
    on_the_line = dataclasses.replace(around, folder=None)
    for flag in flags.get("endpoints", ()):
        endpoint = endpoint_of_flag(flag, on_the_line)
        endpoints[endpoint.name] = endpoint
    for endpoint in endpoints.values():
        _check_trust(endpoint, around.trust)
    apis = values.get("apis", manifests.NAMES)
    if NO_APIS in apis:
        if len(apis) > 1:
            raise SettingsError(f"apis: {NO_APIS} means no API at all; it must be the only name")
        values["apis"] = frozenset()
    settings = Settings(
        **values,
        endpoints=tuple(endpoints.values()),
        images=around.images,
        local_roots=tuple(_placed(root, folder) for root in file.api.local_roots),
        local_results=tuple(_placed(each, folder) for each in file.api.local_results),
        topics=file.api.topics,
        inclusive_slices=file.api.inclusive_slices,
        api_environment=file.api.environment,
        policy=around.policy,
        times=around.times,
        cluster=None
        if config is None
        else cluster_of(file, folder, environment, endpoints.values()),
    )
    settings.check()
    check_roots(settings.local_roots)
    check_roots(settings.local_results, "local_results")
    own = (settings.data_dir, user_data_folder(environment), config)
    apart = (*settings.local_roots, *(each for each in own if each is not None))
    check_results(settings.local_results, apart)
    return settings


def _placed(value: Any, folder: Path | None) -> Any:
    """Return a value of a file; a relative path is joined to the file's folder."""
    return folder / value if isinstance(value, Path) and folder is not None else value


def _of_the_file(
    file: CommonTables, document: Document, around: Surroundings, marks: Collection[str]
) -> dict[str, Endpoint]:
    """Return the endpoints of the file, by their names.

    Args:
        around: their values from outside of their tables.
        marks: the water marks that the environment sets.
    """
    endpoints: dict[str, Endpoint] = {}
    if "endpoints" in document.members:
        from partway.gateway.settings.settings_file import endpoints_of_file

        endpoints = endpoints_of_file(file, document, around)
    crossed = list(_crossed(around.policy, endpoints.values()))
    if crossed and marks:
        raise error_of(", ".join(map(variable_of, sorted(marks))), crossed)
    document.refuse(crossed)
    return endpoints


def _of_the_environment(
    settings: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return those of these settings that the environment has; by name, each of its type."""
    found = {}
    for name, hint in settings.items():
        variable = variable_of(name)
        if variable in environment and not is_link(variable, environment[variable]):
            found[name] = checked(hint, _from_text(environment[variable], hint), variable)
    return found


def _check_trust(endpoint: Endpoint, otherwise: Trust) -> None:
    """Read the roots to trust for an endpoint's containers.

    Raises:
        SettingsError: they cannot be read.
    """
    sources = [source for each in endpoint.variants for source in each.sources]
    attached = [source for source in sources if isinstance(source, Attached)]
    for tls in [source.tls for source in attached if source.tls is not None]:
        try:
            tls.context()
        except TlsError as error:
            where = "container_ca" if tls == otherwise else f"endpoints.{endpoint.name}.ca"
            raise SettingsError(f"{where}: {error}") from None


def changed_policy(base: StreamPolicy, table: Mapping[str, Any], where: str) -> StreamPolicy:
    """Return a policy with a caller's changes.

    Args:
        table: settings by their names.
        where: the place of the table, for errors.

    Raises:
        SettingsError: a setting is unknown, has the wrong type, or is out of range.
    """
    found = checked(StreamPolicy, dict(table), where)
    policy = dataclasses.replace(base, **{name: getattr(found, name) for name in table})
    if crossed := list(_crossed(policy, ())):
        raise error_of(where, [((key,), fault) for (_, key), fault in crossed])
    return policy


def _crossed(
    policy: StreamPolicy, endpoints: Iterable[Endpoint]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each place where the low-water mark is over the high one.

    Args:
        endpoints: those that start from it.
    """
    marks: dict[tuple[str, ...], tuple[int, int]] = {
        ("stream",): (policy.low_water, policy.high_water)
    }
    for each in endpoints:
        own = (each.policy.low_water, each.policy.high_water)
        if own != marks["stream",]:
            marks["endpoints", each.name] = own
    for place, (low, high) in marks.items():
        if low > high:
            yield (*place, "low_water"), f"{low} was given; it must be at most high_water, {high}"


def _from_text(text: str, hint: Any) -> object:
    """Convert a variable's text to TOML's types; a text that does not fit stays as it is."""
    hint, _ = taken_apart(hint)
    if hint is bool:
        return {"1": True, "true": True, "0": False, "false": False}.get(text.lower(), text)
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            return text
    if get_origin(hint) is frozenset:
        return [item.strip() for item in text.split(",") if item.strip()]
    return text
