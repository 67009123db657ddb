"""What may become of a check, and the exceptions by which its body says so."""

from __future__ import annotations

import enum


class Severity(enum.Enum):
    """What a check's failure means."""

    MUST = "must"  # the platform refuses the container, or its streams break
    SHOULD = "should"  # it works, and not always well
    NOTE = "note"  # worth knowing


class Verdict(enum.Enum):
    """What became of a check."""

    PASS = "pass"  # noqa: S105 (no password)
    FAIL = "fail"
    BLOCKED = "blocked"  # what it requires has failed
    SKIP = "skip"  # it cannot be tried on this container, or in this way
    NOTE = "note"  # one of severity note has failed


class Broken(Exception):
    """The check's clause is not kept.

    Args:
        what: what happened, in one line: what was sent, what came back, what should have come.
        remedy: what to do about it, where the check's own remedy is not the point.
    """

    def __init__(self, what: str, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy


class Untried(Exception):
    """The check cannot be tried here; the message says why."""
