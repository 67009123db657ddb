"""What a scripted container says: a vocabulary for tests.

::

    container.says_first("ready")
    container.on("ping", "pong")
    container.on(re.compile("^weather"), Fragmented("It is ", "sunny"))
    container.replies_with("What do you mean?")
    container.says_last("bye")

A container with nothing of this is an echo.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from partway.protocol.closing import INTERNAL_ERROR, NO_STATUS, NORMAL, Close, encode_close
from partway.protocol.frames import Frame, Opcode

log = logging.getLogger("partway.testing")

#: A whole message, as it came or as it is to go.
Message = str | bytes


class Fragmented:
    """A message in fragments, each of which reaches the client as one part.

    Args:
        fragments: all text or all bytes; empty ones are sent too.

    Raises:
        TypeError: they are neither, or not all of a kind.
    """

    def __init__(self, *fragments: str | bytes) -> None:
        text = all(isinstance(fragment, str) for fragment in fragments)
        if not text and not all(isinstance(fragment, bytes) for fragment in fragments):
            raise TypeError("a message's fragments are all text, or all bytes")
        if not fragments:
            raise TypeError("a message has one fragment at least, which may be empty")
        last = len(fragments) - 1
        #: What it is on the wire.
        self.frames = tuple(
            Frame(_opcode(index, text=text), _encoded(fragment), index == last)
            for index, fragment in enumerate(fragments)
        )


@dataclass(frozen=True, slots=True)
class CloseWith:
    """The container's own Close, the last that it says.

    Args:
        code: 1005 for a Close without a code.
        reason: for a person.

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


#: What a container may say.
ScriptedReply = str | bytes | Fragmented | CloseWith
#: The same, perhaps made of the message that is answered.
ScriptedAnswer = ScriptedReply | Callable[[Message], ScriptedReply]
#: Which messages a rule is for: those equal to it, those with a match, or those it is true of.
Fits = str | bytes | re.Pattern[str] | re.Pattern[bytes] | Callable[[Message], object]

_A = TypeVar("_A", bound=ScriptedAnswer)


@dataclass(frozen=True, slots=True)
class Lines:
    """A script as it is at one moment; a stream keeps the one that it began with.

    Attributes:
        first: said when a stream opens.
        rules: which messages, and what they are answered with; the first one that fits counts.
        otherwise: the answer to all other messages; None to echo them.
        last: said when the input has ended, before the Close.
    """

    first: tuple[ScriptedReply, ...] = ()
    rules: tuple[tuple[Fits, tuple[ScriptedAnswer, ...]], ...] = ()
    otherwise: tuple[ScriptedAnswer, ...] | None = None
    last: tuple[ScriptedReply, ...] = ()

    @property
    def echoes_frames(self) -> bool:
        """Whether no message is waited for: each frame is said again as it comes."""
        return not self.rules and self.otherwise is None

    def answers(self, message: Message) -> Iterator[ScriptedReply] | None:
        """What a message is answered with; None to echo it.

        A test's function that fails ends the stream with Close(1011), and is in the log.
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
    """The vocabulary. What is said here holds for streams that open afterwards.

    A reply is a message (``str`` or ``bytes``), one in fragments (:class:`Fragmented`), or
    ``CloseWith(code, reason)``, which is the last one. An answer may also be a function that makes
    a reply of the message that came.
    """

    def __init__(self) -> None:
        #: Replaced as a whole, so that a stream on another thread sees one script or the next.
        self._lines = Lines()

    def replies_with(self, *answers: ScriptedAnswer) -> None:
        """Answer each message so, in place of an echo; with nothing at all if nothing is given."""
        self._lines = replace(self._lines, otherwise=_checked(answers))

    def on(self, fits: Fits, *answers: ScriptedAnswer) -> None:
        """Answer messages of one kind so; of several rules that fit the first one counts.

        Args:
            fits: a message equal to it, a pattern that has a match in it, or a function that says
                so. Text and bytes never fit each other.
            answers: nothing for silence.
        """
        rule = (fits, _checked(answers))
        self._lines = replace(self._lines, rules=(*self._lines.rules, rule))

    def says_first(self, *replies: ScriptedReply) -> None:
        """Say this as soon as a stream opens."""
        self._lines = replace(self._lines, first=_checked(tuple(map(_reply, replies))))

    def says_last(self, *replies: ScriptedReply) -> None:
        """Say this once the input has ended, before the Close; ``CloseWith`` takes its place."""
        self._lines = replace(self._lines, last=_checked(tuple(map(_reply, replies))))


def frames_of(reply: str | bytes | Fragmented) -> tuple[Frame, ...]:
    """A reply on the wire."""
    return (reply if isinstance(reply, Fragmented) else Fragmented(reply)).frames


def _checked(answers: tuple[_A, ...]) -> tuple[_A, ...]:
    """Answers that can be given. What a function makes is checked when it has made it.

    Raises:
        TypeError: one is none.
        ValueError: something is said after a Close.
    """
    for answer in answers:
        if not callable(answer):
            _reply(answer)
    if any(isinstance(answer, CloseWith) for answer in answers[:-1]):
        raise ValueError("nothing can be said after a CloseWith")
    return answers


def _reply(value: object) -> ScriptedReply:
    if isinstance(value, str | bytes | Fragmented | CloseWith):
        return value
    raise TypeError(
        f"a reply is text, bytes, Fragmented(…) or CloseWith(…), not {value!r}; "
        "several replies are several arguments"
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
