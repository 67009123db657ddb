"""Records are cut and joined: whole, in order, of the bytes that the file has."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.formats.faults import Malformed, OverLimit
from partway.protocol.formats.recordio import MAGIC, framed
from partway.protocol.records import RecordBatch, assembled, splitter
from tests.gateway.batch.jobs import tf_frame

#: One record of b"abc", as tensorboard 2.21 writes it (tensorboard.summary.writer.record_writer).
TF_ABC = bytes.fromhex("0300000000000000 b099490e 616263 6e57f121")


def part(flag: int, payload: bytes) -> bytes:
    return MAGIC + struct.pack("<I", flag << 29 | len(payload)) + payload + bytes(-len(payload) % 4)


def cut(split, data, most=1000, strategy="MultiRecord", sizes=()):
    """The bodies of a file that comes in pieces of these sizes, the rest at once."""
    found, at = splitter(split, most, strategy), 0
    batches = []
    for size in (*sizes, len(data)):
        batches += found.feed(data[at : at + size])
        at += size
    return batches + list(found.finish())


def bodies(*args, **kwargs):
    return [batch.data for batch in cut(*args, **kwargs)]


# --- Lines ----------------------------------------------------------------------------------------


def test_as_many_lines_as_fit():
    assert cut("Line", b"ab\ncd\nef\ng\n", 6) == [(b"ab\ncd\n", 0, 2), (b"ef\ng\n", 2, 2)]
    assert bodies("Line", b"abcde\nf\n", 6) == [b"abcde\n", b"f\n"]


def test_a_line_each():
    assert cut("Line", b"ab\n\ncd", 3, "SingleRecord") == [
        *((b"ab\n", 0, 1), (b"\n", 1, 1), (b"cd", 2, 1))
    ]


@pytest.mark.parametrize("strategy", ["MultiRecord", "SingleRecord"])
def test_a_line_keeps_its_own_end(strategy):
    data = b"a\r\nb\rb\r\n\x85\xe2\x80\xa8\x0b\x0c\x1c\n\r\nlast\r"
    found = cut("Line", data, 100, strategy)
    assert b"".join(batch.data for batch in found) == data
    assert sum(batch.records for batch in found) == 5
    if strategy == "SingleRecord":
        assert [batch.data for batch in found][:2] == [b"a\r\n", b"b\rb\r\n"]


@pytest.mark.parametrize("strategy", ["MultiRecord", "SingleRecord"])
@pytest.mark.parametrize("data", [b"a\nb\nlonger\nc\n", b"a\nb\nlonger", b"a\nb\n" + b"l" * 99])
def test_a_line_over_the_limit_is_named(data, strategy):
    with pytest.raises(OverLimit, match=r"^record 2 \(line 3\) has more than the 5 bytes that a"):
        cut("Line", data, 5, strategy)


def test_a_line_of_just_the_limit_is_none_over_it():
    for strategy in ("MultiRecord", "SingleRecord"):
        assert bodies("Line", b"abcd\nabcde\n"[:5], 5, strategy) == [b"abcd\n"]
        assert bodies("Line", b"abcde", 5, strategy, sizes=[5]) == [b"abcde"]


# --- The whole file -------------------------------------------------------------------------------


def test_a_file_that_is_not_split():
    for strategy in ("MultiRecord", "SingleRecord"):
        assert cut("None", b"a\nb", 3, strategy, [1]) == [(b"a\nb", 0, 1)]
    with pytest.raises(
        OverLimit, match=r"not split \(SplitType is None\), and has more than the 2"
    ):
        cut("None", b"a\nb", 2)


@pytest.mark.parametrize("split", ["None", "Line", "RecordIO", "TFRecord"])
@pytest.mark.parametrize("strategy", ["MultiRecord", "SingleRecord"])
def test_an_empty_file_has_no_records(split, strategy):
    assert cut(split, b"", 10, strategy) == []


# --- Frames ---------------------------------------------------------------------------------------


def test_recordio_keeps_its_frames_where_there_are_several():
    one, two, three = framed(b"a"), framed(b"bcdef"), framed(b"")
    assert cut("RecordIO", one + two + three, 28) == [(one + two, 0, 2), (three, 2, 1)]
    assert bodies("RecordIO", one + two + three, 24) == [one, two + three]


def test_recordio_one_by_one_is_bare():
    data = framed(b"a") + framed(b"bcdef") + framed(b"")
    assert bodies("RecordIO", data, 5, "SingleRecord") == [b"a", b"bcdef", b""]


def test_a_record_in_several_frames_is_one():
    parted = part(1, b"abcd") + part(2, b"") + part(3, b"e")
    data = framed(b"x") + parted + framed(b"y")
    assert bodies("RecordIO", data, 40) == [framed(b"x"), parted, framed(b"y")]
    whole = b"abcd" + MAGIC + MAGIC + b"e"
    assert bodies("RecordIO", data, 13, "SingleRecord") == [b"x", whole, b"y"]
    with pytest.raises(OverLimit, match=r"^record 1 has more than the 12 bytes"):
        cut("RecordIO", data, 12, "SingleRecord")


def test_tfrecord_is_what_tensorflow_writes():
    assert tf_frame(b"abc") == TF_ABC
    assert cut("TFRecord", TF_ABC * 3, 38) == [(TF_ABC * 2, 0, 2), (TF_ABC, 2, 1)]
    assert bodies("TFRecord", TF_ABC * 2, 3, "SingleRecord") == [b"abc", b"abc"]


@pytest.mark.parametrize(
    ("split", "data", "said"),
    [
        (
            "RecordIO",
            framed(b"a") + framed(b"b")[:-1],
            "record 1: the frame at byte 12 is cut; the",
        ),
        ("RecordIO", framed(b"a") + MAGIC, "record 1: the frame at byte 12 is cut"),
        ("RecordIO", framed(b"a") + b"12345678", "record 1: no frame begins at byte 12; a frame"),
        ("RecordIO", part(1, b"a") + framed(b"b"), "record 0: the frame at byte 12 is out of"),
        ("RecordIO", part(1, b"a"), "record 0: the frame at byte 0 is cut"),
        ("TFRecord", TF_ABC + TF_ABC[:-1], "record 1: the frame at byte 19 is cut; the file must"),
        ("TFRecord", TF_ABC + TF_ABC[:7], "record 1: the frame at byte 19 is cut"),
        (
            "TFRecord",
            TF_ABC + b"\4" + TF_ABC[1:],
            "record 1: the checksum of the length of the frame at byte 19 is wrong: the file is",
        ),
        (
            "TFRecord",
            TF_ABC.replace(b"abc", b"abd"),
            "record 0: the checksum of the data of the frame at byte 0 is wrong",
        ),
    ],
)
@pytest.mark.parametrize("strategy", ["MultiRecord", "SingleRecord"])
def test_what_is_no_record_is_named_by_number_and_byte(split, data, said, strategy):
    for sizes in ((), [1] * len(data)):
        with pytest.raises(Malformed) as caught:
            cut(split, data, 1000, strategy, sizes)
        assert str(caught.value).startswith(said)


def test_a_frame_over_the_limit_is_named_before_it_has_come():
    for split, frame in (("RecordIO", framed), ("TFRecord", tf_frame)):
        for strategy in ("MultiRecord", "SingleRecord"):
            with pytest.raises(OverLimit, match=r"^record 1 has more than the 98 bytes"):
                cut(split, frame(b"b") + frame(b"a" * 99)[:12], 98, strategy)


# --- Any cut --------------------------------------------------------------------------------------

PAYLOADS = st.lists(st.binary(max_size=20), max_size=12)
SIZES = st.lists(st.integers(1, 9), max_size=60)
FRAMES = {
    "Line": lambda payload: payload.replace(b"\n", b"") + b"\n",
    "RecordIO": framed,
    "TFRecord": tf_frame,
}


@pytest.mark.parametrize("strategy", ["MultiRecord", "SingleRecord"])
@pytest.mark.parametrize("split", FRAMES)
@given(payloads=PAYLOADS, sizes=SIZES, most=st.integers(40, 90))
def test_however_the_bytes_come_no_record_is_split(split, strategy, payloads, sizes, most):
    frames = [FRAMES[split](each) for each in payloads]
    found = cut(split, b"".join(frames), most, strategy, sizes)
    assert [batch.first for batch in found] == [
        sum(each.records for each in found[:number]) for number in range(len(found))
    ]
    if strategy == "SingleRecord":
        wanted = payloads if split != "Line" else frames
        assert [batch.data for batch in found] == wanted
        return
    at = 0
    for batch in found:
        assert batch.data == b"".join(frames[at : at + batch.records])
        assert len(batch.data) <= most
        at += batch.records
        assert at == len(frames) or len(batch.data) + len(frames[at]) > most, "it would have fit"
    assert at == len(frames)


# --- The place of records, and answers ------------------------------------------------------------


def test_where_records_are():
    assert RecordBatch(b"", 4, 1).place("Line") == "record 4 (line 5)"
    assert RecordBatch(b"", 4, 3).place("Line") == "records 4 to 6 (lines 5 to 7)"
    assert RecordBatch(b"", 4, 3).place("RecordIO") == "records 4 to 6"
    assert RecordBatch(b"", 0, 1).place("None") == "the whole file"


def test_an_answer_among_others():
    for answer in (b"", b"a", b"a\n", b"a\r\n", b"a\n\n"):
        assert assembled(answer, "None") == answer
    assert [assembled(each, "Line") for each in (b"", b"a", b"a\n", b"a\r\n")] == [
        *(b"\n", b"a\n", b"a\n", b"a\r\n")
    ]
