"""Record files, as named in a command's arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Final

from partway.container.cli import CommandError
from partway.protocol.formats import (
    RECORD_TYPES,
    RecordDecoder,
    Tabular,
    UnsupportedMedia,
    decoder_for,
)
from partway.protocol.formats.guessing import LOOKED_AT, type_by_content, type_by_name
from partway.protocol.formats.libsvm import LibsvmDecoder
from partway.protocol.limits import KIB

#: Bytes read at a time.
_CHUNK: Final = 256 * KIB

STANDARD_INPUT: Final = "-"


class RecordFile:
    """A file that is read once from its beginning, or again after :meth:`begin_again`.

    Args:
        options: the options of :func:`~partway.container.cli.record_flags.add_reading`.

    Attributes:
        content_type: the file's media type, as given or as guessed.

    Raises:
        CommandError: the type of the file is neither given nor recognised.
    """

    def __init__(self, file: IO[bytes], options: argparse.Namespace) -> None:
        self.name: str = options.file
        self._file = file
        #: The place of the first byte; None if the file cannot be read again.
        self._start = file.tell() if file.seekable() else None
        self._beginning = self._read(LOOKED_AT)
        self.content_type: str = options.from_type or self._guessed()
        self._wanted = _wanted(options)

    def chunks(self) -> Iterator[bytes]:
        yield self._beginning
        while chunk := self._read(_CHUNK):
            yield chunk

    def begin_again(self, width: int) -> None:
        """Go back to the beginning of a file that can be read again."""
        assert self._start is not None, "it can be read again"
        self._file.seek(self._start)
        self._beginning = self._read(LOOKED_AT)
        self._wanted = replace(self._wanted, width=width)

    @property
    def grows_wider(self) -> bool:
        return self._wanted.width is None and isinstance(self.decoder(), LibsvmDecoder)

    @property
    def can_be_read_again(self) -> bool:
        """Whether the file can be read a second time; a pipe cannot."""
        return self._start is not None

    def decoder(self) -> RecordDecoder:
        """Make a decoder for the file.

        Raises:
            CommandError: the format is not supported for records.
        """
        try:
            return decoder_for(self.content_type, self._wanted)
        except UnsupportedMedia as error:
            raise CommandError(f"--from: {error}") from None

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except OSError as error:
            raise _unreadable(self.name, error) from None

    def _guessed(self) -> str:
        found = type_by_content(self._beginning)
        if found in {None, "text/csv"}:  # the default for plain lines
            found = type_by_name(self.name) or found
        if found is None:
            raise CommandError(
                f"{self.name} does not look like records of a known type; name its type with "
                f"--from: one of {', '.join(RECORD_TYPES)}"
            )
        return found


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[RecordFile]:
    """Open the named file.

    Raises:
        CommandError: the file cannot be read, or its type is unknown.
    """
    if options.file == STANDARD_INPUT:
        yield RecordFile(sys.stdin.buffer, options)
        return
    try:
        file = open(options.file, "rb")  # noqa: PTH123, SIM115 (a name that may be a pipe's; closed below)
    except OSError as error:
        raise _unreadable(options.file, error) from None
    with file:
        yield RecordFile(file, options)


def _unreadable(name: str, error: OSError) -> CommandError:
    return CommandError(f"cannot read {name}: {error.strerror}", status=1)


def _wanted(options: argparse.Namespace) -> Tabular:
    try:
        return Tabular(
            width=options.width,
            sparse=True,
            finite=False,
            index_base=options.index_base,
            max_records=None,
            said_by="as --width says",
        )
    except ValueError as error:
        raise CommandError(f"--{error}") from None
