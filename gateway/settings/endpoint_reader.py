"""Reading an endpoint's tables: checks across keys, and the resulting endpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from partway.gateway.configuration.expected import keys_of
from partway.gateway.configuration.messages import Place as Where
from partway.gateway.configuration.reader import Document
from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    Discovered,
    Endpoint,
    InstanceTimes,
    OneContainer,
    OneSource,
    Source,
    Variant,
    container_address,
    is_tls,
)
from partway.gateway.fleet.launchers.images import resolve_image
from partway.gateway.fleet.limits import MAX_VARIANTS
from partway.gateway.fleet.platform_interface import OF_VERTEX, PORT_VARIABLE, VertexContainer
from partway.gateway.fleet.processes.commands import program_of
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.settings.endpoint_context import Surroundings, times_of
from partway.gateway.settings.endpoint_tables import (
    BESIDE,
    OF_PLATFORM,
    SOURCES,
    SOURCES_OF_ONE,
    ContainerTable,
    EndpointTable,
    VariantKeys,
)
from partway.gateway.tls.trust import Trust

_OF_STREAMS: Final = frozenset(keys_of(StreamPolicy) or ())
_OF_VARIANTS: Final = frozenset(keys_of(VariantKeys) or ())


# --- Variants as written -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Written:
    """A variant as its tables have it.

    Attributes:
        endpoint: the place of its endpoint's table.
        table: the place of its own table; that of the endpoint's for an only variant.
        own: the keys of its own table.
        values: the values of these keys, and of further keys of the endpoint's table.
        containers: if its instances have several, each as if it were the only one.
        source_keys: the possible keys for its source.
    """

    endpoint: Where
    table: Where
    name: str
    own: Collection[str]
    values: Mapping[str, Any]
    containers: tuple[_Written, ...] = ()
    source_keys: tuple[str, ...] = SOURCES

    @property
    def sources(self) -> list[str]:
        """The keys that name its source; there should be one."""
        return [key for key in self.source_keys if key in self.values]

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of its containers that run outside the gateway."""
        one = self.values.get("url")
        return self.values.get("urls", ()) if one is None else (one,)

    def at(self, key: str) -> Where:
        """Return the place of a key: in its own table, or in the endpoint's."""
        return (*(self.table if key in self.own else self.endpoint), key)

    def beside(self, source: str, key: str) -> str:
        """Return the source for a message about a key beside it."""
        return source if key in self.own else f"{source} of the variant {self.name}"


def _written(name: str, table: EndpointTable, members: Mapping[str, Any]) -> Iterator[_Written]:
    """Yield the variants of an endpoint's table.

    Args:
        members: the same in TOML's types; shows which keys were given.
    """
    where: Where = ("endpoints", name)
    of_all = {key: getattr(table, key) for key in members if key in _OF_VARIANTS}
    if "variants" not in members:
        containers = _written_containers(where, table.containers or (), members)
        yield _Written(where, where, table.variant, of_all.keys(), of_all, containers)
        return
    of_all = {key: value for key, value in of_all.items() if key not in SOURCES}
    for each, variant in table.variants.items():
        its_members, place = members["variants"][each], (*where, "variants", each)
        own = {key: getattr(variant, key) for key in its_members}
        values = of_all | own
        if "environment" in values:
            values["environment"] = table.environment | variant.environment
        containers = _written_containers(place, variant.containers or (), its_members)
        yield _Written(where, place, each, own.keys(), values, containers)


def _written_containers(
    where: Where, tables: Iterable[ContainerTable], members: Mapping[str, Any]
) -> tuple[_Written, ...]:
    """Return the containers of a table, by host name; the default is numbered."""
    found = []
    for number, table in enumerate(tables):
        values = {key: getattr(table, key) for key in members["containers"][number]}
        place = (*where, "containers", number)
        hostname = values.pop("hostname", f"container-{number + 1}")
        written = _Written(place, place, hostname, values.keys(), values)
        found.append(dataclasses.replace(written, source_keys=SOURCES_OF_ONE))
    return tuple(found)


# --- Contradictions ------------------------------------------------------------------------------


