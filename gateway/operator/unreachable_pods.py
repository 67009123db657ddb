"""UnreachablePods: pods that gateways cannot reach are deleted, so that others take their place.

Kubernetes itself notices a lost node after 40 seconds, by default. A gateway notices a lost pod
within five. One gateway may be cut off itself, so two must agree. A partition may cut off both from
many pods that serve others, so few pods are deleted at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from partway.gateway.apis.kubernetes.custom_object import UNREACHABLE_POD
from partway.gateway.cluster.answers import (
    ClusterError,
    ClusterObject,
    Collection,
    NoSuchObject,
    WriteConflict,
)
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.watched_collection import ObjectKey, WatchedCollection
from partway.gateway.operator.limits import (
    DELETION_SHARE,
    DELETION_WINDOW,
    GATEWAYS_THAT_AGREE,
    RETRY_INTERVAL,
)
from partway.gateway.operator.model_deployments import UNREACHABLE_LABEL
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import set_or_over
from partway.log_lines import LogLine

log = logging.getLogger("partway.operator")


class ReportedPod(NamedTuple):
    name: str
    uid: str


def agreed(reports: Iterable[ClusterObject]) -> list[ReportedPod]:
    """Return the pods that enough gateways have reported, in order of their names."""
    gateways: dict[ReportedPod, set[str]] = {}
    for report in reports:
        spec: Mapping[str, Any] = report.get("spec") or {}
        pod = ReportedPod(str(spec.get("pod")), str(spec.get("podUID")))
        gateways.setdefault(pod, set()).add(str(spec.get("gateway")))
    return sorted(pod for pod, who in gateways.items() if len(who) >= GATEWAYS_THAT_AGREE)


def most_deletions(pods: int) -> int:
    """Return how many of so many pods may be deleted in DELETION_WINDOW."""
    return max(1, int(pods * DELETION_SHARE))


class UnreachablePods:
    """Deletes pods that are reported; only those of DeployedModels.

    Args:
        pods: the pods of DeployedModels.
    """

    def __init__(self, server: ApiServer, pods: WatchedCollection, clock: Clock) -> None:
        self._server = server
        self._pods = pods
        self._clock = clock
        self._news = asyncio.Event()
        self._deleted: deque[float] = deque()
        collection = Collection(
            UNREACHABLE_POD.api_version, UNREACHABLE_POD.plural, server.settings.namespace
        )
        self.reports = WatchedCollection(server, collection, clock, lambda *_: self._news.set())
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Follow the reports until :meth:`aclose`."""
        self.reports.start()
        self._task = asyncio.create_task(self._work(), name="unreachable pods")

    async def aclose(self) -> None:
        await self.reports.aclose()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _work(self) -> None:
        while True:
            self._news.clear()
            wait = await self._delete_some()
            if wait is None:
                await self._news.wait()
            else:
                await set_or_over(self._news, self._clock, wait)

    async def _delete_some(self) -> float | None:
        """Delete as many reported pods as may be; return when others may follow, if any do."""
        for pod in agreed(self.reports.objects.values()):
            found = self._pods.objects.get(ObjectKey(self._pods.collection.namespace, pod.name))
            if found is None or found["metadata"]["uid"] != pod.uid:
                continue
            if found["metadata"].get("deletionTimestamp"):
                continue
            if wait := self._wait():
                log.warning(
                    LogLine(
                        "a pod is unreachable, but as many were deleted as may be", pod=pod.name
                    )
                )
                return wait
            try:
                await self._delete(pod)
            except ClusterError as error:
                log.warning(
                    LogLine(
                        "an unreachable pod could not be deleted", pod=pod.name, reason=str(error)
                    )
                )
                return RETRY_INTERVAL
        return None

    def _wait(self) -> float:
        """Return the seconds until another pod may be deleted; 0 for now."""
        now = self._clock.time()
        while self._deleted and self._deleted[0] <= now - DELETION_WINDOW:
            self._deleted.popleft()
        if len(self._deleted) < most_deletions(len(self._pods.objects)):
            return 0
        return self._deleted[0] + DELETION_WINDOW - now

    async def _delete(self, pod: ReportedPod) -> None:
        """Label a pod, so that no other one is put on its node, and delete it."""
        labels = {"metadata": {"uid": pod.uid, "labels": {UNREACHABLE_LABEL: "true"}}}
        collection = self._pods.collection
        try:
            await self._server.patch(collection, pod.name, labels)
            await self._server.delete(collection, pod.name, uid=pod.uid)
        except (NoSuchObject, WriteConflict):
            return  # it is gone, or another one has its name
        self._deleted.append(self._clock.time())
        log.warning(
            LogLine("a pod was deleted that gateways cannot reach", pod=pod.name, uid=pod.uid)
        )
