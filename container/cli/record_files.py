"""Files of records, as the commands are given them."""

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

#: Read at a time.
_CHUNK: Final = 256 * KIB

STANDARD_INPUT: Final = "-"


class RecordFile:
    """A file that is read from its beginning, once unless it is begun again.

    Args:
        file: the open file.
        options: what :func:`~partway.container.cli.record_flags.add_reading` has described.

    Attributes:
        name: for messages.
        content_type: the file's media type, as it was said or as it looks.

    Raises:
        CommandError: nobody says what the file is, and it does not look like anything.
    """

    def __init__(self, file: IO[bytes], options: argparse.Namespace) -> None:
        self.name: str = options.file
        self._file = file
        #: Where it began, where it can be read again.
        self._start = file.tell() if file.seekable() else None
        self._beginning = self._read(LOOKED_AT)
        self.content_type: str = options.from_type or self._guessed()
        self._wanted = _wanted(options)

    def chunks(self) -> Iterator[bytes]:
        """All bytes of the file."""
        yield self._beginning
        while chunk := self._read(_CHUNK):
            yield chunk

    def begin_again(self, width: int) -> None:
        """Go back to the beginning of a file that can be read again.

        Args:
            width: how wide records are, as they have been found to be.
        """
        assert self._start is not None, "it can be read again"
        self._file.seek(self._start)
        self._beginning = self._read(LOOKED_AT)
        self._wanted = replace(self._wanted, width=width)

    @property
    def grows_wider(self) -> bool:
        """Whether records may be wider the further the file is read."""
        return self._wanted.width is None and isinstance(self.decoder(), LibsvmDecoder)

    @property
    def can_be_read_again(self) -> bool:
        """Whether the file can be read from its beginning once more; a pipe cannot."""
        return self._start is not None

    def decoder(self) -> RecordDecoder:
        """What reads it.

        Raises:
            CommandError: records are not read in that format.
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
        if found in {None, "text/csv"}:  # as which lines are taken that show nothing else
            found = type_by_name(self.name) or found
        if found is None:
            raise CommandError(
                f"{self.name} does not look like records of any type: name it with --from, one of "
                f"{', '.join(RECORD_TYPES)}"
            )
        return found


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[RecordFile]:
    """The file that is named.

    Raises:
        CommandError: the file cannot be read, or nobody says what it is.
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
