from __future__ import annotations

import json

import pytest

from partway.gateway.serving.exchange import NO_HEADERS, Exchange
from partway.protocol.errors import ContainerError, ServiceUnavailable


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


class Recorded(Exchange):
    """An exchange that writes down how it was answered."""

    def __init__(self, *headers):
        super().__init__("GET", "/", "", headers, "1.1", "192.0.2.1")
        self.responses = []

    @property
    def answered(self):
        return bool(self.responses)

    def respond(self, status, body=b"", headers=NO_HEADERS):
        self.responses.append((status, json.loads(body), dict(headers)))

    async def open(self, status, headers):
        raise NotImplementedError

    def abort(self):
        raise NotImplementedError


@pytest.mark.clause("4-1")
@pytest.mark.parametrize(
    ("error", "status", "name", "body"),
    [
        (
            ServiceUnavailable("full"),
            503,
            "ServiceUnavailableError",
            {"Message": "full", "ErrorCode": "ServiceUnavailable"},
        ),
        (
            ContainerError("no", 403, "who?"),
            424,
            "ModelError",
            {
                "Message": "no",
                "OriginalStatusCode": 403,
                "OriginalMessage": "who?",
                "LogStreamArn": "",
                "ErrorCode": "ModelError",
            },
        ),
    ],
)
def test_an_error_becomes_a_response(error, status, name, body):
    exchange = Recorded()
    exchange.fail(error)
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": name}
    assert exchange.responses == [(status, body, headers)]


def test_each_exchange_has_an_id_of_its_own():
    assert len({Recorded().request_id for _ in range(10)}) == 10


def test_no_headers_stay_none():
    with pytest.raises(TypeError):
        NO_HEADERS["x"] = "y"


def test_headers_of_one_name_are_one_list():
    exchange = Recorded(("X-A", "1"), ("host", "h"), ("x-a", "2"))
    assert exchange.headers["x-A"] == "1, 2"
    assert exchange.headers["Host"] == "h"
    assert exchange.raw_headers == (("X-A", "1"), ("host", "h"), ("x-a", "2"))
