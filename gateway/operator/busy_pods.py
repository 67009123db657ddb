"""BusyPods: pods with open streams are the last to go.

Kubernetes cannot see the streams of a pod. Gateways can, but have no right on pods. So the operator
reads the gateways' metrics, and annotates the pods: a scale-down then takes the idle ones, and
Cluster Autoscaler and Karpenter leave the busy ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from partway.gateway.cluster.answers import (
    ClusterAway,
    ClusterError,
    ClusterObject,
    NoSuchObject,
    WriteConflict,
)
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.endpoint_slices import NO_PORT, InstancesFound, ServiceInstance
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.fleet.discovered.source import short_id
from partway.gateway.operator.deletion_costs import (
    COST,
    DeletionCosts,
    changed_annotations,
    shown_cost,
)
from partway.gateway.operator.gateway_pages import GatewayPages, GatewayRefuses, GatewaySilent
from partway.gateway.operator.gateway_pods import GatewayPods
from partway.gateway.operator.limits import (
    ANNOTATED_AT_ONCE,
    MAX_GATEWAYS,
    READS_AT_ONCE,
    STREAMS_INTERVAL,
)
from partway.gateway.operator.open_streams import NO_STREAMS, GatewayStreams, ToldStreams
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause, side_by_side
from partway.log_lines import LogLine

log = logging.getLogger("partway.operator")

#: Stand for the annotations of a gateway's pod until they are known: they are written once.
_NOT_KNOWN: Final = {COST: "0"}


class _Pod(NamedTuple):
    """A pod, with its streams and annotations.

    Attributes:
        is_gateway: whether its annotations are in no copy, and others say whether it may be moved.
    """

    name: str
    uid: str
    streams: int
    annotations: Mapping[str, str]
    is_gateway: bool


class _Change(NamedTuple):
    pod: _Pod
    shown: int
    cost: int
    annotations: Mapping[str, str | None]


class BusyPods:
    """Keeps the annotations of DeployedModels' pods, and the deletion costs of gateways' pods.

    1. The streams of a pod are those of all gateways, also of gateways that drain.
    2. While the streams of a gateway are unknown, each model pod counts as busy: an idle pod that
       stays costs money for a while, and a busy one that goes costs streams.
    3. A gateway that Kubernetes calls unready, and that refuses connections, has no process, so no
       streams. Otherwise each gateway that starts would make all pods busy.

    Args:
        pods: the pods of DeployedModels.
        pages: closed with this object.

    Attributes:
        unknown: the names of gateways whose streams are unknown.
    """

    def __init__(
        self,
        server: ApiServer,
        pods: WatchedCollection,
        gateways: GatewayPods,
        pages: GatewayPages,
        clock: Clock,
    ) -> None:
        self.unknown: frozenset[str] = frozenset()
        self._server = server
        self._pods = pods
        self._gateways = gateways
        self._clock = clock
        self._pages = pages
        self._told = ToldStreams()
        self._costs = DeletionCosts()
        self._of_gateways: dict[str, Mapping[str, str]] = {}  # annotations, by UID
        self._failed: set[str] = set()  # UIDs of pods whose last write has failed
        self._trouble = ("", "")  # which gateways were left out of the last round, and why
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read and annotate until :meth:`aclose`."""
        self._task = asyncio.create_task(self._work(), name="busy pods")

    @property
    def task(self) -> asyncio.Task[None]:
        """The work, which a fault alone ends before :meth:`aclose`."""
        assert self._task is not None, "it has been started"
        return self._task

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        await self._pages.aclose()

    async def _work(self) -> None:
        await self._gateways.slices.listed.wait()
        while True:
            begun = self._clock.time()
            try:
                await self._read_and_annotate()
            except Exception:  # of a form that nobody foresaw: the next round may succeed
                log.exception(LogLine("pods could not be annotated"))
            await pause(self._clock, max(0.0, begun + STREAMS_INTERVAL - self._clock.time()))

    async def _read_and_annotate(self) -> None:
        gateways = self._gateways.found(NO_PORT).instances
        now = self._clock.time()
        await self._read(gateways, now)
        await self._annotate(gateways, now)

    # --- Reading ---------------------------------------------------------------------------------

    async def _read(self, gateways: tuple[ServiceInstance, ...], now: float) -> None:
        self._told.know([each.key for each in gateways], now)
        with_port = self._gateways.found(None)
        self._note_trouble(with_port)
        waiting = [*with_port.instances[:MAX_GATEWAYS]]
        reasons = {each.key: with_port.trouble for each in gateways}  # of those without a port
        too_many = f"there are {len(gateways)} gateways; the operator reads {MAX_GATEWAYS}"
        reasons |= {each.key: too_many for each in with_port.instances[MAX_GATEWAYS:]}

        async def read_some() -> None:
            while waiting:
                gateway = waiting.pop()
                try:
                    streams = await self._streams_of(gateway)
                    known = streams.of_pods(self._known_pods().keys())
                    self._told.tell(gateway.key, known, now)
                except GatewaySilent as error:
                    reasons[gateway.key] = str(error)

        if waiting:
            await side_by_side(min(READS_AT_ONCE, len(waiting)), read_some)
        unknown = self._told.unknown(now)
        self._note_unknown(
            {each.name for each in gateways},
            {each.name: reasons[each.key] for each in gateways if each.key in unknown},
        )

    async def _streams_of(self, gateway: ServiceInstance) -> GatewayStreams:
        try:
            return await self._pages.read(gateway)
        except GatewayRefuses:
            if gateway.is_ready or gateway.is_terminating:
                raise
            return NO_STREAMS

    def _note_trouble(self, found: InstancesFound) -> None:
        """Log why gateways are not found, once when that changes."""
        some = "some gateways" if found.instances else "gateways"
        trouble = found.trouble and f"{some} are not found by --gateways"
        if (trouble, found.trouble) == self._trouble:
            return
        self._trouble = (trouble, found.trouble)
        service = self._gateways.service
        if trouble:
            log.warning(LogLine(trouble, service=service, reason=found.trouble))
        else:
            log.info(LogLine("gateways are found by --gateways", service=service))

    def _note_unknown(self, there: Collection[str], reasons: Mapping[str, str]) -> None:
        for name in reasons.keys() - self.unknown:
            line = "the streams of a gateway are unknown, so all model pods count as busy"
            log.warning(LogLine(line, gateway=name, reason=reasons[name]))
        for name in self.unknown - reasons.keys():
            ends = "tells its streams again" if name in there else "is gone, so it has no streams"
            log.info(LogLine(f"a gateway {ends}", gateway=name))
        self.unknown = frozenset(reasons)

    # --- Annotating ------------------------------------------------------------------------------

    async def _annotate(self, gateways: tuple[ServiceInstance, ...], now: float) -> None:
        pods = [*self._model_pods(), *self._gateway_pods(gateways)]
        uids = {each.uid for each in pods}
        self._costs.keep_only(uids)
        self._failed &= uids
        until = self._clock.time() + STREAMS_INTERVAL
        for change in self._most_urgent(self._changes(pods, now)):
            if not await self._write(change) or self._clock.time() >= until:
                return  # the next round has fresh figures

    def _known_pods(self) -> dict[str, ClusterObject]:
        """Return the metadata of DeployedModels' pods, by their short ids."""
        return {
            short_id(each["metadata"]["name"], each["metadata"]["uid"]): each["metadata"]
            for each in self._pods.objects.values()
        }

    def _model_pods(self) -> Iterator[_Pod]:
        streams = self._told.by_pod()
        least = 1 if self.unknown else 0
        for key, metadata in self._known_pods().items():
            if not metadata.get("deletionTimestamp"):
                annotations = metadata.get("annotations") or {}
                count = max(streams[key], least)
                yield _Pod(metadata["name"], metadata["uid"], count, annotations, is_gateway=False)

    def _gateway_pods(self, gateways: tuple[ServiceInstance, ...]) -> Iterator[_Pod]:
        """Yield the pods of gateways, if the operator has rights on them."""
        there = {each.key for each in gateways}
        self._of_gateways = {key: x for key, x in self._of_gateways.items() if key in there}
        if self._gateways.slices.collection.namespace != self._server.settings.namespace:
            return
        for each in gateways:
            if each.name == each.host:
                continue  # the slice names no pod
            if not each.is_terminating and self._told.has_told(each.key):
                annotations = self._of_gateways.get(each.key, _NOT_KNOWN)
                streams = self._told.of(each.key).total
                yield _Pod(each.name, each.key, streams, annotations, is_gateway=True)

    def _changes(self, pods: Iterable[_Pod], now: float) -> Iterator[_Change]:
        for pod in pods:
            shown = shown_cost(pod.annotations)
            cost = self._costs.cost(pod.uid, shown, pod.streams, now)
            changes = changed_annotations(pod.annotations, cost, stays=not pod.is_gateway)
            if changes:
                yield _Change(pod, shown, cost, changes)

    def _most_urgent(self, changes: Iterable[_Change]) -> list[_Change]:
        """Return those that are written now: the first stream of a pod, then its last one.

        Writes that have failed come last, so that one pod holds up no other.
        """

        def urgency(each: _Change) -> tuple[bool, bool, bool, int]:
            has_failed = each.pod.uid in self._failed
            return not has_failed, each.shown == 0, each.cost == 0, abs(each.cost - each.shown)

        return sorted(changes, key=urgency, reverse=True)[:ANNOTATED_AT_ONCE]

    async def _write(self, change: _Change) -> bool:
        """Write a pod's annotations; return whether the API server answers."""
        pod = change.pod
        body = {"metadata": {"uid": pod.uid, "annotations": change.annotations}}
        try:
            written = await self._server.patch(self._pods.collection, pod.name, body)
        except (NoSuchObject, WriteConflict):
            return True  # it is gone, or another one has its name
        except ClusterError as error:
            if pod.uid not in self._failed:
                self._failed.add(pod.uid)
                line = "the annotations of a pod could not be changed"
                log.warning(LogLine(line, pod=pod.name, reason=str(error)))
            return not isinstance(error, ClusterAway)
        self._failed.discard(pod.uid)
        if pod.is_gateway:
            self._of_gateways[pod.uid] = written["metadata"].get("annotations") or {}
        else:
            self._pods.take(written)
        return True
