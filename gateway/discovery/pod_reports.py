"""Reports of unreachable pods: objects of the cluster by which its operator counts gateways.

When several gateways report one pod, the operator replaces the pod. So a gateway needs no right on
pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
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
from partway.gateway.discovery.limits import MAX_REPORTS, REPORT_RENEWAL, WITHDRAWAL_TIMEOUT
from partway.gateway.fleet.discovered.source import FoundInstance
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause, set_or_over, time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.cluster")


class _Pod(NamedTuple):
    namespace: str
    name: str
    uid: str


@dataclass
class _Trouble:
    """Why a pod is to be reported.

    Attributes:
        since: epoch seconds.
        tellers: those that cannot reach the pod.
    """

    since: float
    tellers: set[object] = field(default_factory=set)


class PodReports:
    """Reports the pods that this gateway cannot reach, renews its reports, and withdraws them.

    One task sends the changes, one after the other. A report that the API server refuses is logged
    once, and tried again with the next renewal.

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
        self._troubles: dict[_Pod, _Trouble] = {}
        self._reported: set[_Pod] = set()
        self._refused: set[_Pod] = set()
        self._renewed_at = clock.time()
        self._has_too_many = False
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def tell(self, teller: object, namespace: str, instance: FoundInstance, trouble: str) -> None:
        """Report a pod that is unreachable; without a trouble, withdraw its report.

        A report stays until each teller has told that the trouble is over.
        """
        if instance.key == instance.address.host:
            return  # the slice names no pod
        pod = _Pod(namespace, instance.name, instance.key)
        known = self._troubles.get(pod)
        if trouble:
            known = self._troubles.setdefault(pod, _Trouble(self._wall_clock()))
            known.tellers.add(teller)
        elif known is not None:
            known.tellers.discard(teller)
            if not known.tellers:
                del self._troubles[pod]
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
            self._news.clear()
            try:
                await self._send()
            except Exception as error:  # whatever it is, reports must be renewed
                if not isinstance(error, ClusterAway):  # the watches have logged that
                    log.exception("reports of pods could not be sent; trying again")
                await pause(self._clock, wait)
                wait = min(2 * wait, RETRY_LONGEST)
                continue
            wait = RETRY_SHORTEST
            if self._troubles:
                left = self._renewed_at + REPORT_RENEWAL - self._clock.time()
                await set_or_over(self._news, self._clock, max(0.0, left))
            else:
                await self._news.wait()

    async def _send(self) -> None:
        """Withdraw what is over, report what is new, and renew the rest if that is due."""
        now = self._clock.time()
        is_due = now >= self._renewed_at + REPORT_RENEWAL
        wanted = set[_Pod]() if self._are_too_many() else self._troubles.keys()
        for pod in self._reported - wanted:
            await self._withdraw(pod)
        self._refused &= wanted
        known = self._reported | self._refused
        for pod in [*wanted]:
            if (is_due or pod not in known) and pod in self._troubles:
                await self._report(pod, self._troubles[pod].since)
        if is_due:
            self._renewed_at = now

    def _are_too_many(self) -> bool:
        are = len(self._troubles) > MAX_REPORTS
        if are and not self._has_too_many:
            line = "this gateway cannot reach so many pods that it reports none; is it cut off?"
            log.warning(LogLine(line, pods=len(self._troubles), most=MAX_REPORTS))
        self._has_too_many = are
        return are

    async def _report(self, pod: _Pod, since: float) -> None:
        """Renew a report, or make it: it may be gone, or be there from an earlier process."""
        made = self._object(pod, since)
        try:
            try:
                await self._server.patch(_collection(pod), self._name(pod), made)
            except NoSuchObject:
                await self._server.create(_collection(pod), made)
        except ClusterAway:
            raise
        except WriteConflict:  # it was made meanwhile, in this gateway's name
            self._reported.add(pod)
            return
        except ClusterError as error:
            if pod not in self._refused:
                self._tell_refusal(pod, error)
            self._refused.add(pod)
            return
        if pod not in self._reported:
            whose = {"namespace": pod.namespace, "pod": pod.name}
            log.warning(LogLine("a pod is reported as unreachable", **whose))
        self._reported.add(pod)
        self._refused.discard(pod)

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
                "since": _time(since, "seconds"),
                "renewed": _time(self._wall_clock(), "microseconds"),
            },
        }


def _collection(pod: _Pod) -> Collection:
    return Collection(UNREACHABLE_POD.api_version, UNREACHABLE_POD.plural, pod.namespace)


def _time(when: float, timespec: str) -> str:
    said = datetime.fromtimestamp(when, UTC).isoformat(timespec=timespec)
    return said.replace("+00:00", "Z")
