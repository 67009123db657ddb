"""The description of the whole HTTP surface: valid, of every route, and as the routes are."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from partway.gateway.access.authentication import Access
from partway.gateway.apis.openapi.descriptions import DESCRIPTIONS, ELSEWHERE
from partway.gateway.apis.openapi.document import described, document, is_elsewhere
from partway.gateway.cli.main import _parser
from partway.gateway.gateway import Gateway
from partway.gateway.http.routes import Route
from partway.gateway.settings.settings import Settings
from tests.gateway.apis.prediction.predicting import asking, authenticated
from tests.gateway.conftest import container, gateway_for

pytestmark = pytest.mark.usefixtures("anyio_backend")


@pytest.fixture
async def routes(anyio_backend):
    return Gateway(Settings()).routes


async def test_it_is_valid_by_a_judge_of_others(routes):
    for asks in (True, False):
        made = json.loads(json.dumps(document(routes, asks=asks)))
        OpenAPIV31SpecValidator(made).validate()


async def test_each_route_has_its_description(routes):
    for route in routes:
        assert is_elsewhere(route) or described(route), route.name
        if not is_elsewhere(route):
            found = {each.method.upper() for each in described(route)}
            assert found == route.methods - {"HEAD"}, route.name


async def test_each_description_is_of_a_route(routes):
    of_routes = [each for route in routes for each in described(route)]
    assert [each for each in DESCRIPTIONS if each not in of_routes] == []
    assert {each.errors.__name__ for each in routes} >= ELSEWHERE.keys()


async def test_a_route_that_nothing_is_said_of_is_left_out(routes):
    async def answer(*_):
        pass

    further = Route("Further", frozenset({"GET"}), re.compile("/further"), answer, Access.ANYONE)
    assert described(further) == []
    assert document((*routes, further), asks=True) == document(routes, asks=True)


async def test_an_operation_is_as_its_route_is(routes):
    made = document(routes, asks=True)
    infer = made["paths"]["/v2/models/{endpoint}/infer"]["post"]
    assert infer["security"] == [{"signature": []}, {"token": []}]
    assert [each["name"] for each in infer["parameters"]] == [
        "endpoint", "Inference-Header-Content-Length",
    ]  # fmt: skip
    assert infer["responses"]["default"] == {"$ref": "#/components/responses/prediction_text"}
    assert made["paths"]["/endpoints/{endpoint}/invocations"]["post"]["security"] == [
        {"signature": []}
    ]
    assert made["paths"]["/healthz"]["get"]["security"] == []
    (target,) = made["paths"]["/"]["post"]["parameters"]
    assert target["schema"]["enum"] == sorted(each.target for each in routes if each.target)
    nobody = document(routes, asks=False)
    assert nobody["paths"]["/v2/models/{endpoint}/infer"]["post"]["security"] == []


async def test_each_operation_has_an_id_of_its_own(routes):
    made = document(routes, asks=True)
    ids = [each["operationId"] for path in made["paths"].values() for each in path.values()]
    assert len(ids) == len(set(ids)) == len(DESCRIPTIONS) + 1


__all__ = ["asking", "authenticated", "container", "gateway_for"]

#: Operations that need settings which this endpoint does not have, and their refusals.
NOT_SET_UP = {
    "InvokeEndpointAsync": "AsyncInferenceConfig",
    "GetModelMetadata": "its settings must have a signature",
    "GetModelMetadataOfVersion": "its settings must have a signature",
    "PredictByModelOfLabel": "label",
}


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


async def served_document(client):
    return json.loads((await client.ask("/openapi.json", method="GET"))[2])


async def test_each_request_is_taken_as_it_stands(asking):
    client = await asking(endpoints=("kmeans",))
    answers = {}
    for operation, method, command in samples(await served_document(client)):
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
    document = await served_document(client)
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
