"""Platforms that mistake what a container sends."""

from __future__ import annotations

from partway.gateway.workbench.conformance.platform.checks.violations import VIOLATIONS
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, TEXT, close
from tests.frame_factory import frame as frame_of
from tests.gateway.workbench.conformance.platform.broken.registry import breaks, listed
from tests.gateway.workbench.conformance.platform.relay import Distortion, again


@breaks("replies.part")
class RepliesBinary(Distortion):
    """Takes text for binary."""

    def down(self, seen, raw):
        return again(seen, opcode=BINARY) if seen.opcode == TEXT else raw


@breaks("replies.fragments")
class RepliesWhole(Distortion):
    """Takes each fragment for a message."""

    def down(self, seen, raw):
        if seen.opcode >= CLOSE or seen.masked:
            return raw
        return again(seen, opcode=seen.opcode or TEXT, fin=True)

    def said(self, data):
        # A continuation of nothing, and a message inside another, are left as they are.
        return close(1002) if data in (VIOLATIONS[6].data, VIOLATIONS[7].data) else data


@breaks("replies.sizes")
class RepliesSplit(Distortion):
    """Splits replies of more than 32 KiB."""

    def down(self, seen, raw):
        if seen.opcode >= CLOSE or len(seen.payload) <= 1 << 15:
            return raw
        first, rest = seen.payload[: 1 << 15], seen.payload[1 << 15 :]
        return again(seen, payload=first, fin=False) + frame_of(CONTINUATION, rest)


@breaks("replies.largest")
class RepliesLimited(Distortion):
    """Takes 16 MiB for too big."""

    def down(self, seen, raw):
        return close(1009) if len(seen.payload) == 1 << 24 else raw


@breaks("replies.between")
class PingEndsMessage(Distortion):
    """Forgets a message in which a Ping comes."""

    def down(self, seen, raw):
        return raw + frame_of(CONTINUATION) if seen.payload == b"between" else raw


@breaks("replies.unread")
class MendsReplies(Distortion):
    """Replaces what is not UTF-8 in whole replies."""

    def down(self, seen, raw):
        if seen.opcode != TEXT or not seen.fin:
            return raw
        mended = seen.payload.decode("utf-8", "replace").encode()
        return raw if mended == seen.payload else again(seen, payload=mended)


# --- Violations ----------------------------------------------------------------------------------


def _mistaking(data: bytes) -> type[Distortion]:
    class Mistakes(Distortion):
        def said(self, read):
            return close(1000) if read == data else read

    return Mistakes


for _each in VIOLATIONS:
    listed(
        f"mistakes-{_each.name.replace('_', '-')}",
        f"Takes {_each.what} for Close 1000.",
        (f"violations.{_each.name}",),
        _mistaking(_each.data),
    )


@breaks("violations.masked")
class Unmasks(Distortion):
    """Takes masked frames of a container."""

    def down(self, seen, raw):
        return again(seen, mask=None)
