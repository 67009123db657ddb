"""What platforms that say Close wrongly have in common."""

from __future__ import annotations

from tests.frame_factory import CLOSE, RawFrame
from tests.gateway.workbench.conformance.platform.relay import Distortion, again


class Closes(Distortion):
    """Knows whether the container has said Close first."""

    asked: RawFrame | None = None

    def down(self, seen, raw):
        if seen.opcode == CLOSE and self.asked is None:
            self.asked = seen
        return raw

    def up(self, seen, raw):
        if seen.opcode != CLOSE:
            return raw
        return self.says(seen, raw) if self.asked is None else self.answers(seen, raw)

    def says(self, seen, raw):
        return raw

    def answers(self, seen, raw):
        return raw


def with_code(seen: RawFrame, code: int) -> bytes:
    return again(seen, payload=code.to_bytes(2, "big") + seen.payload[2:])
