"""``partway wait``: return once a gateway or one of its endpoints is ready."""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.admin_client import (
    GatewayNotAsked,
    add_data_dir,
    endpoints_of,
    find_gateway,
    say_why,
)
from partway.gateway.cli.arguments import seconds
from partway.gateway.cli.process import INTERRUPTED, interrupted_by_sigterm
from partway.gateway.cli.readiness import NotReady, ReadinessUrl
from partway.gateway.fleet.status import EndpointState
from partway.gateway.storage.data_directory import announced

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway wait"

#: Seconds between two looks.
_LOOK: Final = 0.2

#: Seconds for one look, name resolution included; it takes milliseconds.
_ANSWER: Final = 5.0

_EXAMPLES: Final = """\
examples:
  partway serve --config partway.toml >gateway.log 2>&1 &
  partway wait && pytest
  partway wait chat --timeout 300
  partway wait --gateway http://gateway:8090
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "wait",
        help=COMMANDS["wait"],
        description=(
            "Wait until the gateway of this machine accepts requests, or until one of its "
            "endpoints is in service. The gateway may start later than this command. "
            f"See {page('how-to/operate.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("endpoint", nargs="?", metavar="NAME", help="an endpoint to wait for")
    where = parser.add_mutually_exclusive_group()
    add_data_dir(where)
    where.add_argument(
        "--gateway", metavar="URL", help="a gateway on another machine; only without NAME"
    )
    parser.add_argument(
        "--timeout", type=seconds, default=60.0, metavar="S", help="seconds to wait (60)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 once all is ready, 1 if the time is over, 2 on bad usage."""
    endpoint = options.endpoint
    try:
        url = None if options.gateway is None else ReadinessUrl.of_gateway(options.gateway)
    except ValueError as error:
        return say_why(_NAME, GatewayNotAsked(f"--gateway: {error}", 2))
    if url is not None and endpoint is not None:
        why = (
            "NAME and --gateway were given; NAME works only with a gateway of this machine, which "
            "--data-dir names if there are several"
        )
        return say_why(_NAME, GatewayNotAsked(why, 2))
    named = getattr(options, "data_dir", None)
    try:
        with interrupted_by_sigterm():
            who = "the gateway" if url is None else str(url)
            _wait(lambda until: _look(url, named, endpoint, until), options.timeout, who)
    except GatewayNotAsked as error:
        return say_why(_NAME, error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _wait(look: Callable[[float], None], seconds: float, who: str) -> None:
    """Look again and again until a look finds all ready.

    Args:
        look: raises NotReady; takes the monotonic time by which it has to end.
        seconds: for all looks.
        who: the name of the gateway, for messages.

    Raises:
        GatewayNotAsked: the time is over, or waiting longer is of no use.
    """
    deadline = time.monotonic() + seconds
    while True:
        now = time.monotonic()
        try:
            _in_time(look, now + min(_ANSWER, max(deadline - now, _LOOK)), who)
        except NotReady as error:
            if time.monotonic() + _LOOK > deadline:
                raise GatewayNotAsked(f"not ready after {seconds:g} s: {error}") from None
            time.sleep(_LOOK)
        else:
            return


def _in_time(look: Callable[[float], None], until: float, who: str) -> None:
    """Look in a thread, which is left behind if it does not end in time.

    Nothing but a thread bounds a look whose host name is being resolved.

    Raises:
        NotReady: there is no answer in time.
    """
    outcome = Future[None]()

    def run() -> None:
        try:
            look(until)
            outcome.set_result(None)
        except BaseException as error:  # raised where the look is waited for
            outcome.set_exception(error)

    threading.Thread(target=run, name="look", daemon=True).start()
    try:
        outcome.result(until - time.monotonic())
    except TimeoutError:
        raise NotReady(f"{who} does not answer") from None


def _look(url: ReadinessUrl | None, named: Path | None, endpoint: str | None, until: float) -> None:
    """Return if all is ready.

    Raises:
        NotReady: something may still come.
        GatewayNotAsked: waiting longer is of no use.
    """
    if url is not None:
        url.ask(until)
        return
    try:
        directory = find_gateway(named, os.environ)
        if endpoint is not None:
            _look_at_endpoint(directory, endpoint)
            return
        said = announced(directory)
        if said is None or not said.urls:
            raise NotReady(f"the gateway of {directory} is starting")
        ReadinessUrl.of_gateway(said.urls[0]).ask(until)
    except GatewayNotAsked as error:
        if error.status == 1 and not isinstance(error, _EndpointFailed):
            raise NotReady(str(error)) from None
        raise


class _EndpointFailed(GatewayNotAsked):
    """The endpoint has failed: it will not come into service by itself."""


def _look_at_endpoint(directory: Path, name: str) -> None:
    found = next((each for each in endpoints_of(directory) if each.name == name), None)
    if found is None:
        raise NotReady(f"there is no endpoint {name!r}")
    if found.state is EndpointState.FAILED:
        raise _EndpointFailed(f"{name} has failed: {found.reason}")
    if found.state not in (EndpointState.IN_SERVICE, EndpointState.UPDATING):
        now = time.time()
        reasons = (each.trouble or each.slow_start_reason(now) for each in found.variants)
        trouble = next(filter(None, reasons), "")
        raise NotReady(f"{name} is {found.state.value}" + (f": {trouble}" if trouble else ""))
