"""The discovered instances of one variant."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Final

from partway.gateway.fleet.discovered.instance import DiscoveredInstance
from partway.gateway.fleet.discovered.source import (
    Following,
    FoundInstance,
    FoundInstances,
    InstanceSources,
    short_id,
)
from partway.gateway.fleet.endpoint import Discovered, Endpoint, Variant
from partway.gateway.fleet.instance_context import InstanceContext
from partway.gateway.fleet.routing.router import RoutedVariant, Router
from partway.gateway.fleet.states import InstanceState
from partway.gateway.fleet.status import VariantStatus
from partway.log_lines import LogLine, TextLines

log = logging.getLogger("partway.fleet")

_NOT_KNOWN: Final = "its instances are not known yet"


class DiscoveredGroup:
    """The instances that a variant's source has, and those that still drain.

    Attributes:
        variant: the variant, whose source never changes.
        is_known: whether the source has told its instances.
        found: what the source has told last.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        variant: Variant,
        sources: InstanceSources,
        router: Router,
        around: InstanceContext,
        on_change: Callable[[], object],
    ) -> None:
        assert isinstance(variant.source, Discovered)
        self.variant = variant
        self.is_known = False
        self.found = FoundInstances()
        self._endpoint = endpoint
        self._router = router
        self._around = around
        self._on_change = on_change
        self._is_telling = False
        self._instances: dict[str, DiscoveredInstance] = {}  # by key
        self._following: Following | None = sources.follow(variant.source, self._told)

    # --- Reading its state ------------------------------------------------------------------------

    @property
    def instances(self) -> tuple[DiscoveredInstance, ...]:
        return tuple(self._instances.values())

    @property
    def is_gone(self) -> bool:
        return self._following is None and not self._instances

    @property
    def in_rotation(self) -> int:
        return sum(each.in_rotation for each in self._instances.values())

    @property
    def trouble(self) -> str:
        """Why no instance is in rotation, or why there may be others."""
        unheard = "" if self._following is None else self._following.trouble
        if not self.is_known:
            return _NOT_KNOWN + (f": {unheard}" if unheard else "")
        if unheard:
            return f"changes of its instances are not heard of, the last ones serve on: {unheard}"
        if self.found.trouble or self.in_rotation:
            return self.found.trouble
        reasons = [each.status().reason for each in self._instances.values()]
        return (
            f"none of {len(reasons)} instances takes streams: {'; '.join(dict.fromkeys(reasons))}"
        )

    def routed(self) -> RoutedVariant:
        name, weight = self.variant.name, self.variant.weight
        there = [each for each in self._instances.values() if each.in_rotation]
        if there:
            return RoutedVariant(name, weight, tuple(each.routed for each in there))
        trouble = "none of its instances is ready" if self.is_known else _NOT_KNOWN
        return RoutedVariant(name, weight, (), trouble)

    def status(self) -> VariantStatus:
        wanted = [each for each in self.instances if each.state is InstanceState.IN_SERVICE]
        return VariantStatus(
            self.variant.name,
            self.variant.weight,
            len(wanted),
            self.in_rotation,
            0,
            self.trouble,
            tuple(each.status() for each in self.instances),
        )

    # --- Changes ----------------------------------------------------------------------------------

    def become(self, endpoint: Endpoint, variant: Variant) -> None:
        """Take other settings of the endpoint or another weight; the source is the same."""
        self.variant, self._endpoint = variant, endpoint
        for each in self._instances.values():
            each.become(endpoint, variant)

    def stop(self) -> None:
        """Follow the source no longer, and let all instances drain."""
        for each in self.instances:
            each.stop()  # which withdraws its report
        if self._following is not None:
            self._following.stop()
            self._following = None

    def hasten(self) -> None:
        for each in self.instances:
            each.hasten()

    def _told(self, found: FoundInstances) -> None:
        """Take what the source says of its instances now."""
        if found.trouble != self.found.trouble:
            self._tell_trouble(found.trouble)
        self.is_known, self.found = True, found
        now = {each.key: each for each in found.instances}
        self._is_telling = True  # one change for all of them
        try:
            for key, instance in [*self._instances.items()]:
                if key not in now:
                    instance.is_gone()
            for key, each in now.items():
                known = self._instances.get(key)
                if known is None:
                    self._instances[key] = self._instance(each)
                else:
                    known.follow(each)
        finally:
            self._is_telling = False
        self._on_change()

    def _instance(self, found: FoundInstance) -> DiscoveredInstance:
        variant = self.variant
        name = self._new_id(found)
        return DiscoveredInstance(
            *(name, self._endpoint, variant, found, self._router.load(name), self._around),
            on_change=lambda: self._changed(found.key),
            on_reachable=self._tell_reachable,
        )

    def _new_id(self, found: FoundInstance) -> str:
        """Return an id that another gateway process makes too, so that it goes on counting.

        While an instance of an earlier group drains, its id stays its own.
        """
        own = short_id(found.name, found.key)
        first = f"{self._endpoint.name}-{self.variant.name}-{own}"
        further = (f"{first}-{number}" for number in itertools.count(2))
        ids = itertools.chain((first,), further)
        return next(each for each in ids if each not in self._router.loads)

    def _changed(self, key: str) -> None:
        instance = self._instances.get(key)
        if instance is not None and instance.over.is_set():
            del self._instances[key]
            self._router.forget(instance.id)
        if not self._is_telling:
            self._on_change()

    def _tell_reachable(self, instance: FoundInstance, trouble: str) -> None:
        if self._following is not None:
            self._following.tell_reachable(instance, trouble)

    def _tell_trouble(self, trouble: str) -> None:
        fields = {"reason": TextLines(trouble)} if trouble else {}
        line = "instances are missing" if trouble else "all instances are found"
        level = logging.WARNING if trouble else logging.INFO
        whose = {"endpoint": self._endpoint.name, "variant": self.variant.name}
        log.log(level, LogLine(line, **whose, **fields))
