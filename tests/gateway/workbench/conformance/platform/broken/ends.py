"""Platforms whose streams end wrongly."""

from __future__ import annotations

from dataclasses import replace

from tests.frame_factory import CLOSE, CONTINUATION, KEY, PONG, close
from tests.frame_factory import frame as frame_of
from tests.gateway.workbench.conformance.platform.broken.closes import Closes, with_code
from tests.gateway.workbench.conformance.platform.broken.registry import breaks, listed
from tests.gateway.workbench.conformance.platform.relay import Distortion, again
from tests.gateway.workbench.conformance.platform.trying import HURRIED


@breaks("closing.input_end")
class NeverCloses(Closes):
    """Does not tell the container that the input has ended."""

    def says(self, seen, raw):
        return b"" if seen.close_code == 1000 else raw


@breaks("closing.input_end")
class GoesAway(Closes):
    """Says 1001 at the end of the input."""

    def says(self, seen, raw):
        return with_code(seen, 1001) if seen.close_code == 1000 else raw


@breaks("closing.tail")
class CutsTail(Closes):
    """Drops what the container says behind the end of the input."""

    said_close = False

    def says(self, seen, raw):
        self.said_close = True
        return raw

    def down(self, seen, raw):
        super().down(seen, raw)
        if self.said_close and seen.opcode < CLOSE:
            return again(seen, payload=b"")
        return raw


@breaks("closing.unfinished")
class MakesFinUp(Closes):
    """Ends a message that the client leaves unfinished."""

    begun = False

    def up(self, seen, raw):
        if seen.opcode < CLOSE:
            self.begun = not seen.fin
        return super().up(seen, raw)

    def says(self, seen, raw):
        if not self.begun:
            return raw
        return frame_of(CONTINUATION, b"", mask=KEY) + raw


@breaks("closing.echo")
class AnswersNormally(Closes):
    """Answers 1001 and 1011 with 1000."""

    def answers(self, seen, raw):
        echo = self.asked is not None and self.asked.payload[:2] == seen.payload[:2]
        return with_code(seen, 1000) if echo and seen.close_code in (1001, 1011) else raw


@breaks("closing.echo")
class AnswersNoClose(Closes):
    """Does not answer Close 3000."""

    def answers(self, seen, raw):
        return b"" if seen.close_code == 3000 else raw


@breaks("closing.reported")
class HidesReason(Distortion):
    """Drops the reason of a Close."""

    def down(self, seen, raw):
        return (
            close(4001)
            if seen.opcode == CLOSE and seen.payload[:2] == (4001).to_bytes(2, "big")
            else raw
        )


@breaks("closing.empty")
class MakesCodeUp(Closes):
    """Answers an empty Close with 1000."""

    def answers(self, seen, raw):
        return raw if seen.payload else with_code(seen, 1000)


@breaks("closing.inside")
class RefusesCloseInside(Closes):
    """Takes Close in the middle of a message for an error."""

    def answers(self, seen, raw):
        return with_code(seen, 1002) if seen.close_code == 4002 else raw


@breaks("closing.last")
class PongsBehindClose(Closes):
    """Answers a Ping behind its own Close."""

    def says(self, seen, raw):
        return raw + frame_of(PONG, b"no", mask=KEY) if seen.close_code == 1000 else raw


@breaks("closing.tcp")
class Resets(Closes):
    """Ends TCP with a reset after both Closes."""

    def says(self, seen, raw):
        self.resets = seen.close_code == 1000
        return raw


# --- Ends ----------------------------------------------------------------------------------------


@breaks("ends.container_lost")
class TakesLossForClose(Closes):
    """Takes the end of a connection for a Close."""

    granted = False

    def answer(self, head):
        self.granted = head.startswith(b"HTTP/1.1 101")
        return head

    def says(self, seen, raw):
        self.granted = False
        return raw

    def container_end(self):
        return close(1000) if self.granted and self.asked is None else b""


@breaks("ends.client_vanished")
class CallsLossNormal(Closes):
    """Says 1000 when the client has vanished."""

    def says(self, seen, raw):
        return with_code(seen, 1000) if seen.payload[2:] == b"client lost" else raw


@breaks("ends.client_left")
class CallsCancelNormal(Closes):
    """Says 1000 when the client has left."""

    def says(self, seen, raw):
        return with_code(seen, 1000) if seen.payload[2:] == b"client cancelled" else raw


@breaks("ends.client_fault")
class CallsFaultInternal(Closes):
    """Takes the blame for a client's fault."""

    def says(self, seen, raw):
        return with_code(seen, 1011) if seen.close_code == 1008 else raw


listed(
    "impatient",
    "Gives a container no time to answer Close.",
    ("ends.no_close",),
    None,
    replace(HURRIED, close_timeout=0.01),
)
