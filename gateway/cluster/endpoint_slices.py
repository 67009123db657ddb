"""EndpointSlices of a Service as instances, without a connection or a clock.

``discovery.k8s.io/v1`` and ``v1beta1`` differ only in members that are not read here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from partway.gateway.cluster.answers import ClusterObject
from partway.gateway.plain_text import cut, safe

#: The label with which a slice names its Service.
SERVICE_LABEL: Final = "kubernetes.io/service-name"

#: The label with which a slice names who writes it, and Kubernetes' own writer.
_MANAGER_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
_OWN_MANAGER: Final = "endpointslice-controller.k8s.io"

#: Selects the slices that Kubernetes' own controller writes. It corrects them if others do.
KUBERNETES_SLICES: Final = f"{_MANAGER_LABEL}={_OWN_MANAGER}"

#: Stands for a port if no pod is called, so that all slices count, whatever their ports are.
NO_PORT: Final = 0

_IPV4, _IPV6 = "IPv4", "IPv6"

#: The IP versions of the address types.
_VERSIONS: Final = {_IPV4: 4, _IPV6: 6}

#: Characters of an address that a message repeats.
_SHOWN: Final = 64


@dataclass(frozen=True, slots=True)
class ServiceInstance:
    """A pod behind a Service.

    Attributes:
        key: the pod's UID; the address if the slice names no pod. All gateways see the same key.
        name: the pod's name; the address if the slice names no pod.
        is_ready: whether the kubelet calls it ready.
        is_terminating: whether the pod is being deleted. It never becomes ready again.
    """

    key: str
    name: str
    host: str
    port: int
    is_ready: bool = True
    is_terminating: bool = False

    @property
    def takes_streams(self) -> bool:
        return self.is_ready and not self.is_terminating


@dataclass(frozen=True, slots=True)
class InstancesFound:
    """The instances of a Service.

    Attributes:
        instances: by key, in order.
        trouble: why there are none, or why some were left out; empty otherwise.
    """

    instances: tuple[ServiceInstance, ...] = ()
    trouble: str = ""

    @property
    def has_ready(self) -> bool:
        """Whether an instance takes streams."""
        return any(each.takes_streams for each in self.instances)


class ServiceRefused(Exception):
    """A Service cannot be discovered; the message says why, and what it must be."""


def service_of(endpoint_slice: ClusterObject) -> str:
    """Return the name of the Service that a slice belongs to; empty if it names none."""
    labels = endpoint_slice["metadata"].get("labels") or {}
    return str(labels.get(SERVICE_LABEL, ""))


def check_service(service: ClusterObject) -> None:
    """Refuse a Service whose slices do not tell which pods are ready.

    Raises:
        ServiceRefused: it publishes pods that are not ready, or it is a name outside the cluster.
    """
    spec = service.get("spec") or {}
    name = service["metadata"]["name"]
    if spec.get("publishNotReadyAddresses"):
        raise ServiceRefused(
            f"the Service {name!r} has publishNotReadyAddresses: true, so its slices call every "
            "pod ready; set it to false, or name another Service"
        )
    if spec.get("type") == "ExternalName":
        raise ServiceRefused(
            f"the Service {name!r} has the type ExternalName, which has no slices; it must be a "
            "Service with a selector, such as a headless one"
        )


def find_instances(
    service: ClusterObject,
    slices: Iterable[ClusterObject],
    port: int | str | None = None,
    *,
    loopback: bool = False,
) -> InstancesFound:
    """Join all slices of a Service.

    1. A pod may be in two slices for a moment, with different conditions. *Terminating* wins, since
       it is final; then *ready*, since a stream that finds no container goes to another.
    2. A Service has slices for each IP family. Of a pod with two addresses, that of the Service's
       first family counts. An endpoint that names no pod counts only in that family, if it has any.
    3. A slice of host names, or without the wanted port, is left out. So is an address that no pod
       has. A slice without endpoints counts for nothing.
    4. Kubernetes' own controller has the last word on a pod: where one of its slices names the pod,
       the slices of others do not count for it.

    Args:
        port: the pods' port by number or by name; None for the only one, :data:`NO_PORT` for none.
        loopback: whether pods may be on this machine, at loopback addresses.

    Raises:
        ServiceRefused: as :func:`check_service`.
    """
    check_service(service)
    families = (service.get("spec") or {}).get("ipFamilies") or [_IPV4]
    order = [*dict.fromkeys((families[0], _IPV4, _IPV6))]
    found, troubles = _joined(slices, order, port, loopback)
    if not (found or troubles):
        name = service["metadata"]["name"]
        troubles.append(f"the Service {name!r} has no pod: its selector matches none")
    instances = tuple(found[key] for key in sorted(found))
    return InstancesFound(instances, "; ".join(dict.fromkeys(troubles)))


def _joined(
    slices: Iterable[ClusterObject], order: Sequence[str], port: int | str | None, loopback: bool
) -> tuple[dict[str, ServiceInstance], list[str]]:
    """Return the instances by key, and why others were left out."""
    by_family: dict[str, list[ServiceInstance]] = {each: [] for each in order}
    troubles = []
    told_by_kubernetes: set[str] = set()
    for each in sorted(slices, key=lambda one: (not _is_kubernetes(one), _name(one))):
        if not each.get("endpoints"):
            continue
        try:
            family = _family(each, order)
            there, bad = _instances(each, family, _port(each, port), loopback)
        except _SliceLeftOut as error:
            troubles.append(str(error))
            continue
        troubles += bad[:1]
        if _is_kubernetes(each):
            told_by_kubernetes.update(one.key for one in there)
        else:
            there = [one for one in there if one.key not in told_by_kubernetes]
        by_family[family] += there
    found: dict[str, ServiceInstance] = {}
    for family in order:
        joined: dict[str, ServiceInstance] = {}
        for one in by_family[family]:
            if one.key != one.host or not found:  # rule 2
                joined[one.key] = _newer(one, joined.get(one.key))
        found = joined | {key: _told(first, joined.get(key)) for key, first in found.items()}
    return found, troubles


# --- One slice -----------------------------------------------------------------------------------


class _SliceLeftOut(Exception):
    """A slice cannot be used; the message says why."""


def _name(endpoint_slice: ClusterObject) -> str:
    return str(endpoint_slice["metadata"]["name"])


def _is_kubernetes(endpoint_slice: ClusterObject) -> bool:
    """Whether Kubernetes' own controller writes a slice."""
    labels = endpoint_slice["metadata"].get("labels") or {}
    return labels.get(_MANAGER_LABEL) == _OWN_MANAGER


