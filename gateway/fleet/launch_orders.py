"""Launch orders for the instances of a variant, and where their output goes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace

from partway.gateway.fleet.container_ids import container_id
from partway.gateway.fleet.endpoint import Attached, Containers, Endpoint, Place, Variant
from partway.gateway.fleet.health.slow_start import SlowStart
from partway.gateway.fleet.instance_context import CapturedOutput, Making, Means
from partway.gateway.fleet.launchers.containers import RunningContainers
from partway.gateway.fleet.launchers.launcher import (
    Launcher,
    LaunchError,
    Order,
    RunningContainer,
)
from partway.gateway.fleet.limits import LAST_LINES
from partway.gateway.fleet.processes.unexpanded import warn_of_variables
from partway.gateway.fleet.routing.router import InstanceLoad
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
    """Makes orders for the instances of one version of a variant.

    Its launchers keep what the instances share, such as model data, until :meth:`close`.
    """

    def __init__(self, means: Means, endpoint: Endpoint) -> None:
        self._means = means
        self._endpoint = endpoint
        self._version = secrets.token_hex(8)
        self._launchers: set[Launcher] = set()

    def making(self, name: str, variant: Variant, number: int, load: InstanceLoad) -> Making:
        """Prepare the parts of one instance; its output is open from here on.

        ``name`` is the instance's id. ``number`` counts from 0 within the variant.
        """
        outputs = {
            hostname: self._means.output(container_id(name, hostname), self._endpoint.name)
            for hostname in [each.hostname for each in variant.containers] or [""]
        }
        if not self._launchers:
            warn_of_variables(self._endpoint.name, variant)
        launcher = self._means.launcher(variant)
        self._launchers.add(launcher)
        order = self._order(name, variant, number)
        return Making(
            lambda: self._launched(launcher, order),
            lambda running: _place(self._endpoint, variant, running),
            ContainerOutputs(outputs) if variant.containers else outputs[""],
            load,
            SlowStart if variant.launched else None,
            lambda running: pass_outputs(running, outputs),
        )

    def close(self) -> None:
        """Release what the instances have shared; all of them must have ended."""
        for launcher in self._launchers:
            launcher.release(self._version)

    async def _launched(self, launcher: Launcher, order: Order) -> RunningContainer:
        """Launch within the launcher's time for an address."""
        seconds = launcher.address_timeout
        if seconds is None:
            return await launcher.launch(order)
        try:
            async with time_limit(self._means.around.clock, seconds):
                return await launcher.launch(order)
        except TimeoutError:
            raise LaunchError(f"it has no address after {seconds:g} s", passing=True) from None

    def _order(self, name: str, variant: Variant, number: int) -> Order:
        endpoint, version = self._endpoint.name, self._version
        orders = []
        for each in variant.containers:
            one, own = variant.of(each), container_id(name, each.hostname)
            # A container outside the gateway has one URL for all instances.
            its_number = 0 if isinstance(one.source, Attached) else number
            orders.append(Order(own, endpoint, one, its_number, version))
        return Order(name, endpoint, variant, number, version, tuple(orders))


def pass_outputs(running: RunningContainer, outputs: Mapping[str, CapturedOutput]) -> None:
    """Have the output of each container of an instance passed on.

    Args:
        outputs: by host name, which is empty for an only container.
    """
    each = running.each if isinstance(running, RunningContainers) else {"": running}
    for hostname, container in each.items():
        container.pass_output(outputs[hostname].feed)


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
