"""Envoy as a tunnel of WebSockets over HTTP/2 (RFC 8441), in front of one container.

It is set up as an operator would, on one thread: no log, no health check, no costly option. After
the 200 it moves bytes from DATA frames to a TCP connection and back.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers import Peer, find, started, until_it_listens
from partway.gateway.tls.context import TlsFiles

Config = dict[str, Any]

_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_CLUSTER = "container"
_LISTENER = "clients"


@contextmanager
def envoy(container: Peer, tls: TlsFiles | None = None) -> Iterator[Peer | None]:
    """Start an Envoy that listens for HTTP/2; None where it is not installed.

    Args:
        tls: the certificate for clients; None for HTTP/2 in clear.
    """
    command = find("envoy", str(Path(sys.executable).parent))
    if command is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        config, admin = Path(folder) / "envoy.json", Path(folder) / "admin"
        config.write_text(json.dumps(_config(container, tls)))
        line = [command, "--config-path", str(config), "--admin-address-path", str(admin)]
        line += ["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"]
        with started(line) as process:
            yield until_it_listens(process, lambda: _listens_at(admin))


def _listens_at(admin: Path) -> str | None:
    """The address of the listener, whose port the system has chosen."""
    if not admin.exists() or not admin.read_text():
        return None
    connection = http.client.HTTPConnection(admin.read_text(), timeout=1)
    try:
        connection.request("GET", "/listeners")
        listeners = connection.getresponse().read().decode()
    except OSError:
        return None
    finally:
        connection.close()
    found = [line.partition("::")[2] for line in listeners.splitlines() if _LISTENER in line]
    return found[0] if found else None


def _config(container: Peer, tls: TlsFiles | None) -> Config:
    connections = {
        "@type": f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": _LISTENER,
        "codec_type": "HTTP2",
        "http2_protocol_options": {"allow_connect": True},
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "generate_request_id": False,
        "route_config": {"virtual_hosts": [_everything_to_the_container()]},
        "http_filters": [_typed("http.router", "filters.http.router.v3.Router", {})],
    }
    chain: Config = {
        "filters": [
            {"name": "envoy.filters.network.http_connection_manager", "typed_config": connections}
        ]
    }
    if tls is not None:
        pair = {
            "certificate_chain": {"filename": str(tls.certificate)},
            "private_key": {"filename": str(tls.key)},
        }
        context = {"common_tls_context": {"alpn_protocols": ["h2"], "tls_certificates": [pair]}}
        chain["transport_socket"] = _typed(
            "transport_sockets.tls", "transport_sockets.tls.v3.DownstreamTlsContext", context
        )
    listener = {"name": _LISTENER, "address": _at("127.0.0.1", 0), "filter_chains": [chain]}
    host, _, port = container.address.rpartition(":")
    cluster = {
        "name": _CLUSTER,
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": _CLUSTER,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _at(host, int(port))}}]}],
        },
    }
    return {
        "admin": {"address": _at("127.0.0.1", 0)},
        "static_resources": {"listeners": [listener], "clusters": [cluster]},
    }


def _everything_to_the_container() -> Config:
    route = {"match": {"prefix": "/"}, "route": {"cluster": _CLUSTER, "timeout": "0s"}}
    return {"name": "all", "domains": ["*"], "routes": [route]}


def _typed(name: str, kind: str, settings: Config) -> Config:
    return {
        "name": f"envoy.{name}",
        "typed_config": {"@type": f"{_EXTENSIONS}.{kind}", **settings},
    }


def _at(host: str, port: int) -> Config:
    return {"socket_address": {"address": host, "port_value": port}}
