"""Google's PredictionService over gRPC, byte by byte (its own clients: tests/interop)."""

from __future__ import annotations

import gzip
import json
import time
import zlib

import pytest
from google.protobuf import json_format, struct_pb2

from partway.gateway.fleet.prediction import PredictionPolicy
from tests.gateway.apis.grpc.calling import (
    NAME,
    PREDICTIONS,
    calling,
    ended,
    field,
    fields,
    prefixed,
)
from tests.gateway.apis.prediction.predicting import (
    PARENT,
    TOKEN,
    answer,
    asking,
    authenticated,
)
from tests.gateway.conftest import container, gateway_for
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "authenticated", "calling", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

PREDICT = f"{PREDICTIONS}/Predict"
RAW = f"{PREDICTIONS}/RawPredict"
STREAM = f"{PREDICTIONS}/StreamRawPredict"
GET_ENDPOINT = "/google.cloud.aiplatform.v1.EndpointService/GetEndpoint"


def value(found):
    return json_format.ParseDict(found, struct_pb2.Value()).SerializeToString()


def plain(message):
    return json_format.MessageToDict(struct_pb2.Value.FromString(message))


def request(*instances, name=NAME, parameters=None):
    message = field(1, name) + b"".join(field(2, value(each)) for each in instances)
    return message if parameters is None else message + field(3, value(parameters))


def raw_request(data, content_type="text/plain", name=NAME):
    return field(1, name) + field(2, field(1, content_type) + field(2, data))


async def test_predict_is_what_rest_asks_and_answers(calling):
    caller = await calling()
    caller.told.says = answer(b'{"predictions": [0.5, {"a": [1, null, "x", true, {}]}]}')
    instances = [[1, 2.5], {"b64": "AP8", "deep": [[]]}]
    found = await caller.call(PREDICT, request(*instances, parameters={"k": 1}))
    assert found.status == ("0", "")
    assert found.head[":status"] == "200"
    assert found.head["content-type"] == "application/grpc"
    assert found.head["x-vertex-ai-deployed-model-id"] == "AllTraffic"
    (message,) = found.messages
    members = fields(message)
    assert [plain(each) for number, each in members if number == 1] == [
        0.5,
        {"a": [1, None, "x", True, {}]},
    ]
    assert members[2:] == [(2, b"AllTraffic"), (3, f"{PARENT}/models/{ENDPOINT}".encode())]
    assert json.loads(caller.told.bodies[0]) == {"instances": instances, "parameters": {"k": 1}}
    assert b"[1,2.5]" in caller.told.bodies[0]
    assert "POST /invocations" in caller.told.heads[0]


async def test_what_rest_does_with_a_body_is_done_here_too(calling):
    caller = await calling(policy=PredictionPolicy("/predictions/model", "data"))
    found = await caller.call(PREDICT, request({"b64": "AP8"}))
    assert found.status[0] == "0"
    assert caller.told.heads[0].startswith("POST /predictions/model HTTP/1.1\r\n")
    assert json.loads(caller.told.bodies[0]) == {"instances": [{"data": {"b64": "AP8="}}]}


async def test_a_long_message_is_as_good_as_a_short_one(calling):
    caller = await calling()
    count = 40_000
    caller.told.says = answer(b'{"predictions": [[%b]]}' % b",".join([b"1"] * count))
    found = await caller.call(PREDICT, request([1] * count))
    assert found.status == ("0", "")
    ((_, prediction), *_) = fields(found.messages[0])
    assert plain(prediction) == [1] * count
    assert json.loads(caller.told.bodies[0]) == {"instances": [[1] * count]}


