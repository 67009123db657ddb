"""The command line of ``partway serve``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from partway.documentation import page
from partway.gateway.apis.manifests import NAMES
from partway.gateway.cli.arguments import whole_number
from partway.log_lines import LOG_FORMATS

EXAMPLES = """\
examples:
  partway serve --endpoint echo='partway-container serve --model echo'
  partway serve --endpoint app='uvicorn app:app --port {port}'
  partway serve --endpoint echo=http://127.0.0.1:8080
  partway serve --endpoint chat=docker://registry.example/chat:1
  partway serve --config partway.toml --check
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags, in the order in which help shows them."""
    _add_what_is_served(parser)
    _add_tls(parser)
    _add_who_may(parser)
    _add_what_is_seen(parser)


def _add_what_is_served(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=os.environ.get("PARTWAY_CONFIG"),
        help="settings as TOML; flags and PARTWAY_… variables take precedence",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        default=False,
        help="validate the settings and the files they name, print what would run, and exit",
    )
    parser.add_argument(
        "--upgrade", action="store_true", default=False, help="upgrade the gateway that runs"
    )
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=whole_number, help="port, 0 for a free one (8090)")
    parser.add_argument(
        "--workers",
        metavar="N",
        help="processes that relay, each on a core of its own, or auto for as many as there are "
        "CPUs (1)",
    )
    parser.add_argument(
        "--endpoint",
        action="append",
        metavar="NAME=CONTAINER",
        dest="endpoints",
        help="an endpoint, and its running container's http:// or https:// URL, a command that "
        "starts one ({port} stands for its port), or docker://IMAGE; may be repeated",
    )
    parser.add_argument(
        "--apis",
        type=_names,
        metavar="NAME,…",
        help=f"the APIs to serve in addition to streams, or none (all): {', '.join(sorted(NAMES))}",
    )
    parser.add_argument(
        "--container-ca",
        type=Path,
        metavar="FILE",
        help="PEM file of roots to trust for containers (the system's, or SSL_CERT_FILE's)",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder for the gateway's data (a folder of the user's, by the port)",
    )


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _add_tls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tls-port",
        type=whole_number,
        help="port to listen on with TLS too, 0 for a free one (no TLS)",
    )
    parser.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="the TLS port's certificate chain, PEM (the local CA's: see partway certs)",
    )
    parser.add_argument(
        "--tls-key", type=Path, metavar="FILE", help="the certificate's private key, PEM"
    )
    parser.add_argument(
        "--tls-name",
        action="append",
        metavar="NAME",
        dest="tls_names",
        help="another name for the local CA's certificate; may be repeated",
    )


def _add_who_may(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--region", help="region that signatures must name (us-east-1)")
    parser.add_argument("--account", metavar="DIGITS", help="AWS account in ARNs (000000000000)")
    parser.add_argument(
        "--auth", choices=["none", "sigv4"], help="how clients prove who they are (none)"
    )
    parser.add_argument(
        "--principals",
        type=Path,
        metavar="FILE",
        help="file of principals and their keys, for --auth sigv4",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="listen beyond loopback without authentication",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        metavar="ORIGIN",
        dest="allow_origins",
        help="origin of web pages that may open streams; may be repeated",
    )
    parser.add_argument(
        "--trusted-proxy",
        action="append",
        metavar="NETWORK",
        dest="trusted_proxies",
        help="address or network of a proxy that carries many clients; may be repeated",
    )


def _add_what_is_seen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--faults",
        type=Path,
        metavar="FILE",
        default=None,
        help="TOML file of faults, to break streams on purpose: "
        f"see {page('how-to/break-a-stream.md')}",
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="DIR",
        default=None,
        help="record all traffic between gateway and containers, in one file for each stream",
    )
    parser.add_argument(
        "--no-payloads",
        action="store_true",
        default=False,
        help="with --record: record the sizes of messages, without their content",
    )
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        help="lowest level to log (info)",
    )
    parser.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        help="format of log lines: text, or json with one object a line (text)",
    )
