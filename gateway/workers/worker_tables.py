"""The tables of workers: what each knows of endpoints, and what it must be told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection

from partway.gateway.fleet.status import EndpointState
from partway.gateway.gateway import Gateway
from partway.gateway.workers.limits import FOUND_TIMEOUT
from partway.gateway.workers.slot import Known, Slot, instances_of


class WorkerTables:
    """Tells workers of each change of an endpoint, and of the endpoints that they do not know yet.

    A worker that has outlived its parent knows endpoints that the fleet of the new parent has not
    brought up yet. Such an endpoint is held: workers keep it as it is until the fleet's has come up
    or has failed. So an instance that the fleet takes over is in the tables all the time.

    An instance that a worker may still choose, and that the fleet does not have in its table,
    counts as chosen by that worker: :class:`partway.gateway.fleet.routing.router.Router`.

    Args:
        slots: those of the workers.
        on_end: called with the names of the remaining endpoints when one is gone.
    """

    def __init__(
        self,
        gateway: Gateway,
        slots: Collection[Slot],
        on_end: Callable[[Collection[str]], object],
    ) -> None:
        self._gateway = gateway
        self._slots = slots
        self._on_end = on_end
        self._numbers = itertools.count(1)
        #: The endpoints that workers must know.
        self._known: dict[str, Known] = {}
        #: Endpoints that are held, and the instances that workers count as choosers of.
        self._held: dict[str, list[tuple[Slot, Collection[str]]]] = {}
        self._all_are_found = False
        self._finding: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Follow the fleet from now on."""
        gateway = self._gateway
        for endpoint, variants in gateway.router.table.items():
            self._known[endpoint] = variants, gateway.prediction_of(endpoint)
        gateway.fleet.on_routed = self.changed

    def release_absent(self) -> None:
        """Take endpoints that the fleet lacks out of the tables, once all are found or late."""
        self._finding = asyncio.create_task(self._release_absent(), name="endpoints of workers")

    async def aclose(self) -> None:
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.wait((self._finding,))

    # --- Workers ---------------------------------------------------------------------------------

    def started(self, slot: Slot) -> None:
        """Tell a worker that knows nothing."""
        for endpoint, known in self._known.items():
            slot.tell(next(self._numbers), endpoint, known)

    def resumed(self, slot: Slot) -> None:
        """Tell a worker that has outlived its parent."""
        for endpoint, known in [*slot.tables.items()]:
            if not self._is_settled(endpoint):
                self._hold(slot, endpoint, known)
        for endpoint in {*self._known, *slot.tables} - self._held.keys():
            self._tell(slot, endpoint)
        for endpoint in self._held.keys() - slot.tables.keys():
            self._tell(slot, endpoint)

    def ended(self, slot: Slot, unapplied: Collection[str]) -> None:
        """Forget what a worker may choose; ``unapplied`` as in :class:`.Parent`."""
        self.no_longer_chosen(unapplied)
        for held in self._held.values():
            for each, instances in [*held]:
                if each is slot:
                    held.remove((each, instances))
                    self.no_longer_chosen(instances)

    def no_longer_chosen(self, instances: Collection[str]) -> None:
        """Note that one worker fewer may choose instances."""
        router = self._gateway.router
        for each in instances:
            choosers = router.choosers
            choosers[each] -= 1
            if not choosers[each]:
                del choosers[each]
            if (load := router.loads.get(each)) is not None:
                load.check_idle()

    def _may_be_chosen(self, instances: Collection[str]) -> None:
        self._gateway.router.choosers.update(instances)

    # --- Endpoints -------------------------------------------------------------------------------

    def changed(self, endpoint: str) -> None:
        """Tell the workers of an endpoint's change, if it is any to them."""
        if endpoint not in self._held:
            self._learn(endpoint)
        elif self._is_settled(endpoint):
            self._release(endpoint)

    def _learn(self, endpoint: str) -> None:
        """Know an endpoint as the fleet does, and tell all workers."""
        gateway = self._gateway
        variants = gateway.router.find(endpoint)
        earlier = self._known.pop(endpoint, None)
        if variants is not None:
            self._known[endpoint] = variants, gateway.prediction_of(endpoint)
        for slot in self._slots:
            self._tell(slot, endpoint)
        if variants is None and earlier is not None:
            self._on_end(self._known.keys())

    def _tell(self, slot: Slot, endpoint: str) -> None:
        known = self._known.get(endpoint)
        self._may_be_chosen(slot.tell(next(self._numbers), endpoint, known))

    # --- Endpoints that are held -----------------------------------------------------------------

    def _is_settled(self, endpoint: str) -> bool:
        """Whether the fleet's endpoint counts, and not the one that workers know."""
        status = self._gateway.fleet.status(endpoint)
        if status is None:
            return self._all_are_found
        return status.state not in (EndpointState.CREATING, EndpointState.UPDATING)

    def _hold(self, slot: Slot, endpoint: str, known: Known) -> None:
        if endpoint not in self._held:
            self._held[endpoint] = []
            self._known[endpoint] = known
            for each in self._slots:
                if each is not slot and each.link is not None and endpoint not in each.tables:
                    self._tell(each, endpoint)
        instances = instances_of(known)
        self._held[endpoint].append((slot, instances))
        self._may_be_chosen(instances)

    def _release(self, endpoint: str) -> None:
        held = self._held.pop(endpoint)
        self._learn(endpoint)
        for _, instances in held:
            self.no_longer_chosen(instances)

    async def _release_absent(self) -> None:
        await self._gateway.pending_endpoints.has_found(FOUND_TIMEOUT)
        await self._gateway.fleet.informed()  # meanwhile workers serve on as they are
        self._all_are_found = True
        for endpoint in [*self._held]:
            if self._is_settled(endpoint):
                self._release(endpoint)
