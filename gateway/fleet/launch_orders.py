"""Launch orders for instances, and the model data that the instances share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace

from partway.gateway.fleet.container_ids import container_id
from partway.gateway.fleet.endpoint import Attached, Containers, Endpoint, Place, Variant
from partway.gateway.fleet.health.slow_start import SlowStart
from partway.gateway.fleet.instance_context import CapturedOutput, Making, Means
from partway.gateway.fleet.launchers.containers import RunningContainers
from partway.gateway.fleet.launchers.launcher import (
    LaunchError,
    Order,
    RunningContainer,
    no_output,
)
from partway.gateway.fleet.limits import LAST_LINES
from partway.gateway.fleet.routing.router import InstanceLoad
from partway.gateway.storage.model_data.model_data import HeldData, ModelDataError
from partway.gateway.timing.deadlines import time_limit


class ContainerOutputs:
    """The outputs of all containers of one instance, treated as one.

    Args:
        each: by the containers' host names.
    """

    def __init__(self, each: Mapping[str, CapturedOutput]) -> None:
        self._each = each

    def last_lines(self) -> tuple[str, ...]:
        """Return the last lines of each container after its host name, within one shared limit."""
        most = max(1, LAST_LINES // len(self._each))
        return tuple(
            f"{hostname}: {line}"
            for hostname, output in self._each.items()
            for line in output.last_lines()[-most:]
        )

    def close(self) -> None:
        for each in self._each.values():
            each.close()


class LaunchOrders:
    """Makes orders for the instances of one version of an endpoint.

    The first instance fetches the model data, which stay until :meth:`close`. A replacement
    therefore needs no network and has the same data.
    """

    def __init__(self, means: Means, endpoint: Endpoint) -> None:
        self._means = means
        self._endpoint = endpoint
        self._acquiring = asyncio.Lock()
        self._data: dict[str, HeldData] = {}  # by the container's host name
        self._closed = False

    def making(self, name: str, variant: Variant, number: int, load: InstanceLoad) -> Making:
        """Prepare the parts of one instance; its output is open from here on.

        ``name`` is the instance's id. ``number`` counts from 0 within the variant.
        """
        outputs = {
            hostname: self._means.output(container_id(name, hostname), self._endpoint.name)
            for hostname in [each.hostname for each in variant.containers] or [""]
        }
        return Making(
            self._means.launcher(variant.source),
            lambda: self._order(name, variant, number, outputs),
            lambda running: _place(self._endpoint, variant, running),
            ContainerOutputs(outputs) if variant.containers else outputs[""],
            load,
            SlowStart if variant.launched else None,
        )

    def close(self) -> None:
        """Release what the instances have shared; all of them must have ended."""
        self._closed = True
        held, self._data = self._data, {}
        for data in held.values():
            data.release()

    async def _order(
        self, name: str, variant: Variant, number: int, outputs: Mapping[str, CapturedOutput]
    ) -> Order:
        """Make the order for an instance, once everything it needs is there.

        Raises:
            LaunchError: the model data are not available.
        """
        endpoint = self._endpoint.name
        if not variant.containers:
            data = await self._held(variant)
            return _order(name, endpoint, variant, number, data, outputs[""].feed)
        orders = []
        for each in variant.containers:
            one, own = variant.of(each), container_id(name, each.hostname)
            try:
                data = await self._held(one, each.hostname)
            except LaunchError as error:
                why = f"{each.hostname}: {error}"
                raise LaunchError(why, passing=error.passing, waits=error.waits) from error
            # A container outside the gateway has one URL for all instances.
            its_number = 0 if isinstance(one.source, Attached) else number
            feed = outputs[each.hostname].feed
            orders.append(_order(own, endpoint, one, its_number, data, feed))
        return Order(name, endpoint, variant, number, None, no_output, tuple(orders))

    async def _held(self, variant: Variant, hostname: str = "") -> HeldData | None:
        """Fetch the model data of a container, once for all instances.

        Raises:
            LaunchError: the model data are not available.
        """
        if variant.model_data is None:
            return None
        async with self._acquiring:
            data = self._data.get(hostname)
            if data is None:
                data = await self._acquire(variant, variant.model_data)
                if self._closed:
                    data.release()
                    raise LaunchError(
                        "the instance was stopped while its model data were fetched", passing=False
                    )
                self._data[hostname] = data
            return data

    async def _acquire(self, variant: Variant, model_data: str) -> HeldData:
        seconds = variant.times.download_timeout
        limit = nullcontext() if seconds is None else time_limit(self._means.around.clock, seconds)
        try:
            async with limit:
                return await self._means.model_data(model_data, variant.model_maker, variant.pinned)
        except ModelDataError as error:
            why = f"model data: {error}"
            raise LaunchError(why, passing=error.passing, waits=error.waits) from None
        except TimeoutError:
            why = f"model data: they did not arrive within {seconds:g} s"
            raise LaunchError(why, passing=True) from None


def _order(
    instance: str,
    endpoint: str,
    variant: Variant,
    number: int,
    data: HeldData | None,
    output: Callable[[bytes], None],
) -> Order:
    if data is None:
        return Order(instance, endpoint, variant, number, None, output)
    return Order(instance, endpoint, variant, number, data.path, output, opened=data.opened)


def _place(endpoint: Endpoint, variant: Variant, running: RunningContainer) -> Place:
    """Return the place of an instance, with each of its containers if it has several."""
    if not isinstance(running, RunningContainers):
        return Place.of(endpoint, variant, running.address)
    containers = tuple(
        Place.of(endpoint, variant.of(each), running.addresses[each.hostname], each.hostname)
        for each in variant.containers
    )
    source = variant.source
    assert isinstance(source, Containers), "else it has one container"
    return replace(containers[0], hostname="", containers=containers, execution=source.execution)
