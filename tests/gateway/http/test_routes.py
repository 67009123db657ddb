from __future__ import annotations

import re

import pytest

from partway.gateway.access.authentication import Access
from partway.gateway.http.routes import READING, Leave, Route, find
from partway.gateway.status_routes import HEALTHZ
from partway.gateway.streams.bidirectional import PATH
from partway.protocol.errors import NotFound


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


async def stream(*_):
    raise NotImplementedError


async def health(*_):
    raise NotImplementedError


HEALTH = Route("Healthz", READING, HEALTHZ, health, Access.ANYONE)
STREAM = Route("Stream", frozenset({"GET", "POST"}), PATH, stream)
TABLE = (HEALTH, STREAM)


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
    assert find(TABLE, method, path) == (STREAM, {"endpoint": name})


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


NEAREST = (
    "a stream's path is /endpoints/NAME/invocations-bidirectional-stream, or "
    "/endpoints/NAME/stream/PATH for a path of the container's own"
)


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        (
            "GET",
            "/endpoints/voice/streams/v1/listen",
            f"GET on this path; {NEAREST}",
        ),
        ("PUT", "/endpoints/voice/x", "PUT on this path"),
        ("GET", "/x", "GET on this path"),
    ],
)
def test_an_unknown_path_of_an_endpoint_is_refused_with_the_nearest_form(method, path, said):
    with pytest.raises(NotFound) as caught:
        find(TABLE, method, path)
    assert caught.value.message == f"no operation answers {said}"


def test_a_websocket_over_http2_is_refused_with_what_to_do():
    path = "/endpoints/demo/invocations-bidirectional-stream"
    with pytest.raises(NotFound, match=r"over HTTP/2 \(RFC 8441\).* must be opened over HTTP/1\.1"):
        find(TABLE, "CONNECT", path)


def test_the_first_route_that_answers_the_method_wins():
    first = Route("First", frozenset({"POST"}), HEALTHZ, stream, Access.ANYONE)
    assert find((first, *TABLE), "GET", "/healthz") == (HEALTH, {})
    assert find((first, *TABLE), "POST", "/healthz") == (first, {})


def test_a_target_tells_operations_of_one_path_apart():
    describe, create = (
        Route(
            *(name, frozenset({"POST"}), re.compile("/"), stream),
            target=f"SageMaker.{name}",
            leave=Leave.OF_OPERATION,
        )
        for name in ("DescribeModel", "CreateModel")
    )
    for route in (describe, create):
        assert find((describe, create), "POST", "/", route.target) == (route, {})
    for target in ("", "SageMaker.DeleteModel", "sagemaker.createmodel"):
        with pytest.raises(NotFound):
            find((describe, create), "POST", "/", target)
    assert find(TABLE, "GET", "/healthz", "SageMaker.CreateModel") == (HEALTH, {})


def test_nobody_checks_who_may_call_what_neither_names_an_endpoint_nor_asks_itself():
    with pytest.raises(ValueError, match="route of Open must name an endpoint in its path, or"):
        Route("Open", READING, re.compile("/open"), stream)
    asking = Route("Open", READING, re.compile("/"), stream, leave=Leave.OF_OPERATION)
    assert asking.action == "sagemaker:Open"


def test_what_changes_something_is_of_the_control_plane():
    with pytest.raises(ValueError, match="the route of Stop changes something"):
        Route("Stop", READING, re.compile("/"), stream, leave=Leave.OF_OPERATION, changes=True)
