"""Containers that do what a test says, and a fleet of them by a clock that the test turns."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from itertools import count
from pathlib import Path

from partway.gateway.fleet.endpoint import Containers, Endpoint, Program, Variant
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.instance_context import InstanceContext, Means
from partway.gateway.fleet.kept_instances import KeptInstances
from partway.gateway.fleet.launchers.containers import ContainersLauncher
from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.fleet.launchers.local_models import LocalModels
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.storage.model_data.model_data import HeldData
from tests.gateway.streams.fakes import FakeClock

PROGRAM = Program(("serve",))


async def turns(number=60):
    """Let everything go on that waits for nothing."""
    for _ in range(number):
        await asyncio.sleep(0)


def variant(**keys):
    return Variant(source=PROGRAM, **keys)


def endpoint(name="echo", *variants, policy=None, **keys):
    return Endpoint(name, policy or StreamPolicy(), variants or (variant(**keys),))


class FakeContainer:
    """A container, of which a test says whether it is there, and what it prints.

    Attributes:
        model: the folder of its model data; None without any.
    """

    def __init__(self, order, port, model=None, *, stubborn=False):
        self.order = order
        self.model = model
        self.loss = None
        self.on_loss = lambda: None
        self.says = lambda _: None
        self.address = Address("127.0.0.1", port)
        self.trouble = None
        self.impostor = None
        self.misplaced = ""
        self.signals = []
        self.stubborn = stubborn
        self.slow_to_die = False
        self._ended = asyncio.get_running_loop().create_future()

    def watch(self, on_loss):
        self.on_loss = on_loss

    def is_lost(self, loss):
        self.loss = loss
        self.on_loss()

    def pass_output(self, receiver):
        self.says = receiver

    async def verify(self):
        if self.impostor is not None:
            raise LaunchError(self.impostor, passing=True)

    async def listening_trouble(self):
        if isinstance(self.misplaced, Exception):
            raise self.misplaced
        return self.misplaced

    async def wait(self):
        return await asyncio.shield(self._ended)

    def end(self, how="ended with status 3"):
        if not self._ended.done():
            self._ended.set_result(how)

    async def stop(self, grace):
        self.signals.append("TERM")
        if not self.stubborn:
            self.end("ended with status 0")
        return await self.wait() == "ended with status 0"

    def kill(self):
        if not self._ended.done():
            self.signals.append("KILL")
            if not self.slow_to_die:
                self.end("was ended by SIGKILL")

    @property
    def running(self):
        return not self._ended.done()


class FakeLauncher:
    """Launches what answers pings at once, unless the test says otherwise.

    Attributes:
        troubles: what a ping of each of the next containers says, or raises; None for 200.
        impostors: who answers in the place of each of the next containers; None for nobody.
        errors: LaunchErrors for the next launches.
        held: set it to have launches wait for it.
        models: the model data of what is launched.
        address_timeout: the seconds that a launch may take; None for no limit.
    """

    def __init__(self, models=None):
        self.models = models or LocalModels()
        self.address_timeout = None
        self.containers = []
        self.troubles = deque()
        self.impostors = deque()
        self.errors = deque()
        self.stubborn = False
        self.held = None
        self._ports = count(1)

    async def launch(self, order):
        data = await self.models.of(order)
        if self.held is not None:
            await self.held.wait()
        if self.errors and (error := self.errors.popleft()) is not None:
            raise error
        model = data and data.path
        container = FakeContainer(order, next(self._ports), model, stubborn=self.stubborn)
        container.trouble = self.troubles.popleft() if self.troubles else None
        container.impostor = self.impostors.popleft() if self.impostors else None
        self.containers.append(container)
        return container

    def release(self, version):
        self.models.release(version)

    async def aclose(self):
        pass

    @property
    def running(self):
        return [each for each in self.containers if each.running]

    async def ping(self, place, seconds):
        (container,) = [each for each in self.containers if each.address == place.container]
        if isinstance(container.trouble, Exception):
            raise container.trouble
        return container.trouble if container.running else "Connection refused"

    def lasting(self, why="there is no such program"):
        self.errors.append(LaunchError(why, passing=False))

    def passing(self, times=1, why="the engine is away"):
        self.errors.extend(LaunchError(why, passing=True) for _ in range(times))


class FakeOutput:
    def __init__(self):
        self.fed = b""
        self.closed = False

    def feed(self, data):
        self.fed += data

    def last_lines(self):
        return tuple(self.fed.decode().splitlines()[-2:])

    def close(self):
        self.closed = True


class FakeModelData:
    """Model data of which a test sees who holds them.

    Attributes:
        acquired: what was asked for, in order.
        held: how many of those are held.
        errors: ModelDataErrors for the next times.
        waits: set it to have whoever asks wait for it.
    """

    def __init__(self):
        self.acquired = []
        self.makers = []
        self.held = 0
        self.errors = deque()
        self.waits = None

    async def acquire(self, source, maker=None, pinned=None):
        self.acquired.append(source)
        self.makers.append(maker)
        if self.waits is not None:
            await self.waits.wait()
        if self.errors:
            raise self.errors.popleft()
        self.held += 1
        copy = Path("/models") / str(len(self.acquired))
        return HeldData(copy, self._let_go)

    def _let_go(self):
        self.held -= 1


class FakeFleet:
    """A fleet with containers that do what a test says.

    Args:
        kept: the state that outlives the gateway process; None if everything ends with it.
    """

    def __init__(self, kept=None):
        self.model_data = FakeModelData()
        self.clock = FakeClock()
        self.models = LocalModels(self.model_data.acquire, self.clock)
        self.launcher = FakeLauncher(self.models)
        self.outputs = {}
        self.launched = []
        self.router = Router(random.Random(1))
        around = InstanceContext(
            ping=self.launcher.ping,
            clock=self.clock,
            wall_clock=lambda: self.clock.now,
            launched=lambda *what: self.launched.append(what),
        )
        self.kept_instances = None
        if kept is not None:
            self.kept_instances = KeptInstances(kept, lambda: self.clock.now)
        self.fleet = Fleet(
            self.router,
            Means(self._launcher, self._output, around),
            self.kept_instances,
        )

    def _launcher(self, variant):
        one = self.launcher
        if isinstance(variant.source, Containers):
            return ContainersLauncher(lambda _: one, self.models)
        return one

    def _output(self, instance, _endpoint):
        return self.outputs.setdefault(instance, FakeOutput())

    async def apply(self, endpoint):
        self.fleet.apply(endpoint)
        await turns()

    async def advance(self, seconds, step=0.25):
        """Turn the clock in steps, each with time for what it leads to."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.advance(min(step, end - self.clock.now))
            await turns(20)

    def status(self, name="echo"):
        (found,) = [each for each in self.fleet.describe() if each.name == name]
        return found

    def states(self, name="echo"):
        return sorted(
            str(instance.state)
            for each in self.status(name).variants
            for instance in each.instances
        )
