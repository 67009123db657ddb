"""Two thousand requests of AWS's clients, changed at random; ``make mutated``."""

from __future__ import annotations

import json
from collections import Counter
from urllib.parse import urlsplit

import pytest

from partway.container.models.echo import Echo
from partway.container.testing import serving
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.network.dialling import Address
from tests.wire.conftest import PATIENT
from tests.wire.mutated_aws_requests import Asked, mutations, recorded
from tests.wire.peers import Response

#: What the gateway may answer: AWS's statuses of errors, and what HTTP itself has names for.
ANSWERS = {200, 400, 403, 404, 405, 408, 411, 413, 414, 415, 417, 421, 424, 429, 431, 501, 503}


@pytest.fixture
async def gateway(gateway_for):
    """A gateway with the control plane, and an endpoint that answers what it is asked."""
    async with serving(Echo()) as container:
        where = Address("127.0.0.1", urlsplit(container.url).port)
        yield await gateway_for(endpoints=(Endpoint.attached("chat", where, PATIENT),))


async def test_as_they_were_recorded(gateway):
    for asked in recorded():
        response = await gateway.request(asked.wire)
        assert error_of(asked, response) in {
            *("", "ValidationException", "ValidationError"),
            "ServiceUnavailable",  # of an endpoint whose image nobody has
        }


@pytest.mark.parametrize("seed", range(1, 11))
async def test_no_request_is_answered_by_a_fault(gateway, seed):
    seen = Counter()
    for number, asked in enumerate(mutations(200, seed)):
        try:
            response = await gateway.request(asked.wire)
        except Exception as error:
            raise AssertionError(f"request {number} of seed {seed}: {asked!r:.2000}") from error
        seen[error_of(asked, response)] += 1
    print(dict(seen))


def error_of(asked: Asked, response: Response) -> str:
    """The name of the error that a request was answered with; empty for none."""
    said = f"{asked!r:.2000}: {response!r:.500}"
    assert response.status in ANSWERS, said
    if response.status == 200:
        return ""
    name = response.headers.get("x-amzn-errortype", "")
    if not name:
        name = json.loads(response.body).get("__type", "")
    assert name, said
    return name
