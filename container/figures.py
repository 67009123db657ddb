"""Counts of a model's streams and requests, for ``/metrics``; all are kept by the event loop."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Literal, TypeAlias, get_args

#: Why something was refused before it began: the model's ``admit``; an invalid or unknown request;
#: a web page; or a container that loads, is full, or stops.
Refusal: TypeAlias = Literal["model", "invalid", "web_page", "loading", "full", "stopping"]

#: How a stream or request ended. ``rejected`` is a request whose answer has a status from 400 to
#: 499. ``busy`` is Close 1013, or the status 503. ``stopped`` is the container's end.
Ending: TypeAlias = Literal["completed", "rejected", "busy", "failed", "client_left", "stopped"]

#: Upper bounds of the classes of durations, in seconds: a small prediction takes a millisecond, a
#: conversation minutes.
SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class Figures:
    """The counts of all streams of one model, or of all its requests.

    Attributes:
        begun: the number of those that were let in.
        ended: the number of ends, by kind.
        refused: the number of refusals, by reason.
        durations: for each class of ``SECONDS``, the number of those that took as long; the last
            one is for all that took longer.
        seconds: the sum of all durations.
    """

    def __init__(self) -> None:
        self.begun = 0
        self.ended: dict[Ending, int] = dict.fromkeys(get_args(Ending), 0)
        self.refused: dict[Refusal, int] = dict.fromkeys(get_args(Refusal), 0)
        self.durations = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0

    @property
    def open(self) -> int:
        """The number of those that have begun and not ended."""
        return self.begun - sum(self.ended.values())

    def begin(self) -> None:
        self.begun += 1

    def refuse(self, reason: Refusal) -> None:
        self.refused[reason] += 1

    def end(self, ending: Ending, seconds: float) -> None:
        self.ended[ending] += 1
        self.durations[bisect_left(SECONDS, seconds)] += 1
        self.seconds += seconds


def ending_of(status: int) -> Ending:
    """Return how a request ended that was answered with a status."""
    if status < 400:
        return "completed"
    if status == 503:
        return "busy"
    return "rejected" if status < 500 else "failed"
