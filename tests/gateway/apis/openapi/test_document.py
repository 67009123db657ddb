"""The description of the whole HTTP surface: valid, of every route, and as the routes are."""

from __future__ import annotations

import json
import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from partway.gateway.apis.openapi.descriptions import DESCRIPTIONS, ELSEWHERE
from partway.gateway.apis.openapi.document import described, document, is_elsewhere
from partway.gateway.gateway import Gateway
from partway.gateway.http.routes import Access, Route
from partway.gateway.settings.settings import Settings

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
