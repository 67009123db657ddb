"""``partway invoke``: a bidirectional client on the terminal."""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import threading
import time
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from partway.gateway.cli.environment import region
from partway.gateway.client import (
    ClientStream,
    CompletionState,
    DataType,
    PartwayError,
    PayloadPart,
    StreamEnded,
    connect,
    credentials_from_environment,
)

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

#: Pieces that a file is sent in: 64 KiB.
_FILE_PART = 64 * 1024

#: Audio is sent in parts of 20 ms, as telephony does.
_WAV_PART_SECONDS = 0.02

#: Bytes of a payload that ``--frames`` shows.
_SHOWN_BYTES = 40

#: Lines of standard input read before they are sent.
_LINES_AHEAD = 16

_EXAMPLES = """\
examples:
  partway invoke echo --text "Hello " --text world --partial --frames
  partway invoke echo < questions.txt
  partway invoke voice --wav call.wav --pace realtime --path v1/listen --query model=general
  partway invoke echo --text hi --transport http2 --sign --url https://localhost:8443 --ca ca.pem
"""


def add_to(commands: Commands) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "invoke",
        help="talk to an endpoint from the terminal",
        description=(
            "Open a stream and talk both ways at once. Without --text, --file or --wav each line "
            "of standard input is a message; its end is the end of input."
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("endpoint", metavar="NAME", help="the endpoint's name")
    parser.add_argument(
        "--url",
        default=os.environ.get("PARTWAY_URL", "http://127.0.0.1:8090"),
        help="the gateway's URL (%(default)s)",
    )
    parser.add_argument(
        "--transport",
        choices=["websocket", "http2"],
        default="websocket",
        help="what to speak: http2 is what AWS's SDKs do (%(default)s)",
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="roots to trust on https://, PEM; also SSL_CERT_FILE",
    )
    parser.add_argument(
        "--sign",
        action="store_true",
        help="sign with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
    )
    parser.add_argument(
        "--region", default=region(), help="region that signatures must name (%(default)s)"
    )
    parser.add_argument(
        "--token",
        help="bearer token for a WebSocket; better in PARTWAY_TOKEN, for others see command lines",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", action="append", help="a text part; may be repeated")
    source.add_argument("--file", type=Path, help="a file, in BINARY parts of 64 KiB")
    source.add_argument("--wav", type=Path, help="a WAV file's samples, in parts of 20 ms")
    parser.add_argument(
        "--pace",
        choices=["none", "realtime"],
        default="none",
        help="realtime sends --wav as fast as it sounds (%(default)s)",
    )
    parser.add_argument(
        "--partial",
        action="store_true",
        help="make one message of everything sent: PARTIAL parts, the last COMPLETE",
    )
    parser.add_argument("--frames", action="store_true", help="show every part, both ways")
    parser.add_argument("--path", help="path at the model, without a leading slash")
    parser.add_argument("--query", help="query for the model, as key=value&key=value")
    parser.add_argument("--variant", help="production variant to ask for")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns 0 after a clean end, 1 after an error, 2 on bad usage."""
    try:
        return asyncio.run(invoke(options))
    except PartwayError as error:
        hint = "trying again may help" if error.reconnect else "trying again will not help"
        text = _printable(str(error))
        print(f"partway invoke: {type(error).__name__}: {text} ({hint})", file=sys.stderr)
        original = getattr(error, "original_message", "").strip()
        if original:
            print(f"the container said: {_printable(original)}", file=sys.stderr)
        return 1
    except (OSError, wave.Error, EOFError, ValueError) as error:
        print(f"partway invoke: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _printable(text: str) -> str:
    """Return a text of others without the characters that would steer the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)


def _token(options: argparse.Namespace) -> str | None:
    """Return the token to send: the flag's, else the environment's if this stream can use it."""
    if options.token is not None or options.sign or options.transport != "websocket":
        return cast("str | None", options.token)
    return os.environ.get("PARTWAY_TOKEN") or None


async def invoke(options: argparse.Namespace) -> int:
    """Hold one conversation; returns the exit status."""
    printer = FramePrinter(sys.stdout) if options.frames else None
    timing = Timing()
    opened = connect(
        options.url,
        options.endpoint,
        transport=options.transport,
        path=options.path,
        query=options.query,
        variant=options.variant,
        credentials=credentials_from_environment(os.environ) if options.sign else None,
        region=options.region,
        token=_token(options),
        ca=options.ca,
    )
    async with opened as stream:
        timing.start()
        sender = asyncio.create_task(_send(stream, options, printer))
        try:
            async for part in stream:
                timing.part_received()
                if printer is not None:
                    printer.show(part, sent=False)
                else:
                    _print_reply(part, sys.stdout.buffer)
        finally:
            sender.cancel()
            (outcome,) = await asyncio.gather(sender, return_exceptions=True)
            print(timing.summary(), file=sys.stderr)
        if isinstance(outcome, Exception):  # a cancellation is none
            raise outcome
    return 0


async def _send(
    stream: ClientStream, options: argparse.Namespace, printer: FramePrinter | None
) -> None:
    try:
        async for part in _parts(options):
            if printer is not None:
                printer.show(part, sent=True)
            await stream.send(part)
        await stream.end_input()
    except StreamEnded:
        return  # the model ended it cleanly before it had heard everything
    except Exception:
        # Nothing more will be sent, so nothing more is waited for. Who iterates learns of the end
        # first and cancels this; the error must not be lost over it.
        with suppress(asyncio.CancelledError):
            await stream.close(cancel=True)
        raise


# --- What is sent --------------------------------------------------------------------------------


async def _parts(options: argparse.Namespace) -> AsyncIterator[PayloadPart]:
    if options.text is not None:
        texts = (text.encode() for text in options.text)
        for part in _as_parts(texts, DataType.UTF8, options.partial):
            yield part
    elif options.file is not None:
        with options.file.open("rb") as file:
            pieces = iter(lambda: file.read(_FILE_PART), b"")
            for part in _as_parts(pieces, DataType.BINARY, options.partial):
                yield part
    elif options.wav is not None:
        with wave.open(str(options.wav), "rb") as sound:
            started = time.monotonic()
            per_part = max(1, round(sound.getframerate() * _WAV_PART_SECONDS))
            pieces = iter(lambda: sound.readframes(per_part), b"")
            parts = _as_parts(pieces, DataType.BINARY, options.partial)
            for number, part in enumerate(parts):
                if options.pace == "realtime":
                    due = started + number * per_part / sound.getframerate()
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                yield part
    else:
        async for line in _lines(sys.stdin.buffer):
            state = CompletionState.PARTIAL if options.partial else CompletionState.COMPLETE
            yield PayloadPart(line, DataType.UTF8, state)
        if options.partial:  # a line goes up as it comes, so none is known to be the last
            yield PayloadPart(b"", DataType.UTF8, CompletionState.COMPLETE)


def _as_parts(pieces: Iterator[bytes], data_type: DataType, partial: bool) -> Iterator[PayloadPart]:
    """Yield each piece as a message, or with ``partial`` all pieces as one message."""
    piece = next(pieces, None)
    while piece is not None:
        following = next(pieces, None)
        more = partial and following is not None
        state = CompletionState.PARTIAL if more else CompletionState.COMPLETE
        yield PayloadPart(piece, data_type, state)
        piece = following


async def _lines(source: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the lines of a file as they come, without line breaks.

    A thread reads them, for standard input may be a file, which no event loop can watch. It is
    a daemon: nothing can wake it from a terminal that says no more. It reads through a buffer of
    its own: the interpreter does not end while a thread holds the lock of ``sys.stdin``.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()
    room = threading.Semaphore(_LINES_AHEAD)

    def read() -> None:
        with suppress(RuntimeError), open(source.fileno(), "rb", closefd=False) as own:
            for line in own:
                room.acquire()
                loop.call_soon_threadsafe(lines.put_nowait, line.rstrip(b"\r\n"))
            loop.call_soon_threadsafe(lines.put_nowait, None)
        # RuntimeError: the loop is closed, and nobody asks for more.

    threading.Thread(target=read, daemon=True, name="standard input").start()
    while (line := await lines.get()) is not None:
        room.release()
        yield line


# --- What is shown -------------------------------------------------------------------------------


def _print_reply(part: PayloadPart, output: BinaryIO) -> None:
    if part.data_type is DataType.BINARY and output.isatty():
        output.write(f"<{len(part.payload)} bytes>\n".encode())
    else:
        output.write(part.payload)
        if part.data_type is DataType.UTF8 and part.completion is CompletionState.COMPLETE:
            output.write(b"\n")
    output.flush()


class FramePrinter:
    """Prints parts, one line each: time, direction, type, completion, size, beginning."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._coloured = output.isatty() and "NO_COLOR" not in os.environ
        self._started = time.monotonic()

    def show(self, part: PayloadPart, *, sent: bool) -> None:
        """Print the line of one part."""
        beginning = part.payload[:_SHOWN_BYTES]
        if part.data_type is DataType.UTF8:
            shown = repr(beginning.decode("utf-8", "backslashreplace"))
        else:
            shown = beginning.hex(" ")
        if len(part.payload) > _SHOWN_BYTES:
            shown += " …"
        line = (
            f"{time.monotonic() - self._started:9.4f} s  {'↑' if sent else '↓'} "
            f"{part.data_type.value:6}  {part.completion.value:8}  "
            f"{len(part.payload):>8} B  {shown}"
        )
        if self._coloured:
            line = f"\x1b[{36 if sent else 32}m{line}\x1b[0m"
        print(line, file=self._output, flush=True)


class Timing:
    """Time to the first part, and how evenly the others follow."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._received: list[float] = []

    def start(self) -> None:
        """Note that the stream is open."""
        self._started = time.monotonic()

    def part_received(self) -> None:
        """Note that a part has come."""
        self._received.append(time.monotonic())

    def summary(self) -> str:
        """Return one line that tells the times, in milliseconds."""
        if self._started is None or not self._received:
            return "no part came back"
        first = (self._received[0] - self._started) * 1000
        gaps = [
            (later - earlier) * 1000
            for earlier, later in zip(self._received, self._received[1:], strict=False)
        ]
        text = f"{len(self._received)} parts back, time to first part {first:.1f} ms"
        if len(gaps) > 1:
            jitter = statistics.stdev(gaps)
            text += f", between parts {statistics.median(gaps):.1f} ms, jitter {jitter:.1f} ms"
        return text
