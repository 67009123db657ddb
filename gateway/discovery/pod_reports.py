"""Reports of unreachable pods: objects of the cluster by which its operator counts gateways.

When several gateways report one pod, the operator replaces the pod. So a gateway needs no right on
pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from partway.gateway.apis.kubernetes.custom_object import UNREACHABLE_POD
from partway.gateway.cluster.answers import (
    ClusterAway,
    ClusterError,
    Collection,
    NoSuchObject,
    WriteConflict,
)
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.limits import RETRY_LONGEST, RETRY_SHORTEST
from partway.gateway.discovery.limits import WITHDRAWAL_TIMEOUT
from partway.gateway.fleet.discovered.source import FoundInstance
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause, time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.cluster")


class _Pod(NamedTuple):
    namespace: str
    name: str
    uid: str


class PodReports:
    """Reports the pods that this gateway cannot reach, and withdraws each report in time.

    One task sends the changes, one after the other. A report that the API server refuses is logged,
    and not sent again.

    Args:
        gateway: this gateway's name, which no other gateway of the cluster has.
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self, server: ApiServer, gateway: str, clock: Clock, wall_clock: Callable[[], float]
    ) -> None:
        self._server = server
        self._gateway = gateway
        self._clock = clock
        self._wall_clock = wall_clock
        self._wanted: dict[_Pod, float] = {}  # since when
        self._reported: set[_Pod] = set()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def tell(self, namespace: str, instance: FoundInstance, trouble: str) -> None:
        """Report a pod that is unreachable; without a trouble, withdraw its report."""
        if instance.key == instance.address.host:
            return  # the slice names no pod
        pod = _Pod(namespace, instance.name, instance.key)
        if trouble:
            self._wanted.setdefault(pod, self._wall_clock())
        else:
            self._wanted.pop(pod, None)
        self._news.set()
        if self._task is None:
            self._task = asyncio.create_task(self._send_all(), name="reports of unreachable pods")

    async def aclose(self) -> None:
        """Withdraw all reports, if the API server takes that in time."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait((self._task,))
        try:
            async with time_limit(self._clock, WITHDRAWAL_TIMEOUT):
                for pod in [*self._reported]:
                    await self._withdraw(pod)
        except (ClusterError, TimeoutError) as error:
            log.warning(LogLine("reports of pods are not withdrawn", reason=str(error) or "late"))

    async def _send_all(self) -> None:
        wait = RETRY_SHORTEST
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                for pod in self._reported - self._wanted.keys():
                    await self._withdraw(pod)
                for pod in self._wanted.keys() - self._reported:
                    await self._report(pod, self._wanted[pod])
            except ClusterAway:  # the watches have logged that
                self._news.set()
                await pause(self._clock, wait)
                wait = min(2 * wait, RETRY_LONGEST)
            else:
                wait = RETRY_SHORTEST

    async def _report(self, pod: _Pod, since: float) -> None:
        self._reported.add(pod)
        try:
            await self._server.create(_collection(pod), self._object(pod, since))
        except ClusterAway:
            self._reported.discard(pod)
            raise
        except WriteConflict:
            pass  # the same report of this gateway is there
        except ClusterError as error:
            self._tell_refusal(pod, error)
        else:
            whose = {"namespace": pod.namespace, "pod": pod.name}
            log.warning(LogLine("a pod is reported as unreachable", **whose))

    async def _withdraw(self, pod: _Pod) -> None:
        try:
            await self._server.delete(_collection(pod), self._name(pod))
        except NoSuchObject:
            pass  # it has gone with its pod
        except ClusterAway:
            raise
        except ClusterError as error:
            self._tell_refusal(pod, error)
        self._reported.discard(pod)

    def _tell_refusal(self, pod: _Pod, error: ClusterError) -> None:
        whose = {"namespace": pod.namespace, "pod": pod.name}
        log.warning(LogLine("a report of a pod is refused", **whose, reason=str(error)))

    def _name(self, pod: _Pod) -> str:
        return f"{pod.name}.{self._gateway}"

    def _object(self, pod: _Pod, since: float) -> dict[str, Any]:
        when = datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        return {
            "apiVersion": UNREACHABLE_POD.api_version,
            "kind": UNREACHABLE_POD.kind,
            "metadata": {
                "name": self._name(pod),
                "namespace": pod.namespace,
                "ownerReferences": [owner],
            },
            "spec": {
                "pod": pod.name,
                "podUID": pod.uid,
                "gateway": self._gateway,
                "since": when.replace("+00:00", "Z"),
            },
        }


def _collection(pod: _Pod) -> Collection:
    return Collection(UNREACHABLE_POD.api_version, UNREACHABLE_POD.plural, pod.namespace)