def _faults_of(
    name: str, table: EndpointTable, members: Mapping[str, Any]
) -> Iterator[tuple[Where, str]]:
    """Yield the faults of an endpoint's table that concern several keys."""
    if "variants" in members:
        yield from _faults_of_several(("endpoints", name), table, members)
    variants = [*_written(name, table, members)]
    yield from _faults_of_mixture(variants)
    for variant in variants:
        for each in (variant, *variant.containers):
            yield from _faults_of_sources(each)
            if len(each.sources) == 1:
                yield from _faults_of_keys(each, *each.sources)
                yield from _faults_of_urls(each)
        yield from _faults_of_hostnames(variant)


def _faults_of_several(
    where: Where, table: EndpointTable, members: Mapping[str, Any]
) -> Iterator[tuple[Where, str]]:
    for key in (*SOURCES, "variant"):
        if key in members:
            yield (*where, key), f"variants are given too; set either {key} or variants, not both"
    count = len(table.variants)
    if not 1 <= count <= MAX_VARIANTS:
        yield (
            (*where, "variants"),
            f"{count} variants were given; there must be 1 to {MAX_VARIANTS}",
        )
    elif not any(variant.weight for variant in table.variants.values()):
        yield (*where, "variants"), "each variant has weight 0; at least one needs a higher weight"


def _faults_of_mixture(variants: Sequence[_Written]) -> Iterator[tuple[Where, str]]:
    discovered = [each for each in variants if "service" in each.values]
    if 0 < len(discovered) < len(variants):
        others = ", ".join(each.name for each in variants if each not in discovered)
        fault = f"all variants must have a service, or none; without one are: {others}"
        yield discovered[0].at("service"), fault


def _faults_of_sources(variant: _Written) -> Iterator[tuple[Where, str]]:
    first, *further = variant.sources or [""]
    if not first:
        keys = variant.source_keys
        is_endpoints = variant.table == variant.endpoint and keys is SOURCES
        either = ", or one of them in each variant" if is_endpoints else ""
        yield variant.table, f"no key says what to run; set {_either(keys)}{either}"
    for key in further:
        yield variant.at(key), f"{first} is given too; set either {first} or {key}, not both"


def _faults_of_keys(variant: _Written, source: str) -> Iterator[tuple[Where, str]]:
    for key in variant.values:
        beside, why = BESIDE.get(key, ((source,), ""))
        if source not in beside:
            there = [each for each in beside if each in variant.source_keys]
            must = f"it works only with {_either(there)}, {why}"
            yield variant.at(key), f"this key was given with {variant.beside(source, key)}; {must}"
    is_vertex = variant.values.get("platform") == "vertex"
    environment = variant.values.get("environment", {})
    if PORT_VARIABLE in environment:
        fault = "the gateway sets this variable to a container's port; leave it out"
        yield (*variant.at("environment"), PORT_VARIABLE), fault
    for name in sorted(OF_VERTEX & environment.keys()) if is_vertex else ():
        fault = "the gateway sets this variable for Vertex AI containers; leave it out"
        yield (*variant.at("environment"), name), fault
    for key in OF_PLATFORM[1:] if not is_vertex else ():
        if key in variant.values:
            fault = 'this key works only with platform = "vertex"'
            yield variant.at(key), f"{fault}, since SageMaker's contract fixes its value"


def _either(keys: Sequence[str]) -> str:
    *others, last = keys
    return f"{', '.join(others)} or {last}" if others else last


def _faults_of_urls(variant: _Written) -> Iterator[tuple[Where, str]]:
    urls = variant.urls
    tls = {is_tls(url) for url in urls}
    if len(set(urls)) < len(urls):
        yield variant.at("urls"), "one URL is given twice; each must be given once"
    if len(tls) > 1:
        yield variant.at("urls"), "some URLs are https:// and some http://; all must be of one kind"
    elif "ca" in variant.values and tls == {False}:
        yield (
            variant.at("ca"),
            f"{urls[0]} has no TLS; it must be https:// for ca to have an effect",
        )


def _faults_of_hostnames(variant: _Written) -> Iterator[tuple[Where, str]]:
    known: set[str] = set()
    for each in variant.containers:
        if each.name in known:
            fault = f"another container has the host name {each.name!r} too; each needs its own"
            yield (*each.table, "hostname"), fault
        known.add(each.name)


# --- Results -------------------------------------------------------------------------------------


