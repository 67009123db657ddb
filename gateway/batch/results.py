"""The outcome and the progress of a job and of its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class FileState(StrEnum):
    DONE = "done"
    SKIPPED = "skipped"  # its output existed
    FAILED = "failed"
    NOT_BEGUN = "not begun"  # the model was gone earlier


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The outcome of one file.

    Attributes:
        reason: the reason of a failure, with the record and the container's words; empty otherwise.
        records: the number of answered records in the output.
    """

    name: str
    state: FileState
    reason: str = ""
    records: int = 0


@dataclass(slots=True)
class Progress:
    """The progress of a job.

    Attributes:
        bytes: the stored bytes of all files to transform.
        bytes_done: the stored bytes whose records are answered. For a file that is one request, the
            bytes that are sent.
        records: the number of answered records, including files in flight. The records of a failed
            file are subtracted.
        outcomes: the outcomes of ended files, in the order in which they ended.
    """

    files: int = 0
    bytes: int = 0
    bytes_done: int = 0
    records: int = 0
    outcomes: list[FileOutcome] = field(default_factory=list)
    on_outcome: Callable[[FileOutcome], object] = lambda _: None

    def over(self, outcome: FileOutcome) -> None:
        self.outcomes.append(outcome)
        self.on_outcome(outcome)

    def count(self, state: FileState) -> int:
        return sum(each.state is state for each in self.outcomes)

    @property
    def failures(self) -> list[FileOutcome]:
        """Return the files that failed or were not begun, sorted by name."""
        wrong = {FileState.FAILED, FileState.NOT_BEGUN}
        return sorted(
            (each for each in self.outcomes if each.state in wrong), key=lambda each: each.name
        )