@pytest.mark.parametrize(
    ("message", "code", "said"),
    [
        (request(), "3", "instances: an empty array was given"),
        (request(1, name=ENDPOINT), "3", "endpoint: 'model' was given; it must be projects/"),
        (request(1, name=""), "3", "endpoint: '' was given"),
        (request(1, name=f"{PARENT}/endpoints/other"), "5", "Endpoint other of account"),
        (request(1, name=f"{PARENT}/endpoints/{'x' * 5000}"), "3", "endpoint's name must be"),
        (field(1, NAME) + field(2, b""), "3", "the message: a google.protobuf.Value has no kind"),
        (
            field(1, NAME)
            + field(2, struct_pb2.Value(number_value=float("nan")).SerializeToString()),
            "3",
            "a number is nan; it must be finite",
        ),
        (request({"b64": "?"}), "3", "the string must be base64"),
        (b"\xff", "13", "must be a protobuf google.cloud.aiplatform.v1.PredictRequest"),
        (field(1, b"\xff"), "13", "cannot be read"),
    ],
)
async def test_a_message_that_is_not_as_it_must_be(calling, message, code, said):
    caller = await calling()
    found = await caller.call(PREDICT, message)
    assert (found.status[0], found.messages) == (code, [])
    assert said in found.status[1]
    assert caller.told.bodies == []
    assert (await caller.call(PREDICT, request(1))).status[0] == "0", "nobody else is stopped"


@pytest.mark.parametrize(
    ("says", "said"),
    [
        (answer(b'{"predictions": []}'), "0 predictions for 1 instances"),
        (answer(b'{"predictions": [1e999]}'), "a number is larger than a double can be"),
        (answer(b'{"predictions": [%b]}' % (b"[" * 40 + b"]" * 40)), "deeper than 32 levels"),
        (answer(b'{"error": "Divide by zero"}', status=b"500 No"), "Divide by zero"),
    ],
)
async def test_a_container_that_fails_is_an_internal_error(calling, says, said):
    caller = await calling()
    caller.told.says = says
    code, message = (await caller.call(PREDICT, request(1))).status
    assert code == "13"
    assert said in message


async def test_raw_predict_has_the_containers_bytes(calling):
    caller = await calling()
    caller.told.says = answer(b"\xff\0", b"Content-Type: image/x")
    found = await caller.call(RAW, raw_request(b"\0any"))
    assert found.status == ("0", "")
    assert fields(found.messages[0]) == [(1, b"image/x"), (2, b"\xff\0")]
    assert found.head["x-vertex-ai-endpoint-id"] == ENDPOINT
    assert caller.told.bodies == [b"\0any"]
    assert "Content-Type: text/plain\r\n" in caller.told.heads[0]
    found = await caller.call(RAW, raw_request(b"", "a\nb"))
    assert found.status[0] == "3"
    assert "ContentType" in found.status[1]


