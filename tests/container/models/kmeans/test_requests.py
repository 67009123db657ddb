"""kmeans over HTTP and WebSocket: AWS's formats to the byte, and each fault to its client alone."""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from partway.container.models.kmeans import KMeans
from partway.container.record_model import CSV, JSON, JSON_LINES, RECORDIO
from partway.container.testing import Answered, Served, serving
from partway.protocol.formats.record_schema import Record
from partway.protocol.limits import MAX_RECORDS

pytestmark = pytest.mark.usefixtures("no_leaks")

#: The records of AWS's page "Common data formats for inference". Centroid 5 is as far from the
#: first as the page says, 36.5, and centroid 2 from the second, 90.3.
FIRST = [1.5, 16.0, 14.0, 23.0]
SECOND = [-2.0, 100.2, 15.2, 9.2]
CENTROIDS = np.full((6, 4), 1e6)
CENTROIDS[5] = [38.0, 16.0, 14.0, 23.0]
CENTROIDS[2] = [-92.3, 100.2, 15.2, 9.2]

#: The page's bodies, as they stand there (but the braces that it leaves out).
DENSE = '{ "instances": [ { "features": [1.5, 16.0, 14.0, 23.0] } ] }'
DENSE_DATA = (
    '{ "instances": [ { "data": { "features": { "values": [ 1.5, 16.0, 14.0, 23.0] } } } ] }'
)
SEVERAL = (
    '{ "instances": [ { "features": [ 1.5, 16.0, 14.0, 23.0 ] }, '
    '{ "features": [ -2.0, 100.2, 15.2, 9.2 ] } ] }'
)
SPARSE = """
{ "instances": [
    {"data": {"features": { "keys": [26, 182, 232, 243, 431], "shape": [2000],
                            "values": [1, 1, 1, 4, 1] } } },
    {"data": {"features": { "keys": [0, 182, 232, 243, 431], "shape": [2000],
                            "values": [13, 1, 1, 4, 1] } } }
] }
"""
LINES = (
    '{"data": {"features": { "keys": [0, 1, 3], "shape": [4], "values": [1, 4, 1] } } }\n'
    '{ "data": { "features": { "values": [ 1.5, 16.0, 14.0, 23.0] } } }\n'
    '{ "features": [1.5, 16.0, 14.0, 23.0] }\n'
)

#: FIRST as one framed Record with a float32 tensor.
FRAMED = bytes.fromhex(
    "0a23d7ce200000000a1e0a0676616c756573121412120a100000c03f00008041000060410000b841"
)

ONE = b'{"predictions": [{"closest_cluster": 5, "distance_to_cluster": 36.5}]}'
TWO = (
    b'{"predictions": [{"closest_cluster": 5, "distance_to_cluster": 36.5}, '
    b'{"closest_cluster": 2, "distance_to_cluster": 90.3}]}'
)


@asynccontextmanager
async def kmeans(folder: Path, centroids: np.ndarray = CENTROIDS) -> AsyncIterator[Served]:
    np.save(folder / "centroids.npy", centroids)
    async with serving(KMeans(), folder) as served:
        yield served


def npy(rows: list[list[float]]) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(rows))
    return file.getvalue()


def tensor(**members: object) -> str:
    return json.dumps({"instances": [{"data": {"features": members}}]})


