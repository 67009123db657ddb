"""The interface of stores, which keep what is created while a gateway runs for the next gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from partway.gateway.storage.disk_refusals import DiskRefusal

#: The body of a record: a JSON object.
Body: TypeAlias = Mapping[str, Any]

#: Returns the next piece of a backup; empty at the end.
ReadBackup: TypeAlias = Callable[[], Awaitable[bytes]]


class StoreError(Exception):
    """Records cannot be read, or no change can be made; the message says why."""


class StoreUnavailable(StoreError, DiskRefusal):
    """The disk refuses the store's file now; a later try may succeed."""


class BackupError(Exception):
    """A backup cannot be written or restored; the message gives the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Record:
    """One stored object.

    Attributes:
        kind: the kind, such as ``endpoint``.
        name: the name, unique within the kind.
        body: the content, which may hold secrets.
        attachment: bytes that are written, replaced and removed with the record, and stay on disk.
            :meth:`Store.attachment` reads them, and :meth:`Store.records` leaves them out.
    """

    kind: str
    name: str
    body: Body = field(default_factory=dict, repr=False)
    attachment: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Removal:
    kind: str
    name: str


class Store(Protocol):
    """Keeps records. One process owns a store, and one task at a time changes a record.

    The users of a store keep the records in memory: they are read once, at the start. Attachments
    are read when they are needed.
    """

    async def records(self, kind: str) -> tuple[Record, ...]:
        """Return all records of a kind, sorted by name.

        Raises:
            StoreError: the records cannot be read.
        """

    async def attachment(self, kind: str, name: str) -> bytes:
        """Return the attachment of a record; empty if there is no record or no attachment.

        Raises:
            StoreError: the attachment cannot be read.
        """

    async def open_for_writing(self) -> None:
        """Open the store for writing, if it is not.

        Raises:
            StoreUnavailable: the disk refuses; a later call may succeed.
            StoreError: the content differs from what was read.
        """

    async def write(self, *changes: Record | Removal) -> None:
        """Make all changes, or none; a record replaces the one of its kind and name.

        The changes are on disk, where there is one, when this returns. A cancelled caller does not
        know whether they are made.

        Raises:
            StoreError: no change is made, for example because the disk is full.
        """

    def backup(self) -> AbstractAsyncContextManager[ReadBackup]:
        """Copy the whole store, with its state at one moment; changes go on meanwhile.

        Returns:
            A block that gives the pieces. Reading a piece raises StoreError if the disk cannot read
            it.

        Raises:
            StoreError: the store cannot be read or copied, or is only in memory.
            BackupError: another backup is being copied, or there is no room for this one.
        """

    async def aclose(self) -> None:
        """Close the store, after the operations that were begun."""