def chunked(*chunks):
    async def script(call):
        await call.body(await call.head())
        call.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for chunk in chunks:
            call.say(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        await call.end()

    return script


async def test_a_stream_is_a_message_for_each_chunk(calling):
    caller = await calling(script=chunked(b"one", b"two", b""))
    found = await caller.call(STREAM, raw_request(b"?"))
    assert found.status == ("0", "")
    assert [fields(each) for each in found.messages] == [
        [(1, b"text/x"), (2, b"one")],
        [(1, b"text/x"), (2, b"two")],
    ]
    assert found.head["x-vertex-ai-deployed-model-id"] == "AllTraffic"


async def test_no_message_is_longer_than_clients_take(calling):
    chunk = bytes(5 << 20)
    caller = await calling(script=chunked(chunk, b""))
    found = await caller.call(STREAM, raw_request(b"?"))
    sizes = [len(dict(fields(each))[2]) for each in found.messages]
    assert sizes == [2 << 20, 2 << 20, 1 << 20]


async def test_a_stream_that_breaks_off_ends_with_a_status(calling):
    async def script(call):
        await call.body(await call.head())
        call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")

    caller = await calling(script=script)
    found = await caller.call(STREAM, raw_request(b"?"))
    assert [dict(fields(each))[2] for each in found.messages] == [b"one"]
    assert found.status[0] == "13"
    assert found.status[1]


async def test_the_endpoint_is_rests(calling):
    caller = await calling()
    found = await caller.call(GET_ENDPOINT, field(1, NAME))
    assert found.status == ("0", "")
    members = dict(fields(found.messages[0]))
    assert members[1] == NAME.encode()
    assert members[2] == ENDPOINT.encode()
    assert fields(members[4]) == [(1, b"AllTraffic"), (2, f"{PARENT}/models/{ENDPOINT}".encode())]
    assert fields(members[5]) == [(1, b"AllTraffic"), (2, 100)]
    assert (members[24], members[25]) == (1, b"gateway.example")
    status, rest = await caller.client.json(f"/v1/{NAME}", method="GET")
    assert status == 200
    (seconds,) = (each for number, each in fields(members[8]) if number == 1)
    assert rest["createTime"] == json_format.MessageToDict(_timestamp(seconds))
    found = await caller.call(GET_ENDPOINT, field(1, f"{PARENT}/endpoints/other"))
    assert found.status[0] == "5"


def _timestamp(seconds):
    from google.protobuf import timestamp_pb2

    return timestamp_pb2.Timestamp(seconds=seconds)


@pytest.mark.parametrize("path", [PREDICT, RAW, STREAM, GET_ENDPOINT])
async def test_who_may_not_invoke_may_not_call(calling, authenticated, path):
    caller = await calling((ENDPOINT, "other"), **authenticated)
    message = field(1, NAME) if path == GET_ENDPOINT else request(1)
    for authorization, code in [
        (None, "16"),
        ("Bearer nobodys-token-at-all", "16"),
        (f"Bearer {TOKEN}-who-may-not", "7"),
    ]:
        found = await caller.call(path, message, authorization=authorization)
        assert found.status[0] == code
    mine = f"Bearer {TOKEN}"
    other = message.replace(NAME.encode(), f"{PARENT}/endpoints/other".encode())
    assert (await caller.call(path, other, authorization=mine)).status[0] == "7"
    assert caller.told.bodies == []
    assert (await caller.call(path, message, authorization=mine)).status == ("0", "")


async def test_a_stream_ends_whose_sender_may_not_have_it_any_longer(
    calling, authenticated, monkeypatch
):
    monkeypatch.setattr("partway.gateway.streams.registry.STANDING_CHECK_INTERVAL", 0.05)
    ahead = [0]

    async def script(call):
        await call.body(await call.head())
        call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await call.end()

    caller = await calling(
        script=script, wall_clock=lambda: time.time() + ahead[0], **authenticated
    )
    stream = caller.begin(STREAM, prefixed(raw_request(b"?")), authorization=f"Bearer {TOKEN}")
    assert dict(fields((await stream.data())[5:]))[2] == b"one"
    file = authenticated["principals"]
    file.write_text(file.read_text().replace(f"endpoint/{ENDPOINT}", "endpoint/none"))
    ahead[0] = 2  # the file is looked at once a second
    code, said = (await ended(stream)).status
    assert code == "7"
    assert "permission that opened the stream has been withdrawn" in said


async def test_a_content_coding_is_undone_and_an_unknown_one_is_unimplemented(calling):
    caller = await calling()
    for coding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)):
        stream = caller.begin(PREDICT, pack(prefixed(request(7))), content_encoding=coding)
        assert (await ended(stream)).status == ("0", "")
    assert caller.told.bodies == [b'{"instances": [7]}'] * 3
    found = await caller.call(PREDICT, request(7), content_encoding="br")
    assert found.status == (
        "12",
        "the body: its Content-Encoding is 'br'; it must be gzip or deflate",
    )
    bomb = gzip.compress(prefixed(b" " * 10_000_000))
    found = await ended(caller.begin(PREDICT, bomb, content_encoding="gzip"))
    assert (found.status[0], "bytes when unpacked" in found.status[1]) == ("8", True)


async def test_a_coded_answer_is_read_and_its_chunks_are_not_streamed(calling):
    caller = await calling()
    said = gzip.compress(b'{"predictions": [5]}')
    caller.told.says = answer(said, b"Content-Encoding: gzip")
    assert (await caller.call(PREDICT, request(7))).status == ("0", "")
    (message,) = (await caller.call(RAW, raw_request(b"x"))).messages
    assert fields(message) == [(2, b'{"predictions": [5]}')]
    code, words = (await caller.call(STREAM, raw_request(b"x"))).status
    assert (code, "its Content-Encoding is 'gzip'; it must have none" in words) == ("13", True)
