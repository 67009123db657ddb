"""The comparison of a container's answers with its recorded answers."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from partway.gateway.workbench.recording.recording import JoinedMessage


class By(enum.Enum):
    EXACT = "exact"  # each reply, byte by byte
    SHAPE = "shape"  # how many replies, and whether each is text or binary
    END = "end"  # that there is a reply if there was one, and the Close


class ReplyVerdict(enum.Enum):
    SAME = "same"
    DIFFERS = "differs"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class TimedReply:
    """A container's message; ``after`` is seconds from the client's last frame before it."""

    message: JoinedMessage
    after: float


@dataclass(frozen=True, slots=True)
class StreamAnswers:
    """All answers of a container on a stream.

    Attributes:
        replies: the container's messages, in their order.
        status: the status of the container's answer to the upgrade; 0 if no answer came.
        code: the code of the container's Close; 1006 if the connection ended without a Close, None
            if the stream went on.
        trouble: the reason why the stream is not whole, in words.
    """

    replies: Sequence[TimedReply] = ()
    status: int = 101
    code: int | None = None
    reason: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ComparedReply:
    """One reply, then and now.

    Attributes:
        recorded: the reply then; None for a reply that is new.
        now: the reply now; None for a reply that has not come.
        at: index of the first byte that differs, where both are text or both binary.
    """

    verdict: ReplyVerdict
    recorded: TimedReply | None
    now: TimedReply | None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The recorded answers and today's; ``notes`` has differences beside the replies."""

    by: By
    recorded: StreamAnswers
    now: StreamAnswers
    rows: Sequence[ComparedReply] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def same(self) -> bool:
        """Whether the answers are the same, as far as :attr:`by` asks."""
        return not self.notes and self.count(ReplyVerdict.SAME) == len(self.rows)

    def count(self, verdict: ReplyVerdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)


def compare(recorded: StreamAnswers, now: StreamAnswers, by: By = By.EXACT) -> Comparison:
    rows = [
        _row(was, is_now, by, bool(now.replies))
        for was, is_now in zip_longest(recorded.replies, now.replies)
    ]
    return Comparison(by, recorded, now, rows, tuple(_notes(recorded, now)))


def _row(
    recorded: TimedReply | None, now: TimedReply | None, by: By, any_now: bool
) -> ComparedReply:
    if recorded is None:
        return ComparedReply(ReplyVerdict.SAME if by is By.END else ReplyVerdict.EXTRA, None, now)
    if now is None:
        return ComparedReply(
            ReplyVerdict.SAME if by is By.END and any_now else ReplyVerdict.MISSING, recorded, None
        )
    was, came = recorded.message, now.message
    if by is By.END:
        return ComparedReply(ReplyVerdict.SAME, recorded, now)
    if (was.kind, was.whole) != (came.kind, came.whole):
        return ComparedReply(ReplyVerdict.DIFFERS, recorded, now)
    if by is By.SHAPE or was.payload == came.payload:
        return ComparedReply(ReplyVerdict.SAME, recorded, now)
    return ComparedReply(
        ReplyVerdict.DIFFERS, recorded, now, first_difference(was.payload, came.payload)
    )


def first_difference(left: bytes, right: bytes) -> int:
    """The index of the first byte at which two different byte strings differ."""
    low, high = 0, min(len(left), len(right))
    while low < high:  # halving compares long beginnings at once
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _notes(recorded: StreamAnswers, now: StreamAnswers) -> Iterator[str]:
    if now.trouble:
        yield now.trouble
    if now.status and now.status != recorded.status:
        yield (
            f"the container answers the upgrade with {now.status}; in the recording with "
            f"{recorded.status}"
        )
        return
    if recorded.code is None or now.trouble or now.code == recorded.code:
        return
    if now.code is None:
        yield f"the stream goes on; in the recording it ended with {in_words(recorded.code)}"
    else:
        yield (
            f"the stream ends with {in_words(now.code)}; in the recording it ended with "
            f"{in_words(recorded.code)}"
        )


def in_words(code: int) -> str:
    """Write a close code as a log shows it."""
    return "no Close (1006)" if code == 1006 else f"Close {code}"
