"""Which streams are taken, by path and query."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest
from multidict import MultiDict

from partway.container.errors import ModelError
from partway.container.model import Model, Opening, Reply, route
from partway.container.routes import Routes
from partway.container.stream import Stream
from partway.protocol.websocket.handshake import UpgradeError
from tests.container.wire import raw_client, serving, upgrade_request
from tests.frame_factory import TEXT

DEFAULT = "invocations-bidirectional-stream"


class Listener(Model):
    """Has paths of its own, as speech containers do."""

    @route("/v1/listen", query={"language", "interim"}, required={"model"})
    async def listen(self, stream: Stream) -> None:
        await stream.send(
            f"{stream.path} {stream.query['model']} {stream.query.getall('language')}"
        )

    @route("v1/any")
    async def anything(self, stream: Stream) -> None:
        await stream.send(stream.path)

    @route("v1/none", query=())
    async def none(self, stream: Stream) -> None: ...

    async def admit(self, opening: Opening) -> None:
        if opening.query.get("model") == "missing":
            raise ModelError("there is no model 'missing'", status=404)
        if opening.query.get("model") == "broken":
            raise LookupError("a secret")


class Plain(Model):
    async def stream(self, stream: Stream) -> None:
        await stream.send("plain")


class Narrow(Model):
    @route(query={"voice"})
    async def stream(self, stream: Stream) -> None: ...


def refusal(model: Model, path: str, query: Mapping[str, str]) -> tuple[int, str]:
    with pytest.raises(UpgradeError) as raised:
        Routes(model).handler(path, MultiDict(query))
    return raised.value.status, raised.value.reason


def test_the_default_path_takes_any_query() -> None:
    model = Plain()
    assert Routes(model).paths == [DEFAULT]
    assert Routes(model).handler(DEFAULT, MultiDict(x="1")) == model.stream


def test_a_path_has_its_own_handler() -> None:
    model = Listener()
    routes = Routes(model)
    assert routes.paths == ["v1/any", "v1/listen", "v1/none"]
    assert routes.handler("v1/listen", MultiDict(model="a")) == model.listen
    assert routes.handler("v1/listen", MultiDict(model="a", language="en")) == model.listen
    assert routes.handler("v1/any", MultiDict(whatever="1")) == model.anything


@pytest.mark.parametrize(
    ("path", "query", "status", "reason"),
    [
        (
            DEFAULT,
            {},
            404,
            "this path takes no streams: it must be one of /v1/any, /v1/listen, /v1/none",
        ),
        ("v1/listen/", {"model": "a"}, 404, "this path takes no streams"),
        ("v1/listen", {}, 400, "parameter 'model' is missing; /v1/listen takes interim, language"),
        ("v1/listen", {"model": "a", "x": "1"}, 400, "unknown parameter 'x'; /v1/listen takes"),
        ("v1/none", {"x": "1"}, 400, "unknown parameter 'x'; /v1/none takes no parameters"),
    ],
)
def test_what_is_refused(path: str, query: dict[str, str], status: int, reason: str) -> None:
    found = refusal(Listener(), path, query)
    assert found[0] == status
    assert found[1].startswith(reason)


def test_the_default_handler_may_name_its_parameters_too() -> None:
    assert refusal(Narrow(), DEFAULT, {"x": "1"}) == (
        400,
        f"unknown parameter 'x'; /{DEFAULT} takes voice",
    )


def test_a_model_without_streams() -> None:
    assert refusal(Model(), DEFAULT, {}) == (501, "this model takes invocations, not streams")


def test_two_handlers_of_one_path() -> None:
    class Twice(Listener):
        @route("v1/listen")
        async def other(self, stream: Stream) -> None: ...

    with pytest.raises(TypeError, match="Twice has two handlers for /v1/listen"):
        Routes(Twice())


def test_a_handler_that_is_not_async() -> None:
    class Sync(Model):
        def stream(self, stream: Stream) -> None:  # type: ignore[override]
            pass

    with pytest.raises(TypeError, match=r"Sync\.stream handles streams: it must be async def"):
        Routes(Sync())


def test_a_handler_that_yields() -> None:
    class Yielding(Model):
        async def stream(self, stream: Stream) -> AsyncIterator[str]:  # type: ignore[override]
            yield "x"

    with pytest.raises(TypeError, match=r"Yielding\.stream has a yield: it must send"):
        Routes(Yielding())


@pytest.mark.parametrize(
    "path", ["", "/", "//x", "a b", "../x?", "x" * 101, "x?y=1", "é", "a//b", "a/"]
)
def test_paths_that_no_client_could_name(path: str) -> None:
    with pytest.raises(ValueError, match="cannot be an invocation path"):
        route(path)


@pytest.mark.parametrize("path", ["ping", "/invocations", "execution-parameters"])
def test_paths_of_the_contract_s_own(path: str) -> None:
    with pytest.raises(ValueError, match="is reserved"):
        route(path)


def test_parameters_that_no_client_could_name() -> None:
    with pytest.raises(ValueError, match="cannot be a parameter"):
        route("x", query={"a b"})
    with pytest.raises(TypeError, match="must be collections of names"):
        route("x", query="model")


# --- On the wire ---------------------------------------------------------------------------------


@pytest.mark.clause("1.6-1")
async def test_a_mounted_path_with_its_query() -> None:
    path = "/v1/listen?model=a&language=en&language=nl"
    async with serving(Listener()) as (_, port), raw_client(port) as client:
        client.send(upgrade_request(path))
        assert (await client.head()).startswith(b"HTTP/1.1 101 ")
        assert await client.frames(1) == [(TEXT, b"v1/listen a ['en', 'nl']", True)]


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/v1/nowhere", 404, b"this path takes no streams"),
        ("/v1/listen", 400, b"parameter 'model' is missing"),
        ("/v1/listen?model=a&x=1", 400, b"unknown parameter 'x'"),
        ("/v1/listen?model=missing", 404, b"there is no model 'missing'"),
        ("/v1/listen?model=broken", 500, b"the model failed: LookupError"),
        ("/v1/listen?model=a&a%0d%0ab=1", 400, b"unknown parameter"),
    ],
)
async def test_a_stream_is_refused_before_it_is_accepted(
    path: str, status: int, reason: bytes
) -> None:
    async with serving(Listener()) as (_, port), raw_client(port) as client:
        client.send(upgrade_request(path))
        answer = await client.eof()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nConnection: close" in head
    assert body.startswith(reason)


def test_what_a_reply_may_not_say() -> None:
    with pytest.raises(ValueError, match="must not set content-length, transfer-encoding"):
        Reply(b"", headers={"Content-Length": "0", "transfer-encoding": "x", "X-Own": "1"})
    with pytest.raises(ValueError, match="status 101 was given"):
        Reply(b"", status=101)
    for status in (204, 205, 304):
        Reply(b"", status=status)
        with pytest.raises(ValueError, match=f"status {status} must not have a body"):
            Reply("x", status=status)
