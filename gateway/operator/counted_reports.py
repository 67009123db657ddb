"""CountedReports: the reports of unreachable pods that an operator believes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from partway.gateway.apis.kubernetes.custom_object import UNREACHABLE_POD
from partway.gateway.cluster.answers import (
    ClusterObject,
    Collection,
    NoSuchObject,
    WriteConflict,
)
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.watched_collection import ObjectKey, WatchedCollection
from partway.gateway.operator.limits import (
    GATEWAYS_THAT_AGREE,
    REMOVED_AT_ONCE,
    REPORT_LIFETIME,
)
from partway.gateway.timing.clock import Clock


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


class CountedReports:
    """Follows the reports of a namespace, and removes those that no gateway renews.

    A report counts for REPORT_LIFETIME after each change, by this process's own clock. One of the
    first list may be old, so it counts from its next change on.

    Args:
        on_change: called after each change.

    Attributes:
        copy: all reports.
    """

    def __init__(self, server: ApiServer, clock: Clock, on_change: Callable[[], object]) -> None:
        kind = UNREACHABLE_POD
        collection = Collection(kind.api_version, kind.plural, server.settings.namespace)
        self.copy = WatchedCollection(server, collection, clock, self._changed)
        self._server = server
        self._clock = clock
        self._on_change = on_change
        self._ends: dict[ObjectKey, float] = {}
        self._doubted: set[ObjectKey] = set()  # until they change

    def agreed(self, gateways: Iterable[str]) -> list[ReportedPod]:
        """Return the pods that enough of these gateways report now, in order of their names."""
        now, known = self._clock.time(), set(gateways)
        return agreed(
            report
            for key, report in self.copy.objects.items()
            if key not in self._doubted
            and now < self._ends[key]
            and (report.get("spec") or {}).get("gateway") in known
        )

    def next_end(self) -> float | None:
        """Return when another report is over, by the clock; None without any report."""
        return min(self._ends.values(), default=None)

    async def remove_old(self) -> None:
        """Remove some reports that are over, unless they are renewed meanwhile.

        Raises:
            ClusterError: as :meth:`ApiServer.delete`.
        """
        now = self._clock.time()
        over = [key for key, end in self._ends.items() if end <= now]
        for key in over[:REMOVED_AT_ONCE]:
            old = self.copy.objects.get(key)
            if old is None:
                continue  # it went meanwhile
            self._doubted.add(key)
            self._ends[key] = now + REPORT_LIFETIME  # for another try
            version = str(old["metadata"]["resourceVersion"])
            with suppress(NoSuchObject, WriteConflict):  # its event comes
                await self._server.delete(self.copy.collection, key.name, version=version)

    def _changed(
        self, key: ObjectKey, now: ClusterObject | None, before: ClusterObject | None
    ) -> None:
        self._doubted.discard(key)
        if now is None:
            self._ends.pop(key, None)
        else:
            self._ends[key] = self._clock.time() + REPORT_LIFETIME
            if before is None and not self.copy.listed.is_set():
                self._doubted.add(key)
        self._on_change()