def _family(endpoint_slice: ClusterObject, known: Iterable[str]) -> str:
    family = str(endpoint_slice.get("addressType"))
    if family not in known:
        raise _SliceLeftOut(
            f"the EndpointSlice {_name(endpoint_slice)!r} has the address type "
            f"{family!r}; it must be {_IPV4} or {_IPV6}"
        )
    return family


def _port(endpoint_slice: ClusterObject, wanted: int | str | None) -> int:
    """Return the number of the wanted port.

    Raises:
        _SliceLeftOut: the slice does not have it, or has several and none is wanted.
    """
    if wanted == NO_PORT:
        return NO_PORT
    ports = [
        each
        for each in endpoint_slice.get("ports") or ()
        if (each.get("protocol") or "TCP") == "TCP"
    ]
    if isinstance(wanted, int) and (not ports or any(each.get("port") is None for each in ports)):
        return wanted  # the Service names no ports, or all of them
    numbered = [each for each in ports if each.get("port") is not None]
    fits = {
        int(each["port"])
        for each in numbered
        if wanted is None or wanted in (each["port"], each.get("name"))
    }
    if len(fits) == 1:
        return fits.pop()
    has = ", ".join(_described(each) for each in numbered) or "none"
    whose = f"the EndpointSlice {_name(endpoint_slice)!r}"
    if wanted is None:
        raise _SliceLeftOut(f"{whose} has not one TCP port but {has}; service_port must name one")
    raise _SliceLeftOut(
        f"service_port: {wanted!r} is no TCP port of {whose}; it must be one of: {has}"
    )


def _described(port: ClusterObject) -> str:
    name = port.get("name")
    return f"{port['port']} ({name})" if name else str(port["port"])


def _instances(
    endpoint_slice: ClusterObject, family: str, port: int, loopback: bool
) -> tuple[list[ServiceInstance], list[str]]:
    """Return the instances of a slice, and why further endpoints are left out."""
    found, bad = [], []
    for each in endpoint_slice["endpoints"]:
        given = str((each.get("addresses") or ("",))[0])  # all of them lead to the same pod
        if why := _why_no_pod(given, family, loopback):
            shown = cut(safe(given), _SHOWN)
            bad.append(
                f"the EndpointSlice {_name(endpoint_slice)!r} has the address {shown!r}; {why}"
            )
            continue
        host = str(ipaddress.ip_address(given))
        conditions = each.get("conditions") or {}
        pod = each.get("targetRef") or {}
        found.append(
            ServiceInstance(
                str(pod.get("uid") or host),
                str(pod.get("name") or host),
                host,
                port,
                is_ready=conditions.get("ready") is not False,  # a missing one means ready
                is_terminating=conditions.get("terminating") is True,
            )
        )
    return found, bad


def _why_no_pod(given: str, family: str, loopback: bool) -> str:
    """Return why an address cannot be a pod's; empty if it can."""
    try:
        address = ipaddress.ip_address(given)
    except ValueError:
        address = None
    if address is None or address.version != _VERSIONS[family]:
        return f"it must be an {family} address"
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        return "it must be an IPv6 address without an IPv4 address or a zone in it"
    kinds = {
        "a loopback": address.is_loopback and not loopback,
        "a link-local": address.is_link_local,
        "a multicast": address.is_multicast,
        "an unspecified": address.is_unspecified,
    }
    return next(
        (f"it is {kind} address, which no pod has" for kind, is_it in kinds.items() if is_it), ""
    )


def _newer(one: ServiceInstance, other: ServiceInstance | None) -> ServiceInstance:
    """Return the one of two entries that tells more (rule 1), whichever came first."""
    if other is None:
        return one

    def rank(each: ServiceInstance) -> tuple[bool, bool, str, int]:
        return each.is_terminating, each.is_ready, each.host, each.port

    return max(one, other, key=rank)


def _told(one: ServiceInstance, other: ServiceInstance | None) -> ServiceInstance:
    """Return an entry of the first family, with the conditions that the other one tells."""
    newer = _newer(one, other)
    return replace(one, is_ready=newer.is_ready, is_terminating=newer.is_terminating)
