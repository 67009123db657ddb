"""``partway wait``: return once a gateway or one of its endpoints is ready."""

from __future__ import annotations

import argparse
import http.client
import os
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.arguments import seconds
from partway.gateway.cli.gateway_asked import (
    GatewayNotAsked,
    add_data_dir,
    endpoints_of,
    find_gateway,
    say_why,
)
from partway.gateway.cli.process import INTERRUPTED, interrupted_by_sigterm
from partway.gateway.fleet.data_directory import announced
from partway.gateway.fleet.status import EndpointState

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway wait"

#: Seconds between two looks.
_LOOK: Final = 0.2

#: Seconds for one answer of ``/readyz``, which takes milliseconds.
_ANSWER: Final = 5.0

_EXAMPLES: Final = """\
examples:
  partway serve --config partway.toml >gateway.log 2>&1 &
  partway wait && pytest
  partway wait chat --timeout 300
  partway wait --gateway http://gateway:8090
"""


class _NotReady(Exception):
    """The gateway or the endpoint is not ready yet; the message says why."""


def add_to(commands: Commands) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "wait",
        help=COMMANDS["wait"],
        description=(
            "Wait until the gateway of this machine takes requests, or until one of its endpoints "
            "is in service. The gateway may start later than this command. "
            f"See {page('how-to/operate.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("endpoint", nargs="?", metavar="NAME", help="an endpoint to wait for")
    where = parser.add_mutually_exclusive_group()
    add_data_dir(where)
    where.add_argument("--gateway", metavar="URL", help="a gateway elsewhere, without NAME")
    parser.add_argument(
        "--timeout", type=seconds, default=60.0, metavar="S", help="seconds to wait (60)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns 0 once all is ready, 1 if it is not in time, 2 if asked wrongly."""
    url, endpoint = options.gateway, options.endpoint
    if url is not None and not _is_url(url):
        why = f"--gateway: {url!r} was given; it must be http://HOST:PORT or https://HOST:PORT"
        return say_why(_NAME, GatewayNotAsked(why, 2))
    if url is not None and endpoint is not None:
        why = "NAME and --gateway were given; an endpoint can be waited for on this machine only"
        return say_why(_NAME, GatewayNotAsked(why, 2))
    named = getattr(options, "data_dir", None)
    deadline = time.monotonic() + options.timeout
    try:
        with interrupted_by_sigterm():
            while True:
                try:
                    _look(url, named, endpoint)
                except _NotReady as error:
                    if time.monotonic() + _LOOK > deadline:
                        raise GatewayNotAsked(f"not after {options.timeout:g} s: {error}") from None
                    time.sleep(_LOOK)
                else:
                    return 0
    except GatewayNotAsked as error:
        return say_why(_NAME, error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _look(url: str | None, named: Path | None, endpoint: str | None) -> None:
    """Return if all is ready.

    Raises:
        _NotReady: something may still come.
        GatewayNotAsked: waiting longer is of no use.
    """
    if url is not None:
        _ask_ready(url)
        return
    try:
        directory = find_gateway(named, os.environ)
        if endpoint is not None:
            _look_at_endpoint(directory, endpoint)
            return
        said = announced(directory)
        if said is None or not said.urls:
            raise _NotReady(f"the gateway of {directory} is starting")
        _ask_ready(said.urls[0])
    except GatewayNotAsked as error:
        if error.status == 1 and not isinstance(error, _EndpointFailed):
            raise _NotReady(str(error)) from None
        raise


class _EndpointFailed(GatewayNotAsked):
    """The endpoint has failed: it will not come into service by itself."""


def _look_at_endpoint(directory: Path, name: str) -> None:
    found = next((each for each in endpoints_of(directory) if each.name == name), None)
    if found is None:
        raise _NotReady(f"there is no endpoint {name!r}")
    if found.state is EndpointState.FAILED:
        raise _EndpointFailed(f"{name} has failed: {found.reason}")
    if found.state not in (EndpointState.IN_SERVICE, EndpointState.UPDATING):
        now = time.time()
        reasons = (each.trouble or each.slow_start_reason(now) for each in found.variants)
        trouble = next(filter(None, reasons), "")
        raise _NotReady(f"{name} is {found.state.value}" + (f": {trouble}" if trouble else ""))


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # no port, or no address
        return False


def _ask_ready(url: str) -> None:
    where = f"{url.rstrip('/')}/readyz"
    try:
        with urllib.request.urlopen(where, timeout=_ANSWER):  # noqa: S310 - http:// or https://
            return
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise GatewayNotAsked(f"{where} answered {error.code}: is this a gateway?") from None
        raise _NotReady(f"{where} answered 503: endpoints are starting") from None
    except http.client.HTTPException:
        raise GatewayNotAsked(f"{where} answered no HTTP: is this a gateway?") from None
    except OSError as error:  # URLError is one, with the system's words in its reason
        raise _NotReady(f"{where}: {getattr(error, 'reason', error)}") from None
