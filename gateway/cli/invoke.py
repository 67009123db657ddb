"""``partway invoke``: a bidirectional client on the terminal."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.arguments import add_gateway, region, seconds, whole_number
from partway.gateway.cli.invoke_input import opened_input
from partway.gateway.cli.invoke_output import FramePrinter, ReplyPrinter, Timing
from partway.gateway.client import (
    ClientStream,
    PartwayError,
    PayloadPart,
    StreamEnded,
    connect,
    credentials_from_environment,
)
from partway.gateway.plain_text import safe_lines

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

#: The warning where the gateway has waited for parts after the end of input.
_LATE = (
    "parts that came after the end of input: {}; a platform that closes at once, as AWS does, may "
    "lose such parts of this container; give --wait SECONDS there, and see "
    + page("how-to/configure.md")
)

_EXAMPLES = """\
examples:
  partway invoke echo --text "Hello " --text world --partial --frames
  partway invoke echo < questions.txt
  partway invoke voice --wav call.wav --rate 16000 --channels 1 --pace realtime --path v1/listen
  partway invoke echo --text hi --transport http2 --sign --gateway https://localhost:8443
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "invoke",
        help=COMMANDS["invoke"],
        description=(
            "Open a stream, and send and receive at the same time. Without --text, --file or --wav "
            "each line of standard input is a message, and its end ends the stream's input."
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("endpoint", metavar="NAME", help="the endpoint's name")
    add_gateway(parser)
    parser.add_argument(
        "--transport",
        choices=["websocket", "http2"],
        default="websocket",
        help="protocol of the stream: AWS's SDKs use http2 (%(default)s)",
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="PEM file of roots to trust for https://; also SSL_CERT_FILE",
    )
    parser.add_argument(
        "--sign",
        action="store_true",
        help="sign with the keys in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
    )
    parser.add_argument(
        "--region", default=region(), help="region that signatures must name (%(default)s)"
    )
    parser.add_argument(
        "--token",
        help="bearer token for a WebSocket; safer in PARTWAY_TOKEN, as others see command lines",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", action="append", help="a text part; may be repeated")
    source.add_argument("--file", type=Path, help="a file, sent in BINARY parts of 64 KiB")
    source.add_argument(
        "--wav", type=Path, help="a WAV file, sent as 16-bit samples in parts of 20 ms"
    )
    parser.add_argument(
        "--rate",
        type=whole_number,
        metavar="HZ",
        help="send --wav at this rate (sample_rate of the query, else the file's)",
    )
    parser.add_argument(
        "--channels",
        type=whole_number,
        metavar="N",
        help="send --wav with this number of channels (channels of the query, else the file's)",
    )
    parser.add_argument(
        "--pace",
        choices=["none", "realtime"],
        default="none",
        help="realtime sends --wav at the speed of its sound (%(default)s)",
    )
    parser.add_argument(
        "--partial",
        action="store_true",
        help="send everything as one message: PARTIAL parts, the last one COMPLETE",
    )
    parser.add_argument(
        "--wait",
        type=seconds,
        metavar="SECONDS",
        help="end the input after this time without a part in either direction (at once)",
    )
    parser.add_argument("--frames", action="store_true", help="show every part, in both directions")
    parser.add_argument("--path", help="path of the stream at the model, without a leading slash")
    parser.add_argument("--query", help="query for the model, as key=value&key=value")
    parser.add_argument("--variant", help="production variant to use")
    parser.add_argument(
        "--container",
        metavar="HOSTNAME",
        help="the container to use, of instances that have several",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 after a clean end, 1 after an error, 2 on bad usage."""
    try:
        return asyncio.run(invoke(options))
    except PartwayError as error:
        hint = "trying again may help" if error.reconnect else "trying again will not help"
        _note(f"partway invoke: {type(error).__name__}: {error} ({hint})")
        original = getattr(error, "original_message", "").strip()
        if original:
            _note(f"the container said: {original}")
        return 1
    except (OSError, ValueError) as error:
        _note(f"partway invoke: {error}")
        return 2
    except KeyboardInterrupt:
        return 130


def _token(options: argparse.Namespace) -> str | None:
    """Return the token to send: the flag's, else the environment's if this stream can use it."""
    if options.token is not None or options.sign or options.transport != "websocket":
        return cast("str | None", options.token)
    return os.environ.get("PARTWAY_TOKEN") or None


async def invoke(options: argparse.Namespace) -> int:
    with opened_input(options, _note) as parts:
        opened = connect(
            options.gateway,
            options.endpoint,
            transport=options.transport,
            path=options.path,
            query=options.query,
            variant=options.variant,
            container=options.container,
            credentials=credentials_from_environment(os.environ) if options.sign else None,
            region=options.region,
            token=_token(options),
            ca=options.ca,
        )
        async with opened as stream:
            return await _converse(stream, parts, options)


async def _converse(
    stream: ClientStream, parts: AsyncIterator[PayloadPart], options: argparse.Namespace
) -> int:
    """Send all parts, and show received parts until the stream ends, both at once."""
    frames = FramePrinter(sys.stdout) if options.frames else None
    replies = ReplyPrinter(sys.stdout.buffer)
    timing = Timing()
    sender = asyncio.create_task(_send(stream, parts, options.wait, frames, timing))
    try:
        async for part in stream:
            timing.part_received()
            if frames is not None:
                frames.show(part, sent=False)
            else:
                replies.show(part)
    finally:
        sender.cancel()
        (outcome,) = await asyncio.gather(sender, return_exceptions=True)
        _note(timing.summary())
        if timing.late and stream.input_end not in ("", "close"):
            _note(_LATE.format(timing.late))
    if isinstance(outcome, Exception):  # a cancellation is no Exception
        raise outcome
    return 0


async def _send(
    stream: ClientStream,
    parts: AsyncIterator[PayloadPart],
    wait: float | None,
    frames: FramePrinter | None,
    timing: Timing,
) -> None:
    try:
        async for part in parts:
            await stream.send(part)
            timing.part_sent()
            if frames is not None:
                frames.show(part, sent=True)
        while wait is not None and (left := wait - timing.silent_for()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        await stream.end_input()
        timing.input_ended()
    except StreamEnded:
        return  # the model ended the stream cleanly before it had heard everything
    except Exception:
        # Nothing more will be sent, so nothing more is waited for. The reading side learns of the
        # end first and cancels this; the error must not be lost over it.
        with suppress(asyncio.CancelledError):
            await stream.close(cancel=True)
        raise


def _note(text: str) -> None:
    """Print on standard error without terminal controls, since the text may quote a container."""
    for line in safe_lines(text):
        print(line, file=sys.stderr)
