"""partway.gateway.apis: which APIs a gateway serves, and what is said of the others."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from partway.gateway.apis.manifests import MANIFESTS, NAMES
from partway.gateway.apis.openapi.document import document
from partway.gateway.gateway import Gateway
from partway.gateway.http.routes import find
from partway.gateway.settings.settings import Settings
from partway.protocol.errors import NotFound

OFF = "ApiSwitchedOff"


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """Nothing of a gateway is left once it has drained."""


def without(name: str) -> frozenset[str]:
    """All APIs but one, and but those that need it."""
    return frozenset(each.name for each in MANIFESTS if name not in (each.name, *each.needs))


def alone(name: str) -> frozenset[str]:
    """One API, and those that it needs."""
    (manifest,) = (each for each in MANIFESTS if each.name == name)
    return frozenset({name, *manifest.needs})


def operation(routes, method, path, target=""):
    try:
        return find(routes, method, path, target)[0].name
    except NotFound:
        return None


def requests():
    """Method, path and target of a request for each operation that there is."""
    routes = Gateway(Settings()).routes
    for path, methods in document(routes, asks=False)["paths"].items():
        for method in methods:
            if method in ("get", "post", "put", "patch", "delete") and path != "/":
                yield method.upper(), re.sub(r"\{\w+\}", "1", path), ""
    yield from (("POST", "/", route.target) for route in routes if route.target)
    yield "GET", "/kubernetes/apis", ""
    yield "POST", "/endpoints/1/openai/v1/chat/completions", ""
    yield "GET", "/openai/v1/models", ""
    for manifest in MANIFESTS:
        yield from (("POST", f"/{service}/Any", "") for service in manifest.grpc_services)


@pytest.mark.parametrize("name", sorted(NAMES))
async def test_each_operation_is_served_or_said_to_be_off(name):
    all_of_them = Gateway(Settings()).routes
    some = Gateway(Settings(apis=without(name))).routes
    answers = [(operation(all_of_them, *each), operation(some, *each)) for each in requests()]
    changed = {after for before, after in answers if after != before}
    assert changed == {OFF}


async def test_streams_and_status_are_served_without_any():
    routes = Gateway(Settings(apis=frozenset())).routes
    served = {route.name for route in routes} - {OFF}
    stream = "InvokeEndpointWithBidirectionalStream"
    assert served == {"Healthz", "Readyz", "Metrics", stream}


@pytest.mark.parametrize("name", sorted(NAMES))
async def test_each_starts_and_ends_with_no_more_than_it_needs(name):
    gateway = Gateway(Settings(port=0, apis=alone(name), shutdown_hard=0.1))
    await gateway.start()
    assert await gateway.fleet.settled(10)
    await gateway.drain()


@pytest.mark.parametrize(
    ("request_line", "headers", "name"),
    [
        ("POST /endpoints/echo/invocations", "", "runtime"),
        ("POST /endpoints/echo/async-invocations", "", "asynchronous"),
        ("POST /", "X-Amz-Target: SageMaker.ListModels\r\n", "control"),
        ("POST /", "X-Amz-Target: SageMaker.CreateTransformJob\r\n", "transform_jobs"),
        ("POST /", "X-Amz-Target: Logs_20140328.GetLogEvents\r\n", "logs"),
        ("GET /v2/models/echo", "", "open_inference"),
        ("POST /endpoints/echo/openai/v1/chat/completions", "", "openai"),
        ("GET /openai/v1/models", "", "openai"),
        ("POST /v1/models/echo:predict", "", "prediction"),
        ("GET /kubernetes/apis", "", "kubernetes"),
        ("GET /docs", "", "openapi"),
    ],
)
async def test_a_path_of_one_that_is_off_says_so(gateway_for, request_line, headers, name):
    gateway = await gateway_for(None, apis=frozenset())
    head = f"{request_line} HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: 0\r\n\r\n"
    response = await gateway.request(head.encode())
    assert response.status == 404
    assert json.loads(response.body)["Message"] == (
        f"the API {name!r} answers this path, and it is switched off here: the gateway's setting "
        "apis must name it"
    )


def test_one_that_is_off_is_not_imported():
    program = """
import asyncio, sys
from partway.gateway.gateway import Gateway
from partway.gateway.settings.settings import Settings
async def make():
    Gateway(Settings(apis=frozenset()))
asyncio.run(make())
print(*(name for name in sys.modules if name.startswith("partway.gateway.")))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = set(done.stdout.split())
    assert "partway.gateway.apis.control.manifest" in found
    for manifest in MANIFESTS:
        room = manifest.module.rpartition(".")[0]
        imported = {each for each in found if each.startswith(f"{room}.")}
        assert f"{room}.manifest" in imported
        assert manifest.module not in imported
    apis = [each for each in found if each.startswith("partway.gateway.apis.")]
    assert not [each for each in apis if each.endswith(".api")]


def test_each_comes_behind_those_that_it_needs():
    names = [each.name for each in MANIFESTS]
    for manifest in MANIFESTS:
        assert all(names.index(each) < names.index(manifest.name) for each in manifest.needs)
