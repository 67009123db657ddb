"""Custom resources on a fleet of containers that do what a test says, asked as HTTP asks."""

from __future__ import annotations

import asyncio
import json

from partway.gateway.access.authentication import NoAuthentication
from partway.gateway.access.principals import Principals
from partway.gateway.access.sigv4_authentication import SigV4Authentication
from partway.gateway.apis.control.control_plane import ControlPlane
from partway.gateway.apis.kubernetes.controller import EndpointController
from partway.gateway.apis.kubernetes.cross_checks import ObjectRules
from partway.gateway.apis.kubernetes.embedded_endpoints import EmbeddedEndpoints
from partway.gateway.apis.kubernetes.http_routes import KubernetesService
from partway.gateway.apis.kubernetes.objects import CustomObjects
from partway.gateway.apis.kubernetes.operations import ObjectOperations
from partway.gateway.apis.kubernetes.permissions import ObjectLeave
from partway.gateway.arns import Arns
from partway.gateway.http.dispatcher import Dispatcher
from tests.gateway.apis.control.kept_endpoints import PATIENCE, ApiGateway
from tests.gateway.fleet.fakes import turns
from tests.gateway.http.test_exchange import Recorded

#: When all of it is: what the documents show.
THEN = 1_705_627_110.0
THEN_SAID = "2024-01-19T01:18:30Z"

MODELS = "/kubernetes/apis/prediction.aiplatform.gdc.goog/v1/namespaces/default/deployedmodels"
ENDPOINTS = "/kubernetes/apis/aiplatform.gdc.goog/v1/namespaces/default/endpoints"

JSON = "application/json"
MERGE = "application/merge-patch+json"
PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
CBOR_APPLY = "application/apply-patch+cbor"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def a_model(name="my-tf-model", endpoint="mine", image="echo", **container):
    """A DeployedModel in the documented form."""
    return {
        "apiVersion": "prediction.aiplatform.gdc.goog/v1",
        "kind": "DeployedModel",
        "metadata": {"name": name},
        "spec": {
            "endpointPath": f"endpoints/{endpoint}",
            "modelSpec": {"modelContainerSpec": {"imageURI": image, **container}},
        },
    }


def a_destination(model="my-tf-model", share=None):
    percent = {} if share is None else {"trafficPercentage": share}
    return {"serviceRef": {"kind": "DeployedModel", "name": model}, **percent}


def an_endpoint(name="mine", *destinations, **spec):
    """An Endpoint in the documented form, of one destination unless others are given."""
    return {
        "apiVersion": "aiplatform.gdc.goog/v1",
        "kind": "Endpoint",
        "metadata": {"name": name},
        "spec": {"destinations": list(destinations or (a_destination(),)), **spec},
    }


class KubernetesGateway(ApiGateway):
    """A gateway's custom resources, with the models of :class:`ApiGateway` beside them.

    Attributes:
        service: the custom resources.
        objects: those that there are.
        operations: what is done with them.
        plane: the API's operations.
    """

    def __init__(self, store=None, settings=None, principals=None):
        super().__init__(store, settings, lambda *asked: who.may(*asked))
        arns = Arns("us-east-1", "000000000000")
        self.plane = ControlPlane(
            *(self.resources, arns, self._time, self.of.clock),
            is_local=self.keeper.planning.allows_path,
        )
        self.plane.add(self.api.operations, self.api.operations_of_operator)

        def then():
            return THEN

        self.objects = CustomObjects(self.store, self.of.clock, then)
        endpoints = EmbeddedEndpoints(self.plane, self.resources, self.keeper, self.of.router)
        controller = EndpointController(self.objects, endpoints, self.of.clock, then, "localhost")
        rules = ObjectRules(self.objects, self.plane, self.resources, self.keeper, endpoints)
        leave = ObjectLeave(arns, lambda name: self.keeper.find(name) is not None)
        self.operations = ObjectOperations(self.objects, rules, leave, then, self.plane.whole)
        self.service = KubernetesService(
            self.objects,
            self.operations,
            controller,
            leave,
            self.plane.check_read,
            *(self.of.clock, then),
        )
        self.principals = principals
        who = NoAuthentication()
        if principals is not None:
            who = SigV4Authentication(Principals(principals, then), arns, then)
        self._dispatch = Dispatcher(self.service.routes, who, arns, frozenset(), lambda _: None)

    async def start(self):
        await self.service.load()
        await super().start()
        self.service.start()
        return self

    async def again(self, settings=None, **_):
        """The next gateway of the same store; nothing of this one is left."""
        await self.aclose()
        return await KubernetesGateway(
            self.store, settings or self.settings, self.principals
        ).start()

    async def aclose(self):
        await self.service.aclose()
        await super().aclose()
        await self.plane.aclose()

    # --- Asking ----------------------------------------------------------------------------------

    def exchange(self, method, path, body=None, content_type=JSON, **headers):
        said = [("Host", "127.0.0.1:8090")]
        said += [(name.replace("_", "-"), value) for name, value in headers.items()]
        chunks = []
        if body is not None:
            said.append(("Content-Type", content_type))
            chunks = [body if isinstance(body, bytes) else json.dumps(body).encode()]
        path, _, query = path.partition("?")
        exchange = Recorded(*said, chunks=chunks, method=method, path=path, peer="127.0.0.1")
        exchange.query = query
        return exchange

    async def serve(self, exchange):
        await self._dispatch(exchange)

    async def ask(self, method, path, body=None, content_type=JSON, **headers):
        """Status and answer of a request."""
        exchange = self.exchange(method, path, body, content_type, **headers)
        await self.serve(exchange)
        ((status, said, _),) = exchange.responses
        return status, json.loads(said)

    async def get(self, path):
        status, said = await self.ask("GET", path)
        assert status == 200, said
        return said

    async def make(self, *bodies):
        """Make objects; returns the last."""
        for body in bodies:
            path = MODELS if body["kind"] == "DeployedModel" else ENDPOINTS
            status, said = await self.ask("POST", path, body)
            assert status == 201, said
        return said

    async def deploy(self):
        """Have a model deployed, and wait until it is ready."""
        await self.make(a_model(), an_endpoint())
        await self.until_ready()

    async def until(self, path, reason):
        """Wait until an object's condition has a reason; returns its message."""
        async with asyncio.timeout(PATIENCE):
            while (condition := condition_of(await self.get(path)))["reason"] != reason:
                await turns(1)
        return condition["message"]

    async def until_ready(self):
        await self.until(f"{ENDPOINTS}/mine", "ResourceReady")
        await self.until(f"{MODELS}/my-tf-model", "Ready")

    async def until_gone(self, path):
        async with asyncio.timeout(PATIENCE):
            while (await self.ask("GET", path))[0] != 404:
                await turns(1)

    def variants(self):
        """The variants of the containers that run, with their programs."""
        return sorted(
            (each.order.variant.name, each.order.variant.source.command[0])
            for each in self.of.launcher.running
        )


def condition_of(said):
    """An object's one condition; an empty one as long as it has none."""
    status = said.get("status", {})
    return status.get("primaryCondition") or (status.get("conditions") or [{"reason": ""}])[0]
