"""predict, by each of its paths, before containers that answer what a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest

from partway.container.model import Model, Reply, Request
from partway.container.testing import serving
from partway.gateway.apis.prediction import predict
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.prediction import (
    PredictionPolicy,
    SignatureTable,
    TensorTable,
)
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.protocol.prediction.bodies import read_answer
from tests.gateway.apis.prediction.predicting import (
    OF_ENDPOINT,
    PARENT,
    TOKEN,
    Client,
    answer,
    asking,
    authenticated,
)
from tests.gateway.conftest import container, gateway_for
from tests.gateway.containers.containers import HOST, PATIENCE
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "authenticated", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

MODEL = f"/v1/models/{ENDPOINT}:predict"


async def test_each_family_of_clients_is_answered_in_its_form(asking):
    client = await asking()
    digits = b"9" * 400
    client.told.says = answer(b'{"predictions": [%b, 0.10], "model": "its own"}' % digits)
    body = b'{"instances": [1, {"b64": "AP8"}], "parameters": {"k": 1e400}}'
    predictions = b'{"predictions": [%b, 0.10]' % digits
    deployed = b', "deployedModelId": "AllTraffic"'
    status, headers, said = await client.ask(f"{OF_ENDPOINT}:predict", body)
    assert status == 200
    assert said == predictions + deployed + b', "model": "%b/models/%b"}' % (
        PARENT.encode(),
        ENDPOINT.encode(),
    )
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Vertex-AI-Endpoint-Id"] == ENDPOINT
    assert headers["X-Vertex-AI-Deployed-Model-Id"] == "AllTraffic"
    assert (await client.ask("/v1/model:predict", body))[2] == predictions + deployed + b"}"
    for path in (MODEL, f"/v1/models/{ENDPOINT}/versions/1%3Apredict"):
        assert (await client.ask(path, body))[2] == predictions + b"}"
    assert client.told.bodies == [body.replace(b"AP8", b"AP8=")] * 4
    head = client.told.heads[0]
    assert head.startswith("POST /invocations HTTP/1.1\r\n")
    assert "Content-Type: application/json\r\nAccept: application/json\r\n" in head


async def test_instances_are_wrapped_and_asked_at_the_route_that_is_set(asking):
    client = await asking(policy=PredictionPolicy("/predictions/model", "data"))
    client.told.says = answer(b'{"predictions": [0, ""]}')
    status, said = await client.json(MODEL, b'{"instances": [0, ""]}')
    assert (status, said) == (200, {"predictions": [0, ""]})
    assert client.told.heads[0].startswith("POST /predictions/model HTTP/1.1\r\n")
    assert json.loads(client.told.bodies[0]) == {"instances": [{"data": 0}, {"data": ""}]}


async def test_columns_are_answered_by_columns(asking):
    client = await asking()
    client.told.says = answer(b'{"predictions": [{"y": 1, "z": [2.50]}, {"z": [], "y": 3}]}')
    body = b'{"inputs": {"a": [1, 2], "b": ["x", {"b64": "AP8"}]}, "signature_name": "s"}'
    status, _, said = await client.ask(MODEL, body)
    assert (status, said) == (200, b'{"outputs": {"y": [1, 3], "z": [[2.50], []]}}')
    assert json.loads(client.told.bodies[0]) == {
        "instances": [{"a": 1, "b": "x"}, {"a": 2, "b": {"b64": "AP8="}}],
        "signature_name": "s",
    }
    client.told.says = answer(b'{"predictions": [1, 2]}')
    assert (await client.ask(MODEL, b'{"inputs": [5, 6]}'))[2] == b'{"outputs": [1, 2]}'
    status, said = await client.json(MODEL, b'{"inputs": [1], "instances": [1]}')
    assert (status, said["error"][:38]) == (400, "the body has both instances and inputs")
    assert (await client.json(f"{OF_ENDPOINT}:predict", b'{"inputs": [1]}'))[0] == 400


async def test_a_label_names_the_variant_that_is_asked(asking):
    client = await asking()
    path = f"/v1/models/{ENDPOINT}/labels/{{}}:predict"
    assert await client.json(path.format("AllTraffic")) == (200, {"predictions": [1]})
    status, said = await client.json(path.format("canary"))
    assert (status, said["error"]) == (
        404,
        "the model has no version with the label 'canary'; it must be a variant's name: AllTraffic",
    )
    assert (await client.json("/v1/models/unknown/labels/canary:predict"))[0] == 404


async def test_what_else_tf_serving_and_kserve_do_is_refused_by_its_name(asking):
    client = await asking()
    for verb in ("classify", "regress", "explain"):
        status, said = await client.json(f"/v1/models/{ENDPOINT}/versions/1:{verb}")
        assert (status, said["error"]) == (
            404,
            (f":{verb} is not supported; it must be :predict, which takes instances of any form"),
        )


SIGNATURE = SignatureTable(
    {"tag": TensorTable("string"), "image": TensorTable("uint8", (-1, 3))},
    {"label": TensorTable("string"), "thumbnail_bytes": TensorTable("string")},
)


async def test_what_a_signature_declares_is_held_to(asking):
    client = await asking(policy=PredictionPolicy(signature=SIGNATURE))
    body = b'{"instances": [{"tag": "beach", "image": [[138, 30, 66], [130, 20, 56]]}]}'
    client.told.says = answer(
        b'{"predictions": [{"label" : "car", "thumbnail_bytes": "\xc3\xa9"}]}'
    )
    status, _, said = await client.ask(MODEL, body)
    assert status == 200
    assert said == b'{"predictions": [{"label": "car", "thumbnail_bytes": {"b64": "w6k="}}]}'
    by_columns = b'{"inputs": {"tag": ["beach"], "image": [[[1, 2, 3]]]}}'
    assert (await client.json(MODEL, by_columns))[1] == {
        "outputs": {"label": ["car"], "thumbnail_bytes": [{"b64": "w6k="}]}
    }
    client.told.says = answer(b'{"predictions": [{"label": 5, "thumbnail_bytes": ""}]}')
    status, said = await client.json(f"{OF_ENDPOINT}:predict", body)
    assert (status, said["error"]["message"]) == (
        502,
        (
            "the container's answer: predictions[0].label: a value is the number 5; it must be "
            'string, "…" or {"b64": "…"}'
        ),
    )
    asked = len(client.told.bodies)
    for wrong, why in (
        (b"[[1, 2, 3], [1]]", "instances[0].image: it is ragged: it has lists of 1 and of 3 valu"),
        (b"[[1, 2]]", "instances[0].image: its shape is [1, 2]; it must be uint8 of the shape ["),
        (
            b"[[1, 2, 256]]",
            "instances[0].image: a value is the number 256; it must be uint8, a whole",
        ),
        (b"[[1, 2, %b]]" % (b"9" * 5000), "instances[0].image: a value is a number that is too l"),
        (
            b"[[1, 2, 3.0]]",
            "instances[0].image: a value is the number 3.0; it must be uint8, a whole",
        ),
    ):
        status, said = await client.json(
            MODEL, b'{"instances": [{"tag": "a", "image": %b}]}' % wrong
        )
        assert (status, said["error"][: len(why)]) == (400, why)
    named = b'{"signature_name": "%b", "instances": [{"tag": "a", "image": []}]}'
    status, said = await client.json(MODEL, named % b"other")
    assert (status, said["error"]) == (
        400,
        "signature_name: 'other'; it must be 'serving_default', the model's only signature",
    )
    assert len(client.told.bodies) == asked
    client.told.says = answer(b'{"predictions": [{"label": "a", "thumbnail_bytes": ""}]}')
    assert (await client.json(MODEL, named % b"serving_default"))[0] == 200


@pytest.mark.parametrize("signed", [False, True], ids=["as-it-is", "with-a-signature"])
async def test_values_that_a_signature_is_checked_with_are_made_off_the_loop(
    asking, monkeypatch, signed
):
    """30,000 numbers stay text without a signature; each is a value with one."""
    threads = []

    def read(*args):
        threads.append(threading.get_ident())
        return read_answer(*args)

    monkeypatch.setattr(predict, "read_answer", read)
    table = SignatureTable({"x": TensorTable("int32")}) if signed else None
    client = await asking(policy=PredictionPolicy(signature=table))
    client.told.says = answer(b'{"predictions": [' + b"1," * 29_999 + b"1]}")
    instances = b'{"instances": [' + b"1," * 29_999 + b"1]}"
    status, said = await client.json(f"{OF_ENDPOINT}:predict", instances)
    assert (status, len(said["predictions"])) == (200, 30_000)
    assert (threads == [threading.get_ident()]) is not signed


async def test_a_wrapped_instance_is_held_to_its_signature_too(asking):
    signature = SignatureTable({"x": TensorTable("int32")})
    client = await asking(policy=PredictionPolicy(wrap="data", signature=signature))
    client.told.says = answer(b'{"predictions": [1, 2]}')
    assert (await client.json(MODEL, b'{"instances": [0, {"data": 1}]}'))[0] == 200
    assert json.loads(client.told.bodies[0]) == {"instances": [{"data": 0}, {"data": 1}]}
    assert (await client.json(MODEL, b'{"instances": [0, {"data": "1"}]}'))[0] == 400


async def test_a_long_body_is_as_good_as_a_short_one(asking):
    client = await asking()
    count = 40_000
    client.told.says = answer(b'{"predictions": [%b]}' % b",".join([b"1"] * count))
    status, said = await client.json(MODEL, json.dumps({"instances": [1] * count}).encode())
    assert (status, said) == (200, {"predictions": [1] * count})


@pytest.mark.parametrize(
    ("instance", "count", "on_thread"),
    [
        ("[1.5, -2.25e-3, 3.14159265358979]", 2500, False),
        ("1.41421356237309", 6000, False),
        ("[1]", 22_000, True),  # many arrays: to read them takes as long as a megabyte of numbers
        ('["a"]', 20_000, True),
    ],
)
async def test_numbers_are_read_at_once_and_what_takes_longer_on_a_thread(
    asking, instance, count, on_thread, monkeypatch
):
    client = await asking()
    on_threads = []
    submit = ThreadPoolExecutor.submit

    def counted(threads, work):
        on_threads.append(work)
        return submit(threads, work)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    client.told.says = answer(b'{"predictions": [%b]}' % b",".join([b"1"] * count))
    body = b'{"instances": [%b]}' % b",".join([instance.encode()] * count)
    status, said = await client.json(MODEL, body)
    assert (status, len(said["predictions"])) == (200, count)
    assert client.told.bodies == [body]
    assert len(on_threads) == on_thread


async def test_the_host_names_the_endpoint(asking):
    client = await asking(("alpha", "beta"))
    status, said = await client.json("/v1/model:predict", Host="BETA.example:80")
    assert (status, said["predictions"]) == (200, [1])
    for host in ("gamma.example", "127.0.0.1"):
        status, said = await client.json("/v1/model:predict", Host=host)
        assert status == 404
        assert "names no endpoint" in said["error"]
    assert len(client.told.bodies) == 1


@pytest.mark.parametrize(
    ("says", "status", "why"),
    [
        (
            answer(b'{"predictions": [1, 2]}'), 502,
            "the container's answer: there are 2 predictions for 1 instances; there must be one",
        ),
        (answer(b"[NaN]"), 502, "the container's answer: the body is not JSON: NaN is not a"),
        (answer(b'{"error": "Divide by zero"}', status=b"500 No"), 502, "Divide by zero"),
        (answer(b"x" * 1001), 502, "the container's answer is over 1000 bytes"),
    ],
)  # fmt: skip
async def test_a_models_failure_is_one_error_for_all_instances(asking, says, status, why):
    client = await asking(max_prediction_body=1000)
    client.told.says = says
    found, said = await client.json(f"{OF_ENDPOINT}:predict")
    assert (found, *said) == (status, "error")
    assert said["error"].pop("message").startswith(why)
    assert said == {"error": {"code": status, "status": "INTERNAL"}}
    found, said = await client.json(MODEL)
    assert (found, *said) == (status, "error")
    assert said["error"].startswith(why)


async def test_what_a_client_does_wrong_reaches_no_container(asking):
    client = await asking(max_prediction_body=1000)
    wrong = [
        (f"{OF_ENDPOINT}:predict", b'{"instances": [1], "instances": [2]}', 400),
        (f"{OF_ENDPOINT}:predict", b"x" * 1001, 413),
        (f"/v1/{PARENT}/endpoints/unknown:predict", b'{"instances": [1]}', 404),
        ("/v1/models/unknown:predict", b'{"instances": [1]}', 404),
        (f"/v1/models/{ENDPOINT}/versions/2:predict", b'{"instances": [1]}', 404),
        (MODEL, b'{"instances": []}', 400),
    ]
    for path, body, expected in wrong:
        status, said = await client.json(path, body)
        assert status == expected, path
        assert isinstance(said["error"], dict) == path.startswith("/v1/projects")
    assert client.told.bodies == []


async def test_a_token_may_predict_where_its_owner_may_invoke(asking, authenticated):
    client = await asking((ENDPOINT, "other"), **authenticated)
    bearer = {"Authorization": f"Bearer {TOKEN}", "Host": f"{ENDPOINT}.example"}
    for path in (f"{OF_ENDPOINT}:predict", "/v1/model:predict", MODEL):
        assert (await client.json(path, **bearer))[0] == 200
        status, headers, _ = await client.ask(path)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        other = path.replace(f"s/{ENDPOINT}:", "s/other:")
        assert (await client.json(other, **{**bearer, "Host": "other.example"}))[0] == 403
        denied = {**bearer, "Authorization": f"Bearer {TOKEN}-who-may-not"}
        assert (await client.json(path, **denied))[0] == 403
    assert len(client.told.bodies) == 3


async def test_a_signature_is_as_good_as_a_token(asking, authenticated):
    client = await asking(**authenticated)
    for path in (f"{OF_ENDPOINT}:predict", "/v1/model:predict", MODEL, f"{OF_ENDPOINT}:rawPredict"):
        signed = client.signed(path)
        assert (await client.ask(path, **signed))[0] == 200
        other = b'{"instances": [8]}'
        assert (await client.json(path, other, **signed))[0] == 403
    assert client.told.bodies == [b'{"instances": [7]}'] * 4


async def test_a_page_from_elsewhere_is_refused(asking):
    client = await asking()
    for path in (f"{OF_ENDPOINT}:predict", "/v1/model:predict", MODEL):
        evil = {"Origin": "http://evil.example", "Host": "evil.example"}
        assert (await client.json(path, **evil))[0] == 403


# --- Models on the runtime that have their instances read -----------------------------------------


def numbers_of(instances):
    return Reply(json.dumps({"predictions": list(range(len(instances)))}))


class Reading(Model):
    """Answers each instance with its number; what it has heard."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    async def invoke(self, request: Request) -> Reply:
        self.heard.append(json.loads(await request.read())["instances"])
        return numbers_of(self.heard[-1])


