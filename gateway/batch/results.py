"""What becomes of a job and of its files, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class FileState(StrEnum):
    """What has become of a file."""

    DONE = "done"
    SKIPPED = "skipped"  # its output was there
    FAILED = "failed"
    NOT_BEGUN = "not begun"  # the model was gone before


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What has become of one file.

    Attributes:
        name: the file's.
        state: what has become of it.
        reason: why it has failed: the record, and the container's words; empty otherwise.
        records: that were answered and are in its output.
    """

    name: str
    state: FileState
    reason: str = ""
    records: int = 0


@dataclass(slots=True)
class Progress:
    """How far a job is.

    Attributes:
        files: how many there are.
        bytes: of all files that are to be done, as they lie there.
        bytes_done: of these, the bytes whose records are answered. Of a file that is one request,
            the bytes that are sent.
        records: that are answered, in files under way too. The records of a failed file are taken
            out again.
        outcomes: of files that are over, in the order of their ends.
        on_outcome: told of each.
    """

    files: int = 0
    bytes: int = 0
    bytes_done: int = 0
    records: int = 0
    outcomes: list[FileOutcome] = field(default_factory=list)
    on_outcome: Callable[[FileOutcome], object] = lambda _: None

    def over(self, outcome: FileOutcome) -> None:
        """Note that a file is over."""
        self.outcomes.append(outcome)
        self.on_outcome(outcome)

    def count(self, state: FileState) -> int:
        """How many files have come to this."""
        return sum(each.state is state for each in self.outcomes)

    @property
    def failures(self) -> list[FileOutcome]:
        """The files that have failed, or were not begun, by their names."""
        wrong = {FileState.FAILED, FileState.NOT_BEGUN}
        return sorted(
            (each for each in self.outcomes if each.state in wrong), key=lambda each: each.name
        )
