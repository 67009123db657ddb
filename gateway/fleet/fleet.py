"""The fleet: all endpoints of a gateway and their deployments."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from partway.gateway.fleet.deployment import Deployment
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.instance_context import Means
from partway.gateway.fleet.instance_factory import InstanceMaker
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.status import EndpointState, EndpointStatus
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine
from partway.protocol.errors import InputValidationError, ServiceUnavailable

if TYPE_CHECKING:
    from partway.gateway.fleet.deployed_endpoint import DeployedEndpoint
    from partway.gateway.fleet.discovered.source import InstanceSources
    from partway.gateway.fleet.kept_instances import KeptInstances

log = logging.getLogger("partway.fleet")


class NoSuchEndpoint(InputValidationError):
    """The fleet has no endpoint of that name; the message lists the names it has."""


class FleetStopping(ServiceUnavailable):
    pass


class Fleet:
    """All endpoints of a gateway.

    Args:
        kept: the ids of instances that outlive this process; None if none does.

    Attributes:
        on_change: called with an endpoint's name when the endpoint has changed or ended.
        on_routed: called with an endpoint's name before, when the router knows of that.
        on_end: called with the names of the remaining endpoints when one has ended.
        on_readiness: called when :attr:`is_ready` has changed.
        find_sources: returns the sources of discovered endpoints' instances; called for the first
            such endpoint.
        is_uninformed: whether it is not known yet which discovered endpoints and instances there
            are.
    """

    def __init__(self, router: Router, means: Means, kept: KeptInstances | None = None) -> None:
        self.router = router
        self.on_change: Callable[[str], object] = lambda _: None
        self.on_routed: Callable[[str], object] = lambda _: None
        self.on_end: Callable[[Collection[str]], object] = lambda _: None
        self.on_readiness: Callable[[], object] = lambda: None
        self.find_sources: Callable[[], InstanceSources]
        self.is_uninformed: Callable[[], bool] = lambda: False
        self._news = asyncio.Event()
        self._is_ready = False
        self._means = means
        self._kept = kept
        self._deployments: dict[str, DeployedEndpoint] = {}
        self._leaving: dict[asyncio.Task[None], DeployedEndpoint] = {}
        self._stopping = False
        self._hastened = False

    @property
    def is_ready(self) -> bool:
        """Whether each endpoint has come up or failed once, or the wait for them is over.

        Without knowledge of discovered endpoints the fleet is not ready, however long that takes.
        """
        return self._is_ready and not self.is_uninformed()

    @is_ready.setter
    def is_ready(self, value: bool) -> None:
        if value is not self._is_ready:
            self._is_ready = value
            self.on_readiness()

    async def informed(self) -> None:
        """Return once it is known which discovered endpoints there are, however long that takes."""
        while self.is_uninformed():
            self._news.clear()
            await self._news.wait()

    def tell_informed(self) -> None:
        """Take note that :attr:`is_uninformed` may have changed."""
        self._news.set()
        self.on_readiness()

    @property
    def _clock(self) -> Clock:
        return self._means.around.clock

    # --- Endpoints -------------------------------------------------------------------------------

    def apply(self, endpoint: Endpoint, *, anew: bool = False, awaited: bool = True) -> None:
        """Create or change an endpoint; return at once.

        Args:
            endpoint: the endpoint to deploy.
            anew: whether to replace instances that already match, because their image or model data
                may have changed behind the same name.
            awaited: whether a caller has just asked for the endpoint and waits for the outcome. If
                false, a new endpoint is tried for longer.

        Raises:
            FleetStopping: the fleet is being stopped.
        """
        self.check_takes_changes()
        name = endpoint.name
        known = self._deployments.get(name)
        if known is not None and not known.is_ending:
            if known.endpoint.is_discovered is endpoint.is_discovered:
                known.change(endpoint, anew=anew)
                return
            self.remove(name)  # an endpoint of the other kind is made anew
        self._deployments[name] = self._deployed(endpoint, awaited=awaited)
        self._changed(name)

    def _deployed(self, endpoint: Endpoint, *, awaited: bool) -> DeployedEndpoint:
        def changed() -> None:
            self._changed(endpoint.name)

        around = self._means.around
        if endpoint.is_discovered:
            from partway.gateway.fleet.discovered.deployment import DiscoveredDeployment

            sources = self.find_sources()
            return DiscoveredDeployment(endpoint, sources, self.router, around, changed)
        return Deployment(
            *(endpoint, self._maker, around.clock, around.wall_clock),
            on_change=changed,
            awaited=awaited,
        )

    def remove(self, name: str) -> None:
        """Delete an endpoint: refuse new work, drain and stop; return at once.

        Raises:
            FleetStopping: the fleet is being stopped.
            NoSuchEndpoint: there is no endpoint of that name.
        """
        self.check_takes_changes()
        deployment = self._find(name)
        if not deployment.is_ending:
            deployment.delete()
            task = asyncio.create_task(self._forget(name, deployment), name=f"end of {name}")
            self._leaving[task] = deployment
            task.add_done_callback(self._leaving.pop)

    async def restart(self, name: str) -> None:
        """Replace an endpoint's instances by new ones.

        Raises:
            FleetStopping: the fleet is being stopped.
            InputValidationError: the containers run outside the gateway.
            NoSuchEndpoint: there is no endpoint of that name.
            ServiceUnavailable: the new instances do not come into service. The old ones serve on,
                unless the endpoint is being deleted.
        """
        self.check_takes_changes()
        deployment = self._find(name)
        if not deployment.endpoint.launched:
            raise InputValidationError(
                f"the gateway did not start the containers of {name!r}, so it cannot restart them",
                "NotRestartable",
            )
        if not deployment.is_ending:
            deployment.restart()
            await deployment.settled()
        if deployment.state is EndpointState.STOPPING:
            raise FleetStopping("the gateway is stopping, and starts no instances")
        if deployment.is_ending:
            raise ServiceUnavailable(f"the endpoint {name!r} is being deleted")
        if deployment.reason:
            raise ServiceUnavailable(f"the new instances are not in service: {deployment.reason}")

    def describe(self) -> tuple[EndpointStatus, ...]:
        """Return the status of all endpoints, in the order of their names."""
        return tuple(self._deployments[name].status() for name in sorted(self._deployments))

    def status(self, name: str) -> EndpointStatus | None:
        deployment = self._deployments.get(name)
        return None if deployment is None else deployment.status()

    def containers(self) -> Mapping[str, int]:
        """Return how many containers each endpoint has or will have, those that stop included."""
        found: Counter[str] = Counter()
        for name, each in self._deployments.items():
            found[name] += each.containers
        for each in self._leaving.values():
            if self._deployments.get(each.endpoint.name) is not each:  # another has its name
                found[each.endpoint.name] += each.containers
        return found

    def further_containers(self, endpoint: Endpoint, *, anew: bool) -> int:
        """Return how many more containers :meth:`apply` with the same arguments would add."""
        known = self._deployments.get(endpoint.name)
        if known is None or known.is_ending:
            return endpoint.launched
        return known.further_containers(endpoint, anew=anew)

    def prediction(self, name: str) -> PredictionPolicy:
        """Return an endpoint's prediction policy; the default one if the endpoint is unknown."""
        deployment = self._deployments.get(name)
        return PredictionPolicy() if deployment is None else deployment.endpoint.prediction

    def check_takes_changes(self) -> None:
        """Refuse a change if the fleet is being stopped.

        Raises:
            FleetStopping: the fleet is being stopped.
        """
        if self._stopping:
            raise FleetStopping("the gateway is stopping, and takes no changes")

    def _find(self, name: str) -> DeployedEndpoint:
        try:
            return self._deployments[name]
        except KeyError:
            known = ", ".join(sorted(self._deployments)) or "none"
            raise NoSuchEndpoint(
                f"there is no endpoint {name!r}; the endpoints are: {known}", "EndpointNotFound"
            ) from None

    # --- Start and stop ---------------------------------------------------------------------------

    def start(self, endpoints: Iterable[Endpoint], awaited: Collection[str] = ()) -> None:
        """Deploy the first endpoints; return at once.

        ``awaited`` names the endpoints that have never worked and that a caller waits for.
        """
        for endpoint in endpoints:
            self.is_ready = False
            self.apply(endpoint, awaited=endpoint.name in awaited)

    async def settled(self, seconds: float) -> bool:
        """Wait until each endpoint has come up or failed, for at most so many seconds.

        Returns:
            Whether all have.
        """
        try:
            return await self.has_settled(seconds)
        finally:
            self.is_ready = True

    async def has_settled(self, seconds: float) -> bool:
        """Wait as :meth:`settled` does, but leave :attr:`is_ready` alone."""
        try:
            async with time_limit(self._clock, seconds):
                for each in list(self._deployments.values()):
                    await each.settled()
        except TimeoutError:
            return False
        return True

    def take_no_changes(self) -> None:
        """Refuse changes from now on: the gateway is stopping."""
        self._stopping = True

    def hasten(self) -> None:
        """Hurry the stop, now or when it begins: cut what is open and kill containers."""
        self._hastened = True
        for each in (*self._deployments.values(), *self._leaving.values()):
            each.hasten()

    async def stop(self) -> None:
        """Stop every launched instance; return when none is left."""
        self._stopping = True
        leaving = list(self._deployments.values())
        for each in leaving:
            if not each.is_ending:
                each.stop()
        if self._hastened:
            self.hasten()
        await asyncio.gather(*(each.gone() for each in leaving))
        await asyncio.gather(*self._leaving)

    async def _forget(self, name: str, deployment: DeployedEndpoint) -> None:
        await deployment.gone()
        if self._deployments.get(name) is deployment:
            del self._deployments[name]
            self._changed(name)
            self.on_end(self._deployments.keys())
        log.info(LogLine("endpoint deleted", endpoint=name))

    def _maker(self, endpoint: Endpoint) -> InstanceMaker:
        return InstanceMaker(self._means, self.router, endpoint, self._kept)

    def _changed(self, name: str) -> None:
        deployment = self._deployments.get(name)
        self.router.update(name, None if deployment is None else deployment.routed())
        self.on_routed(name)
        self.on_change(name)
