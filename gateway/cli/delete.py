"""``partway delete``: delete an endpoint, with the objects that were deployed for it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.admin_client import GatewayNotAsked, add_data_dir, find_gateway, say_why
from partway.gateway.cli.deployment_client import AskedDeployment
from partway.gateway.cli.process import INTERRUPTED, interrupted_by_sigterm
from partway.gateway.fleet.status import EndpointState

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway delete"


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "delete",
        help=COMMANDS["delete"],
        description=(
            "Delete an endpoint with the models and configurations that partway deploy has created "
            f"for it, and wait until it has drained and is gone. See {page('how-to/deploy.md')}"
        ),
    )
    parser.add_argument("endpoint", metavar="NAME", help="the endpoint's name")
    parser.add_argument(
        "--no-wait", action="store_true", help="return as soon as the deletion has begun"
    )
    add_data_dir(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 once the endpoint is gone, 1 if not, 2 for an unknown name."""
    begun = is_there_again = False
    try:
        with interrupted_by_sigterm():
            directory = find_gateway(getattr(options, "data_dir", None), os.environ)
            asked = AskedDeployment(directory, options.endpoint)
            deleted = asked.delete()
            begun = True
            if not options.no_wait:
                is_there_again = _wait_until_gone(asked)
    except GatewayNotAsked as error:
        return say_why(_NAME, error)
    except KeyboardInterrupt:
        if begun:
            print(f"{_NAME}: {options.endpoint} is still being deleted", file=sys.stderr)
        return INTERRUPTED
    going = "is being deleted" if options.no_wait else "is gone"
    print(f"{options.endpoint} {going}: {', '.join(deleted)}")
    if is_there_again:
        print(f"{_NAME}: {options.endpoint} was created again meanwhile", file=sys.stderr)
    return 0


def _wait_until_gone(asked: AskedDeployment) -> bool:
    """Wait until an endpoint has drained, which the gateway bounds.

    Returns:
        Whether another endpoint of the same name was made meanwhile.
    """
    made: float | None = None
    for said in asked.looks():
        if said is None:
            return False
        made = said.created if made is None else made
        if said.state is not EndpointState.DELETING or said.created != made:
            return True
    raise AssertionError("it is looked at until it is gone")
