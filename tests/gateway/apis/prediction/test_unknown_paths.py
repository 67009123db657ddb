"""Unknown operations of prediction: the form of the error, by whom the path is asked."""

from __future__ import annotations

import pytest

from tests.gateway.apis.prediction.predicting import (
    OF_ENDPOINT,
    PARENT,
    TOKEN,
    asking,
    authenticated,
)
from tests.gateway.conftest import container, gateway_for
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "authenticated", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

GOOGLES = (
    f"{OF_ENDPOINT}:explain",
    f"{OF_ENDPOINT}:serverStreamingPredict",
    f"{OF_ENDPOINT}/chat/completions",
    f"/v1/{PARENT}/publishers/google/models/gemini:generateContent",
    f"/v1/{PARENT}/endpoints",
    "/v1/projects",
    f"/v1beta1/{PARENT}/endpoints/{ENDPOINT}:predict",
    "/v1beta1",
)
PLAIN = (
    f"/v1/models/{ENDPOINT}:regressAll",
    f"/v1/models/{ENDPOINT}/versions/x:predict",
    "/v1/models",
    "/v1/model:explain",
    f"/v2/models/{ENDPOINT}/generate",
    "/v2/repository/index",
)


async def test_an_unknown_operation_is_refused_in_its_families_form(asking):
    client = await asking()
    for path in (*GOOGLES, *PLAIN):
        for method in ("POST", "GET", "DELETE"):
            status, headers, _ = await client.ask(path, method=method)
            assert (status, headers["Content-Type"]) == (404, "application/json"), path
            _, said = await client.json(path, method=method)
            error = said["error"]
            assert set(said) == {"error"}
            if path in GOOGLES:
                assert (error["code"], error["status"]) == (404, "NOT_FOUND")
                error = error["message"]
            assert error.startswith(f"no operation answers {method} on this path; there is /v1/")


async def test_another_method_is_told_which_there_are(asking):
    client = await asking()
    for path, allowed in (
        (f"{OF_ENDPOINT}:predict", "POST"),
        (f"{OF_ENDPOINT}:rawPredict", "POST"),
        (OF_ENDPOINT, "GET, HEAD"),
        (f"/v1/models/{ENDPOINT}:predict", "POST"),
        (f"/v1/models/{ENDPOINT}", "GET, HEAD"),
        (f"/v2/models/{ENDPOINT}/infer", "POST"),
        ("/v2/health/ready", "GET, HEAD"),
    ):
        status, headers, said = await client.ask(path, method="PUT")
        assert (status, headers["Allow"]) == (405, allowed), path
        words = f"the method PUT was given; on this path it must be {allowed}"
        assert words in said.decode()
    status, said = await client.json(OF_ENDPOINT)
    assert (status, said["error"]["status"]) == (405, "UNIMPLEMENTED")


async def test_other_paths_keep_awss_form(asking):
    client = await asking()
    for path in ("/v1", "/v1/chat/answers", "/v3/objects", "/unknown"):
        status, headers, _ = await client.ask(path)
        assert (status, headers["x-amzn-ErrorType"]) == (404, "UnknownOperationException")


@pytest.mark.parametrize("token", [TOKEN, "of-nobody-at-all"])
async def test_a_token_where_a_signature_alone_is_taken_is_told_so(asking, authenticated, token):
    client = await asking(**authenticated)
    bearer = {"Authorization": f"Bearer {token}"}
    control = {"X-Amz-Target": "SageMaker.ListEndpoints"}
    for path, headers in (
        (f"/endpoints/{ENDPOINT}/invocations", {}),
        (f"/endpoints/{ENDPOINT}/invocations-response-stream", {}),
        (f"/endpoints/{ENDPOINT}/async-invocations", {}),
        (f"/endpoints/{ENDPOINT}/invocations-bidirectional-stream", {}),
        ("/", control),
    ):
        status, back, said = await client.ask(path, **headers, **bearer)
        assert status == 400
        assert b"has a bearer token; this operation takes only a signature (AWS Sig" in said
        if not headers:
            assert back["x-amzn-ErrorType"] == "IncompleteSignatureException"
    assert client.told.bodies == []
