"""``partway endpoints``: the states of the gateway's endpoints, and their restart."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.live import Live

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.admin_client import (
    GatewayNotAsked,
    add_data_dir,
    ask,
    endpoints_of,
    find_gateway,
    say_why,
    whole,
)
from partway.gateway.cli.endpoint_table import ChangesSeen, print_table, table
from partway.gateway.cli.process import INTERRUPTED, interrupted_by_sigterm
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.fleet.status_json import to_json
from partway.gateway.terminal import console_for

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway endpoints"

#: Seconds between two looks of ``--watch``.
_LOOK: Final = 1.0

#: argparse's usage would put the table's flags before "restart", and make the word required.
_USAGE: Final = f"""\
{_NAME} [-h] [--data-dir DIR] [--json] [--watch]
       {_NAME} restart NAME [-h] [--data-dir DIR]"""

_EXAMPLES: Final = """\
examples:
  partway endpoints
  partway endpoints --watch
  partway endpoints restart echo
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "endpoints",
        usage=_USAGE,
        help=COMMANDS["endpoints"],
        description=(
            "Show the running gateway's endpoints: instances, health, open streams and requests. "
            f"See {page('how-to/watch-a-fleet.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_data_dir(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="update until Ctrl-C: redrawn each second on a terminal, else a line for each change",
    )
    parser.set_defaults(run=run)
    actions = parser.add_subparsers(prog=_NAME, metavar="restart NAME")
    restart = actions.add_parser(
        "restart",
        help="start new instances, then stop the old ones",
        description="Replace the instances of an endpoint by new ones.",
    )
    add_data_dir(restart)
    restart.add_argument("endpoint", metavar="NAME", help="the endpoint's name")
    restart.set_defaults(run=run_restart)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0, 1 if the gateway cannot be asked, 2 if several may be meant."""
    try:
        with interrupted_by_sigterm():
            directory = find_gateway(getattr(options, "data_dir", None), os.environ)
            if options.watch:
                _watch(directory, as_json=options.json)
            _show(endpoints_of(directory), as_json=options.json)
    except GatewayNotAsked as error:
        return say_why(_NAME, error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def run_restart(options: argparse.Namespace) -> int:
    """Restart an endpoint; return 0 when new instances serve, 1 if not, 2 for an unknown name."""
    try:
        with interrupted_by_sigterm():
            directory = find_gateway(getattr(options, "data_dir", None), os.environ)
            if sys.stderr.isatty():
                print("waiting until new instances are in service …", file=sys.stderr)
            # The request lasts as long as the instances' start, which the gateway bounds.
            whole(
                directory,
                ask(directory, "POST", "endpoints", options.endpoint, "restart", patience=None),
            )
    except GatewayNotAsked as error:
        return say_why(_NAME, error)
    except KeyboardInterrupt:
        print(f"{_NAME}: the restart continues; see: {_NAME} --watch", file=sys.stderr)
        return INTERRUPTED
    print(f"{options.endpoint} has been restarted")
    return 0


# --- Shown ---------------------------------------------------------------------------------------


def _show(endpoints: tuple[EndpointStatus, ...], *, as_json: bool) -> None:
    if as_json:
        print(to_json(endpoints, indent=2))
    else:
        print_table(sys.stdout, endpoints, time.time())


def _watch(directory: Path, *, as_json: bool) -> None:
    """Show the endpoints' states until Ctrl-C, or until the gateway is gone."""
    console = console_for(sys.stdout)
    if console.is_terminal and not as_json:
        with Live(console=console, auto_refresh=False) as live:
            for endpoints in _looks(directory):
                live.update(table(endpoints, time.time()), refresh=True)
    changes = ChangesSeen()
    before = ""
    for endpoints in _looks(directory):
        if not as_json:
            for line in changes.lines(endpoints, datetime.now(UTC)):
                print(line, flush=True)
        elif (text := to_json(endpoints)) != before:
            print(before := text, flush=True)


def _looks(directory: Path) -> Iterator[tuple[EndpointStatus, ...]]:
    """Yield the endpoints' states, each second, for as long as the gateway runs."""
    while True:
        yield endpoints_of(directory)
        time.sleep(_LOOK)
