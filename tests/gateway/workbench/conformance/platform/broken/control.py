"""Platforms that do Ping and Pong wrong."""

from __future__ import annotations

from dataclasses import replace

from tests.frame_factory import BINARY, CLOSE, PING, PONG, close
from tests.frame_factory import frame as frame_of
from tests.gateway.workbench.conformance.platform.broken.closes import Closes, with_code
from tests.gateway.workbench.conformance.platform.broken.registry import breaks, listed
from tests.gateway.workbench.conformance.platform.relay import Distortion, again
from tests.gateway.workbench.conformance.platform.trying import HURRIED


@breaks("pongs.payload")
class DropsPongs(Distortion):
    """Answers no Ping."""

    def up(self, seen, raw):
        return b"" if seen.opcode == PONG else raw


@breaks("pongs.payload")
class EmptyPongs(Distortion):
    """Answers a Ping without its payload."""

    def up(self, seen, raw):
        return again(seen, payload=b"") if seen.opcode == PONG else raw


@breaks("pongs.order")
class PongsOutOfOrder(Distortion):
    """Answers the fifth Ping before the fourth."""

    held = b""

    def up(self, seen, raw):
        if seen.opcode == PONG and seen.payload == b"03":
            self.held = raw
            return b""
        raw, self.held = raw + self.held, b""
        return raw


@breaks("pongs.inside")
class PongsBetweenMessages(Distortion):
    """Answers a Ping only between messages."""

    held = b""
    begun = False

    def up(self, seen, raw):
        if seen.opcode < CLOSE:
            self.begun = not seen.fin
        if seen.opcode == PONG and self.begun:
            self.held += raw
            return b""
        if not self.begun:
            raw, self.held = raw + self.held, b""
        return raw


@breaks("pongs.unsolicited")
class EndsAtPong(Distortion):
    """Ends the stream when a Pong comes that it has not asked for."""

    def down(self, seen, raw):
        return close(1002) if seen.payload == b"nobody asked" else raw


# --- Pings ---------------------------------------------------------------------------------------


listed(
    "pings-often",
    "Pings twice in an interval.",
    ("pings.sent",),
    None,
    replace(HURRIED, ping_interval=HURRIED.ping_interval / 2),
)


@breaks("pings.counter")
class CountsFromTwo(Distortion):
    """Counts its Pings from 2."""

    def up(self, seen, raw):
        return again(seen, payload=_plus(seen.payload, 1)) if seen.opcode == PING else raw

    def down(self, seen, raw):
        counter = seen.opcode == PONG and len(seen.payload) == 8 and not seen.payload[0]
        return again(seen, payload=_plus(seen.payload, -1)) if counter else raw


def _plus(payload: bytes, step: int) -> bytes:
    return (int.from_bytes(payload, "big") + step).to_bytes(8, "big")


@breaks("pings.unanswered")
class CallsLossProtocolError(Closes):
    """Says 1002 to a container that answers no Ping."""

    def says(self, seen, raw):
        return with_code(seen, 1002) if seen.close_code == 1011 else raw


listed(
    "four-pings",
    "Gives a container up after four Pings.",
    ("pings.unanswered",),
    None,
    replace(HURRIED, pings_unanswered=4),
)


@breaks("pings.no_answer")
class TakesDataForPong(Distortion):
    """Takes data for a Pong."""

    def down(self, seen, raw):
        data = seen.opcode == BINARY and len(seen.payload) == 8
        return raw + frame_of(PONG, seen.payload) if data else raw


@breaks("pings.earlier")
class OnePongForOnePing(Distortion):
    """Takes a Pong for the answer to its own Ping alone."""

    unanswered = 0

    def up(self, seen, raw):
        self.unanswered += seen.opcode == PING
        return raw

    def down(self, seen, raw):
        if seen.opcode != PONG:
            return raw
        self.unanswered -= 1
        return b"" if self.unanswered else raw
