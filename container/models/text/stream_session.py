"""StreamSession messages: how a stream turns from plain text to JSON, and its options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from partway.container.models.text.generation_request import ELSEWHERE, Ask, ask_of, prompt_of
from partway.container.models.text.request_members import (
    Members,
    Refused,
    quoted,
    string_of,
    text_of,
)
from partway.container.models.text.sampling_options import OPTIONS, known_members, sampling_of

_OPTIONS: Final = OPTIONS | {"max_new_tokens"}
_KNOWN: Final = _OPTIONS | {"type", "format", "system"}
_FORMATS: Final = ("json", "text")


@dataclass(frozen=True, slots=True)
class StreamSession:
    """The settings of a stream, for all its requests.

    Attributes:
        in_json: whether messages are read as JSON, and answered in JSON. Otherwise each message is
            plain text, whatever it looks like.
        system: the system's turn; None leaves it as it is.
        options: members that say how to generate, for requests that do not say it themselves.
    """

    in_json: bool = False
    system: str | None = None
    options: Members = field(default_factory=dict)

    def ask_of_text(self, message: str | bytes) -> Ask:
        """Take a message as the next user's turn.

        Raises:
            Refused: the message is no prompt.
        """
        ask = prompt_of(message)
        return Ask(prompt=ask.prompt, sampling=sampling_of(self.options, "max_new_tokens"))

    def ask_of_members(self, members: Members) -> Ask:
        """Parse a request in JSON.

        Raises:
            Refused: the members are no request.
        """
        given = {name: value for name, value in members.items() if value is not None}
        return ask_of({**self.options, **given})


def opens_session(message: str | bytes) -> bool:
    """Whether a stream's first message is a JSON object with the type ``session``.

    The message may be wrong otherwise. Any other one is plain text, also if it looks like JSON.

    Raises:
        Refused: the message is too large, or not UTF-8.
    """
    text = text_of(message)
    if not text.lstrip().startswith("{"):
        return False
    try:
        members = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(members, Mapping) and is_session(members)


def is_session(members: Members) -> bool:
    return members.get("type") == "session"


def session_of(members: Members) -> StreamSession:
    """Parse a session message.

    Raises:
        Refused: a member is unknown, or out of range.
    """
    members = known_members(members, _KNOWN, ELSEWHERE)
    options = {name: value for name, value in members.items() if name in _OPTIONS}
    sampling_of(options, "max_new_tokens")  # a wrong option is refused now
    format_ = string_of("format", members.get("format", "json"))
    if format_ not in _FORMATS:
        raise Refused(f"format: is {quoted(format_)}; it must be {' or '.join(_FORMATS)}")
    system = members.get("system")
    return StreamSession(
        in_json=format_ == "json",
        system=None if system is None else string_of("system", system),
        options=options,
    )
