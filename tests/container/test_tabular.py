"""A dozen lines of model, in every format both ways, on /invocations and in streams."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import websockets.exceptions

from partway import Batch, Columns, ModelError, Processes, Tabular, TabularModel
from partway.container import tabular
from partway.container.record_model import CSV, JSON, JSON_LINES, LIBSVM, NPY, RECORDIO, guessed
from partway.container.testing import Answered, Served, serving
from partway.protocol.formats import RECORD_TYPES, SparseRows, decode, encode
from partway.protocol.formats.record_schema import Record
from partway.protocol.formats.recordio import framed

pytestmark = pytest.mark.usefixtures("no_leaks")

ROWS = np.array([[1.5, 16.0, 14.0, 23.0], [-2.0, 100.25, 0.0, 9.0]])
ANSWERS = [{"total": 54.5, "ends": [1.5, 23.0]}, {"total": 107.25, "ends": [-2.0, 9.0]}]


class Sums(TabularModel):
    """Each record's sum, and its two ends."""

    takes = Tabular(width=4, sparse=True)
    answers = Columns("total", "ends", key="scores")

    def predict(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        rows = batch.dense()
        return rows.sum(axis=1), rows[:, [0, 3]]


@pytest.fixture
async def sums() -> AsyncIterator[Served]:
    async with serving(Sums()) as served:
        yield served


class Centred(TabularModel):
    """The records' sums, once their means have been taken off them where they are."""

    takes = Tabular(width=4)
    answers = Columns("total")

    def predict(self, batch: Batch) -> np.ndarray:
        rows = batch.dense()
        rows -= rows.mean(axis=0)
        return rows.sum(axis=1)


@pytest.mark.parametrize("media_type", RECORD_TYPES)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_model_may_write_to_its_records_in_every_format(media_type, kind):
    body = encode(Batch(ROWS.astype(kind)), media_type)
    answer = Centred().answer_body(body, media_type, CSV)
    assert answer == b"-26.375\n26.375\n"


def read(body: bytes | str, media_type: str) -> list[dict[str, object]]:
    """Answers of Sums by readers that are not those of the code under test."""
    if media_type == NPY:
        rows = np.load(io.BytesIO(body), allow_pickle=False).tolist()
        return [{"total": row[0], "ends": row[1:]} for row in rows]
    if media_type == RECORDIO:
        return [
            {"total": label["total"][0], "ends": label["ends"]}
            for label, _, _ in recordio_answers(body)
        ]
    text = body if isinstance(body, str) else body.decode()
    if media_type == JSON:
        return json.loads(text)["scores"]
    if media_type == JSON_LINES:
        return [json.loads(line) for line in text.splitlines()]
    rows = [[float(cell) for cell in line.split(",")] for line in text.splitlines()]
    return [{"total": row[0], "ends": row[1:]} for row in rows]


def recordio_answers(body: bytes) -> list[tuple[dict[str, list[float]], str, str]]:
    """The labels, uid and metadata of each framed Record."""
    found, start = [], 0
    while start < len(body):
        assert body[start : start + 4] == b"\x0a\x23\xd7\xce"
        length = int.from_bytes(body[start + 4 : start + 8], "little")
        record = Record.FromString(body[start + 8 : start + 8 + length])
        labels = {name: [*value.float32_tensor.values] for name, value in record.label.items()}
        found.append((labels, record.uid, record.metadata))
        start += 8 + length + -length % 4
    return found


# --- Requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", [CSV, LIBSVM, JSON, JSON_LINES, RECORDIO, NPY])
async def test_every_format_is_read_and_answered_in_every_one(
    sums: Served, content_type: str
) -> None:
    for media_type in (JSON, JSON_LINES, CSV, RECORDIO, NPY):
        body = encode(Batch(ROWS), content_type)
        answer = await sums.invoke(body, content_type, Accept=media_type)
        assert (answer.status, answer.content_type) == (200, media_type), answer
        assert read(answer.body, media_type) == ANSWERS


async def test_columns_are_as_they_are_named(sums: Served) -> None:
    answer = await sums.invoke("1,2,3,4", CSV)
    assert answer.body == b'{"scores": [{"total": 10.0, "ends": [1.0,4.0]}]}'


async def test_what_identifies_a_record_is_echoed(sums: Served) -> None:
    record = Record(uid="abc123", metadata='{"day": 1}')
    record.features["values"].float32_tensor.values.extend([1, 2, 3, 4])
    second = Record.FromString(record.SerializeToString())
    second.uid = "abc124"
    body = b"".join(framed(each.SerializeToString()) for each in (record, second))
    answer = await sums.invoke(body, RECORDIO, Accept=RECORDIO)
    label = {"total": [10.0], "ends": [1.0, 4.0]}
    assert recordio_answers(answer.body) == [
        (label, "abc123", '{"day": 1}'),
        (label, "abc124", '{"day": 1}'),
    ]


@pytest.mark.parametrize(
    ("body", "content_type", "accept", "status", "reason"),
    [
        (
            "1,2,3,4",
            "image/png",
            "*/*",
            415,
            "Content-Type: 'image/png' was given; it must be one of text/csv, ",
        ),
        (
            "1,2,3,4",
            "application/x-npz",
            "*/*",
            415,
            "Content-Type: 'application/x-npz' was given; it must ",
        ),
        (
            "1,2,3,4",
            CSV,
            "image/png",
            406,
            "Accept: 'image/png' was given; it must allow one of application/json, ",
        ),
        ("1,2,3,4\n1,2,3", CSV, "*/*", 400, "record 1 (line 2): "),
        ("", JSON_LINES, "*/*", 400, "the body has no record"),
        (
            '{"instances": [{"features": [1, 2, 3, 4], "configuration": {"k": 1}}]}',
            JSON,
            "*/*",
            400,
            "record 0: configuration must be empty: the model has nothing to configure",
        ),
    ],
)
async def test_what_a_client_does_wrong(
    sums: Served, body: str, content_type: str, accept: str, status: int, reason: str
) -> None:
    answer = await sums.invoke(body, content_type, Accept=accept)
    assert (answer.status, answer.content_type) == (status, "text/plain; charset=utf-8")
    assert answer.body.decode().startswith(reason)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"instances": [{"features": [' + b"1.5, " * 400_000 + b"1]}]}", JSON),
        (b'{"features": [1, 2, 3, 4]}\n' * 100_000, JSON_LINES),
        (b"1.25,2.5,3.125,4\n" * 200_000, CSV),
    ],
    ids=["wide", "lines", "csv"],
)
def test_reading_a_large_body_leaves_the_interpreter_to_others(
    body: bytes, content_type: str
) -> None:
    """A worker that held it would hold the event loop too."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # who waits for it asks for it soon
    try:
        assert min(_held(body, content_type) for _ in range(5)) < 0.8
    finally:
        sys.setswitchinterval(interval)


def _held(body: bytes, content_type: str) -> float:
    """For how much of the reading nobody else had the interpreter in one piece.

    It is the reader's own CPU time that counts: what else the machine does is not in it.
    """
    begin, whole = threading.Event(), []

    def read() -> None:
        begin.wait()
        before = time.thread_time()
        try:
            decode(body, content_type, Tabular())
        finally:
            whole.append(time.thread_time() - before)

    reading = threading.Thread(target=read)
    reading.start()
    assert reading.ident is not None
    clock = time.pthread_getcpuclockid(reading.ident)
    seen = [began := time.clock_gettime(clock)]
    begin.set()
    while not whole:
        with suppress(OSError):  # it has ended since
            seen.append(time.clock_gettime(clock))
    reading.join()
    seen.append(began + whole[0])
    return max(later - earlier for earlier, later in pairwise(seen)) / whole[0]


# --- Handlers ------------------------------------------------------------------------------------


class Seen(TabularModel):
    takes = Tabular(sparse=True)
    answers = Columns("one")
    configurable = True

    def predict(self, batch: Batch) -> np.ndarray:
        self.batch = batch
        return np.ones(len(batch), bool)


async def test_sparse_records_stay_sparse_and_numbers_are_float64() -> None:
    model = Seen()
    wide = SparseRows(
        np.array([2.0, 3.0], np.float32), np.array([7, 999_999]), np.array([0, 1, 2]), 1_000_000
    )
    async with serving(model) as served:
        answer = await served.invoke(encode(Batch(wide), RECORDIO), RECORDIO)
        assert json.loads(answer.body) == {"predictions": [{"one": 1}, {"one": 1}]}
        assert isinstance(model.batch.features, SparseRows)
        assert model.batch.features.dtype == np.float64
        assert model.batch.features.keys.tolist() == [7, 999_999]
        await served.invoke(encode(Batch(np.array([[250, 251]], np.uint8)), NPY), NPY)
        assert model.batch.features.dtype == np.float64


async def test_what_is_configured_reaches_a_handler_that_asks_for_it() -> None:
    model = Seen()
    body = {
        "instances": [{"features": [1]}, {"features": [2], "configuration": {"top": 2}}],
        "configuration": {"top": 1},
    }
    async with serving(model) as served:
        assert (await served.invoke(json.dumps(body), JSON)).status == 200
    assert model.batch.configuration == {"top": 1}
    assert [*model.batch.configurations] == [None, {"top": 2}]


class Told(TabularModel):
    """Returns what it is told to, or raises it."""

    answers = Columns("a", "b")

    def __init__(self, told: object) -> None:
        self.told = told

    def predict(self, batch: Batch) -> object:
        if isinstance(self.told, Exception):
            raise self.told
        return self.told


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (np.zeros(2), "1 columns; it must return a, b"),
        ((np.zeros(2), np.zeros(1)), r"a b of shape \(1,\); it must have one for each of 2"),
        ((np.zeros(2), 1.0), r"a b of shape \(\)"),
        ((np.zeros(2), np.array([1, np.nan])), "NaN or infinite"),
    ],
)
async def test_an_answer_that_is_none_is_the_model_s_fault(
    told: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Told(told)) as served:
        answer = await served.invoke("1\n2", CSV)
    assert answer.status == 500
    (error,) = (record.exc_info[1] for record in caplog.records if record.exc_info)
    assert re.search(reason, str(error))


async def test_libsvm_needs_a_width() -> None:
    """It names no features but those that are not zero."""
    async with serving(Told(np.zeros(1))) as served:
        answer = await served.invoke("1 0:2", LIBSVM)
        assert (answer.status, answer.body[:25]) == (415, b"neither text/libsvm nor t")


async def test_an_answer_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular, "MAX_ANSWER_NUMBERS", 6)
    async with serving(Sums()) as served:
        assert (await served.invoke("1,2,3,4\n" * 2, CSV)).status == 200
        answer = await served.invoke("1,2,3,4\n" * 3, CSV)
    assert answer.status == 413
    assert answer.body == (
        b"3 records are answered with 3 numbers each, more than 6 in all: send at most 2 records\n"
    )


async def test_a_model_refuses_a_record() -> None:
    async with serving(Told(ModelError("record 0: too hot", status=400))) as served:
        assert await served.invoke("1", CSV) == Answered(
            400, "text/plain; charset=utf-8", b"record 0: too hot\n"
        )


class Saved(Sums):
    """Computes in a process of its own, which alone knows how wide its records are."""

    runs_on = Processes(count=1)

    def load(self, model_dir: Path) -> None:
        self.takes = Tabular(width=int((model_dir / "width").read_text()))


async def test_in_a_worker_process(tmp_path: Path) -> None:
    (tmp_path / "width").write_text("4")
    async with serving(Saved(), tmp_path) as served:
        answer = await served.invoke("1,2,3,4", CSV, Accept=CSV)
        assert answer.body == b"10.0,1.0,4.0\n"
        answer = await served.invoke("1,2,3", CSV)
        assert (answer.status, answer.body[:26]) == (400, b"record 0 (line 1): the lin")


def test_columns_have_names_of_their_own() -> None:
    for names in ((), ("a", "a")):
        with pytest.raises(ValueError, match="must have a name of its own"):
            Columns(*names)


# --- Streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", [CSV, LIBSVM, JSON, JSON_LINES, RECORDIO, NPY])
async def test_a_message_is_answered_in_its_own_format(sums: Served, content_type: str) -> None:
    body = encode(Batch(ROWS), content_type)
    async with sums.stream() as client:
        await client.send(body)
        answer = await client.recv()
    media_type = CSV if content_type == LIBSVM else content_type
    assert isinstance(answer, bytes) == (media_type in {RECORDIO, NPY})
    assert read(answer, media_type) == ANSWERS


async def test_the_query_says_what_messages_are_and_how_they_are_answered(sums: Served) -> None:
    query = {"content_type": "text/csv; label_size=1", "accept": "application/x-npy"}
    async with sums.stream(query=query) as client:
        await client.send("9,1.5,16,14,23\n9,-2,100.25,0,9")
        assert read(await client.recv(), NPY) == ANSWERS
        await client.send("1,2,3,4")
        reason = "record 0 (line 1): the line has 4 columns; it must have 5"
        assert json.loads(await client.recv())["error"].startswith(reason)


@pytest.mark.parametrize(
    ("query", "status"),
    [({"content_type": "image/png"}, 415), ({"accept": "image/png"}, 406)],
)
async def test_a_stream_of_other_formats_is_refused(
    sums: Served, query: Mapping[str, str], status: int
) -> None:
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        async with sums.stream(query=query):
            pass
    assert refused.value.response.status_code == status


@pytest.mark.parametrize(
    ("body", "format_name"),
    [
        (b"", CSV),
        (b"1,2", CSV),
        (b"1 0:2\n", LIBSVM),
        (b'\n{ "instances": []}', JSON),
        (b'{"features": [1]}', JSON_LINES),
        (b'{"data": {}}', JSON_LINES),
    ],
)
def test_what_a_message_seems_to_be(body: bytes, format_name: str) -> None:
    assert guessed(body) == format_name


def test_a_body_in_each_format_seems_to_be_what_it_is() -> None:
    for name in (CSV, LIBSVM, JSON, JSON_LINES, RECORDIO, NPY):
        body = encode(Batch(ROWS), name)
        assert guessed(body) == name
        np.testing.assert_array_equal(decode(body, name, Tabular(width=4)).dense(), ROWS)
