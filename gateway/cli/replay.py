"""``partway replay``: say a recorded stream's client side again, and compare the answers."""

from __future__ import annotations

import argparse
import asyncio
import io
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.process import stop_on_signals
from gateway.conformance.report.terminal import console_for
from gateway.conformance.report.text import safe
from gateway.dialling import Address
from gateway.fleet.endpoints import container_address
from gateway.operations.asked import Asked, container_target
from gateway.recording.comparison import Answers, By, Comparison, compare
from gateway.recording.recording import Recording, RecordingError, load_recording
from gateway.recording.replay import PATIENCE, Script, replay, script_of
from gateway.recording.report import show, to_json
from protocol.errors import InputValidationError

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

#: As a shell has it for what Ctrl-C has ended.
_INTERRUPTED = 130

_EXAMPLES = """\
examples:
  partway replay recordings/20261122T101530.120734Z-echo.jsonl --url http://127.0.0.1:8080
  partway replay call.jsonl --url http://127.0.0.1:8080 --speed max --by shape
"""


class _AskedWrongly(Exception):
    """The command cannot be run as it was given; says why."""


def add_to(commands: Commands) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "replay",
        help="say a recorded stream again, compare the answers",
        description=(
            "Say the client's side of a recorded stream to a container, as the platform would, "
            "and compare what it answers with what was answered then."
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a recording")
    parser.add_argument(
        "--url", required=True, metavar="http://HOST:PORT", help="a container that runs"
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        metavar="N|max",
        help="so many times its pace; max: as soon as the replies before have come (1)",
    )
    parser.add_argument(
        "--by",
        choices=[by.value for by in By],
        default=By.EXACT.value,
        help=(
            "what has to be the same: each byte, how many replies of which kind, or that there "
            "are any, and how the stream ends (%(default)s)"
        ),
    )
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=PATIENCE,
        metavar="SECONDS",
        help="for a reply that does not come (%(default)g)",
    )
    parser.add_argument("--path", help="another path, without a leading slash")
    parser.add_argument("--query", help="another query, key=value&key=value")
    parser.add_argument(
        "--json", metavar="FILE", help="write the comparison as JSON; - is standard output"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns 0 for the same answers, 1 for others, 2 on bad usage."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a log's encoding may lack what others said
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        recording, script = _loaded(options.file)
        address, target = _address(options.url), _target(options, recording)
        now = asyncio.run(_until_signalled(script, address, target, options))
        if now is None:
            print("partway replay: interrupted", file=sys.stderr)
            return _INTERRUPTED
        found = compare(script.answers, now, By(options.by))
        where = f"http://{address}{target}"
        show(
            recording, where, found, console_for(sys.stderr if options.json == "-" else sys.stdout)
        )
        _write(options.json, recording, where, found)
    except _AskedWrongly as error:
        print(f"partway replay: {safe(str(error))}", file=sys.stderr)
        return 2
    return 0 if found.same else 1


async def _until_signalled(
    script: Script, address: Address, target: str, options: argparse.Namespace
) -> Answers | None:
    """The answers; None if SIGINT or SIGTERM came before them."""
    stop = stop_on_signals(again=lambda: None)
    saying = asyncio.create_task(
        replay(script, address, target, speed=options.speed, patience=options.wait), name="replay"
    )
    waiting = asyncio.create_task(stop.wait(), name="signals")
    await asyncio.wait((saying, waiting), return_when=asyncio.FIRST_COMPLETED)
    for task in (saying, waiting):
        task.cancel()
    await asyncio.wait((saying, waiting))
    return None if saying.cancelled() else saying.result()


# --- What was asked for ---------------------------------------------------------------------------


def _loaded(path: Path) -> tuple[Recording, Script]:
    try:
        recording = load_recording(path)
        return recording, script_of(recording)
    except RecordingError as error:
        raise _AskedWrongly(str(error)) from error


def _address(url: str) -> Address:
    try:
        return container_address(url)
    except ValueError as error:
        raise _AskedWrongly(f"--url: {error}") from error


def _target(options: argparse.Namespace, recording: Recording) -> str:
    """The recorded path and query, or those that were asked for in their place."""
    path, _, query = recording.head.target.partition("?")
    try:
        if options.path is not None:
            path = container_target(Asked(options.path.removeprefix("/")))
        if options.query is not None:
            query = container_target(Asked(query=options.query)).partition("?")[2]
    except InputValidationError as error:
        raise _AskedWrongly(f"--path or --query: {error.message}") from error
    return f"{path}?{query}" if query else path


def _speed(text: str) -> float:
    """Times the recorded pace; 0 for no pace at all."""
    if text == "max":
        return 0.0
    value = float(text)
    if value and not 0.01 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 0.01 to 1000, nor max")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not over 0 and at most 3600 seconds")
    return value


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