class Instances(Reading):
    """The same, which has its instances read by the runtime."""

    async def invoke(self, request: Request) -> Reply:
        self.heard.append(await request.instances())
        return numbers_of(self.heard[-1])


@pytest.fixture
async def before(gateway_for, anyio_backend) -> AsyncIterator:
    """Starts a gateway before a model on the runtime that ships; gives a client."""
    open_ = []

    async def start(model):
        served = serving(model)
        port = int((await served.__aenter__()).url.rpartition(":")[2])
        session = aiohttp.ClientSession()
        open_.extend((served.__aexit__, session))
        streams = StreamPolicy(connect_timeout=PATIENCE)
        endpoint = Endpoint.attached(ENDPOINT, Address(HOST, port), streams)
        gateway = await gateway_for(endpoints=(endpoint,))
        return Client(gateway, None, session)

    yield start
    for each in reversed(open_):
        await (each.close() if isinstance(each, aiohttp.ClientSession) else each(None, None, None))


LONG = b" " * 4096
BODIES = [
    b'{"instances": [[1.5, 2], []%b]}' % LONG,
    b'{"instances": [%b{"b64": "AP8"}, "\xc3\xa4:", 1]}' % LONG,
    b'{"instances": [1%b, 1e999%b]}' % (b"0" * 400, LONG),
    b'\xef\xbb\xbf{"instances": [%b1], "parameters": {"k": [1]}}' % LONG,
    b'{"instances": [1, NaN%b]}' % LONG,
    b'{"instances": [1%b], "instances": [2]}' % LONG,
    b'{"instances": [{"a": 1, "a": 2}%b]}' % LONG,
    b'{"instances": [%b%b%b]}' % (b"[" * 64, LONG, b"]" * 64),
    b'{"instances": [%b]}' % LONG,
    b'{"instances": 1%b}' % LONG,
    b'{"instances": [1%b]} x' % LONG,
    b'{"instances": ["\xff"%b]}' % LONG,
    b'{"instances": [{"b64": "?"}%b]}' % LONG,
    b'{"instances": [1%b], "inputs": [2]}' % LONG,
]


@pytest.mark.parametrize("path", [MODEL, f"{OF_ENDPOINT}:predict"])
async def test_no_client_can_tell_who_has_read_its_body(before, path):
    reading, instances = Reading(), Instances()
    here, there = await before(reading), await before(instances)
    for body in BODIES:
        heard = len(instances.heard)
        status, headers, said = await here.ask(path, body)
        status_there, headers_there, said_there = await there.ask(path, body)
        assert (status, json.loads(said)) == (status_there, json.loads(said_there))
        assert headers["Content-Type"] == headers_there["Content-Type"]
        assert not any("partway" in name.lower() for name in headers_there)
        assert len(instances.heard) - heard == (status == 200), "of a bad one no model hears"
    assert reading.heard[:2] == instances.heard[:2]
