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

_READ: Final = ("list", "watch")

#: The verbs that the operator needs, by group and resource: the rules of its role.
NEEDED: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    (DEPLOYED_MODEL.group, DEPLOYED_MODEL.plural): _READ,
    (DEPLOYED_MODEL.group, f"{DEPLOYED_MODEL.plural}/status"): ("patch",),
    (ENDPOINT.group, ENDPOINT.plural): _READ,
    (ENDPOINT.group, f"{ENDPOINT.plural}/status"): ("patch",),
    ("apps", "deployments"): (*_READ, "create", "update"),
    ("", "services"): (*_READ, "create", "update"),
    ("policy", "poddisruptionbudgets"): (*_READ, "create", "update"),
    ("discovery.k8s.io", "endpointslices"): _READ,
    ("", "pods"): (*_READ, "patch", "delete"),
    (UNREACHABLE_POD.group, UNREACHABLE_POD.plural): (*_READ, "delete"),
    ("coordination.k8s.io", "leases"): ("get", "create", "update"),
}

_REVIEWS: Final = Collection("authorization.k8s.io/v1", "selfsubjectaccessreviews")


async def check(server: ApiServer) -> list[str]:
    """Return what is missing, a line for each; empty if nothing is.

    Raises:
        ClusterError: the API server cannot be asked.
    """
    missing = [
        f"the cluster has no {kind.plural}.{kind.group}; apply the output of "
        "partway operator --print-crds"
        for kind in (DEPLOYED_MODEL, ENDPOINT, UNREACHABLE_POD)
        if VERSION not in await server.versions(kind.group)
    ]
    for verb, group, resource in _questions():
        if not await _may(server, verb, group, resource):
            what = f"{resource}.{group}" if group else resource
            missing.append(
                f"the operator may not {verb} {what} in the namespace "
                f"{server.settings.namespace}; add the verb to its role"
            )
    return missing


def _questions() -> Iterator[tuple[str, str, str]]:
    for (group, resource), verbs in NEEDED.items():
        for verb in verbs:
            yield verb, group, resource


async def _may(server: ApiServer, verb: str, group: str, resource: str) -> bool:
    name, _, part = resource.partition("/")
    asked = {
        "namespace": server.settings.namespace,
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