# --- What is documented --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type", "answer"),
    [
        (DENSE, "application/json", ONE),
        (DENSE, "application/JSON", ONE),
        (DENSE, "application/json; charset=utf-8", ONE),
        (b"\xef\xbb\xbf" + DENSE.encode(), "application/json", ONE),
        (DENSE_DATA, "application/json", ONE),
        (SEVERAL, "application/json", TWO),
        ('{"instances": [{"data": {"features": [1.5, 16, 14, 23]}}]}', "application/json", ONE),
        (tensor(keys=[], values=FIRST, shape=[]), "application/json", ONE),
        (tensor(keys=[3, 0, 2, 1], values=[23, 1.5, 14, 16]), "application/json", ONE),
        (
            json.dumps(
                {"instances": [{"features": FIRST, "configuration": {}}], "configuration": {}}
            ),
            "application/json",
            ONE,
        ),
        ("1.5,16.0,14,23.0", "text/csv", ONE),
        ("1.5,16.0,14,23.0\n", "text/CSV; label_size=0", ONE),
        ("1.5,16,14,23\r\n-2.0,100.2,15.2,9.2\r\n\r\n", "text/csv;label_size=0", TWO),
        ("1,1.5,16,14,23\n0,-2.0,100.2,15.2,9.2\n", "text/csv; label_size=1", TWO),
        ("0 0:1.5 1:16 2:14 3:23\n1 0:-2 1:100.2 2:15.2 3:9.2\n", "text/libsvm", TWO),
        (FRAMED, "application/x-recordio-protobuf", ONE),
        (npy([FIRST, SECOND]), "application/x-npy", TWO),
        ('"1.5", +16,"14",2.3e1\n-2,100.2, 15.2 ,9.2', "text/csv", TWO),
        (json.dumps({"features": FIRST}), "application/jsonlines", ONE),
        (f'{{"features": {FIRST}}}\r\n{{"features": {SECOND}}}', "application/JSONLINES", TWO),
    ],
)
async def test_requests(
    tmp_path: Path, body: str | bytes, content_type: str, answer: bytes
) -> None:
    async with kmeans(tmp_path) as served:
        assert await served.invoke(body, content_type) == Answered(200, "application/json", answer)


async def test_the_page_s_sparse_request(tmp_path: Path) -> None:
    centroids = np.zeros((3, 2000))
    centroids[1, [26, 0]] = [1, 13]
    centroids[2, 243] = 2
    rows = np.zeros((2, 2000))
    rows[:, [182, 232, 243, 431]] = [1, 1, 4, 1]
    rows[0, 26], rows[1, 0] = 1, 13
    expected = np.linalg.norm(rows[:, None] - centroids, axis=2)
    async with kmeans(tmp_path, centroids) as served:
        answer = json.loads((await served.invoke(SPARSE, "application/json")).body)
    assert [each["closest_cluster"] for each in answer["predictions"]] == [2, 1]
    assert [each["distance_to_cluster"] for each in answer["predictions"]] == pytest.approx(
        [expected[0, 2], expected[1, 1]], rel=1e-15
    )


async def test_dense_and_sparse_lines_mix(tmp_path: Path) -> None:
    async with kmeans(tmp_path) as served:
        answer = await served.invoke(LINES, "application/jsonlines", Accept="text/csv")
    assert answer.body == b"5,%r\n5,36.5\n5,36.5\n" % math.sqrt(37**2 + 12**2 + 14**2 + 22**2)


async def test_a_sparse_record_without_numbers_is_zero(tmp_path: Path) -> None:
    async with kmeans(tmp_path, np.array([[9.0] * 4, [1.0, 0, 0, 0]])) as served:
        body = tensor(keys=[], values=[], shape=[4])
        assert (await served.invoke(body, "application/json", Accept="text/csv")).body == b"1,1.0\n"


@pytest.mark.parametrize(
    ("accept", "content_type", "answer"),
    [
        ("application/json", "application/json", TWO),
        ("*/*", "application/json", TWO),
        ("text/csv", "text/csv", b"5,36.5\n2,90.3\n"),
        ("application/json;q=0.1, text/CSV", "text/csv", b"5,36.5\n2,90.3\n"),
        (
            "application/jsonlines",
            "application/jsonlines",
            TWO.removeprefix(b'{"predictions": [').removesuffix(b"]}").replace(b"}, ", b"}\n")
            + b"\n",
        ),
    ],
)
async def test_answers(tmp_path: Path, accept: str, content_type: str, answer: bytes) -> None:
    async with kmeans(tmp_path) as served:
        answered = await served.invoke(SEVERAL, "application/json", Accept=accept)
        assert answered == Answered(200, content_type, answer)


