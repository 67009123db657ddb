"""Reading of requests: text or JSON, with its members, strictly and with bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NoReturn, TypeGuard, cast

from partway.container.errors import ModelError
from partway.protocol.limits import KIB
from partway.protocol.websocket.close_codes import INVALID_DATA, POLICY_VIOLATION, TOO_BIG

#: A JSON object's members.
Members = Mapping[str, object]

#: Most bytes of one request's text, JSON included. 256 KiB of English are some 64 thousand tokens,
#: more than most contexts. Tokenizing them takes a tenth of a second.
MAX_TEXT_BYTES: Final = 256 * KIB

_QUOTED: Final = 40  # most characters of a client's input that a reason quotes


class Refused(ModelError):
    """A request that is refused: Close 1008, or 400, by default."""

    def __init__(self, reason: str, *, code: int = POLICY_VIOLATION, status: int = 400) -> None:
        super().__init__(reason, code=code, status=status)


def too_much_text() -> Refused:
    """Make the refusal of text longer than :data:`MAX_TEXT_BYTES`."""
    reason = f"too much text: it must have at most {MAX_TEXT_BYTES} bytes"
    return Refused(reason, code=TOO_BIG, status=413)


def text_of(message: str | bytes) -> str:
    """Decode a message to text of bounded length.

    Raises:
        Refused: the message is too large, or not UTF-8.
    """
    size = len(message)
    if isinstance(message, str) and size <= MAX_TEXT_BYTES and not message.isascii():
        size = len(message.encode("utf-8", "surrogatepass"))
    if size > MAX_TEXT_BYTES:
        raise too_much_text()
    if isinstance(message, str):
        return string_of("the message", message)
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        reason = f"the message is not UTF-8: byte {error.start} is invalid"
        raise Refused(reason, code=INVALID_DATA) from None


def members_of(message: str | bytes) -> Members | None:
    """Return the members of a message that is JSON; None if it is plain text.

    Raises:
        Refused: the message is too large, not UTF-8, or invalid JSON.
    """
    text = text_of(message)
    return _load(text) if _is_json(text) else None


def flag_of(members: Members, name: str, *, default: bool = False) -> bool:
    """Return the value of a switch; an absent one has the default.

    Raises:
        Refused: the switch is neither true nor false.
    """
    value = members.get(name, default)
    if not isinstance(value, bool):
        raise Refused(f"{name}: must be true or false")
    return value


def whole_number_of(members: Members, name: str, least: int, most: int) -> int | None:
    """Return a member that is a whole number; None if it is absent.

    Raises:
        Refused: the member is no whole number, or out of range.
    """
    value = members.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"{name}: must be a whole number")
    if not least <= value <= most:
        raise Refused(f"{name}: must be from {least} to {most}")
    return value


def string_of(name: str, value: object) -> str:
    """Check that a value is a string with a UTF-8 form.

    Raises:
        Refused: the value is not a string, or has half of a surrogate pair, which JSON can express.
    """
    if not isinstance(value, str):
        raise Refused(f"{name}: must be a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refused(
                f"{name}: has half of a surrogate pair; it must be valid Unicode text",
                code=INVALID_DATA,
            ) from None
    return value


def non_empty_string_of(name: str, value: object) -> str:
    """Check that a value is a string with a UTF-8 form, and has a character.

    Raises:
        Refused: the value is not such a string.
    """
    if value == "":
        raise Refused(f"{name}: must not be empty")
    return string_of(name, value)


def quoted(text: str) -> str:
    """Shorten and escape a client's input, for a reason."""
    shown = ascii(text[:_QUOTED])
    return shown if len(shown) <= _QUOTED else f"{shown[: _QUOTED - 1]}…"


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{")


def _load(text: str) -> Members:
    """Parse JSON that begins with ``{``, strictly and with bounded depth."""
    try:
        value = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos}"
        raise Refused(reason, code=INVALID_DATA) from None
    except RecursionError:
        raise Refused("the JSON is nested too deep", code=INVALID_DATA) from None
    except ValueError:  # Python parses whole numbers of up to 4300 digits
        raise Refused("the JSON has a number that is too long", code=INVALID_DATA) from None
    return cast("Members", value)


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            # Parsers differ in which of two equal names they take.
            raise Refused(f"{quoted(name)}: occurs twice; it must occur once", code=INVALID_DATA)
        members[name] = value
    return members


def _no_constant(name: str) -> NoReturn:
    raise Refused(f"not JSON: {name} is not a number in JSON", code=INVALID_DATA)


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
