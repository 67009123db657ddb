"""The script of a scripted container: a vocabulary for tests.

::

    container.says_first("ready")
    container.on("ping", "pong")
    container.on(re.compile("^weather"), Fragmented("It is ", "sunny"))
    container.replies_with("What do you mean?")
    container.says_last("bye")

A container whose script is empty is an echo.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from partway.protocol.websocket.close_codes import (
    INTERNAL_ERROR,
    NO_STATUS,
    NORMAL,
    Close,
    encode_close,
)
from partway.protocol.websocket.frames import Frame, Opcode

log = logging.getLogger("partway.testing")

#: A whole message, received or to be sent.
Message = str | bytes


class Fragmented:
    """A message in fragments, each of which reaches the client as one part.

    Args:
        fragments: all text or all bytes; empty fragments are sent too.

    Raises:
        TypeError: the fragments are not all text, and not all bytes.
    """

    def __init__(self, *fragments: str | bytes) -> None:
        text = all(isinstance(fragment, str) for fragment in fragments)
        if not text and not all(isinstance(fragment, bytes) for fragment in fragments):
            raise TypeError("a message's fragments must be all text, or all bytes")
        if not fragments:
            raise TypeError("a message must have one fragment at least, which may be empty")
        last = len(fragments) - 1
        #: The fragments on the wire.
        self.frames = tuple(
            Frame(_opcode(index, text=text), _encoded(fragment), index == last)
            for index, fragment in enumerate(fragments)
        )


@dataclass(frozen=True, slots=True)
class CloseWith:
    """The container's own Close, behind which it sends nothing.

    Args:
        code: the code in the Close frame; 1005 for a Close without a code.

    Raises:
        ValueError: the code may not travel (RFC 6455 §7.4).
    """

    code: int = NORMAL
    reason: str = ""

    def __post_init__(self) -> None:
        encode_close(self.close)  # raises in the test, and not on the gateway's thread

    @property
    def close(self) -> Close:
        """The Close frame's content."""
        return Close(None if self.code == NO_STATUS else self.code, self.reason)


@dataclass(frozen=True, slots=True)
class FailWith:
    """An HTTP status with which the container refuses a request. A stream ends with Close(1011).

    Args:
        status: the status of the answer, from 400 to 599.
        headers: the headers of the answer, such as ``{"Retry-After": "1"}``.

    Raises:
        ValueError: the status is no error.
    """

    status: int
    body: str | bytes = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ValueError(f"status: {self.status} was given; it must be from 400 to 599")

    @property
    def close(self) -> Close:
        """The Close that ends a stream in place of the status."""
        return Close(INTERNAL_ERROR, f"the script answered with status {self.status}")


#: One reply of a container.
ScriptedReply = str | bytes | Fragmented | CloseWith | FailWith
#: One answer of a container: a reply, or a function that makes a reply of the message.
ScriptedAnswer = ScriptedReply | Callable[[Message], ScriptedReply]
#: The messages of a rule: those equal to a message, those with a match of a pattern, or those for
#: which a function returns true.
Fits = str | bytes | re.Pattern[str] | re.Pattern[bytes] | Callable[[Message], object]

_A = TypeVar("_A", bound=ScriptedAnswer)


@dataclass(frozen=True, slots=True)
class Lines:
    """A script at one moment; a stream keeps the script that it began with.

    Attributes:
        first: the replies when a stream opens.
        rules: messages and their answers; the first rule that fits counts.
        otherwise: the answer to all other messages; None to echo them.
        last: the replies when the input has ended, before the Close.
    """

    first: tuple[ScriptedReply, ...] = ()
    rules: tuple[tuple[Fits, tuple[ScriptedAnswer, ...]], ...] = ()
    otherwise: tuple[ScriptedAnswer, ...] | None = None
    last: tuple[ScriptedReply, ...] = ()

    @property
    def echoes_frames(self) -> bool:
        """Whether each frame is sent back as it comes, without waiting for whole messages."""
        return not self.rules and self.otherwise is None

    def answers(self, message: Message) -> Iterator[ScriptedReply] | None:
        """Choose the answer to a message; None to echo it.

        Where a test's function fails, the stream ends with Close(1011), and the log says why.
        """
        try:
            chosen = self.otherwise
            for fits, answers in self.rules:
                if _fits(fits, message):
                    chosen = answers
                    break
            if chosen is None:
                return None
            return iter([_made(answer, message) for answer in chosen])
        except Exception as error:
            log.exception("the script failed")
            return iter([CloseWith(INTERNAL_ERROR, f"the script failed: {type(error).__name__}")])


