"""The endpoint that Google's clients read first, and readiness."""

from __future__ import annotations

import json

import pytest

from partway.gateway.access.authentication import ANYBODY
from partway.gateway.apis.prediction.resources import PredictionResources, traffic_split
from partway.gateway.fleet.prediction import (
    PredictionPolicy,
    SignatureTable,
    TensorTable,
)
from partway.gateway.fleet.routing.router import RoutedVariant, Router
from partway.protocol.prediction.model_signature import metadata
from tests.gateway.apis.prediction.predicting import (
    OF_ENDPOINT,
    PARENT,
    TOKEN,
    asking,
    authenticated,
)
from tests.gateway.conftest import container, gateway_for
from tests.gateway.http.test_exchange import Recorded
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "authenticated", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


async def test_an_endpoint_as_googles_clients_read_it(asking):
    client = await asking(wall_clock=lambda: 1_700_000_000.0)
    host = "localhost:8443"
    assert await client.json(OF_ENDPOINT, method="GET", Host=host) == (
        200,
        {
            "name": f"{PARENT}/endpoints/{ENDPOINT}",
            "displayName": ENDPOINT,
            "createTime": "2023-11-14T22:13:20Z",
            "updateTime": "2023-11-14T22:13:20Z",
            "deployedModels": [{"id": "AllTraffic", "model": f"{PARENT}/models/{ENDPOINT}"}],
            "trafficSplit": {"AllTraffic": 100},
            "dedicatedEndpointEnabled": True,
            "dedicatedEndpointDns": host,
        },
    )
    status, said = await client.json(f"/v1/{PARENT}/endpoints/unknown", method="GET")
    assert (status, said["error"]["status"]) == (404, "NOT_FOUND")


async def test_readiness_as_kserve_and_tf_serving_have_it(asking):
    client = await asking()
    version = {"version": "1", "state": "AVAILABLE"}
    version["status"] = {"error_code": "OK", "error_message": ""}
    ready = {"name": ENDPOINT, "ready": True, "model_version_status": [version]}
    for path in (f"/v1/models/{ENDPOINT}", f"/v1/models/{ENDPOINT}/versions/1"):
        assert await client.json(path, method="GET") == (200, ready)
    for path in ("/v1/models/unknown", f"/v1/models/{ENDPOINT}/versions/2"):
        status, said = await client.json(path, method="GET")
        assert (status, type(said["error"])) == (404, str)
    assert await client.json("/", method="GET") == (200, {"status": "alive"})
    for headers in ({"Accept": "text/html,*/*"}, {"Connection": "Upgrade", "Upgrade": "websocket"}):
        assert (await client.ask("/", method="GET", **headers))[0] == 404


async def test_a_label_is_a_variants_name(asking):
    client = await asking()
    for path in ("", "/metadata"):
        status, said = await client.json(f"/v1/models/{ENDPOINT}/labels/stable{path}", method="GET")
        assert (status, said["error"][:44]) == (404, "the model has no version with the label 'sta")
    status, said = await client.json(f"/v1/models/{ENDPOINT}/labels/AllTraffic", method="GET")
    assert (status, said["ready"]) == (200, True)


async def test_metadata_are_the_signature_that_is_declared(asking):
    path = f"/v1/models/{ENDPOINT}/metadata"
    status, said = await (await asking()).json(path, method="GET")
    assert (status, said["error"]) == (
        404,
        (
            f"the model {ENDPOINT} has no metadata: its tensors are unknown; its "
            "settings must have a signature"
        ),
    )
    policy = PredictionPolicy(signature=SignatureTable({"x": TensorTable("float32", (28,))}))
    client = await asking(policy=policy)
    for each in (path, f"/v1/models/{ENDPOINT}/versions/1/metadata"):
        found = metadata(ENDPOINT, "1", policy.signature)
        assert await client.json(each, method="GET") == (200, found)


async def test_a_model_that_has_no_instance_yet_is_not_ready():
    router = Router()
    router.update("a", (RoutedVariant("v", 1.0, (), "it starts"),))
    exchange = Recorded()
    resources = PredictionResources(router, 0, lambda _: PredictionPolicy())
    await resources.model(exchange, ANYBODY, {"endpoint": "a", "version": "", "label": ""})
    ((status, said, _),) = exchange.responses
    assert (status, json.loads(said)["ready"]) == (503, False)
    assert json.loads(said)["model_version_status"][0]["state"] == "LOADING"


async def test_who_may_invoke_may_read(asking, authenticated):
    client = await asking(**authenticated)
    for path in (OF_ENDPOINT, f"/v1/models/{ENDPOINT}"):
        statuses = [
            (await client.ask(path, method="GET", Authorization=f"Bearer {token}"))[0]
            for token in (TOKEN, f"{TOKEN}-who-may-not", "nobodys-token-at-all")
        ]
        assert statuses == [200, 403, 401]
    assert (await client.ask("/", method="GET"))[0] == 200


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ((1.0,), [100]),
        ((1.0, 1.0, 1.0), [34, 33, 33]),
        ((0.0, 9.0, 1.0), [0, 90, 10]),
        ((0.0,), []),
    ],
)
def test_shares_are_whole_and_make_a_hundred(weights, shares):
    variants = tuple(RoutedVariant(f"v{at}", each, ()) for at, each in enumerate(weights))
    assert list(traffic_split(variants).values()) == shares