async def test_one_record_of_protobuf_for_each(tmp_path: Path) -> None:
    """As the page shows them: both in ``label``, with the record's own uid."""
    named = b"\x1a\x06abc123"  # Record.uid is field 3
    record = FRAMED[8:] + named
    framed = FRAMED[:4] + len(record).to_bytes(4, "little") + record
    async with kmeans(tmp_path) as served:
        body = framed + FRAMED
        answer = await served.invoke(body, RECORDIO, Accept=RECORDIO)
    assert (answer.status, answer.content_type) == (200, RECORDIO)
    size = int.from_bytes(answer.body[4:8], "little")
    first, second = (
        Record.FromString(answer.body[8 : 8 + size]),
        Record.FromString(answer.body[8 + size + -size % 4 + 8 :].rstrip(b"\0")),
    )
    assert (first.uid, second.HasField("uid")) == ("abc123", False)
    for each in (first, second):
        assert {name: [*value.float32_tensor.values] for name, value in each.label.items()} == {
            "closest_cluster": [5.0],
            "distance_to_cluster": [36.5],
        }


async def test_json_is_the_answer_where_nothing_is_asked_for(tmp_path: Path) -> None:
    async with kmeans(tmp_path) as served, aiohttp.ClientSession() as session:
        sent = session.post(
            f"{served.url}/invocations",
            data=DENSE,
            headers={"Content-Type": "application/json"},
            skip_auto_headers=["Accept"],
        )
        async with sent as response:
            assert (response.content_type, await response.read()) == ("application/json", ONE)


async def test_what_a_batch_transform_is_told(tmp_path: Path) -> None:
    async with (
        kmeans(tmp_path) as served,
        aiohttp.ClientSession() as session,
        session.get(f"{served.url}/execution-parameters") as response,
    ):
        assert await response.json() == {
            "MaxConcurrentTransforms": 2,
            "BatchStrategy": "MULTI_RECORD",
            "MaxPayloadInMB": 6,
        }


# --- Faults --------------------------------------------------------------------------------------

