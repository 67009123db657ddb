"""partway.gateway.batch.file_transform: a file's output, byte by byte, or why there is none."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from anyio.lowlevel import checkpoint

from partway.gateway.batch.model import AskFailed, ModelGone
from partway.gateway.batch.results import FileState
from partway.protocol.formats.faults import Malformed
from partway.protocol.formats.recordio import framed
from tests.gateway.batch.jobs import SaidModel, packed, tf_frame, transformed
from tests.gateway.fleet.waiting import soon

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

RECORDS = [b"a,1", b"", b"b,2\r", b"c" * 40]
FRAMES = {
    "None": lambda payload: payload + b"\n",
    "Line": lambda payload: payload + b"\n",
    "RecordIO": framed,
    "TFRecord": tf_frame,
}


def bodies_of(split, strategy, payload_mb):
    """What the container is to be asked with: a file of four records is one body, or four."""
    frames = [FRAMES[split](each) for each in RECORDS]
    if split == "None" or strategy == "MultiRecord":
        return [b"".join(frames)]
    return RECORDS if split in ("RecordIO", "TFRecord") else frames


@pytest.mark.pairwise
@pytest.mark.parametrize("payload_mb", [0, 1])
@pytest.mark.parametrize("compression", ["None", "Gzip"])
@pytest.mark.parametrize("strategy", ["MultiRecord", "SingleRecord"])
@pytest.mark.parametrize("assemble", ["None", "Line"])
@pytest.mark.parametrize("ends", [b"", b"\n", b"\r\n"], ids=["bare", "lf", "crlf"])
@pytest.mark.parametrize("split", FRAMES)
async def test_every_combination(
    tmp_path, split, ends, assemble, strategy, compression, payload_mb
):
    data = b"".join(FRAMES[split](each) for each in RECORDS)
    lying = packed(data) if compression == "Gzip" else data
    done = await transformed(
        tmp_path,
        {"x/y": lying},
        SaidModel(lambda body: b"<" + body.replace(b"\n", b"|") + ends),
        split_type=split,
        assemble_with=assemble,
        batch_strategy=strategy,
        compression_type=compression,
        max_payload_mb=payload_mb,
    )
    bodies = bodies_of(split, strategy, payload_mb)
    assert done.model.asked == bodies
    assert set(done.model.chunked) == {payload_mb == 0}
    newline = b"\n" if assemble == "Line" and not ends else b""
    said = [b"<" + body.replace(b"\n", b"|") + ends + newline for body in bodies]
    assert done.outputs == {"x/y.out": b"".join(said)}
    (outcome,) = done.progress.outcomes
    assert (outcome.state, outcome.records) == (FileState.DONE, 1 if split == "None" else 4)
    assert done.progress.records == outcome.records
    assert done.progress.bytes_done == done.progress.bytes == len(lying)


async def test_lines_keep_their_ends_and_the_last_may_have_none(tmp_path):
    data = b"a\r\nb\n\r\n\nc"
    done = await transformed(
        tmp_path, {"f": data}, split_type="Line", batch_strategy="SingleRecord"
    )
    assert done.model.asked == [b"a\r\n", b"b\n", b"\r\n", b"\n", b"c"]
    assert done.outputs == {"f.out": data}


@pytest.mark.parametrize("split", FRAMES)
@pytest.mark.parametrize("payload_mb", [0, 1])
async def test_nobody_is_asked_for_an_empty_file(tmp_path, split, payload_mb):
    files = {"empty": b"", "packed": packed(b"")}
    for name, kind in (("empty", "None"), ("packed", "Gzip")):
        done = await transformed(
            tmp_path / kind, {name: files[name]}, split_type=split, assemble_with="Line",
            max_payload_mb=payload_mb, compression_type=kind,
        )  # fmt: skip
        assert done.model.asked == []
        assert done.outputs == {f"{name}.out": b""}


async def test_as_many_lines_as_a_body_may_have(tmp_path):
    line = b"x" * 1023 + b"\n"
    done = await transformed(
        tmp_path, {"f": line * 2500}, split_type="Line", max_payload_mb=1, max_concurrent=3
    )
    assert sorted(len(each) for each in done.model.asked) == [452 * 1024, 2**20, 2**20]
    assert done.outputs == {"f.out": line * 2500}


async def test_answers_stand_in_the_order_of_their_records(tmp_path):
    over = [asyncio.Event() for _ in range(6)]
    over[5].set()

    async def backwards(body):
        await soon(over[int(body) + 1].wait())
        over[int(body)].set()
        return body

    done = await soon(
        transformed(
            *(tmp_path, {"f": b"0\n1\n2\n3\n4"}, SaidModel(backwards)),
            split_type="Line",
            batch_strategy="SingleRecord",
            max_concurrent=5,
            max_payload_mb=1,
        )
    )
    assert done.outputs == {"f.out": b"0\n1\n2\n3\n4"}
    assert done.model.at_once == 5


async def test_no_more_is_asked_at_a_time_than_the_job_says(tmp_path):
    async def slowly(body):
        await asyncio.sleep(0)
        return body

    data = b"".join(b"%d\n" % number for number in range(300))
    model = SaidModel(slowly, instances=2)
    done = await transformed(
        tmp_path, {"f": data, "g": data}, model, split_type="Line", max_concurrent=3,
        batch_strategy="SingleRecord",
    )  # fmt: skip
    assert done.outputs == {"f.out": data, "g.out": data}
    assert model.at_once == 6


async def test_a_slow_request_does_not_hold_up_those_behind_it(tmp_path):
    last = asyncio.Event()

    async def first_is_slow(body):
        if body == b"0\n":
            await soon(last.wait())
        if body == b"7\n":
            last.set()
        return body

    data = b"".join(b"%d\n" % number for number in range(8))
    done = await soon(
        transformed(
            *(tmp_path, {"f": data}, SaidModel(first_is_slow)),
            split_type="Line",
            batch_strategy="SingleRecord",
            max_concurrent=2,
        )
    )
    assert done.outputs == {"f.out": data}


# --- Failures -------------------------------------------------------------------------------------


def refusing(bad, error=None):
    def answer(body):
        if body.strip() == bad:
            raise error or AskFailed("the container answered 400: no")
        return body

    return SaidModel(answer)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"split_type": "Line", "batch_strategy": "SingleRecord"}, "record 1 (line 2): the contai"),
        ({"split_type": "Line", "max_payload_mb": 0, "batch_strategy": "SingleRecord"},
         "record 1 (line 2): the container answered 400: no"),
    ],
)  # fmt: skip
async def test_a_record_that_fails_fails_its_file_alone(tmp_path, given, said):
    files = {"a": b"1\n2\n", "b": b"1\nbad\n3", "c": b"3\n"}
    done = await transformed(tmp_path, files, refusing(b"bad"), **given)
    assert done.reason("b").startswith(said)
    assert done.outputs == {"a.out": b"1\n2\n", "c.out": b"3\n"}
    assert done.progress.records == 3


@pytest.mark.parametrize("compression", ["None", "Gzip"])
async def test_progress_counts_what_is_answered_and_not_what_is_read(tmp_path, compression):
    """All of a small file is read at once; its first record is answered last here."""
    data = b"".join(b"%03d\n" % number for number in range(5))
    lying = packed(data) if compression == "Gzip" else data

    async def answer(body):
        if body == b"000\n":
            assert (model.progress.records, model.progress.bytes_done) == (0, 0)
            async with asyncio.timeout(30):
                while model.progress.records < 4:
                    await checkpoint()
            assert model.progress.bytes_done == len(lying) * 4 // 5
        return body

    model = SaidModel(answer)
    done = await transformed(
        tmp_path, {"f": lying}, model, split_type="Line", batch_strategy="SingleRecord",
        max_concurrent=2, compression_type=compression,
    )  # fmt: skip
    assert done.outputs == {"f.out": data}
    assert (done.progress.records, done.progress.bytes_done) == (5, len(lying))


async def test_a_body_that_fails_is_named_by_all_its_records(tmp_path):
    done = await transformed(tmp_path, {"f": b"1\n2\n3"}, refusing(b"1\n2\n3"), split_type="Line")
    assert done.reason("f") == "records 0 to 2 (lines 1 to 3): the container answered 400: no"
    for payload_mb in (0, 1):
        done = await transformed(
            tmp_path, {"f": b"1\n2\n3"}, refusing(b"1\n2\n3"), max_payload_mb=payload_mb
        )
        assert done.reason("f") == "the whole file: the container answered 400: no"


@pytest.mark.parametrize("payload_mb", [0, 1])
@pytest.mark.parametrize(
    ("split", "data", "compression", "said"),
    [
        ("RecordIO", framed(b"a") + framed(b"b")[:-1], "None", "record 1: the frame at byte 12 is"),
        ("TFRecord", tf_frame(b"abc").replace(b"c", b"d"), "None", "record 0: the checksum of the"),
        ("Line", b"a\n", "Gzip", "the file must be gzip (CompressionType is Gzip)"),
        ("None", packed(b"a" * 999)[:-1], "Gzip", "the file is cut: it ends in the middle of its"),
    ],
)
async def test_a_file_that_is_broken_is_named(tmp_path, split, data, compression, said, payload_mb):
    done = await transformed(
        tmp_path, {"f": data}, split_type=split, compression_type=compression,
        max_payload_mb=payload_mb,
    )  # fmt: skip
    assert done.reason("f").startswith(said)
    assert done.outputs == {}


async def test_a_record_over_the_limit_is_named(tmp_path):
    data = b"a\n" + b"b" * 2**20 + b"\n"
    done = await transformed(tmp_path, {"f": data}, split_type="Line", max_payload_mb=1)
    assert done.reason("f").startswith("record 1 (line 2) has more than the 1048576 bytes")
    done = await transformed(tmp_path, {"f": data}, max_payload_mb=1)
    assert done.reason("f").startswith("the file is not split (SplitType is None), and has more")


async def test_of_an_answer_that_broke_off_nothing_stays(tmp_path):
    answers = [[b"begun", AskFailed("cut", passing=True)], [b"whole"]]
    model = SaidModel(lambda _: answers.pop(0))
    done = await transformed(tmp_path, {"f": b"abc"}, model, max_payload_mb=0)
    assert done.model.asked == [b"abc", b"abc"]
    assert done.outputs == {"f.out": b"whole"}
    assert done.progress.bytes_done == 3


async def test_an_answer_that_is_over_before_the_body_is_no_answer(tmp_path):
    class Hasty(SaidModel):
        def ask(self, body, take):
            return super().ask(b"nothing of it", take)

    done = await transformed(tmp_path, {"f": b"abc"}, Hasty(), max_payload_mb=0)
    assert done.reason("f").startswith("the whole file: the container ended its answer before")


async def test_when_the_model_is_gone_the_rest_is_not_begun(tmp_path):
    files = dict.fromkeys("abc", b"bad")
    done = await transformed(tmp_path, files, refusing(b"bad", ModelGone("no instance: why")))
    states = [each.state for each in done.progress.outcomes]
    assert sorted(states) == [FileState.FAILED, FileState.NOT_BEGUN, FileState.NOT_BEGUN]
    assert {each.reason for each in done.progress.outcomes} == {"no instance: why"}


async def test_an_error_of_ours_is_not_a_file_s(tmp_path):
    with pytest.raises(ExceptionGroup) as caught:
        await transformed(tmp_path, {"f": b"bad"}, refusing(b"bad", ZeroDivisionError()))
    assert caught.group_contains(ZeroDivisionError)
    assert list((tmp_path / "out").rglob("*")) == []


# --- Processing -----------------------------------------------------------------------------------


class Upper:
    """Asks in capitals, and puts an answer behind what was asked with."""

    def asked(self, batch):
        if b"bad" in batch.data:
            raise Malformed("it is bad", record=batch.first)
        return batch.data.upper()

    def answered(self, batch, answer):
        return batch.data.strip() + b"=" + answer.body


async def test_a_coded_answer_is_not_put_out_as_it_comes(tmp_path):
    headers = {"Content-Encoding": "gzip"}
    model = SaidModel(lambda body: gzip.compress(b"good\n"), headers=headers)
    files = {"f": b"a\n"}
    done = await transformed(tmp_path / "whole", files, model, split_type="Line")
    assert done.outputs == {"f.out": b"good\n"}
    done = await transformed(tmp_path / "stream", files, model, max_payload_mb=0)
    assert done.outputs == {}
    assert done.reason("f") == (
        "the whole file: the container's answer has the Content-Encoding 'gzip'; it must have "
        "none if MaxPayloadInMB is 0"
    )


@pytest.mark.parametrize("payload_mb", [0, 1])
async def test_what_is_processed(tmp_path, payload_mb):
    done = await transformed(
        tmp_path, {"f": b"a\nb\n", "g": b"c\nbad\n"}, processing=Upper(), split_type="Line",
        batch_strategy="SingleRecord", max_payload_mb=payload_mb,
    )  # fmt: skip
    assert {b"A\n", b"B\n", b"C\n"} >= set(done.model.asked) >= {b"A\n", b"B\n"}
    assert done.outputs == {"f.out": b"a=A\nb=B\n"}
    assert done.reason("g") == "record 1: it is bad"
