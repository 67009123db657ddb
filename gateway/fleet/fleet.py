"""The fleet: all endpoints of a gateway, each with what runs for it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

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

log = logging.getLogger("partway.fleet")


class NoSuchEndpoint(InputValidationError):
    """The fleet has no endpoint of that name; the message says which it has."""


class FleetStopping(ServiceUnavailable):
    """The fleet takes no changes: it is being stopped."""


class Fleet:
    """The endpoints, as they are to be and as they are.

    Args:
        router: is told which instances take streams and requests.
        means: by what there are instances.

    Attributes:
        router: chooses instances.
        on_change: told the name of an endpoint when any of it has changed, its end too.
        on_end: told the names of all that are left when an endpoint is no more.
        is_ready: whether each endpoint has come up or failed once, or was waited for long enough.
    """

    def __init__(self, router: Router, means: Means) -> None:
        self.router = router
        self.on_change: Callable[[str], object] = lambda _: None
        self.on_end: Callable[[Collection[str]], object] = lambda _: None
        self.is_ready = False
        self._means = means
        self._deployments: dict[str, Deployment] = {}
        self._leaving: dict[asyncio.Task[None], Deployment] = {}
        self._stopping = False
        self._hastened = False

    @property
    def _clock(self) -> Clock:
        return self._means.around.clock

    # --- Endpoints -------------------------------------------------------------------------------

    def apply(self, endpoint: Endpoint, *, anew: bool = False, awaited: bool = True) -> None:
        """Have an endpoint, or have it be another; returns at once.

        Args:
            endpoint: as it is to be.
            anew: whether instances that are what they are to be are replaced all the same: what
                their image and their model data name may have changed.
            awaited: whether somebody has just asked for it, and waits to hear whether it works;
                else it is tried for longer, if the fleet does not have it yet.

        Raises:
            FleetStopping: it is too late.
        """
        self.check_takes_changes()
        known = self._deployments.get(endpoint.name)
        if known is not None and not known.is_ending:
            known.change(endpoint, anew=anew)
            return
        around = self._means.around
        name = endpoint.name
        self._deployments[name] = Deployment(
            *(endpoint, self._maker, around.clock, around.wall_clock),
            on_change=lambda: self._changed(name),
            awaited=awaited,
        )
        self._changed(name)

    def remove(self, name: str) -> None:
        """Delete an endpoint: it takes nothing new, drains and stops; returns at once.

        Raises:
            FleetStopping: it is too late.
            NoSuchEndpoint: there is none of that name.
        """
        self.check_takes_changes()
        deployment = self._find(name)
        if not deployment.is_ending:
            deployment.delete()
            task = asyncio.create_task(self._forget(name, deployment), name=f"end of {name}")
            self._leaving[task] = deployment
            task.add_done_callback(self._leaving.pop)

    async def restart(self, name: str) -> None:
        """Have new instances of an endpoint take over from those that it has.

        Raises:
            FleetStopping: it is too late.
            InputValidationError: somebody else runs its containers.
            NoSuchEndpoint: there is none of that name.
            ServiceUnavailable: the new ones do not come into service; the old ones serve on, unless
                the endpoint is being deleted.
        """
        self.check_takes_changes()
        deployment = self._find(name)
        if deployment.endpoint.is_attached:
            raise InputValidationError(
                f"the containers of {name!r} are somebody else's: they are not the gateway's to "
                "restart",
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
        """How all endpoints are, in the order of their names."""
        return tuple(self._deployments[name].status() for name in sorted(self._deployments))

    def status(self, name: str) -> EndpointStatus | None:
        """How one endpoint is; None if there is none of that name."""
        deployment = self._deployments.get(name)
        return None if deployment is None else deployment.status()

    def containers(self) -> Mapping[str, int]:
        """How many containers each endpoint has or is to have, those that go still among them."""
        found: Counter[str] = Counter()
        for name, each in self._deployments.items():
            found[name] += each.containers
        for each in self._leaving.values():
            if self._deployments.get(each.endpoint.name) is not each:  # made again under its name
                found[each.endpoint.name] += each.containers
        return found

    def further_containers(self, endpoint: Endpoint, *, anew: bool) -> int:
        """How many more containers there would be if this was applied.

        Args:
            endpoint: as :meth:`apply` has it.
            anew: likewise.
        """
        known = self._deployments.get(endpoint.name)
        if known is None or known.is_ending:
            return endpoint.launched
        return known.further_containers(endpoint, anew=anew)

    def prediction(self, name: str) -> PredictionPolicy:
        """How an endpoint's containers are asked for predictions; by default if it is unknown."""
        deployment = self._deployments.get(name)
        return PredictionPolicy() if deployment is None else deployment.endpoint.prediction

    def check_takes_changes(self) -> None:
        """Refuse a change.

        Raises:
            FleetStopping: the fleet is being stopped.
        """
        if self._stopping:
            raise FleetStopping("the gateway is stopping, and takes no changes")

    def _find(self, name: str) -> Deployment:
        try:
            return self._deployments[name]
        except KeyError:
            known = ", ".join(sorted(self._deployments)) or "none"
            raise NoSuchEndpoint(
                f"there is no endpoint {name!r}; there are: {known}", "EndpointNotFound"
            ) from None

    # --- From the start to the end ---------------------------------------------------------------

    def start(self, endpoints: Iterable[Endpoint], awaited: Collection[str] = ()) -> None:
        """Begin with these endpoints; returns at once.

        Args:
            endpoints: all that there are at the gateway's start.
            awaited: the names of those that have not worked before, and somebody waits for.
        """
        for endpoint in endpoints:
            self.is_ready = False
            self.apply(endpoint, awaited=endpoint.name in awaited)

    async def settled(self, seconds: float) -> bool:
        """Wait until each endpoint has come up or failed, but no longer than so many seconds.

        Returns:
            Whether each has.
        """
        try:
            return await self.has_settled(seconds)
        finally:
            self.is_ready = True

    async def has_settled(self, seconds: float) -> bool:
        """Wait as :meth:`settled` does, but leave it to others whether the fleet is ready."""
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
        """Cut the stop short, also one that is to come: what is open is cut, containers killed."""
        self._hastened = True
        for each in (*self._deployments.values(), *self._leaving.values()):
            each.hasten()

    async def stop(self) -> None:
        """Stop every instance that was launched; returns when nothing of them is left."""
        self._stopping = True
        leaving = list(self._deployments.values())
        for each in leaving:
            if not each.is_ending:
                each.stop()
        if self._hastened:
            self.hasten()
        await asyncio.gather(*(each.gone() for each in leaving))
        await asyncio.gather(*self._leaving)

    async def _forget(self, name: str, deployment: Deployment) -> None:
        await deployment.gone()
        if self._deployments.get(name) is deployment:
            del self._deployments[name]
            self._changed(name)
            self.on_end(self._deployments.keys())
        log.info(LogLine("endpoint deleted", endpoint=name))

    def _maker(self, endpoint: Endpoint) -> InstanceMaker:
        return InstanceMaker(self._means, self.router, endpoint)

    def _changed(self, name: str) -> None:
        deployment = self._deployments.get(name)
        self.router.update(name, None if deployment is None else deployment.routed())
        self.on_change(name)
