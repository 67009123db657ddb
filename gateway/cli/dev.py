"""``partway dev``: gateway, container and a page to talk to it, in one command."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.arguments import whole_number
from partway.gateway.cli.process import (
    descriptors_of,
    raise_descriptor_limit,
    run_loop,
    stop_on_signals,
)
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.fleet.endpoint import places
from partway.gateway.fleet.launchers.process import Command, free_port
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.gateway import Gateway
from partway.gateway.settings import settings
from partway.gateway.settings.settings import Settings
from partway.gateway.workbench.dev.changes import Changes, WatchFailed
from partway.gateway.workbench.dev.page import Page, voice_page
from partway.gateway.workbench.dev.supervisor import Supervisor
from partway.log_lines import start_logging
from partway.protocol.limits import MAX_ENDPOINT_NAME, is_name

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_HOST = "127.0.0.1"

_EXAMPLES = """\
examples:
  partway dev                             # the model that ships: echo
  partway dev model:Chat --reload
  partway dev --script code/inference.py --model-dir .
  partway dev --sklearn model.joblib
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "dev",
        help=COMMANDS["dev"],
        description=(
            "Run a model's container behind a gateway, only on this machine, with a web page to "
            f"talk to it. See {page('how-to/develop.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # --model, meant for the argument, would be --model-dir
    )
    served = parser.add_mutually_exclusive_group()
    served.add_argument(
        "model", nargs="?", metavar="MODEL", help="module:Class, or a built-in model (echo)"
    )
    served.add_argument("--app", metavar="MODULE:NAME", help="an ASGI or WSGI application")
    served.add_argument(
        "--script", metavar="FILE", help="a file with model_fn and the other functions"
    )
    served.add_argument(
        "--sklearn", metavar="FILE", help="a scikit-learn model that joblib.dump() has written"
    )
    parser.add_argument("--model-dir", metavar="DIR", help="the folder with the model's artifacts")
    parser.add_argument(
        "--reload",
        action="store_true",
        help="start the container again when a .py file below the current folder changes",
    )
    parser.add_argument(
        "--port",
        type=whole_number,
        default=8090,
        help="the gateway's port, 0 for a free one (%(default)s)",
    )
    parser.add_argument(
        "--name", type=_name, default="model", help="the endpoint's name (%(default)s)"
    )
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="lowest level that gateway and container log (%(default)s)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    port = free_port()  # the container keeps it from one start to the next
    try:
        loaded = _settings(options, port)
        changes = Changes(Path.cwd()) if options.reload else None
    except (SettingsError, WatchFailed) as error:
        return _fail(str(error), status=2)
    start_logging(loaded.log_level, "text")
    raise_descriptor_limit(descriptors_of(loaded))
    shown = options.model or options.app or options.script or options.sklearn or options.name
    return run_loop(develop(loaded, _command(options, port), changes, shown))


async def develop(loaded: Settings, command: Command, changes: Changes | None, shown: str) -> int:
    """Run gateway and container until SIGTERM or SIGINT, or the container's own end.

    Args:
        loaded: the gateway's settings, with the container's endpoint.
        command: starts the container: a program and its arguments.
        changes: the changes that restart the container; None to start it only once.
        shown: the model's name on the page.
    """
    (place,) = places(loaded.endpoints[0])
    pages = (Page(place.endpoint, shown), voice_page(place.endpoint, shown))
    gateway = Gateway(loaded, further_routes=tuple(each.route for each in pages))
    with contextlib.closing(Leash()) as leash:
        ready_line = f"listening on http://{place.container}"
        supervisor = Supervisor(command, ready_line, leash, changes, _say)
        stop = stop_on_signals(again=supervisor.kill)
        try:
            listening = await gateway.start()
        except OSError as error:
            return _fail(
                f"cannot listen on {error.filename}: {error.strerror}; choose another with --port"
            )
        url = f"http://{listening.host}:{listening.port}"
        _say(f"page       {url}/")
        _say(f"endpoint   {url}/endpoints/{place.endpoint}/invocations-bidirectional-stream")
        _say(f"container  http://{place.container}")
        try:
            async with changes or contextlib.nullcontext():
                return await supervisor.run(stop)
        except WatchFailed as error:
            return _fail(str(error))
        finally:
            await gateway.drain()
            await supervisor.end()


def _settings(options: argparse.Namespace, container_port: int) -> Settings:
    """Make the gateway's settings for this machine; the environment's are ignored."""
    flags: dict[str, Any] = {
        "host": _HOST,
        "port": options.port,
        "log_level": options.log_level,
        "endpoints": [f"{options.name}=http://{_HOST}:{container_port}"],
        # No wait at the end: an open page would delay it as long as it may.
        "shutdown_grace": 0.0,
        "shutdown_spread": 0.0,
    }
    return settings.load(flags, {})


def _command(options: argparse.Namespace, port: int) -> Command:
    """Make the command line of the container, which the gateway meets on the wire alone."""
    # -P: a folder of the model's author may be called container as well. -B: Python compares a
    # cached module by size and second alone, and edits come quickly.
    command = [sys.executable, "-P", "-B", "-m", "partway.container", "serve"]
    command += ["--host", _HOST, "--port", str(port), "--log-level", options.log_level]
    command += ["--log-format", "text"]  # the supervisor waits for the text line "listening on"
    command.append("--show-errors")
    for name in ("model", "app", "script", "sklearn", "model_dir"):
        value = getattr(options, name)
        if value is not None:
            command.append(f"--{name.replace('_', '-')}={value}")
    return Command(command, port)


def _say(line: str) -> None:
    print(line, flush=True)


def _fail(why: str, status: int = 1) -> int:
    print(f"partway dev: {why}", file=sys.stderr)
    return status


def _name(text: str) -> str:
    if not is_name(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} was given; an endpoint's name must be 1 to {MAX_ENDPOINT_NAME} letters, "
            "digits and hyphens"
        )
    return text
