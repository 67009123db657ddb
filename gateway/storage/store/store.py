"""Where what was made while the gateway runs is written down, so that the next one finds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from partway.gateway.storage.disk_refusals import DiskRefusal

#: What a record holds: what JSON can, with strings for keys.
Body: TypeAlias = Mapping[str, Any]


class StoreError(Exception):
    """What is written down cannot be read, or nothing more can be; the message says why."""


class StoreUnavailable(StoreError, DiskRefusal):
    """The disk does not take or give the store's file now; a later try may succeed."""


class BackupError(Exception):
    """A backup cannot be written or restored; the message says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that is written down.

    Attributes:
        kind: what it is, such as ``endpoint``.
        name: which of its kind; a kind has a name once.
        body: all that is known of it; may hold secrets.
        attachment: bytes that are written, replaced and removed with it, and stay on disk:
            :meth:`Store.attachment` reads them, and :meth:`Store.records` leaves them out.
    """

    kind: str
    name: str
    body: Body = field(default_factory=dict, repr=False)
    attachment: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Removal:
    """That a record is to be there no more.

    Attributes:
        kind: the record's.
        name: the record's.
    """

    kind: str
    name: str


class Store(Protocol):
    """Keeps records. One process owns it, and one task at a time changes what it owns.

    Who uses it keeps the records in memory: they are read once, at the start. Attachments are read
    when they are needed.
    """

    async def records(self, kind: str) -> tuple[Record, ...]:
        """Return all records of a kind, in the order of their names.

        Raises:
            StoreError: they cannot be read.
        """

    async def attachment(self, kind: str, name: str) -> bytes:
        """Return the attachment of a record; empty if it has none, or is not there.

        Raises:
            StoreError: it cannot be read.
        """

    async def open_for_writing(self) -> None:
        """Open what keeps the records for writing, if it is not.

        Raises:
            StoreUnavailable: the disk refuses that; a later call may succeed.
            StoreError: what is there is not what was read from it.
        """

    async def write(self, *changes: Record | Removal) -> None:
        """Make all these changes, or none; a record takes the place of one with its name.

        They are on disk, where there is one, when this returns. A caller that is cancelled does not
        know whether they are.

        Raises:
            StoreError: none of them is made; the disk is full, say.
        """

    async def backup(self) -> bytes:
        """All of it as the bytes of a file, as it is at one moment.

        Raises:
            StoreError: it cannot be read, or is kept in memory alone.
            BackupError: nothing is stored.
        """

    async def aclose(self) -> None:
        """Let go of it; what was begun is finished first."""
