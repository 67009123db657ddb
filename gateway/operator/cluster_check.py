"""``partway operator --check``: whether the cluster has all that the operator needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from partway.gateway.apis.kubernetes.custom_object import (
    DEPLOYED_MODEL,
    ENDPOINT,
    UNREACHABLE_POD,
    VERSION,
)
from partway.gateway.cluster.answers import ClusterError, Collection
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.operator.gateway_pods import place_of

_READ: Final = ("list", "watch")
_SLICES: Final = ("discovery.k8s.io", "endpointslices")

#: The verbs that the operator needs, by group and resource: the rules of its role.
NEEDED: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    (DEPLOYED_MODEL.group, DEPLOYED_MODEL.plural): _READ,
    (DEPLOYED_MODEL.group, f"{DEPLOYED_MODEL.plural}/status"): ("patch",),
    (ENDPOINT.group, ENDPOINT.plural): _READ,
    (ENDPOINT.group, f"{ENDPOINT.plural}/status"): ("patch",),
    ("apps", "deployments"): (*_READ, "create", "update"),
    ("", "services"): (*_READ, "create", "update"),
    ("policy", "poddisruptionbudgets"): (*_READ, "create", "update"),
    _SLICES: _READ,
    ("", "pods"): (*_READ, "patch", "delete"),
    (UNREACHABLE_POD.group, UNREACHABLE_POD.plural): (*_READ, "delete"),
    ("coordination.k8s.io", "leases"): ("get", "create", "update"),
}

_REVIEWS: Final = Collection("authorization.k8s.io/v1", "selfsubjectaccessreviews")


async def check(server: ApiServer, gateways: str = "") -> list[str]:
    """Return what is missing, a line for each; empty if nothing is.

    Args:
        gateways: the Service of all gateways, NAME or NAMESPACE/NAME; empty for none.

    Raises:
        ClusterError: the API server cannot be asked.
    """
    missing = [
        f"the cluster has no {kind.plural}.{kind.group}; apply the output of "
        "partway operator --print-crds"
        for kind in (DEPLOYED_MODEL, ENDPOINT, UNREACHABLE_POD)
        if VERSION not in await server.versions(kind.group)
    ]
    for namespace, verb, group, resource in _questions(server.settings.namespace, gateways):
        if not await _may(server, namespace, verb, group, resource):
            what = f"{resource}.{group}" if group else resource
            missing.append(
                f"the operator may not {verb} {what} in the namespace {namespace}; add the verb "
                "to its role"
            )
    return missing


def _questions(own: str, gateways: str) -> Iterator[tuple[str, str, str, str]]:
    for (group, resource), verbs in NEEDED.items():
        for verb in verbs:
            yield own, verb, group, resource
    namespace, _ = place_of(gateways, own)
    if namespace != own:
        for verb in NEEDED[_SLICES]:
            yield namespace, verb, *_SLICES


async def _may(server: ApiServer, namespace: str, verb: str, group: str, resource: str) -> bool:
    name, _, part = resource.partition("/")
    asked = {
        "namespace": namespace,
        "verb": verb,
        "group": group,
        "resource": name,
        **({"subresource": part} if part else {}),
    }
    review = {
        "apiVersion": _REVIEWS.api_version,
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await server.create(_REVIEWS, review)
    status = answer.get("status")
    if not isinstance(status, dict):
        raise ClusterError("the API server has reviewed no access; its answer has no status")
    return bool(status.get("allowed"))