class ContainerScript:
    """The answers of a container; a change is valid for streams that open afterwards.

    A reply is a message (``str`` or ``bytes``), or a message in fragments (:class:`Fragmented`).
    The last reply may be ``CloseWith(code, reason)`` or ``FailWith(status, body)``. An answer may
    also be a function that makes a reply of the received message.

    The same script answers requests: a request's body is one message, and its replies are the
    answer, each fragment a chunk.
    """

    def __init__(self) -> None:
        #: Replaced as a whole, so that a stream on another thread sees one script or the next.
        self._lines = Lines()

    def replies_with(self, *answers: ScriptedAnswer) -> None:
        """Answer each message with these, in place of an echo; with silence if none are given."""
        self._lines = replace(self._lines, otherwise=_checked(answers))

    def on(self, fits: Fits, *answers: ScriptedAnswer) -> None:
        """Answer certain messages with these; of several rules that fit the first one counts.

        Args:
            fits: the messages: one that they equal, a pattern that has a match in them, or a
                function that returns true for them. Text and bytes never fit each other.
            answers: the answers; silence if none are given.
        """
        rule = (fits, _checked(answers))
        self._lines = replace(self._lines, rules=(*self._lines.rules, rule))

    def says_first(self, *replies: ScriptedReply) -> None:
        """Send these replies as soon as a stream opens."""
        self._lines = replace(self._lines, first=_checked(tuple(map(_reply, replies))))

    def says_last(self, *replies: ScriptedReply) -> None:
        """Send these replies once the input has ended; a ``CloseWith`` is sent as the Close."""
        self._lines = replace(self._lines, last=_checked(tuple(map(_reply, replies))))


def frames_of(reply: str | bytes | Fragmented) -> tuple[Frame, ...]:
    return (reply if isinstance(reply, Fragmented) else Fragmented(reply)).frames


def _checked(answers: tuple[_A, ...]) -> tuple[_A, ...]:
    """Check answers, and return them; a function's reply is checked when it is made.

    Raises:
        TypeError: an answer is neither a reply nor a function.
        ValueError: a reply stands behind a Close.
    """
    for answer in answers:
        if not callable(answer):
            _reply(answer)
    if any(isinstance(answer, CloseWith | FailWith) for answer in answers[:-1]):
        raise ValueError("a CloseWith or a FailWith must be the last answer")
    return answers


def _reply(value: object) -> ScriptedReply:
    if isinstance(value, ScriptedReply):
        return value
    raise TypeError(
        f"{value!r} was given; a reply must be text, bytes, Fragmented(…), CloseWith(…) or "
        "FailWith(…), and several replies must be several arguments"
    )


def _made(answer: ScriptedAnswer, message: Message) -> ScriptedReply:
    return _reply(answer(message) if callable(answer) else answer)


def _fits(fits: Fits, message: Message) -> bool:
    if isinstance(fits, str | bytes):
        return fits == message
    if isinstance(fits, re.Pattern):
        if isinstance(fits.pattern, str):
            return isinstance(message, str) and fits.search(message) is not None
        return isinstance(message, bytes) and fits.search(message) is not None
    return bool(fits(message))


def _opcode(index: int, *, text: bool) -> Opcode:
    if index:
        return Opcode.CONTINUATION
    return Opcode.TEXT if text else Opcode.BINARY


def _encoded(fragment: str | bytes) -> bytes:
    return fragment.encode() if isinstance(fragment, str) else fragment
