"""The input of ``partway invoke``: texts, a file, a WAV file, or the lines of standard input."""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from partway.gateway.cli.invoke_sound import Sound, asked_sound, opened_sound
from partway.gateway.storage.files import open_regular
from partway.protocol.parts import CompletionState, DataType, PayloadPart

#: Bytes of one part of a file: 64 KiB.
_FILE_PART: Final = 64 * 1024

#: Lines of standard input read before they are sent.
_LINES_AHEAD: Final = 16


@contextmanager
def opened_input(
    options: argparse.Namespace, say: Callable[[str], None]
) -> Iterator[AsyncIterator[PayloadPart]]:
    """Open the input before there is a stream, so that a wrong file is known at once.

    Args:
        say: told how a WAV file is converted, and how it is cut.

    Raises:
        ValueError: a flag does not go with the others, or a file cannot be sent; the message says
            which.
    """
    for flag in ("rate", "channels"):
        if getattr(options, flag) is not None and options.wav is None:
            raise ValueError(f"--{flag} was given alone; it works only with --wav FILE")
    with ExitStack() as opened:
        if options.text is not None:
            texts = (text.encode() for text in options.text)
            yield _each(_as_parts(texts, DataType.UTF8, options.partial))
        elif options.file is not None:
            with _naming("--file", options.file):
                file = opened.enter_context(open_regular(options.file))
            pieces = iter(lambda: file.read(_FILE_PART), b"")
            yield _read_beside(_as_parts(pieces, DataType.BINARY, options.partial))
        elif options.wav is not None:
            asked = asked_sound(options.query, options.rate, options.channels)
            with _naming("--wav", options.wav):
                sound = opened.enter_context(opened_sound(options.wav, asked))
            for remark in filter(None, (sound.conversion, sound.cut)):
                say(f"{options.wav}: {remark}")
            yield _sound(sound, options.partial, paced=options.pace == "realtime")
        else:
            if sys.stdin is None:
                raise ValueError("standard input is closed; give --text, --file or --wav")
            yield _typed(sys.stdin.buffer, options.partial)


@contextmanager
def _naming(flag: str, path: Path) -> Iterator[None]:
    """Put a flag and its file before the message of an error."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"{flag} {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{flag} {path}: {error}") from None


async def _each(parts: Iterator[PayloadPart]) -> AsyncIterator[PayloadPart]:
    for part in parts:
        yield part


async def _read_beside(parts: Iterator[PayloadPart]) -> AsyncIterator[PayloadPart]:
    """Yield parts that a thread makes: a file is read, and sound converted, beside the stream."""
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part


async def _sound(sound: Sound, partial: bool, *, paced: bool) -> AsyncIterator[PayloadPart]:
    """Yield a WAV file's parts; with ``paced`` each part at the time when it would be heard."""
    started = time.monotonic()
    number = 0
    async for part in _read_beside(_as_parts(sound.pieces(), DataType.BINARY, partial)):
        if paced:
            due = started + number * sound.part_frames / sound.rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        number += 1
        yield part


async def _typed(source: BinaryIO, partial: bool) -> AsyncIterator[PayloadPart]:
    state = CompletionState.PARTIAL if partial else CompletionState.COMPLETE
    async for line in _lines(source):
        yield PayloadPart(line, DataType.UTF8, state)
    if partial:  # a line is sent as it comes, so that no line is known to be the last
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

    A thread reads them, for standard input may be a file, which no event loop can watch. It is a
    daemon, since nothing can wake it from a silent terminal. It reads through a buffer of its own:
    the interpreter does not end while a thread holds the lock of ``sys.stdin``.

    Raises:
        ValueError: the file cannot be read; the message says why.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | ValueError | None] = asyncio.Queue()
    room = threading.Semaphore(_LINES_AHEAD)

    def read() -> None:
        last = None
        # RuntimeError: the loop is closed, and no line is wanted.
        with suppress(RuntimeError):
            try:
                with open(source.fileno(), "rb", closefd=False) as own:
                    for line in own:
                        room.acquire()
                        loop.call_soon_threadsafe(lines.put_nowait, line.rstrip(b"\r\n"))
            except OSError as error:
                last = ValueError(f"standard input cannot be read: {error.strerror or error}")
            loop.call_soon_threadsafe(lines.put_nowait, last)

    threading.Thread(target=read, daemon=True, name="standard input").start()
    while (line := await lines.get()) is not None:
        if isinstance(line, ValueError):
            raise line
        room.release()
        yield line
