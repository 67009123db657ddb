"""Events as a client sends them and puts them together, on :mod:`tests.event_factory`."""

from __future__ import annotations

import json
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from tests import event_factory
from tests.event_factory import part_headers, string

OCTETS = "application/octet-stream"

#: Wraps a message in a signed one.
Signer = Callable[[bytes], bytes]


def event_of(name: str, members: Mapping[str, str], payload: bytes = b"") -> bytes:
    """A bare event of any name; like Python's SDK without a content type where it is empty.

    Args:
        name: ``:event-type``.
        members: string headers, empty ones included.
        payload: as it is.
    """
    more = b"".join(string(*member) for member in members.items())
    content_type = OCTETS if payload else None
    headers = part_headers(None, None, event_type=name, content_type=content_type, more=more)
    return event_factory.message(headers, payload)


def part_event(
    payload: bytes = b"",
    data_type: str | None = None,
    state: str | None = None,
    *,
    padding: str | None = None,
    signed_by: Signer | None = None,
) -> bytes:
    """A PayloadPart from a client, bare or as ``signed_by`` wraps it; None leaves a member out."""
    members = {"DataType": data_type, "CompletionState": state, "P": padding}
    given = {name: value for name, value in members.items() if value is not None}
    event = event_of("PayloadPart", given, payload)
    return signed_by(event) if signed_by else event


class EventMessage(NamedTuple):
    """One message as it was on the wire; a header of type string has a ``str`` for its value."""

    headers: dict[str, Any]
    payload: bytes

    @property
    def json(self) -> Any:
        """The payload of an exception."""
        return json.loads(self.payload)


class EndOfEvents:
    def __repr__(self) -> str:
        return "END"


#: No further event: the response has ended in order.
END: Final = EndOfEvents()


class EventBuffer:
    """Puts messages together from pieces of any size."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        #: All messages so far.
        self.seen: list[EventMessage] = []

    def __len__(self) -> int:
        """Bytes of messages that have not been taken."""
        return len(self._bytes)

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def next(self) -> EventMessage | None:
        """The next whole message, or None while there is none.

        Raises:
            ValueError: what is there can be no message.
            botocore.eventstream.ParserError: it is a wrong one.
        """
        if len(self._bytes) < 12:
            return None
        total, checksum = (int.from_bytes(self._bytes[at : at + 4], "big") for at in (0, 8))
        if zlib.crc32(self._bytes[:8]) != checksum:  # or its length would be waited for
            raise ValueError("no message: the checksum of its lengths is wrong")
        if len(self._bytes) < total:
            return None
        (found,) = event_factory.read(bytes(self._bytes[:total]))
        del self._bytes[:total]
        self.seen.append(EventMessage(*found))
        return self.seen[-1]

    async def read(self, data: Callable[[], Awaitable[bytes | None]]) -> EventMessage | EndOfEvents:
        """The next message of a body, or END behind it; ``data`` gives a piece, None at its end."""
        while (found := self.next()) is None:
            piece = await data()
            if piece is None:
                return END
            self.feed(piece)
        return found
