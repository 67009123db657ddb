"""``partway logs``: the output of an endpoint's instances."""

from __future__ import annotations

import argparse
import http.client
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.admin_client import (
    PATIENCE,
    GatewayNotAsked,
    add_data_dir,
    ask,
    find_gateway,
    gone,
    say_why,
)
from partway.gateway.cli.process import INTERRUPTED, interrupted_by_sigterm
from partway.gateway.cli.terminal_text import TerminalText
from partway.gateway.limits import LOG_LINES, MAX_LOG_LINES

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway logs"

#: Bytes of one read.
_BLOCK: Final = 64 * 1024

_EXAMPLES: Final = """\
examples:
  partway logs echo
  partway logs echo --follow --lines 0
  partway logs echo --instance echo-AllTraffic-1a2b3c
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "logs",
        help=COMMANDS["logs"],
        description=(
            "Show the output of an endpoint's instances. If there are several, each line begins "
            f"with its instance's id. See {page('how-to/watch-a-fleet.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("endpoint", metavar="NAME", help="the endpoint's name")
    parser.add_argument(
        "--follow", action="store_true", help="continue with new output, until Ctrl-C"
    )
    parser.add_argument(
        "--instance", metavar="ID", help="show only this instance, even if it has ended"
    )
    parser.add_argument(
        "--lines",
        type=_lines,
        default=LOG_LINES,
        metavar="N",
        help="number of last lines of each instance (%(default)s)",
    )
    add_data_dir(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0, 1 if the gateway cannot be asked, 2 on bad usage."""
    query = {"lines": str(options.lines), "follow": str(int(options.follow))}
    if options.instance is not None:
        query["instance"] = options.instance
    try:
        with interrupted_by_sigterm():
            directory = find_gateway(getattr(options, "data_dir", None), os.environ)
            path = ("endpoints", options.endpoint, "logs")
            # With --follow the next line may come at any time.
            patience = None if options.follow else PATIENCE
            answer = ask(directory, "GET", *path, query=query, patience=patience)
            _copy(directory, answer, LogPrinter(sys.stdout.buffer))
    except GatewayNotAsked as error:
        return say_why(_NAME, error)
    except BrokenPipeError:  # "| head" has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own flush
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


class LogPrinter:
    """Prints the output of instances.

    A file or a pipe gets the bytes as they are; a terminal gets them without terminal controls.

    Args:
        output: standard output.
    """

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._text = TerminalText() if output.isatty() else None

    def show(self, data: bytes) -> None:
        """Print a piece of the output, cut anywhere."""
        if self._text is not None:
            # Each line is a message of its own, so that a control sequence ends with its line.
            *lines, begun = data.split(b"\n")
            shown = [self._text.shown(line, ends=True) + "\n" for line in lines]
            shown.append(self._text.shown(begun, ends=False))
            data = "".join(shown).encode()
        self._output.write(data)
        self._output.flush()


def _copy(directory: Path, answer: http.client.HTTPResponse, printer: LogPrinter) -> None:
    with answer:
        while True:
            try:
                data = answer.read1(_BLOCK)
            except (OSError, http.client.HTTPException) as error:
                raise gone(directory, error) from None
            if not data:
                return
            printer.show(data)


def _lines(text: str) -> int:
    """Read the value of ``--lines``.

    Raises:
        argparse.ArgumentTypeError: the value is not such a number.
    """
    if text.isascii() and text.isdigit() and int(text[:20]) <= MAX_LOG_LINES:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"{text!r} was given; it must be a whole number from 0 to {MAX_LOG_LINES}"
    )
