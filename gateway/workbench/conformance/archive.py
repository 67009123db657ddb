"""The small documents of an image's archive: ``.tar`` or ``.tar.gz``, read in one pass."""

from __future__ import annotations

import os
import posixpath
import zlib
from pathlib import Path
from typing import Final

from partway.gateway.storage.archives.gzip_reader import GzipReader
from partway.gateway.storage.archives.heads import (
    REGULAR,
    ArchiveError,
    HeadBounds,
    SeekableTape,
    Tape,
    members,
    padded,
)
from partway.gateway.storage.files import open_regular
from partway.protocol.http.content_codings import PackedTooMuch

#: Most bytes of one JSON document, and of all files that may be one. An image's configuration has a
#: few kilobytes.
MAX_DOCUMENT: Final = 4 << 20
MAX_DOCUMENTS: Final = 16 << 20

#: Most files in an archive. An image has at most 127 layers, and each layer has three files.
MAX_MEMBERS: Final = 10_000

#: Most bytes of an archive. The platform's registry takes layers of 52,000 MiB.
MAX_UNPACKED: Final = 64 << 30

#: Most bytes of a compressed archive once unpacked. The reader inflates even the files that it
#: skips, and a gigabyte takes two or three seconds.
MAX_INFLATED: Final = 2 << 30

#: Most bytes of one long name or one file's pax records (a path has at most 4,096), and of all.
MAX_RECORDS: Final = 16 << 10
MAX_RECORDS_IN_ALL: Final = 4 << 20

_GZIP: Final = b"\x1f\x8b"


def read_documents(path: Path) -> dict[str, bytes]:
    """Read the files of an archive that may be JSON, by their names.

    Raises:
        ArchiveError: the file is no archive, is damaged, or is beyond the bounds.
        OSError: the file cannot be read, or is a pipe or a device.
    """
    with open_regular(path) as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        if packed:
            tape = Tape(
                GzipReader(file),
                MAX_INFLATED,
                f"the archive has more than {MAX_INFLATED >> 30} GiB once it is unpacked: unpack "
                "it, and give the .tar: of a .tar only the small documents are read",
            )
        else:
            beyond = f"the archive has more than {MAX_UNPACKED >> 30} GiB"
            tape = SeekableTape(file, os.fstat(file.fileno()).st_size, MAX_UNPACKED, beyond)
        try:
            return _documents(tape)
        except PackedTooMuch as error:
            raise ArchiveError(f"the archive has {error}: unpack it, and give the .tar") from error
        except (EOFError, zlib.error) as error:
            raise ArchiveError(f"the file is not a tar archive, or is damaged ({error})") from error


def _documents(tape: Tape) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    size = 0
    for member in members(tape, HeadBounds(MAX_MEMBERS, MAX_RECORDS, MAX_RECORDS_IN_ALL)):
        end = tape.at + padded(member.size)
        if member.kind in REGULAR and 0 < member.size <= MAX_DOCUMENT:
            begins = tape.read(1)
            if begins in b"{[":  # any other file is a layer
                size += member.size
                if size > MAX_DOCUMENTS:
                    raise ArchiveError(
                        f"the archive's documents have more than {MAX_DOCUMENTS} bytes"
                    )
                name = posixpath.normpath(member.name.decode("utf-8", "replace"))
                found[name] = begins + tape.read(member.size - 1)
        tape.pass_to(end)
    return found
