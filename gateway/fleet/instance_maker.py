"""Makes the instances of one variant, and has at hand what they share: its model data."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from partway.gateway.dialling import Address
from partway.gateway.fleet.container_ids import container_id
from partway.gateway.fleet.container_outputs import ContainerOutputs
from partway.gateway.fleet.endpoints import (
    Attached,
    Containers,
    Endpoint,
    Place,
    Source,
    Variant,
)
from partway.gateway.fleet.file_work import on_thread
from partway.gateway.fleet.instance import Instance
from partway.gateway.fleet.launchers.containers import RunningContainers
from partway.gateway.fleet.launchers.launcher import (
    Launcher,
    LaunchError,
    Order,
    RunningContainer,
)
from partway.gateway.fleet.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.fleet.making import CapturedOutput, InstanceContext, Making
from partway.gateway.fleet.model_data import HeldData, ModelDataError
from partway.gateway.fleet.pinned_path import PinnedPath
from partway.gateway.fleet.routing import Router
from partway.gateway.waiting import time_limit


@dataclass(frozen=True, slots=True)
class Means:
    """By what a fleet has its instances.

    Attributes:
        launcher: the launcher of a source.
        output: opens what takes a container's output, by its id and its endpoint's name.
        model_data: has model data on disk, by what names it and the principal whose leave is asked
            for (see :class:`~.endpoints.Variant`); raises ModelDataError.
        around: what all instances live by.
    """

    launcher: Callable[[Source], Launcher]
    output: Callable[[str, str], CapturedOutput]
    model_data: Callable[[str, str | None], Awaitable[HeldData]]
    around: InstanceContext


class InstanceMaker:
    """Makes the instances of one variant, in one version of its endpoint.

    The model data are had by the first instance, and kept until :meth:`close`: one that is started
    in the place of another needs no network, and has what the others have.

    Args:
        means: by what there are instances.
        router: knows what is open on each.
        endpoint: whose they are.
    """

    def __init__(self, means: Means, router: Router, endpoint: Endpoint) -> None:
        self._means = means
        self._router = router
        self._endpoint = endpoint
        self._acquiring = asyncio.Lock()
        self._data: dict[str, HeldData] = {}  # by the container's host name
        self._closed = False

    def __call__(
        self, variant: Variant, number: int, on_change: Callable[[Instance], object]
    ) -> Instance:
        """Make one, which is its caller's to begin.

        Args:
            variant: what it is an instance of.
            number: which of the variant's it is, from 0.
            on_change: told when its state or its health is another, and when its life is over.
        """
        name = f"{self._endpoint.name}-{variant.name}-{secrets.token_hex(4)}"
        outputs = {
            hostname: self._means.output(container_id(name, hostname), self._endpoint.name)
            for hostname in [each.hostname for each in variant.containers] or [""]
        }

        def changed(instance: Instance) -> None:
            if instance.over.is_set():
                self._router.forget(name)
            on_change(instance)

        making = Making(
            self._means.launcher(variant.source),
            lambda: self._order(name, variant, number, outputs),
            lambda running: _place(self._endpoint, variant, running),
            ContainerOutputs(outputs) if variant.containers else outputs[""],
            self._router.load(name),
        )
        around = self._means.around
        return Instance(name, self._endpoint.name, variant, number, making, around, changed)

    def close(self) -> None:
        """Give back what the instances have shared; none of them lives any more."""
        self._closed = True
        held, self._data = self._data, {}
        for data in held.values():
            data.release()

    async def _order(
        self, name: str, variant: Variant, number: int, outputs: Mapping[str, CapturedOutput]
    ) -> Order:
        """The order for an instance, once what that needs is there.

        Raises:
            LaunchError: it is not to be had.
        """
        endpoint = self._endpoint.name
        if not variant.containers:
            folder = await self._model_dir(variant)
            return Order(name, endpoint, variant, number, folder, outputs[""].feed)
        orders = []
        for each in variant.containers:
            one, own = variant.of(each), container_id(name, each.hostname)
            try:
                folder = await self._model_dir(one, each.hostname)
            except LaunchError as error:
                why = f"{each.hostname}: {error}"
                raise LaunchError(why, passing=error.passing, waits=error.waits) from error
            # What somebody else runs at one URL is there for all instances.
            its_number = 0 if isinstance(one.source, Attached) else number
            orders.append(
                Order(own, endpoint, one, its_number, folder, outputs[each.hostname].feed)
            )
        return Order(name, endpoint, variant, number, None, _no_output, tuple(orders))

    async def _model_dir(self, variant: Variant, hostname: str = "") -> Path | None:
        """Have the model data of a container at hand, once for all instances.

        Raises:
            LaunchError: they are not to be had.
        """
        if variant.model_data is None:
            return None
        async with self._acquiring:
            data, pinned = self._data.get(hostname), variant.pinned
            # What was unpacked is a copy of ours: only a folder is used where it is, by each anew.
            if pinned is not None and (data is None or data.path == pinned.path):
                await self._check(pinned)
            if data is None:
                data = await self._acquire(variant, variant.model_data)
                if self._closed:
                    data.release()
                    raise LaunchError("the instance is not wanted any more", passing=False)
                self._data[hostname] = data
            return data.path

    async def _check(self, pinned: PinnedPath) -> None:
        """Look at what a caller has named as late as can be.

        Raises:
            LaunchError: another thing is there now.
        """
        clock = self._means.around.clock
        try:
            async with time_limit(clock, MODEL_DATA_LOOK_TIMEOUT):
                await on_thread(clock, lambda _: pinned.check())
        except ValueError as error:
            raise LaunchError(f"model data: {error}", passing=True) from None
        except OSError as error:  # a TimeoutError is one
            why = f"model data: {pinned.path} cannot be looked at: {error.strerror or 'no answer'}"
            raise LaunchError(why, passing=True) from None

    async def _acquire(self, variant: Variant, model_data: str) -> HeldData:
        seconds = variant.times.download_timeout
        limit = nullcontext() if seconds is None else time_limit(self._means.around.clock, seconds)
        try:
            async with limit:
                return await self._means.model_data(model_data, variant.model_maker)
        except ModelDataError as error:
            why = f"model data: {error}"
            raise LaunchError(why, passing=error.passing, waits=error.waits) from None
        except TimeoutError:
            why = f"model data: they are not at hand after {seconds:g} s"
            raise LaunchError(why, passing=True) from None


def _no_output(_: bytes) -> None:
    """What has several containers prints nothing itself."""


def _place(endpoint: Endpoint, variant: Variant, running: RunningContainer) -> Place:
    """Where an instance is, and each of its containers where it has several."""
    if not isinstance(running, RunningContainers):
        return _container_place(endpoint, variant, running.address)
    containers = tuple(
        _container_place(
            endpoint, variant.of(each), running.addresses[each.hostname], each.hostname
        )
        for each in variant.containers
    )
    source = variant.source
    assert isinstance(source, Containers), "else it has one container"
    return replace(containers[0], hostname="", containers=containers, execution=source.execution)


def _container_place(
    endpoint: Endpoint, variant: Variant, address: Address, hostname: str = ""
) -> Place:
    tls = variant.source.tls if isinstance(variant.source, Attached) else None
    has_log = not isinstance(variant.source, Attached)
    return Place(
        *(endpoint.name, address, endpoint.policy, variant.name, tls, has_log, hostname),
        surface=variant.surface(endpoint.name),
    )
