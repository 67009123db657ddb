"""Conversion of records from one file to another, a batch at a time."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

import numpy as np

from partway.container.cli import CommandError
from partway.container.cli.record_files import RecordFile, opened
from partway.protocol.formats import (
    RECORD_TYPES,
    Batch,
    CannotWrite,
    MediaFault,
    RecordEncoder,
    SparseRows,
    UnsupportedMedia,
    format_of,
)
from partway.protocol.formats.batches import Numbers
from partway.protocol.formats.encoding import NoPlaceBeside, NoPlaceForLabels, WidthChanged

#: Seconds between two updates of the progress line.
_SHOWN_EVERY: Final = 0.2


def convert(options: argparse.Namespace) -> None:
    """Write the records of a file in another format, as the command's flags say.

    Raises:
        CommandError: the records cannot be read, or cannot be written in that format.
    """
    try:
        encoder = format_of(options.to).encoder()
    except UnsupportedMedia:
        types = ", ".join(RECORD_TYPES)
        raise CommandError(f"--to {options.to} was given; it must be one of {types}") from None
    with opened(options) as source, _output(options.output) as target:
        if encoder.one_width and source.grows_wider and source.can_be_read_again:
            source.begin_again(max(batch.width for batch in _batches(source, options)))
        progress = _Progress(sys.stderr)
        for batch in _batches(source, options):
            target.write(_encoded(encoder, batch, options))
            progress.add(len(batch))
        target.writelines(encoder.finish())
        progress.finish()


def _batches(source: RecordFile, options: argparse.Namespace) -> Iterator[Batch]:
    decoder = source.decoder()
    try:
        for chunk in source.chunks():
            yield from decoder.feed(chunk)
        yield from decoder.finish()
    except MediaFault as fault:
        raise CommandError(
            f"{source.name} is not {source.content_type}: {fault.reason}", status=1
        ) from None
    if decoder.configuration is not None and not options.drop_beside:
        raise CommandError(
            f"{source.name} has a configuration beside its records, which convert does not "
            "write; add --drop-beside to leave it out",
            status=1,
        )


def _as_asked(batch: Batch, options: argparse.Namespace) -> Batch:
    if options.drop_labels:
        batch = replace(batch, labels=None)
    if options.drop_beside:
        batch = replace(batch, uid=None, metadata=None, configurations=None, queries=None)
    if options.float32:
        features = batch.features
        if isinstance(features, SparseRows):
            features = replace(features, values=_as_float32(features.values, batch))
        else:
            features = _as_float32(features, batch)
        batch = replace(batch, features=features)
    return batch


def _as_float32(numbers: Numbers, batch: Batch) -> Numbers:
    """Convert to the nearest float32; infinite numbers stay so, and no other becomes infinite.

    Raises:
        CannotWrite: a number is out of float32's range.
    """
    with np.errstate(over="ignore"):
        narrow = numbers.astype(np.float32)
    lost = np.isinf(narrow) & np.isfinite(numbers)
    if lost.any():
        row, column = batch.place_of(int(lost.argmax()))
        raise CannotWrite(
            f"feature {column} is out of float32's range; leave out --float32",
            record=batch.first + row,
        )
    return narrow


def _encoded(encoder: RecordEncoder, batch: Batch, options: argparse.Namespace) -> bytes:
    try:
        return encoder.encode(_as_asked(batch, options))
    except CannotWrite as error:
        place = "" if error.record is not None else f", from record {batch.first} on"
        raise CommandError(f"{options.file}{place}: {error}{_hint(error)}", status=1) from None


def _hint(error: CannotWrite) -> str:
    if isinstance(error, WidthChanged):
        return "; give the number of features with --width"
    if isinstance(error, NoPlaceBeside):
        return "; add --drop-beside to leave it out"
    return "; add --drop-labels to leave them out" if isinstance(error, NoPlaceForLabels) else ""


@contextmanager
def _output(path: Path | None) -> Iterator[IO[bytes]]:
    """Open the output; an output file only appears once it is complete.

    Raises:
        BrokenPipeError: the reader of the output has closed it.
        CommandError: the output cannot be written.
    """
    try:
        if path is None:
            yield from _standard_output()
        elif path.exists() and not path.is_file():  # a pipe or a device; it must not be replaced
            with path.open("wb") as file:
                yield file
        else:
            yield from _file_in_its_place(Path(os.path.realpath(path)))
    except BrokenPipeError:
        raise
    except OSError as error:
        name = "standard output" if path is None else path
        raise CommandError(f"cannot write {name}: {error.strerror}", status=1) from None


def _standard_output() -> Iterator[IO[bytes]]:
    if sys.stdout.isatty():
        raise CommandError("standard output is a terminal; name an output file with -o")
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes at exit
        raise


def _file_in_its_place(path: Path) -> Iterator[IO[bytes]]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


class _Progress:
    """Shows on a terminal the number of records so far, and the rate per second."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._is_shown = file.isatty()
        self._began = self._shown = time.monotonic()
        self._records = 0

    def add(self, records: int) -> None:
        self._records += records
        now = time.monotonic()
        if self._is_shown and now - self._shown >= _SHOWN_EVERY:
            self._shown = now
            self._show(now, "\r")

    def finish(self) -> None:
        if self._is_shown:
            self._show(time.monotonic(), "\n")

    def _show(self, now: float, end: str) -> None:
        rate = self._records / max(now - self._began, 1e-6)
        line = f"{self._records:,} records, {rate:,.0f} a second"
        self._file.write(f"{line:<60}{end}")
        self._file.flush()