def endpoints_of(
    tables: Mapping[str, EndpointTable], document: Document, around: Surroundings
) -> dict[str, Endpoint]:
    """Return the endpoints of a file, by their names.

    Args:
        document: the parsed file, which shows which keys were given.
        around: each endpoint's values from outside of its table.

    Raises:
        SettingsError: keys contradict each other.
    """
    read = {name: (table, document.members["endpoints"][name]) for name, table in tables.items()}
    document.refuse(
        fault for name, (table, own) in read.items() for fault in _faults_of(name, table, own)
    )
    return {name: _endpoint_of(name, table, own, around) for name, (table, own) in read.items()}


def _endpoint_of(
    name: str, table: EndpointTable, members: Mapping[str, Any], around: Surroundings
) -> Endpoint:
    """Make an endpoint of a file, whose table has passed :func:`_faults_of`."""
    own = {key: getattr(table, key) for key in members if key in _OF_STREAMS}
    policy = dataclasses.replace(around.policy, **own)
    variants = (_variant_of(each, around) for each in _written(name, table, members))
    return Endpoint(name, policy, tuple(variants), table.prediction)


def _variant_of(written: _Written, around: Surroundings) -> Variant:
    values = written.values
    kept = ("weight", "gpus", "cpus", "memory", "container_hostname")
    source: Source = (
        _discovered_of(written) or _containers_of(written, around) or _source_of(written, around)
    )
    vertex = _vertex_of(written)
    attached = len(source.addresses) if isinstance(source, Attached) else None
    return Variant(
        source=source,
        name=written.name,
        instances=values.get("instances", 1) if attached is None else attached,
        model_data=_model_data(values.get("model_data"), around.folder),
        environment=() if written.containers else _environment(values),
        times=times_of(_times_by_platform(written, around.times), values),
        vertex=vertex,
        **{key: values[key] for key in kept if key in values},
    )


def _discovered_of(written: _Written) -> Discovered | None:
    service = written.values.get("service")
    return service and Discovered(service, written.values.get("service_port"))


def _containers_of(written: _Written, around: Surroundings) -> Containers | None:
    """Return the containers of instances that have several; else None."""
    found = []
    for each in written.containers:
        source = _source_of(each, around)
        is_started = not isinstance(source, Attached)
        found.append(
            OneContainer(
                hostname=each.name,
                source=source,
                model_data=_model_data(each.values.get("model_data"), around.folder),
                environment=_environment(written.values, each.values) if is_started else (),
                vertex=_vertex_of(each),
            )
        )
    return Containers(tuple(found), written.values.get("execution", "serial")) if found else None


def _vertex_of(written: _Written) -> VertexContainer | None:
    """Return the settings of a container written for Vertex AI; None for any other."""
    if written.values.get("platform") != "vertex":
        return None
    keys = ("health_route", "predict_route", "port")
    return VertexContainer(**{key: written.values[key] for key in keys if key in written.values})


def _times_by_platform(written: _Written, times: InstanceTimes) -> InstanceTimes:
    """Return the times of instances, with Vertex AI's health rule if all containers are for it."""
    each_of = written.containers or (written,)
    are_vertex = all(each.values.get("platform") == "vertex" for each in each_of)
    return times.of_vertex if are_vertex else times


def _environment(*tables: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Merge the variables of tables; later ones override earlier ones."""
    found: dict[str, str] = {}
    for values in tables:
        found |= values.get("environment", {})
    return tuple(sorted(found.items()))


def _source_of(written: _Written, around: Surroundings) -> OneSource:
    values, folder = written.values, around.folder
    if urls := written.urls:
        own = values.get("ca")
        trust = around.trust if own is None else Trust(_within(folder, own))
        addresses = tuple(container_address(url, tls=True) for url in urls)
        return Attached(addresses, trust if is_tls(urls[0]) else None)
    if (image := values.get("image")) is not None:
        return resolve_image(image, around.images, values.get("pull", "missing"))
    program = program_of(values["command"], folder)
    cwd = values.get("cwd")
    return program if cwd is None else dataclasses.replace(program, cwd=_within(folder, cwd))


def _model_data(given: str | None, folder: Path | None) -> str | None:
    if given is None or "://" in given:
        return given
    return str(_within(folder, Path(given)))


def _within(folder: Path | None, path: Path) -> Path:
    return path if folder is None else folder / path
