"""``partway operator``: Deployments and Services of a cluster, from its custom objects."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.arguments import whole_number
from partway.gateway.cli.process import run_loop, stop_on_signals
from partway.log_lines import LOG_FORMATS, LogLine, say_failure, say_listening, start_logging
from partway.protocol.limits import DNS_NAME

if TYPE_CHECKING:
    from partway.gateway.cluster.cluster_settings import ClusterSettings
    from partway.gateway.operator.kept_namespace import PodSettings

    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

log = logging.getLogger("partway.operator")

_NAME: Final = "partway operator"

_EXAMPLES: Final = """\
examples:
  partway operator --print-crds | kubectl apply -f -
  partway operator --namespace models --image registry.example/partway-gateway:1
  partway operator --server http://127.0.0.1:8001 --check      # behind kubectl proxy
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "operator",
        help=COMMANDS["operator"],
        description=(
            "Keep a Deployment and a Service in a Kubernetes cluster for each DeployedModel, and "
            "write the statuses of DeployedModels and Endpoints, until SIGTERM. Of several "
            f"operators one acts. See {page('how-to/run-on-kubernetes.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_cluster(parser)
    parser.add_argument(
        "--domain",
        default="localhost",
        metavar="NAME",
        help="suffix of the domain names of endpoints that kubectl shows (%(default)s)",
    )
    parser.add_argument(
        "--image",
        default="",
        help="image of partway, by which pods fetch model data from s3:// (none)",
    )
    parser.add_argument(
        "--model-data-secret",
        default="",
        metavar="NAME",
        help="Secret with the variables of S3 for those pods, such as AWS_ACCESS_KEY_ID (none)",
    )
    parser.add_argument(
        "--gateways",
        default="",
        metavar="NAME",
        help="Service of all gateways, such as gateways or edge/gateways (none)",
    )
    parser.add_argument(
        "--model-data-root",
        action="append",
        default=[],
        metavar="S3_URL",
        help="folder that models may have data from, s3://BUCKET/PREFIX/; may be repeated (any)",
    )
    parser.add_argument(
        "--image-pull-secret",
        action="append",
        default=[],
        metavar="NAME",
        help="Secret by which those pods pull the image; may be repeated (none)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address of its pages (%(default)s)")
    parser.add_argument(
        "--port",
        type=whole_number,
        default=8091,
        help="port of /healthz, /readyz and /metrics, 0 for a free one (%(default)s)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="say what the cluster or the operator's role lacks, and exit",
    )
    parser.add_argument(
        "--print-crds",
        action="store_true",
        help="print the custom resource definitions, and exit",
    )
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="lowest level to log (%(default)s)",
    )
    parser.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        default="text",
        help="format of log lines: text, or json with one object a line (%(default)s)",
    )
    parser.set_defaults(run=run)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server", default="", metavar="URL", help="the API server (the pod's own cluster)"
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file of a bearer token, read again when it is renewed (the pod's service account)",
    )
    parser.add_argument(
        "--ca-file",
        type=Path,
        metavar="FILE",
        help="PEM file of the API server's roots (the pod's, or the system's with --server)",
    )
    parser.add_argument(
        "--namespace",
        default="",
        metavar="NAME",
        help="namespace whose objects are kept (the pod's own, else default)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0, 1 when something is missing or in use, 2 on bad usage."""
    # Imported here, because the command's help does not need a cluster.
    if options.print_crds:
        from partway.gateway.operator.custom_resource_definitions import definitions

        print(json.dumps(definitions(), indent=2))
        return 0
    from partway.gateway.cluster.cluster_settings import ClusterNotFound

    try:
        cluster, settings = _settings(options)
    except (ClusterNotFound, ValueError) as error:
        say_failure(_NAME, str(error))
        return 2
    start_logging(options.log_level, options.log_format)
    if options.check:
        return run_loop(_check(cluster, settings.gateways))
    return run_loop(_serve(cluster, settings, options.host, options.port))


def _settings(options: argparse.Namespace) -> tuple[ClusterSettings, PodSettings]:
    from partway.gateway.cluster.cluster_settings import find_cluster
    from partway.gateway.operator.kept_namespace import PodSettings
    from partway.gateway.operator.model_deployments import ModelDataAccess
    from partway.gateway.operator.model_faults import is_root
    from partway.gateway.settings.cluster_table import is_service_name

    if not DNS_NAME.fullmatch(options.domain):
        raise ValueError(
            f"--domain: {options.domain!r} was given; it must be a DNS name of small letters, such "
            "as models.example"
        )
    if not 0 <= options.port <= 65535:
        raise ValueError(
            f"--port: {options.port} was given; it must be a whole number from 0 to 65535"
        )
    if options.gateways and not is_service_name(options.gateways):
        raise ValueError(
            f"--gateways: {options.gateways!r} was given; it must be the name of a Service, such "
            "as gateways, or with its namespace edge/gateways"
        )
    for root in options.model_data_root:
        if not is_root(root):
            raise ValueError(
                f"--model-data-root: {root!r} was given; it must be s3://BUCKET or "
                "s3://BUCKET/PREFIX, without a $"
            )
    cluster = find_cluster(options.server, options.token_file, options.ca_file, options.namespace)
    data = ModelDataAccess(
        options.image,
        options.model_data_secret,
        tuple(options.model_data_root),
        tuple(options.image_pull_secret),
    )
    return cluster, PodSettings(options.domain, data, options.gateways)


async def _check(cluster: ClusterSettings, gateways: str) -> int:
    from partway.gateway.cluster.answers import ClusterError
    from partway.gateway.cluster.api_server import ApiServer
    from partway.gateway.operator.cluster_check import check
    from partway.gateway.timing.clock import LoopClock

    server = ApiServer(cluster, LoopClock())
    try:
        missing = await check(server, gateways)
    except ClusterError as error:
        missing = [str(error)]
    finally:
        await server.aclose()
    if missing:
        say_failure(_NAME, "\n".join(missing))
        return 1
    print(f"{cluster.server}: the namespace {cluster.namespace} can be kept")
    return 0


async def _serve(cluster: ClusterSettings, settings: PodSettings, host: str, port: int) -> int:
    from partway.gateway.operator.operator import Operator
    from partway.gateway.operator.status_port import StatusPort
    from partway.gateway.timing.clock import LoopClock
    from partway.gateway.timing.deadlines import before

    operator = Operator(cluster, settings, LoopClock(), time.time)
    status = StatusPort(operator)
    stop = stop_on_signals(again=lambda: None)
    running = asyncio.create_task(before(stop, operator.run()))
    try:
        say_listening(await status.open(host, port))
        log.info(
            LogLine(
                "keeping a namespace",
                server=cluster.server,
                namespace=cluster.namespace,
            )
        )
    except OSError as error:
        say_failure(_NAME, f"--host, --port: {host}:{port}: {error.strerror or error}")
        return 1
    else:
        return await _ended(running)
    finally:
        stop.set()
        await asyncio.wait((running,))
        await status.aclose()


async def _ended(running: asyncio.Task[None]) -> int:
    try:
        await running
    except Exception:  # the process begins anew, and another one leads meanwhile
        log.exception("the operator has failed")
        return 1
    return 0
