"""Platforms that write frames wrongly, or other ones than the parts ask for."""

from __future__ import annotations

from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, TEXT
from tests.frame_factory import frame as frame_of
from tests.gateway.workbench.conformance.platform.broken.registry import breaks
from tests.gateway.workbench.conformance.platform.relay import Distortion, again


@breaks("frames.masked")
class Unmasked(Distortion):
    """Masks no frame."""

    def up(self, seen, raw):
        return again(seen, mask=None)


@breaks("frames.masked")
class UnmaskedClose(Distortion):
    """Masks no control frame."""

    def up(self, seen, raw):
        return again(seen, mask=None) if seen.opcode >= CLOSE else raw


@breaks("frames.keys")
class SameKey(Distortion):
    """Masks each frame with the same key."""

    def up(self, seen, raw):
        return again(seen, mask=KEY)


@breaks("frames.keys")
class CountingKey(Distortion):
    """Counts its masking keys."""

    number = 0

    def up(self, seen, raw):
        self.number += 1
        return again(seen, mask=self.number.to_bytes(4, "big"))


@breaks("frames.rsv")
class SetsRsv1(Distortion):
    """Sets RSV1, as if payloads were compressed."""

    def up(self, seen, raw):
        return again(seen, rsv=4) if seen.opcode < CLOSE else raw


@breaks("frames.opcodes")
class ReservedOpcode(Distortion):
    """Sends a frame with a reserved opcode behind each text."""

    def up(self, seen, raw):
        return raw + frame_of(0xB, b"", mask=seen.key[::-1]) if seen.opcode == TEXT else raw


@breaks("frames.shortest")
class LongLengths(Distortion):
    """Writes each length in 64 bits."""

    def up(self, seen, raw):
        return again(seen, length_form=64)


@breaks("frames.control")
class FragmentsClose(Distortion):
    """Sends Close without FIN."""

    def up(self, seen, raw):
        return again(seen, fin=False) if seen.opcode == CLOSE else raw


@breaks("frames.control")
class LongReasons(Distortion):
    """Gives a Close a reason of 200 bytes."""

    def up(self, seen, raw):
        if seen.opcode != CLOSE or not seen.payload:
            return raw
        return again(seen, payload=seen.payload[:2] + bytes(200), length_form=16)


# --- Parts ---------------------------------------------------------------------------------------


@breaks("parts.one_frame")
class Merges(Distortion):
    """Puts a part of one byte into the frame of the next one."""

    held = b""

    def up(self, seen, raw):
        if seen.opcode == BINARY and seen.fin and len(seen.payload) == 1:
            self.held += seen.payload
            return b""
        if seen.opcode < CLOSE:
            payload, self.held = self.held + seen.payload, b""
            return again(seen, payload=payload)
        return raw


@breaks("parts.one_frame")
class Splits(Distortion):
    """Splits frames of more than 32 KiB."""

    def up(self, seen, raw):
        if seen.opcode >= CLOSE or len(seen.payload) <= 1 << 15:
            return raw
        first, rest = seen.payload[: 1 << 15], seen.payload[1 << 15 :]
        return again(seen, payload=first, fin=False) + again(
            seen, opcode=CONTINUATION, payload=rest, mask=seen.key[::-1]
        )


@breaks("parts.one_frame")
class ChangesByte(Distortion):
    """Changes the last byte of a frame that fills 16 bits of length."""

    def up(self, seen, raw):
        if len(seen.payload) != 65_535:
            return raw
        return again(seen, payload=seen.payload[:-1] + b"!")


@breaks("parts.order")
class Reorders(Distortion):
    """Sends part 100 behind part 101."""

    held = b""

    def up(self, seen, raw):
        if seen.payload == b"100":
            self.held = raw
            return b""
        raw, self.held = raw + self.held, b""
        return raw


@breaks("parts.order")
class DropsOne(Distortion):
    """Drops part 400."""

    def up(self, seen, raw):
        return b"" if seen.payload == b"400" else raw


@breaks("parts.type")
class AllBinary(Distortion):
    """Sends text as binary."""

    def up(self, seen, raw):
        return again(seen, opcode=BINARY) if seen.opcode == TEXT else raw


@breaks("parts.absent")
class TextByDefault(Distortion):
    """Takes a part without DataType for text."""

    def up(self, seen, raw):
        return again(seen, opcode=TEXT) if seen.payload == b"bare" else raw


@breaks("parts.fragments")
class AlwaysFin(Distortion):
    """Makes each part a message."""

    begun = TEXT

    def up(self, seen, raw):
        if seen.opcode >= CLOSE:
            return raw
        self.begun = seen.opcode or self.begun
        return again(seen, opcode=self.begun, fin=True)


@breaks("parts.fragments")
class RepeatsOpcode(Distortion):
    """Repeats the opcode of a message in its continuations."""

    begun = TEXT

    def up(self, seen, raw):
        if seen.opcode >= CLOSE:
            return raw
        self.begun = seen.opcode or self.begun
        return again(seen, opcode=self.begun)


@breaks("parts.type_stands")
class NewType(Distortion):
    """Begins a message anew where a part has another DataType."""

    def up(self, seen, raw):
        return again(seen, opcode=BINARY) if seen.payload == b"bytes?" else raw


@breaks("parts.empty")
class DropsEmpty(Distortion):
    """Drops empty frames."""

    def up(self, seen, raw):
        return raw if seen.payload or seen.opcode >= CLOSE else b""


@breaks("parts.unread")
class MendsText(Distortion):
    """Replaces what is not UTF-8 in whole texts."""

    def up(self, seen, raw):
        if seen.opcode != TEXT or not seen.fin:
            return raw
        return again(seen, payload=seen.payload.decode("utf-8", "replace").encode())
