"""``partway deploy``: make a model, a configuration and an endpoint, and wait for service."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.live import Live

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.admin_client import GatewayNotAsked, add_data_dir, find_gateway, say_why
from partway.gateway.cli.deployment_client import AskedDeployment, EndpointSaid
from partway.gateway.cli.endpoint_table import ChangesSeen, table
from partway.gateway.cli.process import INTERRUPTED, interrupted_by_sigterm
from partway.gateway.fleet.processes.commands import command_words
from partway.gateway.fleet.processes.unexpanded import unexpanded_variables
from partway.gateway.fleet.states import InstanceState
from partway.gateway.fleet.status import EndpointState, EndpointStatus, InstanceStatus
from partway.gateway.plain_text import safe_lines
from partway.gateway.terminal import console_for

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway deploy"

#: Lines of a container's log that are shown where it has failed.
_LOG_LINES: Final = 25

_EXAMPLES: Final = """\
examples:
  partway deploy chat --image echo
  partway deploy chat --image registry.example/chat:2 --model-data s3://models/chat.tar.gz
  partway deploy app --command 'uvicorn app:app --port {port}'
  partway deploy chat --command 'python serve.py' --model-data ./model --instances 2
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "deploy",
        help=COMMANDS["deploy"],
        description=(
            "Create a model, an endpoint configuration and an endpoint, or update the endpoint of "
            f"this name, and wait until it is in service. See {page('how-to/deploy.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("endpoint", metavar="NAME", help="the endpoint's name")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--image", help="the image of the instances, as for create_model")
    source.add_argument(
        "--command",
        type=_words,
        dest="words",
        metavar="COMMAND",
        help="the command that starts an instance, in this folder and as the gateway's user; "
        "{port} stands for its port",
    )
    parser.add_argument(
        "--model-data",
        metavar="PLACE",
        help="a folder or a tar.gz file, on this machine or at s3:// (a folder there ends with /)",
    )
    parser.add_argument(
        "--instances",
        type=_count,
        metavar="N",
        help="number of instances (unchanged; 1 for a new endpoint)",
    )
    parser.add_argument(
        "--environment",
        type=_variable,
        action="append",
        default=[],
        metavar="K=V",
        help="an environment variable of the instances; may be repeated",
    )
    parser.add_argument(
        "--instance-type",
        metavar="TYPE",
        help="ml.g* and ml.p* request a GPU if the machine has one",
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="return as soon as the endpoint has begun to start"
    )
    add_data_dir(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 once the endpoint is in service, 1 if not, 2 on bad usage."""
    begun = ""
    name = options.endpoint
    try:
        with interrupted_by_sigterm():
            directory = find_gateway(getattr(options, "data_dir", None), os.environ)
            asked = AskedDeployment(directory, name)
            latest = _latest(asked.status())
            for reason in unexpanded_variables(options.words or ()):
                print(f"{_NAME}: --command: {reason}", file=sys.stderr)
            made = asked.deploy(_wanted(options, Path.cwd()))
            begun = made["Operation"]
            verb = "created" if begun == "CreateEndpoint" else "updated"
            config = made["EndpointConfigName"]
            line = f"{name} is being {verb}: model {made['ModelName']}, configuration {config}"
            gone = ", ".join(made.get("Gone", ()))
            print(f"{line}; removed from it: {gone}" if gone else line, flush=True)
            return 0 if options.no_wait else _wait(asked, config, latest)
    except GatewayNotAsked as error:
        return say_why(_NAME, error)
    except KeyboardInterrupt:
        if begun:
            end = f"; delete it: partway delete {name}" if begun == "CreateEndpoint" else ""
            print(
                f"{_NAME}: {name} is still starting; see: partway endpoints{end}", file=sys.stderr
            )
        return INTERRUPTED


def _wanted(options: argparse.Namespace, here: Path) -> dict[str, Any]:
    """Make the gateway's request of the options.

    Args:
        here: the folder that relative paths begin at.
    """
    container: dict[str, Any] = {}
    variant: dict[str, Any] = {}
    wanted: dict[str, Any] = {"container": container, "variant": variant}
    if options.words is None:
        container["Image"] = options.image
    else:
        wanted |= {"command": list(options.words), "folder": str(here)}
    if options.model_data is not None:
        place = options.model_data
        container["ModelDataUrl"] = place if "://" in place else str(here / place)
    if options.environment:
        container["Environment"] = dict(options.environment)
    if options.instances is not None:
        variant["InitialInstanceCount"] = options.instances
    if options.instance_type is not None:
        variant["InstanceType"] = options.instance_type
    return wanted


# --- Waiting -------------------------------------------------------------------------------------


def _wait(asked: AskedDeployment, config: str, latest: int) -> int:
    """Show how an endpoint comes up, until it is in service or has failed; return the status.

    Args:
        config: the configuration that it must serve by.
        latest: the version of its latest instance before.
    """
    last: InstanceStatus | None = None
    said: EndpointSaid | None = None
    with _Progress() as progress:
        for said in asked.looks():
            status = asked.status()
            progress.show(status)
            last = _last_of_versions_after(latest, status) or last
            if said is None or not said.is_changing:
                break
    if said is None:
        print(f"{_NAME}: {asked.name} was deleted meanwhile", file=sys.stderr)
        return 1
    if said.state is EndpointState.IN_SERVICE and said.config == config:
        print(f"{asked.name} is in service")
        return 0
    _say_failure(asked, said, last)
    return 1


def _say_failure(asked: AskedDeployment, said: EndpointSaid, last: InstanceStatus | None) -> None:
    """Say why an endpoint has not come up, and show its last container's output."""
    why, *printed = safe_lines(said.reason) or ["another change came in between"]
    serves = said.state is EndpointState.IN_SERVICE
    after = (
        f"; {said.config} still serves" if serves else f"; delete it: partway delete {asked.name}"
    )
    print(f"{_NAME}: {asked.name} has not come into service: {why}{after}", file=sys.stderr)
    if last is not None:
        log = asked.log(last.id, _LOG_LINES).decode(errors="replace")
        printed = safe_lines(log, _LOG_LINES) or printed
        if printed:
            print(f"the last lines of {last.id}:", file=sys.stderr)
    for line in printed:
        print(f"    {line}", file=sys.stderr)


def _instances(status: tuple[EndpointStatus, ...]) -> list[InstanceStatus]:
    return [one for each in status for variant in each.variants for one in variant.instances]


def _latest(status: tuple[EndpointStatus, ...]) -> int:
    return max((each.version for each in _instances(status)), default=0)


def _last_of_versions_after(
    version: int, status: tuple[EndpointStatus, ...]
) -> InstanceStatus | None:
    """The instance whose log explains a failure: the last failed one, or else the newest."""
    later = [each for each in _instances(status) if each.version > version]
    failed = [each for each in later if each.state is InstanceState.FAILED]
    return max(failed or later, key=lambda each: each.since, default=None)


class _Progress:
    """Shows instances as they come: a table that changes on a terminal, else a line each change.

    It writes to standard error, since scripts read standard output.
    """

    def __init__(self) -> None:
        self._console = console_for(sys.stderr)
        self._changes = ChangesSeen()
        self._open = ExitStack()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            live = Live(console=self._console, auto_refresh=False)
            self._live = self._open.enter_context(live)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._open.close()

    def show(self, status: tuple[EndpointStatus, ...]) -> None:
        if self._live is not None:
            self._live.update(table(status, time.time()), refresh=True)
            return
        for line in self._changes.lines(status, datetime.now(UTC)):
            print(line, file=sys.stderr, flush=True)


# --- Values of flags -----------------------------------------------------------------------------


def _words(text: str) -> tuple[str, ...]:
    try:
        return command_words(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} was given: {error}") from None


def _count(text: str) -> int:
    """Read the value of ``--instances``; the gateway itself has the upper limit."""
    if text.isascii() and text.isdigit() and int(text[:9]) >= 1:
        return int(text[:9])
    raise argparse.ArgumentTypeError(f"{text!r} was given; it must be a whole number, 1 or more")


def _variable(text: str) -> tuple[str, str]:
    """Read a value of ``--environment``, which no message repeats: it may hold a secret."""
    name, is_there, value = text.partition("=")
    if not name or not is_there:
        raise argparse.ArgumentTypeError("it must be NAME=VALUE")
    return name, value
