"""The readiness of a DeployedModel, from its Deployment, slices and pods: pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from partway.gateway.apis.kubernetes.conditions import MODEL_READY, Readiness
from partway.gateway.cluster.answers import ClusterObject
from partway.gateway.cluster.endpoint_slices import has_ready_instance
from partway.gateway.plain_text import cut, safe

_STARTING: Final = "Its instances are being started"

#: Characters of a cluster's own words.
_SHOWN: Final = 600

#: Words of a container that waits, and is not at fault.
_FINE: Final = frozenset({"ContainerCreating", "PodInitializing"})


def deployment_readiness(
    deployment: ClusterObject | None,
    slices: Iterable[ClusterObject],
    pods: Iterable[ClusterObject],
) -> Readiness:
    """Return the readiness of a DeployedModel.

    Args:
        deployment: its Deployment; None if there is none yet.
        slices: the EndpointSlices of its Service.
        pods: its pods, which tell why they do not start.
    """
    if deployment is None:
        return Readiness("Pending", "Its Deployment is about to be created")
    spec, status = deployment["spec"], deployment.get("status") or {}
    is_seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 1)
    wanted, there = spec.get("replicas", 1), status.get("replicas", 0)
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if not wanted:
        return Readiness("NotReady", "Its Deployment is scaled to no instance")
    is_latest = is_seen and updated > 0 and there == updated
    if is_latest and available and has_ready_instance(slices):
        return MODEL_READY
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    progress = conditions.get("Progressing", {})
    if is_seen and (refused := conditions.get("ReplicaFailure", {})).get("status") == "True":
        return Readiness("Failed", _words(refused.get("message")))
    trouble = next(pod_troubles(pods), "")
    if is_seen and progress.get("reason") == "ProgressDeadlineExceeded":
        return Readiness("Failed", trouble or _words(progress.get("message")))
    if is_latest and progress.get("reason") == "NewReplicaSetAvailable" and not available:
        return Readiness("NotReady", trouble or "No instance is in service")
    return Readiness("Progressing", f"{_STARTING}: {trouble}" if trouble else _STARTING)


def pod_troubles(pods: Iterable[ClusterObject]) -> Iterator[str]:
    """Yield why pods do not run, in Kubernetes' own words."""
    for pod in pods:
        status = pod.get("status") or {}
        for each in status.get("conditions") or ():
            if each.get("type") == "PodScheduled" and each.get("status") == "False":
                yield _words(f"{each.get('reason')}: {each.get('message')}")
        containers: Iterable[Any] = (
            *(status.get("initContainerStatuses") or ()),
            *(status.get("containerStatuses") or ()),
        )
        for each in containers:
            waiting = (each.get("state") or {}).get("waiting") or {}
            if waiting and waiting.get("reason") not in _FINE:
                yield _words(f"{waiting.get('reason')}: {waiting.get('message') or ''}")


def _words(text: object) -> str:
    return cut(safe(str(text or "no reason is given")), _SHOWN)
