"""RecordIO's frames, whole and cut."""

from __future__ import annotations

import pytest

from partway.protocol.formats import Malformed, OverLimit
from partway.protocol.formats.recordio import RecordIOReader, framed, head_of
from partway.protocol.limits import MAX_RECORD_BYTES

MAGIC = bytes.fromhex("0a23d7ce")
PAYLOADS = [b"abc", b"defg", b"", b"hijk", b"lmno", b"p" * 300, b"q"]


def cut_frame(flag: int, payload: bytes) -> bytes:
    word = (flag << 29 | len(payload)).to_bytes(4, "little")
    return MAGIC + word + payload + bytes(-len(payload) % 4)


def payloads(data: bytes, size: int = 0) -> list[bytes]:
    reader = RecordIOReader()
    pieces = [data[at : at + size] for at in range(0, len(data), size)] if size else [data]
    found = [row.tobytes() for piece in pieces for run in reader.feed(piece) for row in run]
    reader.finish()
    return found


def test_a_frame():
    assert framed(b"abcde") == bytes.fromhex("0a23d7ce 05000000 6162636465 000000")
    assert framed(b"") == bytes.fromhex("0a23d7ce 00000000")
    with pytest.raises(ValueError, match="must be 536870911 at most"):
        head_of(1 << 29)


def test_frames_come_whole():
    data = b"".join(map(framed, PAYLOADS * 20))
    for size in (0, 1, 7, 1000):
        assert payloads(data, size) == PAYLOADS * 20


def test_those_of_one_length_come_together():
    data = b"".join(map(framed, [b"abcd"] * 5 + [b"abc"] * 9 + [b"efgh"] * 3))
    assert [run.shape for run in RecordIOReader().feed(data)] == [(5, 4), (9, 3), (3, 4)]


def test_a_payload_that_holds_the_magic():
    assert payloads(framed(b"1234" + MAGIC + b"5678")) == [b"1234" + MAGIC + b"5678"]
    data = cut_frame(1, b"1234") + cut_frame(2, b"") + cut_frame(3, b"56") + framed(b"7")
    for size in (0, 1):
        assert payloads(data, size) == [b"1234" + MAGIC + MAGIC + b"56", b"7"]


#: A record of four float32, by hand: the second number has the bytes of the magic.
RECORD = bytes.fromhex(
    "0a1e"  # features: an entry of 30 bytes
    "0a0676616c756573"  # its key: "values"
    "1214 1212 0a10"  # its value: a tensor of float32, 16 bytes of values
    "0000803f 0a23d7ce 00000000 0000803f"
)


@pytest.mark.parametrize("at", [1, 2, 4, 7, 8, 16, 20, 24, 31])
def test_a_record_in_parts_with_nothing_between_them(at):
    data = cut_frame(1, RECORD[:at]) + cut_frame(3, RECORD[at:])
    three = cut_frame(1, RECORD[:at]) + cut_frame(2, b"") + cut_frame(3, RECORD[at:])
    for size in (0, 1):
        assert payloads(data + framed(b"7"), size) == [RECORD, b"7"]
        assert payloads(three, size) == [RECORD]


def test_a_record_that_was_cut_at_the_magic():
    at = RECORD.index(MAGIC)
    assert at % 4 == 0
    data = cut_frame(1, RECORD[:at]) + cut_frame(3, RECORD[at + 4 :])
    for size in (0, 1):
        assert payloads(data, size) == [RECORD]


def test_parts_that_are_no_record():
    """Of dmlc-core's parts all but the last end at multiples of 4; the magic goes between them."""
    assert payloads(cut_frame(1, b"1234") + cut_frame(3, b"5")) == [b"1234" + MAGIC + b"5"]
    assert payloads(cut_frame(1, b"") + cut_frame(3, b"")) == [MAGIC]
    assert payloads(cut_frame(1, b"123") + cut_frame(3, b"45")) == [b"12345"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            framed(b"a")[:-1],
            "record 0: the frame at byte 0 is cut; the body must end ",
        ),
        (framed(b"a") + b"\x0a", "record 1: the frame at byte 12 is cut"),
        (framed(b"a") + bytes(8), "record 1: no frame begins at byte 12; a frame must begin there"),
        (cut_frame(2, b"a"), "record 0: the frame at byte 0 is out of order"),
        (cut_frame(3, b"a"), "record 0: the frame at byte 0 is out of order"),
        (cut_frame(1, b"a") + framed(b"a"), "record 0: the frame at byte 12 is out of order"),
        (cut_frame(1, b"a") + cut_frame(1, b"a"), "record 0: the frame at byte 12 is out of order"),
        (cut_frame(5, b"a"), "record 0: the frame at byte 0 is out of order"),
        (cut_frame(1, b"a"), "record 0: the frame at byte 12 is cut"),
    ],
)
def test_faults(data, reason):
    for size in (0, 1):
        with pytest.raises(Malformed) as caught:
            payloads(data, size)
        assert caught.value.reason.startswith(reason)


def test_a_record_has_an_end():
    with pytest.raises(OverLimit, match="record 1 is longer than"):
        payloads(framed(b"a") + MAGIC + (MAX_RECORD_BYTES + 1).to_bytes(4, "little"))
    with pytest.raises(OverLimit, match="record 0 is longer than"):
        payloads(cut_frame(1, b"") + cut_frame(2, bytes(1 << 20)) * 33)
