"""The readiness of a DeployedModel, from its Deployment, slices and pods: pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from partway.gateway.apis.kubernetes.conditions import MODEL_READY, Readiness
from partway.gateway.cluster.answers import ClusterObject
from partway.gateway.fleet.platform_interface import PING, PORT
from partway.gateway.operator.model_deployments import CONTAINER
from partway.gateway.plain_text import cut, safe, safe_lines

_STARTING: Final = "Its instances are being started"

#: Characters of a cluster's own words.
_SHOWN: Final = 600

#: Words of a container that waits, and is not at fault.
_FINE: Final = frozenset({"ContainerCreating", "PodInitializing"})

#: The word of a container that is started again later; how it has ended says more.
_BACK_OFF: Final = "CrashLoopBackOff"

#: Words that add nothing to an exit code.
_OBVIOUS: Final = frozenset({None, "", "Error", "Completed"})

#: The label of a pod that tells its ReplicaSet.
_REPLICA_SET: Final = "pod-template-hash"


def deployment_readiness(
    deployment: ClusterObject, pods: Iterable[ClusterObject], *, serves: bool
) -> Readiness:
    """Return the readiness of a DeployedModel.

    Args:
        deployment: its Deployment, which was made of what the DeployedModel says now.
        pods: its pods, which tell why they do not start.
        serves: whether gateways find an instance that takes streams.
    """
    spec, status = deployment["spec"], deployment.get("status") or {}
    is_seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 1)
    wanted, there = spec.get("replicas", 1), status.get("replicas", 0)
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if not wanted:
        return Readiness("NotReady", "Its Deployment is scaled to no instance")
    is_latest = is_seen and updated > 0 and there == updated
    if is_latest and available and serves:
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
    """Yield why pods do not serve, in Kubernetes' own words where it has any.

    Only the pods of the latest ReplicaSet are asked, the newest one first.
    """
    for pod in _latest(pods):
        status = pod.get("status") or {}
        for each in status.get("conditions") or ():
            if each.get("type") == "PodScheduled" and each.get("status") == "False":
                yield _words(f"{each.get('reason')}: {each.get('message')}")
        for each in status.get("initContainerStatuses") or ():
            yield from _container_trouble(each, has_ended_well=_exit_code(each) == 0)
        for each in status.get("containerStatuses") or ():
            yield from _container_trouble(each, has_ended_well=False)


def _latest(pods: Iterable[ClusterObject]) -> list[ClusterObject]:
    """Return the pods of the latest ReplicaSet, the newest one first; no pod that is deleted.

    An earlier ReplicaSet may make a pod in place of a lost one, but has older ones, too.
    """
    sets: dict[str, list[ClusterObject]] = {}
    for pod in pods:
        if not pod["metadata"].get("deletionTimestamp"):
            of = (pod["metadata"].get("labels") or {}).get(_REPLICA_SET, "")
            sets.setdefault(of, []).append(pod)
    latest = max(sets.values(), key=lambda of: min(map(_created, of)), default=[])
    return sorted(latest, key=_created, reverse=True)


def _created(pod: ClusterObject) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")


def _container_trouble(container: ClusterObject, *, has_ended_well: bool) -> Iterator[str]:
    """Yield why a container does not run, or does not answer; and how it ended last."""
    state = container.get("state") or {}
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
    how = _end(container, ended) if ended else ""
    waiting = state.get("waiting") or {}
    if waiting:
        reason = waiting.get("reason")
        if how and reason in (*_FINE, _BACK_OFF):
            yield _words(f"{reason}: {how}")
        elif reason not in _FINE:
            yield _words(f"{reason}: {waiting.get('message') or ''}")
    elif "terminated" in state:
        if not has_ended_well:
            yield _words(how)
    elif _is_silent(container):
        yet = "" if container.get("started") else " yet"
        silent = f"container {CONTAINER} does not answer GET {PING} on port {PORT}{yet}"
        yield _words(f"{silent}; before, {how}" if how else silent)


def _is_silent(container: ClusterObject) -> bool:
    """Whether a container runs, and does not answer; only that of the model is asked."""
    is_running = "running" in (container.get("state") or {})
    return is_running and container.get("name") == CONTAINER and not container.get("ready")


def _exit_code(container: ClusterObject) -> object:
    return ((container.get("state") or {}).get("terminated") or {}).get("exitCode")


def _end(container: ClusterObject, ended: ClusterObject) -> str:
    """Return how a container ended: its exit code, why, and its last line of output."""
    reason = "" if ended.get("reason") in _OBVIOUS else f" ({ended.get('reason')})"
    said = f"container {container.get('name')} ended with exit code {ended.get('exitCode')}{reason}"
    last = safe_lines(str(ended.get("message") or ""), 1)
    return f"{said}: {last[0]}" if last else said


def _words(text: object) -> str:
    return cut(safe(str(text or "no reason is given")), _SHOWN)
