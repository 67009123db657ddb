"""Readiness and metadata, as clients of the Open Inference Protocol read them."""

from __future__ import annotations

import json

import pytest

from partway import __version__
from partway.gateway.access.authentication import ANYBODY
from partway.gateway.apis.open_inference.resources import OpenInferenceResources
from partway.gateway.fleet.prediction import PredictionPolicy, SignatureTable, TensorTable
from partway.gateway.fleet.routing.router import RoutedVariant, Router
from tests.gateway.apis.prediction.predicting import TOKEN, asking, authenticated
from tests.gateway.conftest import container, gateway_for
from tests.gateway.http.test_exchange import Recorded
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "authenticated", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

MODEL = f"/v2/models/{ENDPOINT}"


async def test_server_and_model_are_as_the_protocol_has_them(asking):
    client = await asking()
    server = {
        "name": "partway",
        "version": __version__,
        "extensions": ["binary_tensor_data", "parameters"],
    }
    model = {"name": ENDPOINT, "versions": ["1"], "platform": "", "inputs": [], "outputs": []}
    for path, expected in (
        ("/v2", server),
        ("/v2/", server),
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True}),
        (MODEL, model),
        (f"{MODEL}/versions/1", model),
        (f"{MODEL}/ready", {"name": ENDPOINT, "ready": True}),
        (f"{MODEL}/versions/1/ready", {"name": ENDPOINT, "ready": True}),
    ):
        assert await client.json(path, method="GET") == (200, expected), path
    for path in ("/v2/models/unknown", f"{MODEL}/versions/2", f"{MODEL}/versions/2/ready"):
        status, said = await client.json(path, method="GET")
        assert (status, type(said["error"])) == (404, str)
    assert client.told.heads == []


async def test_a_signature_says_which_tensors_a_model_takes(asking):
    signature = SignatureTable(
        {"x": TensorTable("float32", (28, -1)), "text": TensorTable("string")},
        {"y": TensorTable("int64")},
    )
    client = await asking(policy=PredictionPolicy(signature=signature))
    _, said = await client.json(MODEL, method="GET")
    assert said["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [-1, 28, -1]},
        {"name": "text", "datatype": "BYTES", "shape": [-1]},
    ]
    assert said["outputs"] == [{"name": "y", "datatype": "INT64", "shape": [-1]}]


async def test_what_is_not_ready_says_so():
    router = Router()
    router.update("a", (RoutedVariant("v", 1.0, (), "it starts"),))
    exchange = Recorded()
    resources = OpenInferenceResources(router, lambda: False, lambda _: PredictionPolicy())
    await resources.ready(exchange)
    await resources.model_ready(exchange, ANYBODY, {"endpoint": "a", "version": ""})
    said = [(status, json.loads(body)) for status, body, _ in exchange.responses]
    assert said == [(503, {"ready": False}), (503, {"name": "a", "ready": False})]


async def test_a_server_that_drains_is_not_ready(asking):
    client = await asking()
    client.gateway.gateway.streams.draining = True
    assert await client.json("/v2/health/ready", method="GET") == (503, {"ready": False})
    assert await client.json("/v2/health/live", method="GET") == (200, {"live": True})


async def test_health_asks_nobody_and_models_ask_who_asks(asking, authenticated):
    client = await asking(**authenticated)
    for path in ("/v2", "/v2/health/live", "/v2/health/ready"):
        assert (await client.ask(path, method="GET"))[0] == 200
    for path in (MODEL, f"{MODEL}/ready"):
        statuses = [
            (await client.ask(path, method="GET", Authorization=f"Bearer {token}"))[0]
            for token in (TOKEN, f"{TOKEN}-who-may-not", "nobodys-token-at-all")
        ]
        assert statuses == [200, 403, 401]