_SECOND_IS = '{{"instances": [{{"features": [1, 2, 3, 4]}}, {}]}}'
JSON_FAULTS = {
    "": "the body is empty; it must be {",
    "{": "the body is not JSON: ",
    '{"instances": [\n{"features": [1, 2, 3, 4]},\n]}': "is not JSON: ",
    "[" * 100_000: "the body is not read: it is nested deeper than 64 levels",
    "[]": "the body has no record",
    "[1, 2, 3]": "record 0: the record has 3 features; it must have 4, as",
    '{"features": [1, 2, 3]}': "record 0: the record has 3 features; it must have 4, as",
    '{"instances": {}}': "the body: instances must be an array: {",
    '{"instances": []}': "the body has no record",
    '{"instances": [], "more": 1}': "the body: an object has an unknown member",
    '{"instances": [{"features": [1, 2, 3, 4]}], "configuration": {"k": 1}}': (
        "the body: configuration must be empty"
    ),
    _SECOND_IS.format('{"features": [1, 2, 3, 4], "configuration": {"k": 1}}'): (
        "record 1: configuration must be empty"
    ),
    '{"instances": [], "instances": []}': "an object has a member twice",
    '{"instances": [{"features": [NaN]}]}': "NaN is not a number in JSON",
    '{"instances": [{"features": [-Infinity]}]}': "-Infinity is not a number in JSON",
    _SECOND_IS.format("[1, 2, 3]"): "record 1: the record has 3 features; it must have 4, as",
    _SECOND_IS.format("7"): "record 1: a number was given; it must be an array of 4 values",
    _SECOND_IS.format("{}"): "record 1: an object without members was given; it must be",
    _SECOND_IS.format('{"features": [1], "data": {}}'): "record 1: the record must have",
    _SECOND_IS.format('{"features": [1], "more": 1}'): "record 1: an object has an unknown member",
    _SECOND_IS.format(
        '{"features": [1, 2, 3]}'
    ): "record 1: the record has 3 features; it must have 4, as",
    _SECOND_IS.format('{"features": [1, 2, 3, 4, 5]}'): "record 1: the record has 5 features",
    _SECOND_IS.format('{"features": []}'): "record 1: the record has 0 features; it must have 4",
    _SECOND_IS.format(
        '{"features": 1}'
    ): "record 1: features: a number was given; it must be an array of",
    _SECOND_IS.format('{"features": [1, "2", 3, 4]}'): "record 1: features[1] is a string",
    _SECOND_IS.format('{"features": [1, 2, true, 4]}'): "record 1: features[2] is a boolean",
    _SECOND_IS.format('{"features": [null, 2, 3, 4]}'): "record 1: features[0] is null",
    _SECOND_IS.format('{"features": [[1, 2, 3, 4]]}'): "record 1: features[0] is an array",
    _SECOND_IS.format('{"features": [1e999, 2, 3, 4]}'): "record 1: features[0] is too large",
    _SECOND_IS.format(
        '{"features": [-1%s, 2, 3, 4]}' % ("0" * 5000)
    ): "record 1: features[0] is too large",
    _SECOND_IS.format('{"data": 1}'): "record 1: a number was given; it must be an object",
    _SECOND_IS.format('{"data": {}}'): "record 1: data has 0 tensors; it must have one",
    _SECOND_IS.format('{"data": {"values": [1]}}'): "record 1: the record has 1 features; it must",
    tensor(keys=[0]): "record 0: features must have values",
    tensor(keys=[0, 1], values=[1]): "record 0: there are 2 keys and 1 values",
    tensor(keys=[4], values=[1]): "record 0: keys must be whole numbers from 0 to 3",
    tensor(keys=[-1], values=[1]): "record 0: keys must be whole numbers",
    tensor(keys=[0.5], values=[1]): "record 0: keys must be whole numbers",
    tensor(keys=[1, 1], values=[1, 2]): "record 0: a key appears twice",
    tensor(keys=[0], values=[1], shape=[5]): "record 0: the record has 5 features; it must have 4",
    tensor(keys=[0], values=[1], shape=[2, 3]): "record 0: the record has 6 features",
    tensor(keys=["0"], values=[1]): "record 0: keys[0] is a string",
    tensor(values=[1, 2, 3]): "record 0: the record has 3 features",
}
CSV_FAULTS = {
    "": "the body has no record",
    "\r\n\n": "the body has no record",
    "a,b,c,d\n1,2,3,4": "record 0 (line 1): column 1 is not a number; the body must have only",
    "1,2,3,4\n1,2,3": "record 1 (line 2): the line has 3 columns; it must have 4",
    "1,2,3,4\n\n1,2,3,4": "record 1 (line 2): the line is empty; it must be a record",
    "1,2,3,4,": "record 0 (line 1): the line has 5 columns",
    "1,2,,4": "record 0 (line 1): column 3 is not a number",
    "1,2,1_0,4": "record 0 (line 1): column 3 is not a number",
    "1,2,3,٤": "record 0 (line 1): column 4 is not a number",
    '1,2,3,"4': "record 0 (line 1): column 4 is not a number",
    "1,2,3,4\n1,2,3,nan": "record 1 (line 2): feature 3 is NaN or infinite",
    "1,2,3,inf": "record 0 (line 1): feature 3 is NaN or infinite",
    "1,2,1e141,4": "record 0: a number is NaN, infinite or beyond",
    b"1,2,3,\xff": "record 0 (line 1): column 4 is not a number",
}
LINES_FAULTS = {
    "": "the body has no record",
    # As the page has it: the second record lacks its last brace.
    LINES.replace('} } }\n{ "features', '} }\n{ "features'): "record 1 (line 2): the line is not",
    LINES.replace("\n", ",\n"): "record 0 (line 1): the line is not JSON: Extra data at column 83",
    '{"features": [1, 2, 3, 4]}\n\n{"features": []}': "record 1 (line 2): the line is empty",
    '{"features": [1, 2, 3, 4]}\n{"features": [1]}': "record 1 (line 2): the record has 1 features",
    '{"instances": []}': "record 0 (line 1): the record has 0 features",
}


@pytest.mark.parametrize(
    ("content_type", "faults"),
    [(JSON, JSON_FAULTS), (CSV, CSV_FAULTS), (JSON_LINES, LINES_FAULTS)],
)
async def test_what_is_wrong_is_told_to_its_client_alone(
    tmp_path: Path, content_type: str, faults: dict[str | bytes, str]
) -> None:
    async with kmeans(tmp_path) as served:
        for body, reason in faults.items():
            wrong, right = await asyncio.gather(
                served.invoke(body, content_type), served.invoke(SEVERAL, JSON)
            )
            assert (wrong.status, wrong.content_type) == (400, "text/plain; charset=utf-8"), body
            assert reason in wrong.body.decode(), body
            assert wrong.body.endswith(b"\n")
            assert right.body == TWO


