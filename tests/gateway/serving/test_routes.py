from __future__ import annotations

import pytest

from partway.gateway.serving import routes
from partway.gateway.serving.routes import Route, find
from partway.protocol.errors import NotFound


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


async def stream(*_):
    raise NotImplementedError


async def health(*_):
    raise NotImplementedError


TABLE = (
    Route(frozenset({"GET", "HEAD"}), routes.HEALTHZ, health),
    Route(frozenset({"GET", "POST"}), routes.BIDIRECTIONAL, stream),
)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/endpoints/echo/invocations-bidirectional-stream", "echo"),
        ("/base/endpoints/echo/invocations-bidirectional-stream", "echo"),
        ("/a/b/endpoints/echo/invocations-bidirectional-stream", "echo"),
        ("//endpoints/echo/invocations-bidirectional-stream", "echo"),
        ("/endpoints/endpoints/echo/invocations-bidirectional-stream", "echo"),
        ("/endpoints/e%63ho/invocations-bidirectional-stream", "echo"),
        ("/endpoints/%2e%2e%2fx/invocations-bidirectional-stream", "../x"),
        ("/endpoints/%252e/invocations-bidirectional-stream", "%2e"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_stream_is_found_and_its_endpoint_decoded_once(method, path, name):
    assert find(TABLE, method, path) == (stream, {"endpoint": name})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/"),
        ("GET", "/healthz/"),
        ("GET", "/x/healthz"),
        ("GET", "/healthz\n"),
        ("POST", "/healthz"),
        ("get", "/healthz"),
        ("PUT", "/endpoints/echo/invocations-bidirectional-stream"),
        ("GET", "/endpoints/echo/invocations-bidirectional-stream/"),
        ("GET", "/endpoints/echo/invocations-bidirectional-streams"),
        ("GET", "/endpoints//invocations-bidirectional-stream"),
        ("GET", "/endpoints/a/b/invocations-bidirectional-stream"),
        ("GET", "/xendpoints/echo/invocations-bidirectional-stream"),
        ("GET", "endpoints/echo/invocations-bidirectional-stream"),
        ("GET", "http://evil.example/endpoints/echo/invocations-bidirectional-stream"),
        ("GET", "/endpoints/echo/%69nvocations-bidirectional-stream"),
    ],
)
def test_what_lies_nowhere(method, path):
    with pytest.raises(NotFound):
        find(TABLE, method, path)


def test_the_first_route_that_answers_the_method_wins():
    table = (Route(frozenset({"POST"}), routes.HEALTHZ, stream), *TABLE)
    assert find(table, "GET", "/healthz") == (health, {})
    assert find(table, "POST", "/healthz") == (stream, {})
