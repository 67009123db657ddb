"""Services of a cluster as sources of instances: one watch of each namespace serves all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from partway.gateway.cluster.answers import ClusterError, ClusterObject, Collection
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.endpoint_slices import (
    ServiceInstance,
    ServiceRefused,
    find_instances,
    service_of,
)
from partway.gateway.cluster.limits import RETRY_LONGEST, RETRY_SHORTEST
from partway.gateway.cluster.model_labels import ENDPOINT_LABEL
from partway.gateway.cluster.server_presence import ServerPresence
from partway.gateway.cluster.slices_version import slices_version
from partway.gateway.cluster.watched_collection import ObjectKey, WatchedCollection
from partway.gateway.discovery.instance_room import InstanceRoom
from partway.gateway.discovery.limits import LOOK_DELAY, UNREADY_DOUBT
from partway.gateway.fleet.discovered.source import FoundInstance, FoundInstances
from partway.gateway.fleet.endpoint import Discovered
from partway.gateway.network.dialling import Address
from partway.gateway.timing.clock import Clock, Timer
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

log = logging.getLogger("partway.cluster")

#: Called with the teller, an instance's namespace, the instance, and why the teller cannot reach
#: it; empty if it can again.
OnReachable = Callable[[object, str, FoundInstance, str], object]


class ServiceSources:
    """Finds the pods of Services; see :class:`~partway.gateway.fleet.discovered.source`.

    Args:
        on_reachable: called when this gateway cannot reach a pod, and when it can again.
        on_known: called when the Services of a namespace are known.
    """

    def __init__(
        self,
        server: ApiServer,
        clock: Clock,
        on_reachable: OnReachable,
        on_known: Callable[[], object],
    ) -> None:
        self._server = server
        self._clock = clock
        self._on_reachable = on_reachable
        self._on_known = on_known
        self._presence = ServerPresence(server, clock)
        self._namespaces: dict[str, _Namespace] = {}
        self._room = InstanceRoom()

    @property
    def namespaces(self) -> Iterable[str]:
        return self._namespaces.keys()

    @property
    def troubles(self) -> dict[str, str]:
        """Why the copy of a namespace may be old, by namespace; those without trouble left out."""
        troubles = {name: each.trouble for name, each in self._namespaces.items()}
        return {name: trouble for name, trouble in troubles.items() if trouble}

    def follow(
        self, source: Discovered, on_change: Callable[[FoundInstances], object]
    ) -> FollowedService:
        """Follow the Service of a source, which is in this process's namespace by default."""
        place, name = self.place_of(source.service)
        self.watch(place)
        return FollowedService(
            *(self._namespaces[place], name, source, on_change, self._on_reachable, self._room)
        )

    def place_of(self, service: str) -> tuple[str, str]:
        """Return the namespace and the name of a Service."""
        place, _, name = service.rpartition("/")
        return place or self._server.settings.namespace, name

    def watch(self, namespace: str) -> None:
        """Begin to watch the Services of a namespace."""
        self._presence.start()
        if namespace not in self._namespaces:
            self._namespaces[namespace] = _Namespace(
                self._server, self._presence, namespace, self._clock, self._on_known
            )

    def is_known(self, namespace: str) -> bool:
        """Whether the Services of a namespace are known; they may be old."""
        found = self._namespaces.get(namespace)
        return found is not None and found.is_known

    async def aclose(self) -> None:
        await self._presence.aclose()
        await asyncio.gather(*(each.aclose() for each in self._namespaces.values()))


class FollowedService:
    """A Service that is followed."""

    def __init__(
        self,
        namespace: _Namespace,
        name: str,
        source: Discovered,
        on_change: Callable[[FoundInstances], object],
        on_reachable: OnReachable,
        room: InstanceRoom,
    ) -> None:
        self.name = name
        self.source = source
        self._room = room
        self._namespace = namespace
        self._on_change = on_change
        self._on_reachable = on_reachable
        self._told: FoundInstances | None = None
        namespace.followed.append(self)
        asyncio.get_running_loop().call_soon(namespace.look_at, self)

    @property
    def trouble(self) -> str:
        return self._namespace.trouble

    def tell_reachable(self, instance: FoundInstance, trouble: str) -> None:
        self._on_reachable(self, self._namespace.name, instance, trouble)

    def stop(self) -> None:
        self._namespace.followed.remove(self)
        self._room.leave(self)

    def look_soon(self) -> None:
        self._namespace.look_soon(self.name)

    def was_ready(self, key: str) -> bool:
        """Whether an instance was ready when it was told last."""
        instances = () if self._told is None else self._told.instances
        return any(each.key == key and each.is_ready for each in instances)

    def tell(self, found: FoundInstances) -> None:
        """Tell all instances as they are now, as far as there is room, if this is news."""
        known = () if self._told is None else self._told.instances
        found = self._room.fitted(self, found, {each.key for each in known})
        if found != self._told:
            self._told = found
            self._on_change(found)


