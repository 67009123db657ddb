"""The verdicts of a check, and the exceptions that its body raises."""

from __future__ import annotations

import enum


class Severity(enum.Enum):
    MUST = "must"  # the platform refuses the container, or its streams break
    SHOULD = "should"  # the container works, but not always well
    NOTE = "note"  # worth knowing


class Verdict(enum.Enum):
    PASS = "pass"  # noqa: S105 (no password)
    FAIL = "fail"
    BLOCKED = "blocked"  # a check that it requires has failed
    SKIP = "skip"  # the check cannot be tried on this container, or with these options
    NOTE = "note"  # a check of severity note has failed


class Broken(Exception):
    """The check's clause is not kept.

    Args:
        what: the fault in one line: what was sent, what came back, what should have come.
        remedy: the advice, where the check's own remedy does not fit.
    """

    def __init__(self, what: str, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy


class Untried(Exception):
    """The check cannot be tried here; the message says why."""
