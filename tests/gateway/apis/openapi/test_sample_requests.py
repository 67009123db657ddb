"""The request that is shown for each operation: a gateway takes it as it stands."""

from __future__ import annotations

import json
import shlex

import pytest

from partway.gateway.cli.main import _parser
from tests.gateway.apis.prediction.predicting import asking, authenticated
from tests.gateway.conftest import container, gateway_for

__all__ = ["asking", "authenticated", "container", "gateway_for"]

#: Operations that need settings which this endpoint does not have, and their refusals.
NOT_SET_UP = {
    "InvokeEndpointAsync": "AsyncInferenceConfig",
    "GetModelMetadata": "its settings must have a signature",
    "GetModelMetadataOfVersion": "its settings must have a signature",
    "PredictByModelOfLabel": "label",
}

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


def samples(document):
    for methods in document["paths"].values():
        for method, operation in methods.items():
            (sample,) = operation["x-codeSamples"]
            assert sample["lang"] == "Shell"
            yield operation["operationId"], method, sample["source"]


def read(command, method):
    """The path, headers and body of a curl command; curl's flags are read as curl reads them."""
    program, url, *flags = shlex.split(command.replace("\\\n", ""))
    assert program == "curl"
    headers, body, said = {}, b"", "get"
    for flag, value in zip(flags[::2], flags[1::2], strict=True):
        match flag:
            case "--header":
                name, _, text = value.partition(": ")
                headers[name] = text
            case "--data-binary":
                body, said = value.encode(), "post"
            case "--request":
                said = value.lower()
            case "--aws-sigv4":
                headers["signed"] = value
            case "--user":
                assert value == "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"
            case _:
                raise AssertionError(flag)
    assert said == method
    return url.removeprefix("$GATEWAY"), headers, body


async def described(client):
    return json.loads((await client.ask("/openapi.json", method="GET"))[2])


async def test_each_request_is_taken_as_it_stands(asking):
    client = await asking(endpoints=("kmeans",))
    answers = {}
    for operation, method, command in samples(await described(client)):
        if command.startswith("partway "):
            assert _parser("invoke").parse_args(shlex.split(command)[1:]).endpoint == "kmeans"
            continue
        path, headers, body = read(command, method)
        status, _, said = await client.ask(path, body, method.upper(), **headers)
        answers[operation] = (status, said)
    refused = {name: said for name, (status, said) in answers.items() if status != 200}
    assert {name: said for name, said in refused.items() if name not in NOT_SET_UP} == {}
    for name, why in NOT_SET_UP.items():
        assert why in refused[name].decode()
    assert len(answers) > 20


async def test_requests_prove_who_asks_where_the_gateway_wants_to_know(asking, authenticated):
    client = await asking(endpoints=("kmeans",), **authenticated)
    document = await described(client)
    for operation, method, command in samples(document):
        if command.startswith("partway "):
            assert command.endswith(" --sign")
            continue
        _, headers, _ = read(command, method)
        security = next(
            each["security"]
            for methods in document["paths"].values()
            for each in methods.values()
            if each["operationId"] == operation
        )
        assert ("signed" in headers) == (security == [{"signature": []}]), operation
        assert ("Authorization" in headers) == ({"token": []} in security), operation
