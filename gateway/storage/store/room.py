"""Changes as a store writes them, and the limits that every store has."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from partway.gateway.storage.store.limits import (
    MAX_ATTACHMENT_BYTES,
    MAX_RECORD_BYTES,
    MAX_RECORDS,
    MAX_STORED_BYTES,
)
from partway.gateway.storage.store.store import Record, Removal, StoreError


@dataclass(frozen=True, slots=True)
class Written:
    """A change as a store makes it.

    Attributes:
        text: the body as JSON in ASCII; None removes the record.
        attachment: the record's attachment; empty if this was read from the store.
    """

    kind: str
    name: str
    text: str | None
    attachment: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of the record without its attachment; 0 for a removal."""
        return 0 if self.text is None else len(self.text)


def written(changes: Iterable[Record | Removal]) -> tuple[Written, ...]:
    """Convert changes to text, so that later changes to the given objects have no effect."""
    return tuple(
        Written(each.kind, each.name, json.dumps(each.body), each.attachment)
        if isinstance(each, Record)
        else Written(each.kind, each.name, None)
        for each in changes
    )


def record_of(kept: Written) -> Record:
    """Return the record of a change that is not a removal."""
    assert kept.text is not None, "it is kept"
    return Record(kept.kind, kept.name, json.loads(kept.text))


@dataclass(frozen=True, slots=True)
class RoomLimits:
    """The limits of a store.

    Attributes:
        record: bytes of one record.
        records: records of one kind.
        stored: bytes of all records.
        attachment: bytes of one attachment; the number of records bounds all of them.
    """

    record: int = MAX_RECORD_BYTES
    records: int = MAX_RECORDS
    stored: int = MAX_STORED_BYTES
    attachment: int = MAX_ATTACHMENT_BYTES


#: The default limits of a store.
ROOM_LIMITS: Final = RoomLimits()


class Room:
    """The content of a store, measured against its limits."""

    def __init__(self, limits: RoomLimits) -> None:
        self._limits = limits
        #: Bytes by kind and name.
        self._sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._stored = 0

    def check(self, changes: Iterable[Written]) -> None:
        """Return if there is room for all changes; changes that add nothing always have room.

        Raises:
            StoreError: there is no room; the message names the limit.
        """
        last = {(each.kind, each.name): each for each in changes}
        more_records: defaultdict[str, int] = defaultdict(int)
        more_bytes = 0
        for each in last.values():
            if each.size > self._limits.record:
                raise StoreError(
                    f"the {each.kind} {each.name!r} has {each.size} bytes; it must have at "
                    f"most {self._limits.record}"
                )
            if len(each.attachment) > self._limits.attachment:
                raise StoreError(
                    f"the attachment of the {each.kind} {each.name!r} has {len(each.attachment)} "
                    f"bytes; it must have at most {self._limits.attachment}"
                )
            before = self._sizes[each.kind].get(each.name)
            more_records[each.kind] += (each.text is not None) - (before is not None)
            more_bytes += each.size - (before or 0)
        for kind, more in more_records.items():
            if more > 0 and len(self._sizes[kind]) + more > self._limits.records:
                raise StoreError(
                    f"the store would have more than {self._limits.records} objects of kind {kind}"
                    "; delete some first"
                )
        if more_bytes > 0 and self._stored + more_bytes > self._limits.stored:
            raise StoreError(
                f"the store would have more than {self._limits.stored} bytes; delete "
                "something first"
            )

    def note(self, changes: Iterable[Written]) -> None:
        """Count changes that have been made."""
        for each in changes:
            sizes = self._sizes[each.kind]
            self._stored += each.size - sizes.pop(each.name, 0)
            if each.text is not None:
                sizes[each.name] = each.size