@pytest.mark.parametrize(
    ("content_type", "accept", "status", "reason"),
    [
        (
            "text/plain",
            "*/*",
            415,
            b"Content-Type: 'text/plain' was given; it must be one of text/csv",
        ),
        ("application/x-npz", "*/*", 415, b"Content-Type: 'application/x-npz' was given; "),
        ("", "*/*", 415, b"Content-Type: '' was given; it must be one of "),
        (
            "text/csv; label_size=x",
            "*/*",
            415,
            b"label_size='x' was given; it must be a whole number",
        ),
        ("text/csv", "image/png", 406, b"Accept: 'image/png' was given; it must allow one of "),
        ("text/csv", "application/json;q=0", 406, b"Accept: 'application/json;q=0' was given; "),
    ],
)
async def test_types_that_are_not_spoken(
    tmp_path: Path, content_type: str, accept: str, status: int, reason: bytes
) -> None:
    async with kmeans(tmp_path) as served:
        answer = await served.invoke("1,2,3,4", content_type, Accept=accept)
        assert (answer.status, answer.body.startswith(reason)) == (status, True)


async def test_a_fault_quotes_nothing_of_its_body(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with kmeans(tmp_path) as served:
        for body, content_type in (
            ("secret,2,3,4", CSV),
            ('{"secret": 1}', JSON),
            ('{"instances": [{"secret": 1}]}', JSON),
            ('{"features": ["secret"]}', JSON_LINES),
            ("secret", JSON_LINES),
        ):
            answer = await served.invoke(body, content_type)
            assert answer.status == 400
            assert b"secret" not in answer.body
    assert "secret" not in caplog.text


# --- Limits --------------------------------------------------------------------------------------


async def test_too_many_records(tmp_path: Path) -> None:
    np.save(tmp_path / "centroids.npy", CENTROIDS)
    model = KMeans()
    async with serving(model, tmp_path) as served:
        assert model.takes.max_records == MAX_RECORDS
        model.takes = replace(model.takes, max_records=2)
        assert (await served.invoke("1,2,3,4\n1,2,3,4", CSV)).status == 200
        answer = await served.invoke("1,2,3,4\n" * 3, CSV)
        assert (answer.status, answer.body) == (413, b"there are more than 2 records: send fewer\n")


async def test_bodies_that_wait_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partway.container.serving.body.MAX_HELD_BODIES", 20)
    async with kmeans(tmp_path) as served:
        for _ in range(3):  # what was held for one is free for the next
            answer = await served.invoke("1,2,3,4\n" * 2, CSV)
            assert answer.status == 200
            answer = await served.invoke("1,2,3,4\n" * 3, CSV)
            assert (answer.status, answer.body[:24]) == (503, b"the bodies of all reques")


# --- Streams -------------------------------------------------------------------------------------


async def test_each_message_of_a_stream_is_answered_in_its_format(tmp_path: Path) -> None:
    one = '{"closest_cluster": 5, "distance_to_cluster": 36.5}'
    too_short = json.dumps(
        {"error": "record 0 (line 1): the line has 3 columns; it must have 4, one for each feature"}
    )
    async with kmeans(tmp_path) as served, served.stream() as client:
        for message, answer in (
            (json.dumps({"features": FIRST}), one),
            (f' {{"features": {FIRST}}}\n{{"features": {FIRST}}}\n', f"{one}\n{one}"),
            ("1.5,16,14,23", "5,36.5"),
            (b"1.5,16,14,23\n-2,100.2,15.2,9.2", "5,36.5\n2,90.3"),
            ("1.5,16,14", too_short),
            ("", '{"error": "the body has no record"}'),
            ("1.5,16,14,23", "5,36.5"),
        ):
            await client.send(message)
            assert await client.recv() == answer
