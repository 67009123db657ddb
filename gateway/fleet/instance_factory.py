"""The factory for instances of one endpoint's version, attached or launched."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from partway.gateway.fleet.endpoint import Attached, Endpoint, Place, Variant
from partway.gateway.fleet.instance import Instance
from partway.gateway.fleet.instance_context import NO_OUTPUT, Making, Means
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.routing.router import InstanceLoad, Router

if TYPE_CHECKING:
    from partway.gateway.fleet.kept_instances import KeptInstances
    from partway.gateway.fleet.launch_orders import LaunchOrders


class InstanceMaker:
    """Makes the instances of one version of an endpoint.

    Args:
        kept: the ids of instances that outlive this process; None if none does.
    """

    def __init__(
        self, means: Means, router: Router, endpoint: Endpoint, kept: KeptInstances | None = None
    ) -> None:
        self._means = means
        self._router = router
        self._endpoint = endpoint
        self._kept = kept
        self._orders: LaunchOrders | None = None

    def __call__(
        self, variant: Variant, number: int, on_change: Callable[[Instance], object]
    ) -> Instance:
        """Make an instance; the caller must begin it.

        ``number`` counts from 0 within the variant.
        """
        name = f"{self._endpoint.name}-{variant.name}-{secrets.token_hex(4)}"
        if (kept := self._kept) is not None:
            name = kept.id_for(name, self._endpoint.name, variant, number)

        def changed(instance: Instance) -> None:
            if kept is not None:
                kept.changed(instance)
            if instance.over.is_set():
                self._router.forget(name)
            on_change(instance)

        making = self._making(name, variant, number, self._router.load(name))
        around = self._means.around
        return Instance(name, self._endpoint.name, variant, number, making, around, changed)

    def close(self) -> None:
        """Release what the instances have shared; all of them must have ended."""
        if self._orders is not None:
            self._orders.close()

    def _making(self, name: str, variant: Variant, number: int, load: InstanceLoad) -> Making:
        if isinstance(variant.source, Attached) and variant.model_data is None:
            return self._attached(name, variant, number, load)
        if self._orders is None:
            from partway.gateway.fleet.launch_orders import LaunchOrders

            self._orders = LaunchOrders(self._means, self._endpoint)
        return self._orders.making(name, variant, number, load)

    def _attached(self, name: str, variant: Variant, number: int, load: InstanceLoad) -> Making:
        """Make an instance from its address alone: it needs no output and no model data."""
        launcher = self._means.launcher(variant)
        order = Order(name, self._endpoint.name, variant, number)
        return Making(
            lambda: launcher.launch(order),
            lambda running: Place.of(self._endpoint, variant, running.address),
            NO_OUTPUT,
            load,
        )
