"""The chart's HTTPRoute as Envoy would serve it: each client reaches the gateway by its own port.

Run by ``make manifests``, with the Envoy of the ``bench`` extra. An implementation of Gateway API
turns a route's rules into those of its proxy; this check does so itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from partway import connect
from tests.interop.helm import template
from tests.interop.openid_check import HOST, envoy
from tests.processes import running

pytestmark = pytest.mark.timeout(120)

VALUES = {
    "gateway": {"insecure": True},
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
                "prefix": match.get("path", {"value": "/"})["value"],
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


@pytest.mark.parametrize("transport", ["websocket", "http2"])
async def test_a_client_streams_both_ways(transport: Any, tmp_path: Path) -> None:
    with (
        running("partway.container", "serve", "--host", HOST, "--port", "0") as container,
        running(
            "partway.gateway.cli.main", "serve", "--port", "0", "--endpoint", f"chat={container}"
        ) as url,
    ):
        port = int(url.rpartition(":")[2])
        config = json.dumps(configuration(port))
        async with (
            envoy(tmp_path, config) as proxy,
            connect(f"http://{HOST}:{proxy}", "chat", transport=transport) as stream,
        ):
            for number in range(3):
                await stream.send_text(f"part {number}")
                assert (await stream.receive()).payload == f"part {number}".encode()
            await stream.end_input()
            assert [part async for part in stream] == []
