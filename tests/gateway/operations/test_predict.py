"""predict, by each of its paths, before containers that answer what a test says."""

from __future__ import annotations

import json

import pytest

from partway.gateway.requests.prediction import PredictionPolicy
from tests.gateway.conftest import container, gateway_for
from tests.gateway.operations.predicting import (
    OF_ENDPOINT,
    PARENT,
    TOKEN,
    answer,
    asking,
    authenticated,
)
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


async def test_a_long_body_is_as_good_as_a_short_one(asking):
    client = await asking()
    count = 40_000
    client.told.says = answer(b'{"predictions": [%b]}' % b",".join([b"1"] * count))
    status, said = await client.json(MODEL, json.dumps({"instances": [1] * count}).encode())
    assert (status, said) == (200, {"predictions": [1] * count})


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
        (answer(b"no idea", status=b"400 No"), 502, "no idea"),
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