class _Namespace:
    """The Services and slices of one namespace, and who follows them.

    Changes are looked at a moment later, all of them together: see LOOK_DELAY.

    Attributes:
        followed: in the order in which they were followed.
        is_known: whether both copies have been there once.
    """

    def __init__(
        self,
        server: ApiServer,
        presence: ServerPresence,
        name: str,
        clock: Clock,
        on_known: Callable[[], object],
    ) -> None:
        self.name = name
        self._presence = presence
        self.is_known = False
        self._on_known = on_known
        self.followed: list[FollowedService] = []
        self._server = server
        self._clock = clock
        self._services = WatchedCollection(
            server, Collection("v1", "services", name), clock, self._service_changed
        )
        self._slices: WatchedCollection | None = None
        self._by_service: dict[str, dict[str, ClusterObject]] = {}
        self._news: set[str] = set()
        self._trouble = "the API server has not been asked yet"
        self._look: Timer | None = None
        self._doubt: Timer | None = None
        self._begin = asyncio.create_task(self._follow(), name=f"services of {name}")

    @property
    def trouble(self) -> str:
        """Why the copy may be old, or is not there; empty while both watches run."""
        slices = self._slices
        if slices is None:
            return self._trouble
        return slices.trouble or self._services.trouble or self._presence.trouble

    async def aclose(self) -> None:
        for timer in (self._look, self._doubt):
            if timer is not None:
                timer.cancel()
        self._begin.cancel()
        await asyncio.wait((self._begin,))
        await self._services.aclose()
        if self._slices is not None:
            await self._slices.aclose()

    async def _follow(self) -> None:
        """Begin both watches; return once both copies are there."""
        self._services.start()
        slices = Collection(await self._slices_version(), "endpointslices", self.name)
        self._slices = WatchedCollection(self._server, slices, self._clock, self._slice_changed)
        self._slices.start()
        await self._services.listed.wait()
        await self._slices.listed.wait()
        self.is_known = True
        for each in [*self.followed]:
            self.look_at(each)
        self._on_known()

    async def _slices_version(self) -> str:
        """Return the version of slices, once the server says it."""
        wait = RETRY_SHORTEST
        while True:
            try:
                return await slices_version(self._server)
            except ClusterError as error:
                trouble = str(error)
            if trouble != self._trouble:
                self._trouble = trouble
                line = "no instance can be discovered; trying again"
                log.warning(LogLine(line, namespace=self.name, reason=trouble))
            await pause(self._clock, wait)
            wait = min(2 * wait, RETRY_LONGEST)

    # --- Changes ----------------------------------------------------------------------------------

    def look_soon(self, service: str) -> None:
        """Tell the followers of a Service, after a moment in which more may change."""
        self._news.add(service)
        if self._look is None and self.is_known:
            self._look = self._clock.call_later(LOOK_DELAY, self._look_at_news)

    def look_at(self, followed: FollowedService) -> None:
        """Tell a follower now, if it still is one and all is known."""
        if self.is_known and followed in self.followed:
            try:
                followed.tell(self._found(followed))
            except Exception:  # nobody foresaw it, and others must be told
                line = "a Service could not be followed"
                log.exception(LogLine(line, namespace=self.name, service=followed.name))

    def _service_changed(
        self, key: ObjectKey, now: ClusterObject | None, before: ClusterObject | None
    ) -> None:
        self.look_soon(key.name)

    def _slice_changed(
        self, key: ObjectKey, now: ClusterObject | None, before: ClusterObject | None
    ) -> None:
        if before is not None:
            service = service_of(before)
            self._by_service.get(service, {}).pop(key.name, None)
            self.look_soon(service)
        if now is not None:
            service = service_of(now)
            self._by_service.setdefault(service, {})[key.name] = now
            self.look_soon(service)

    def _look_at_news(self) -> None:
        self._look = None
        news, self._news = self._news, set()
        for each in [*self.followed]:
            if each.name in news:
                self.look_at(each)

    def _found(self, followed: FollowedService) -> FoundInstances:
        service = self._services.objects.get(ObjectKey(self.name, followed.name))
        if service is None:
            trouble = f"there is no Service {followed.name!r} in the namespace {self.name!r}"
            return FoundInstances(trouble=trouble, is_refused=True)
        wanted = followed.source.endpoint
        if wanted and (service["metadata"].get("labels") or {}).get(ENDPOINT_LABEL) != wanted:
            trouble = (
                f"the Service {followed.name!r} was not made for the endpoint {wanted!r}: the "
                f"DeployedModel {followed.name!r} must name it in its endpointPath"
            )
            return FoundInstances(trouble=trouble, is_refused=True)
        slices = self._by_service.get(followed.name, {}).values()
        try:
            found = find_instances(
                service, slices, followed.source.port, loopback=self._server.settings.is_local
            )
        except ServiceRefused as error:
            return FoundInstances(trouble=str(error), is_refused=True)
        instances = tuple(map(_instance, found.instances))
        return FoundInstances(self._doubted(instances, followed), found.trouble)

    def _doubted(
        self, instances: tuple[FoundInstance, ...], followed: FollowedService
    ) -> tuple[FoundInstance, ...]:
        """Keep instances ready that are called unready just after the API server's return."""
        watched = (self._services, self._presence, self._slices)
        away_at = max(each.away_at for each in watched if each is not None)
        left = away_at + UNREADY_DOUBT - self._clock.time()
        doubted = {
            each.key
            for each in instances
            if left > 0 and not (each.is_ready or each.is_leaving) and followed.was_ready(each.key)
        }
        if doubted and self._doubt is None:
            self._doubt = self._clock.call_later(left, self._doubt_no_more)
        return tuple(
            replace(each, is_ready=each.is_ready or each.key in doubted) for each in instances
        )

    def _doubt_no_more(self) -> None:
        self._doubt = None
        for each in self.followed:
            self.look_soon(each.name)


def _instance(found: ServiceInstance) -> FoundInstance:
    return FoundInstance(
        *(found.key, found.name, Address(found.host, found.port)),
        is_ready=found.is_ready,
        is_leaving=found.is_terminating,
    )
