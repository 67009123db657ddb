"""``partway replay``: send a recorded stream's client side again, and compare the answers."""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from partway.gateway.cli import COMMANDS
from partway.gateway.cli.arguments import seconds
from partway.gateway.cli.process import INTERRUPTED, until_signalled
from partway.gateway.fleet.endpoint import container_address
from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.fleet.processes.commands import command_words
from partway.gateway.fleet.processes.unexpanded import unexpanded_variables
from partway.gateway.network.dialling import Address
from partway.gateway.plain_text import safe
from partway.gateway.streams.invocation_target import InvocationTarget
from partway.gateway.terminal import console_for
from partway.gateway.workbench.recording.comparison import By, Comparison, StreamAnswers, compare
from partway.gateway.workbench.recording.recording import Recording, RecordingError, load_recording
from partway.gateway.workbench.recording.replay import PATIENCE, ReplayPlan, plan_of, replay
from partway.gateway.workbench.recording.report import show, to_json
from partway.gateway.workbench.recording.started_program import started_program
from partway.protocol.errors import InputValidationError

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_EXAMPLES = """\
examples:
  partway replay recordings/20261122T101530.120734Z-echo.jsonl --url http://127.0.0.1:8080
  partway replay call.jsonl --url http://127.0.0.1:8080 --speed max --by shape
  partway replay call.jsonl --command 'uvicorn app:app --port {port}'
"""


class _AskedWrongly(Exception):
    """The command cannot be run as it was given; the message says why."""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "replay",
        help=COMMANDS["replay"],
        description=(
            "Send the client's side of a recorded stream to a container, as the platform would. "
            "Compare the container's answers with the recorded ones."
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the recording")
    container = parser.add_mutually_exclusive_group(required=True)
    container.add_argument("--url", metavar="http://HOST:PORT", help="a running container")
    container.add_argument(
        "--command",
        dest="entrypoint",
        metavar="COMMAND",
        help="start the container by a command, as `partway serve` would, and stop it afterwards; "
        "{port} stands for its port",
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        metavar="N|max",
        help="N times the recorded pace; max: send as soon as the earlier replies have come (1)",
    )
    parser.add_argument(
        "--by",
        choices=[by.value for by in By],
        default=By.EXACT.value,
        help=(
            "how to compare, in addition to the stream's end: each byte (exact), number and kinds "
            "of replies (shape), or whether there are any (end) (%(default)s)"
        ),
    )
    parser.add_argument(
        "--wait",
        type=seconds,
        default=PATIENCE,
        metavar="SECONDS",
        help="seconds to wait for a missing reply (%(default)g)",
    )
    parser.add_argument("--path", help="a path other than the recorded one")
    parser.add_argument("--query", help="a query other than the recorded one")
    parser.add_argument(
        "--json", metavar="FILE", help="write the comparison as JSON; - is standard output"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 for the same answers, 1 for others, 2 on bad usage."""
    # a log's encoding may lack characters of the container's
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        recording, plan = _loaded(options.file)
        target = _target(options, recording)
        replaying = _replayed(options, plan, target)
        done = asyncio.run(until_signalled(replaying))
        if done is None:
            print("partway replay: interrupted", file=sys.stderr)
            return INTERRUPTED
        address, now = done
        found = compare(plan.answers, now, By(options.by))
        where = f"http://{address}{target}"
        show(
            recording, where, found, console_for(sys.stderr if options.json == "-" else sys.stdout)
        )
        _write(options.json, recording, where, found)
    except _AskedWrongly as error:
        _say(str(error))
        return 2
    return 0 if found.same else 1


async def _replayed(
    options: argparse.Namespace, plan: ReplayPlan, target: str
) -> tuple[Address, StreamAnswers]:
    """Send the plan to the container; return its address and its answers."""
    how = {"speed": options.speed, "patience": options.wait}
    if options.entrypoint is None:
        address = _address(options.url)
        return address, await replay(plan, address, target, **how)
    words = _words(options.entrypoint)
    try:
        async with started_program(words, _pass_on) as address:
            return address, await replay(plan, address, target, **how)
    except LaunchError as error:
        raise _AskedWrongly(f"--command: {error}") from error


def _pass_on(data: bytes) -> None:
    """Show the container's output on standard error: a script may read the comparison."""
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


def _say(what: str) -> None:
    print(f"partway replay: {safe(what)}", file=sys.stderr, flush=True)


# --- The options ----------------------------------------------------------------------------------


def _loaded(path: Path) -> tuple[Recording, ReplayPlan]:
    try:
        recording = load_recording(path)
        return recording, plan_of(recording)
    except RecordingError as error:
        raise _AskedWrongly(str(error)) from error


def _address(url: str) -> Address:
    try:
        return container_address(url)
    except ValueError as error:
        raise _AskedWrongly(f"--url: {error}") from error


def _words(command: str) -> tuple[str, ...]:
    try:
        words = command_words(command)
    except ValueError as error:
        raise _AskedWrongly(f"--command: {error}") from error
    for warning in unexpanded_variables(words):
        _say(f"--command: {warning}")
    return words


def _target(options: argparse.Namespace, recording: Recording) -> str:
    """The recorded path and query, or those of ``--path`` and ``--query``."""
    path, _, query = recording.head.target.partition("?")
    try:
        if options.path is not None:
            path = InvocationTarget(options.path.removeprefix("/")).path_and_query()
        if options.query is not None:
            query = InvocationTarget(query=options.query).path_and_query().partition("?")[2]
    except InputValidationError as error:
        raise _AskedWrongly(f"--path or --query: {error.message}") from error
    return f"{path}?{query}" if query else path


def _speed(text: str) -> float:
    """Read the value of ``--speed``, a multiple of the recorded pace; 0 for ``max``."""
    if text == "max":
        return 0.0
    with suppress(ValueError):
        value = float(text)
        if value == 0 or 0.01 <= value <= 1000:
            return value
    raise argparse.ArgumentTypeError(
        f"{text!r} was given; it must be a number from 0.01 to 1000, or max"
    )


def _write(name: str | None, recording: Recording, where: str, found: Comparison) -> None:
    if name is None:
        return
    text = to_json(recording, where, found)
    if name == "-":
        sys.stdout.write(text)
        return
    try:
        Path(name).write_text(text, "utf-8")
    except OSError as error:
        raise _AskedWrongly(f"--json {name}: {error.strerror or error}") from error
