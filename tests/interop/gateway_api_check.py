"""The chart's HTTPRoute as Envoy would serve it: each client reaches the gateway by its own port.

Run by ``make manifests``, with the Envoy of the ``bench`` extra. An implementation of Gateway API
turns a route's rules into those of its proxy; this check does so itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from partway import connect
from tests.gateway.apis.grpc.calling import ended, prefixed
from tests.interop.helm import template
from tests.interop.openid_check import HOST, envoy
from tests.processes import running
from tests.wire.http2_peers import RawHttp2Client

pytestmark = pytest.mark.timeout(120)

#: The gateways have principals, since a route is public. The gateway of this check has none.
VALUES = {
    "gateway": {"principalsSecret": "principals"},
    "gatewayApi": {"httpRoute": True, "parentRefs": [{"name": "public"}]},
}
_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_HTTP = f"{_EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions"

Object = dict[str, Any]


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough: the other processes matter."""
    return "asyncio"


def rendered() -> tuple[Object, Object]:
    """The route, and the Service that it leads to."""
    done = template(values=VALUES)
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    (route,) = (each for each in objects if each["kind"] == "HTTPRoute")
    (service,) = (
        each
        for each in objects
        if each["kind"] == "Service" and each["metadata"]["name"] == "partway-gateway"
    )
    return route, service


def cluster(port: Object, gateway: int) -> Object:
    """A port of the Service, which speaks HTTP/2 if it says so; all lead to the gateway."""
    is_http2 = port.get("appProtocol") == "kubernetes.io/h2c"
    protocol = "http2_protocol_options" if is_http2 else "http_protocol_options"
    address = {"socket_address": {"address": HOST, "port_value": gateway}}
    return {
        "name": str(port["port"]),
        "type": "STATIC",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": _HTTP,
                "explicit_http_config": {protocol: {}},
            }
        },
        "load_assignment": {
            "cluster_name": str(port["port"]),
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }


def routes(rule: Object) -> list[Object]:
    """A rule of the HTTPRoute, a route for each of its matches."""
    (backend,) = rule["backendRefs"]
    return [
        {
            "match": {
                "path_separated_prefix": match["path"]["value"],
                "headers": [
                    {"name": each["name"], "string_match": {"exact": each["value"]}}
                    for each in match.get("headers", ())
                ],
            },
            "route": {"cluster": str(backend["port"]), "timeout": rule["timeouts"]["request"]},
        }
        for match in rule["matches"]
    ]


def configuration(gateway: int) -> Object:
    route, service = rendered()
    manager = {
        "@type": f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "clients",
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [each for rule in route["spec"]["rules"] for each in routes(rule)],
                }
            ]
        },
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{_EXTENSIONS}.filters.http.router.v3.Router"},
            }
        ],
    }
    name = "envoy.filters.network.http_connection_manager"
    return {
        "admin": {"address": {"socket_address": {"address": HOST, "port_value": 0}}},
        "static_resources": {
            "listeners": [
                {
                    "address": {"socket_address": {"address": HOST, "port_value": 0}},
                    "filter_chains": [{"filters": [{"name": name, "typed_config": manager}]}],
                }
            ],
            "clusters": [cluster(port, gateway) for port in service["spec"]["ports"]],
        },
    }


@asynccontextmanager
async def route(folder: Path) -> AsyncIterator[int]:
    """A gateway with the endpoint ``chat`` behind the route; yields the proxy's port."""
    with (
        running("partway.container", "serve", "--host", HOST, "--port", "0") as container,
        running(
            "partway.gateway.cli.main", "serve", "--port", "0", "--endpoint", f"chat={container}"
        ) as url,
    ):
        config = json.dumps(configuration(int(url.rpartition(":")[2])))
        async with envoy(folder, config) as proxy:
            yield proxy


@pytest.mark.parametrize("transport", ["websocket", "http2"])
async def test_a_client_streams_both_ways(transport: Any, tmp_path: Path) -> None:
    async with (
        route(tmp_path) as proxy,
        connect(f"http://{HOST}:{proxy}", "chat", transport=transport) as stream,
    ):
        for number in range(3):
            await stream.send_text(f"part {number}")
            assert (await stream.receive()).payload == f"part {number}".encode()
        await stream.end_input()
        assert [part async for part in stream] == []


#: Headers of the clients that have a rule of their own.
KINDS = (None, "application/vnd.amazon.eventstream", "application/grpc", "application/grpc+proto")
PUBLIC = ("/v1/models/chat", "/v2", "/v2/models/chat", "/openai/v1/models")
#: The pages for operators, and other ways to write their paths.
NOT_PUBLIC = (
    *("/metrics", "/docs", "/openapi.json", "/healthz", "/readyz", "/kubernetes/apis", "/"),
    *("//metrics", "/metrics/", "/metrics?x", "/v1/../metrics", "/endpoints/../metrics"),
    *("/v1/%2e%2e/metrics", "/endpoints/%2E%2E%2Fmetrics", "/./metrics", "/v1//metrics"),
    *("/grpc.health.v1.Health/../metrics", "/%6detrics", "/v2\\..\\metrics"),
)


async def asked(proxy: int, path: str, kind: str | None) -> tuple[int, bytes]:
    """The answer to GET of a path, which goes out as it is written here."""
    reader, writer = await asyncio.open_connection(HOST, proxy)
    try:
        header = "" if kind is None else f"content-type: {kind}\r\n"
        head = f"GET {path} HTTP/1.1\r\nHost: {HOST}:{proxy}\r\n{header}Connection: close\r\n\r\n"
        writer.write(head.encode())
        answer = await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()
    return int(answer.split()[1]), answer


async def test_the_pages_for_operators_are_not_public(tmp_path: Path) -> None:
    async with route(tmp_path) as proxy:
        for path in PUBLIC:
            status, answer = await asked(proxy, path, None)
            assert status == 200, (path, answer)
        # Together, since Envoy closes a connection a second after its own answer.
        cases = list(product(NOT_PUBLIC, KINDS))
        answers = await asyncio.gather(*(asked(proxy, *each) for each in cases))
        for case, (status, answer) in zip(cases, answers, strict=True):
            # Envoy tells clients of gRPC by a header that there is no route.
            assert status in {400, 404} or b"\r\ngrpc-status: 12\r\n" in answer, (case, answer)
            assert b"partway_" not in answer
            assert b"openapi" not in answer


async def test_grpc_reaches_the_gateway(tmp_path: Path) -> None:
    """A call of the health service over HTTP/2, as a client of gRPC makes it."""
    head = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": "streams.example",
        "te": "trailers",
        "content-type": "application/grpc+proto",
    }
    async with (
        route(tmp_path) as proxy,
        await RawHttp2Client.connect(proxy) as client,
    ):
        call = client.request(list(head.items()))
        call.send(prefixed(b""))
        call.end()
        done = await ended(call)
        assert (done.trailers["grpc-status"], done.messages) == ("0", [b"\x08\x01"])
