"""``partway-container convert``: convert records from one format to another."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from partway.container.cli import COMMANDS
from partway.container.cli.record_flags import TYPES, add_reading

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_EPILOG = """\
examples:
  partway-container convert --to application/x-recordio-protobuf --float32 train.csv -o train.rec
  partway-container convert --from 'text/csv; label_size=1' --to text/libsvm train.csv >train.svm
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "convert",
        help=COMMANDS["convert"],
        description="Convert a file of records to another inference format.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_reading(parser)
    parser.add_argument(
        "--to",
        required=True,
        metavar="TYPE",
        help=f"the media type to write: {', '.join(TYPES)}",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the file to write (standard output)"
    )
    parser.add_argument(
        "--drop-labels", action="store_true", help="write features without their labels"
    )
    parser.add_argument(
        "--drop-beside",
        action="store_true",
        help="write records without their uid, metadata, configuration and query's number",
    )
    parser.add_argument(
        "--float32", action="store_true", help="write numbers as float32, as AWS's algorithms do"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status.

    Raises:
        CommandError: the records cannot be read, or cannot be written in that format.
    """
    with _ended_by_signals():
        from partway.container.cli.conversion import convert  # imports numpy

        try:
            convert(options)
        except BrokenPipeError:  # the reader, such as "| head", has closed the pipe
            return 0
    return 0


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have signals end the block by an exception, so that unfinished output is removed."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)  # the status that shells report for the signal

    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # A signal that is ignored, by nohup or in the background of a script, stays ignored.
    heeded = [each for each in ending if signal.getsignal(each) is not signal.SIG_IGN]
    earlier = {each: signal.signal(each, end) for each in heeded}
    try:
        yield
    finally:
        for each, handler in earlier.items():
            signal.signal(each, handler)
