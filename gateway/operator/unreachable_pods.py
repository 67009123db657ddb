"""UnreachablePods: pods that gateways cannot reach are deleted, so that others take their place.

Kubernetes itself notices a lost node after 40 to 50 seconds. A gateway notices a lost pod
within five. One gateway may be cut off itself, so two must agree. A partition may cut off both from
many pods that serve others, so few pods are deleted at a time, and none while most are reported.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Sequence

from partway.gateway.cluster.answers import (
    ClusterAway,
    ClusterError,
    ClusterObject,
    NoSuchObject,
    WriteConflict,
)
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.model_labels import MODEL_LABEL
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.operator.counted_reports import CountedReports
from partway.gateway.operator.gateway_pods import GatewayPods
from partway.gateway.operator.limits import (
    DISRUPTION_PODS,
    LOOK_DELAY,
    RETRY_INTERVAL,
    UNREACHABLE_NODE_TIME,
)
from partway.gateway.operator.model_deployments import UNREACHABLE_LABEL
from partway.gateway.operator.recent_deletions import RecentDeletions
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause, set_or_over
from partway.log_lines import LogLine

log = logging.getLogger("partway.operator")


def is_disruption(reported: int, pods: int) -> bool:
    """Return whether so many of all pods are reported that the network is at fault."""
    return reported > DISRUPTION_PODS and 2 * reported > pods


def model_of(pod: ClusterObject) -> str:
    """Return the DeployedModel whose Deployment has made a pod; empty if none has."""
    metadata = pod["metadata"]
    model = str((metadata.get("labels") or {}).get(MODEL_LABEL, ""))
    owners = metadata.get("ownerReferences") or ()
    sets = [each for each in owners if each.get("controller") and each.get("kind") == "ReplicaSet"]
    is_made_so = any(str(each.get("name")).rpartition("-")[0] == model for each in sets)
    return model if is_made_so else ""


def is_running(pod: ClusterObject) -> bool:
    """Return whether a pod was started on a node, and is not being deleted."""
    is_leaving = pod["metadata"].get("deletionTimestamp")
    return not is_leaving and (pod.get("status") or {}).get("phase") == "Running"


class UnreachablePods:
    """Deletes pods that gateways report; only those of DeployedModels.

    Args:
        pods: the pods of DeployedModels. Each of their changes, but of annotations alone,
            must be told to :meth:`look`.
        gateways: those whose reports count. Their changes likewise.
        deletions: those that have been made.

    Attributes:
        reports: those that are counted.
    """

    def __init__(
        self,
        server: ApiServer,
        pods: WatchedCollection,
        gateways: GatewayPods,
        deletions: RecentDeletions,
        clock: Clock,
    ) -> None:
        self._server = server
        self._pods = pods
        self._gateways = gateways
        self._clock = clock
        self._news = asyncio.Event()
        self.reports = CountedReports(server, clock, self.look)
        self._deletions = deletions
        self._turns = itertools.count(1)
        self._last_turns: dict[str, int] = {}  # by model
        self._labelled: dict[str, float] = {}  # since when, by pod uid
        self._told: dict[str, str] = {}  # last lines, by pod uid
        self._is_disrupted = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Follow the reports until :meth:`aclose`."""
        self.reports.copy.start()
        self._task = asyncio.create_task(self._work(), name="unreachable pods")

    @property
    def task(self) -> asyncio.Task[None]:
        """The work, which a fault alone ends before :meth:`aclose`."""
        assert self._task is not None, "it has been started"
        return self._task

    async def aclose(self) -> None:
        await self.reports.copy.aclose()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def look(self) -> None:
        """Look at reports and pods soon."""
        self._news.set()

    async def _work(self) -> None:
        while True:
            self._news.clear()
            moments = [await self._delete_some(), await self._free_nodes(), await self._tidy()]
            known = [each for each in moments if each is not None]
            if known:
                wait = max(0.0, min(known) - self._clock.time())
                await set_or_over(self._news, self._clock, wait)
            else:
                await self._news.wait()
            await pause(self._clock, LOOK_DELAY)

    def _by_uid(self) -> dict[str, ClusterObject]:
        return {each["metadata"]["uid"]: each for each in self._pods.objects.values()}

    def _retry(self) -> float:
        return self._clock.time() + RETRY_INTERVAL

    async def _tidy(self) -> float | None:
        """Remove some old reports; return when others may be old."""
        try:
            await self.reports.remove_old()
        except ClusterError as error:
            log.warning(LogLine("an old report could not be removed", reason=str(error)))
            return self._retry()
        return self.reports.next_end()

    # --- Deletions -------------------------------------------------------------------------------

    async def _delete_some(self) -> float | None:
        """Delete as many reported pods as may be; return when others may follow, if any do."""
        agreed = self.reports.agreed(self._gateways.ready())
        if not (agreed or self._is_disrupted):
            return None
        pods = self._by_uid()
        own = {uid: each for uid, each in pods.items() if model_of(each) and is_running(each)}
        reported = [own[each.uid] for each in agreed if each.uid in own]
        if self._stands_still(len(reported), len(own)):
            return None
        has_failed = False
        for pod in self._in_turn(reported):
            moment = self._deletions.next(len(own))
            if moment > self._clock.time():
                self._tell(pod, "a pod is unreachable, but none may be deleted yet")
                return moment
            try:
                await self._delete(pod)
            except ClusterError as error:
                self._tell(pod, "an unreachable pod could not be deleted", str(error))
                if isinstance(error, ClusterAway):
                    return self._retry()
                has_failed = True
        return self._retry() if has_failed else None

    def _stands_still(self, reported: int, pods: int) -> bool:
        """Return whether the network is at fault; say so when that changes."""
        was, self._is_disrupted = self._is_disrupted, is_disruption(reported, pods)
        if self._is_disrupted and not was:
            line = "gateways cannot reach most pods, so none is deleted; look at the network"
            log.error(LogLine(line, unreachable=reported, pods=pods))
        elif was and not self._is_disrupted:
            log.info(LogLine("gateways reach most pods again", unreachable=reported, pods=pods))
        return self._is_disrupted

    def _in_turn(self, reported: Sequence[ClusterObject]) -> Iterable[ClusterObject]:
        """Yield pods: one of the model whose last turn is the longest ago, and so on."""
        left = [*reported]
        while left:
            pod = min(left, key=lambda each: self._last_turns.get(model_of(each), 0))
            left.remove(pod)
            yield pod

    async def _delete(self, pod: ClusterObject) -> None:
        """Label a pod, so that its successor is put on another node, and delete it.

        A deletion counts also if its answer is lost.
        """
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self._deletions.count()
        try:
            await self._label(pod, "true")
            await self._server.delete(self._pods.collection, name, uid=uid)
        except ClusterAway:
            raise
        except ClusterError as error:
            self._deletions.take_back()
            if isinstance(error, NoSuchObject | WriteConflict):
                return  # it is gone, or another one has its name
            raise
        models = {model_of(each) for each in self._pods.objects.values()}
        self._last_turns = {key: n for key, n in self._last_turns.items() if key in models}
        self._last_turns[model_of(pod)] = next(self._turns)
        log.warning(LogLine("a pod was deleted that gateways cannot reach", pod=name, uid=uid))

    def _tell(self, pod: ClusterObject, line: str, reason: str = "") -> None:
        """Log a line about a pod, if it is not the same as the last one."""
        metadata = pod["metadata"]
        if self._told.get(metadata["uid"]) != line:
            self._told[metadata["uid"]] = line
            fields = {"reason": reason} if reason else {}
            log.warning(LogLine(line, pod=metadata["name"], **fields))

    # --- Nodes -----------------------------------------------------------------------------------

    async def _label(self, pod: ClusterObject, value: str | None) -> None:
        metadata = pod["metadata"]
        changes = {"uid": metadata["uid"], "labels": {UNREACHABLE_LABEL: value}}
        await self._server.patch(self._pods.collection, metadata["name"], {"metadata": changes})

    async def _free_nodes(self) -> float | None:
        """Take the labels off again in time; return when others are due.

        By then Kubernetes has noticed a lost node. A node that is alive takes pods again, however
        long the deleted one terminates.
        """
        now = self._clock.time()
        pods = self._by_uid()
        self._told = {uid: line for uid, line in self._told.items() if uid in pods}
        labelled = {
            uid: each
            for uid, each in pods.items()
            if UNREACHABLE_LABEL in (each["metadata"].get("labels") or {})
        }
        self._labelled = {uid: self._labelled.get(uid, now) for uid in labelled}
        moments = []
        for uid, since in [*self._labelled.items()]:
            moment = since + UNREACHABLE_NODE_TIME
            if moment <= now:
                moment = self._retry()
                try:
                    await self._label(labelled[uid], None)
                except (NoSuchObject, WriteConflict):
                    pass  # its event comes
                except ClusterError as error:
                    reason = str(error)
                    self._tell(labelled[uid], "a pod's label could not be removed", reason)
            moments.append(moment)
        return min(moments, default=None)
