"""State that outlives a gateway process: its supervisor keeps it for the next gateway process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol


@dataclass(slots=True, eq=False)
class KeptEntry:
    """One entry that an earlier gateway process has kept.

    Attributes:
        descriptors: they belong to the process that takes the entry.
        pid: a child of the earlier process, or 0; the supervisor is its parent now.
        status: the child's exit status, negative for a signal's number; None before its end. It
            stays None if the earlier process has learned of the end itself.
        on_end: called with the status as soon as it is known.
    """

    record: bytes
    descriptors: tuple[int, ...] = ()
    pid: int = 0
    status: int | None = None
    on_end: Callable[[int], object] = lambda _: None

    def ended(self, status: int) -> None:
        """Note the child's end; for the one who keeps the entry."""
        self.status = status
        self.on_end(status)


class KeptState(Protocol):
    """Keeps entries by name; all methods return at once, and belong to the loop's thread."""

    def keep(self, name: str, record: bytes, descriptors: Sequence[int] = (), pid: int = 0) -> None:
        """Keep an entry; it replaces an earlier one of its name.

        The descriptors are duplicated, and the caller keeps its own.
        """

    def forget(self, name: str) -> None:
        """Drop an entry, if there is one, and close the kept duplicates of its descriptors."""

    def take(self, prefix: str) -> Mapping[str, KeptEntry]:
        """Return the entries of an earlier process whose names begin so, by name.

        Each entry is returned once. It stays kept until it is replaced or forgotten.
        """


class _NothingKept:
    def keep(self, name: str, record: bytes, descriptors: Sequence[int] = (), pid: int = 0) -> None:
        """Do nothing: everything ends with this process."""

    def forget(self, name: str) -> None:
        """Do nothing."""

    def take(self, prefix: str) -> Mapping[str, KeptEntry]:
        return {}


#: For a gateway of one process.
NOTHING_KEPT: Final[KeptState] = _NothingKept()
