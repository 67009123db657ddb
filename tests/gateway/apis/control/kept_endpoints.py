"""Endpoints of the API on a fleet of containers that do what a test says, and a store likewise."""

from __future__ import annotations

import asyncio

from partway.gateway.access.authentication import ANYBODY
from partway.gateway.apis.control.catalogue import Catalogue
from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.apis.control.endpoints import EndpointOperations
from partway.gateway.apis.control.model_data_permission import ModelDataLeave
from partway.gateway.apis.control.resources import Resource, Resources
from partway.gateway.arns import Arns
from partway.gateway.fleet.endpoint import Program
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.storage.store.store import StoreError
from tests.gateway.apis.control.deployed import a_config, a_model, a_variant
from tests.gateway.fleet.fakes import FakeFleet, turns

CHAT = Program(("chat",))

#: What a test waits for takes a thread's turn, and no time.
PATIENCE = 30


class FullStore(MemoryStore):
    """A store that takes nothing while it is full."""

    def __init__(self):
        super().__init__()
        self.full = False

    async def write(self, *changes):
        if self.full:
            raise StoreError("the disk is full")
        await super().write(*changes)


class ApiGateway:
    """What of a gateway makes endpoints of the API; :meth:`again` is the one after it was killed.

    Models ``echo`` and ``chat``, and the configurations ``one`` (an instance of echo), ``two``
    (two instances of chat) and ``both`` (a variant of each) are there.
    """

    def __init__(self, store=None, settings=None, may=lambda *_: True):
        self.store = store or FullStore()
        self.settings = settings or Settings(images={"echo": CHAT, "chat": Program(("other",))})
        self.of = FakeFleet()
        self.now = 1000.0
        self.resources = Resources(self.store, self.of.clock)
        self.keeper = EndpointKeeper(
            self.resources, self.of.fleet, self.settings, self.of.clock, self._time
        )
        arns = Arns("us-east-1", "000000000000")
        catalogue = Catalogue(self.resources, arns, self._time)
        leave = ModelDataLeave(may, arns)
        self.api = EndpointOperations(self.resources, catalogue, self.keeper, leave, self._time)

    def _time(self):
        self.now += 1
        return self.now

    async def start(self):
        await self.resources.load()
        if not list(self.resources.all("model")):
            await self._fill()
        self.of.fleet.start(self.settings.endpoints)
        await self.keeper.start()
        self.keeper.run_found()
        await turns()
        return self

    async def _fill(self):
        both = [a_variant("a", "echo"), a_variant("b", "chat", InitialVariantWeight=3.0)]
        configs = [
            a_config("one", a_variant(model="echo")),
            a_config("two", a_variant(model="chat", InitialInstanceCount=2)),
            a_config("both", *both),
        ]
        async with self.resources.changing():
            for image in ("echo", "chat"):
                model = a_model(image, image)
                await self.resources.put(Resource("model", image, 1.0, 1.0, model))
            for config in configs:
                name = config["EndpointConfigName"]
                await self.resources.put(Resource("endpoint-config", name, 1.0, 1.0, config))

    async def again(self, settings=None, *, troubles=()):
        """The next gateway of the same store; nothing of this one is left.

        Args:
            settings: its own; None for those of this one.
            troubles: what a ping of each of its first containers says.
        """
        await self.aclose()
        gateway = ApiGateway(self.store, settings or self.settings)
        gateway.of.launcher.troubles.extend(troubles)
        return await gateway.start()

    async def aclose(self):
        await self.keeper.aclose()
        self.of.fleet.hasten()
        await self.of.fleet.stop()

    async def call(self, operation, name="mine", /, identity=ANYBODY, **members):
        given = {"EndpointName": name, **members}
        return await self.api.operations[operation](given, identity, "request")

    async def create(self, name="mine", config="one", **members):
        await self.call("CreateEndpoint", name, EndpointConfigName=config, **members)

    async def update(self, config, name="mine", **members):
        await self.call("UpdateEndpoint", name, EndpointConfigName=config, **members)

    async def weigh(self, *desired, name="mine"):
        await self.call(
            "UpdateEndpointWeightsAndCapacities", name, DesiredWeightsAndCapacities=list(desired)
        )

    async def describe(self, name="mine"):
        return await self.call("DescribeEndpoint", name)

    async def state(self, name="mine"):
        """Status and configuration."""
        said = await self.describe(name)
        return said["EndpointStatus"], said["EndpointConfigName"]

    async def until(self, state, config, name="mine"):
        """Wait until an endpoint is in a state, by a configuration; returns what is said of it."""
        async with asyncio.timeout(PATIENCE):
            while await self.state(name) != (state, config):
                await turns(1)
        return await self.describe(name)

    async def written(self, name="mine"):
        """The record in the store, once nothing is left to be written."""
        await turns(200)
        found = {each.name: each.body for each in await self.store.records("endpoint")}
        return found.get(name)

    def running(self):
        """The variants of the containers that run."""
        return sorted(each.order.variant.name for each in self.of.launcher.running)

    def commands(self):
        """The programs that run."""
        return sorted(each.order.variant.source.command[0] for each in self.of.launcher.running)
