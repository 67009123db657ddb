"""The deployment of a discovered endpoint: its instances come and go by themselves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from partway.gateway.fleet.discovered.group import DiscoveredGroup
from partway.gateway.fleet.discovered.source import InstanceSources
from partway.gateway.fleet.endpoint import Endpoint, Variant
from partway.gateway.fleet.instance_context import InstanceContext
from partway.gateway.fleet.routing.router import RoutedVariant, Router
from partway.gateway.fleet.status import EndpointState, EndpointStatus
from partway.log_lines import LogLine, TextLines

log = logging.getLogger("partway.fleet")


class DiscoveredDeployment:
    """One endpoint whose instances another system starts: a :class:`.DeployedEndpoint`.

    1. The endpoint is being created until each variant's source has told its instances. Then it is
       in service, even without an instance: one may come at any time.
    2. It has failed while a source cannot be used at all.
    3. A variant whose source changes keeps its earlier instances until the new source has told.

    Args:
        on_change: called after each change.

    Attributes:
        endpoint: the endpoint as it was last asked for.
        reason: why it has failed; empty otherwise.
        is_ending: whether the endpoint is being deleted, or stops with the gateway.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        sources: InstanceSources,
        router: Router,
        around: InstanceContext,
        on_change: Callable[[], object],
    ) -> None:
        self.endpoint = endpoint
        self.state = EndpointState.CREATING
        self.reason = ""
        self.is_ending = False
        self._sources = sources
        self._router = router
        self._around = around
        self._on_change = on_change
        self._since = around.wall_clock()
        self._news = asyncio.Event()
        self._groups: dict[str, DiscoveredGroup] = {}
        self._earlier: dict[str, DiscoveredGroup] = {}  # by variant (rule 3)
        self._leaving: list[DiscoveredGroup] = []
        self._tell_state()
        self._follow_variants()

    # --- Reading its state ------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        return self.state not in {EndpointState.CREATING, EndpointState.UPDATING}

    @property
    def containers(self) -> int:
        """None of its containers is launched here."""
        return 0

    def further_containers(self, endpoint: Endpoint, *, anew: bool) -> int:
        return endpoint.launched

    def routed(self) -> tuple[RoutedVariant, ...]:
        if self.is_ending:
            stops = self.state is EndpointState.STOPPING
            why = "the gateway is stopping" if stops else "the endpoint is being deleted"
            variants = self.endpoint.variants
            return tuple(RoutedVariant(each.name, each.weight, (), why) for each in variants)
        return tuple(self._serving(each).routed() for each in self.endpoint.variants)

    def status(self) -> EndpointStatus:
        variants = {name: group.status() for name, group in self._groups.items()}
        for group in (*self._earlier.values(), *self._leaving):
            one = group.status()
            known = variants.get(one.name) or replace(one, trouble="", instances=())
            variants[one.name] = replace(known, instances=known.instances + one.instances)
        return EndpointStatus(
            self.endpoint.name, self.state, self.reason, self._since, tuple(variants.values())
        )

    def _serving(self, variant: Variant) -> DiscoveredGroup:
        return self._earlier.get(variant.name) or self._groups[variant.name]

    # --- Changes ----------------------------------------------------------------------------------

    def change(self, endpoint: Endpoint, *, anew: bool = False) -> None:
        """Take other settings. With ``anew`` nothing more is done: nothing is started here."""
        if endpoint == self.endpoint:
            return
        self.endpoint = endpoint
        self._follow_variants()

    def restart(self) -> None:
        """Do nothing: the fleet refuses to restart containers that it has not started."""

    def delete(self) -> None:
        self._end(EndpointState.DELETING)

    def stop(self) -> None:
        self._end(EndpointState.STOPPING)

    def hasten(self) -> None:
        for group in self._leaving:
            group.hasten()

    async def gone(self) -> None:
        while not all(each.is_gone for each in self._leaving):
            self._news.clear()
            await self._news.wait()

    async def settled(self) -> None:
        while not self.is_settled:
            self._news.clear()
            await self._news.wait()

    def _end(self, state: EndpointState) -> None:
        self.is_ending = True
        self.reason = ""
        self._become(state)
        for group in (*self._groups.values(), *self._earlier.values()):
            self._leave(group)
        self._groups, self._earlier = {}, {}
        self._changed()

    def _follow_variants(self) -> None:
        known, self._groups = self._groups, {}
        for variant in self.endpoint.variants:
            group = known.get(variant.name)
            if group is not None and group.variant.source == variant.source:
                del known[variant.name]
                group.become(self.endpoint, variant)
                self._groups[variant.name] = group
            else:
                self._groups[variant.name] = self._group(variant)
        for name, group in known.items():
            if name in self._groups and name not in self._earlier:
                self._earlier[name] = group
            else:
                self._leave(group)
        self._changed()

    def _group(self, variant: Variant) -> DiscoveredGroup:
        return DiscoveredGroup(
            self.endpoint, variant, self._sources, self._router, self._around, self._changed
        )

    def _leave(self, group: DiscoveredGroup) -> None:
        self._leaving.append(group)
        group.stop()

    def _changed(self) -> None:
        for name in [*self._earlier]:
            if name not in self._groups or self._groups[name].is_known:
                self._leave(self._earlier.pop(name))
        if not self.is_ending:
            self._look_at_sources()
        self._leaving = [each for each in self._leaving if not each.is_gone]
        self._on_change()
        self._news.set()

    def _look_at_sources(self) -> None:
        groups = self._groups.values()
        refusals = [each.found.trouble for each in groups if each.found.is_refused]
        self.reason = "; ".join(dict.fromkeys(refusals))
        if refusals:
            self._become(EndpointState.FAILED)
        elif all(each.is_known for each in groups):
            self._become(EndpointState.IN_SERVICE)
        elif self.state is not EndpointState.CREATING:
            self._become(EndpointState.UPDATING)

    def _become(self, state: EndpointState) -> None:
        if state is not self.state:
            self.state = state
            self._since = self._around.wall_clock()
            self._tell_state()

    def _tell_state(self) -> None:
        level = logging.ERROR if self.state is EndpointState.FAILED else logging.INFO
        fields = {"reason": TextLines(self.reason)} if self.reason else {}
        line = LogLine("endpoint", endpoint=self.endpoint.name, state=str(self.state), **fields)
        log.log(level, line)
