"""Requests at paths of a model's own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from partway.container.errors import ModelError
from partway.container.model import Answer, Model, Reply, Request, request_route, route
from partway.container.routes import RequestRoutes
from partway.container.stream import Stream
from partway.container.testing import serving


class Chat(Model):
    @request_route("/v1/chat/completions")
    async def chat(self, request: Request) -> Answer:
        body = await request.read()
        if body == b"busy":
            raise ModelError("later", status=503)
        return Reply(body, "a/b", status=201)

    @request_route("v1/models", method="GET")
    async def models(self, request: Request) -> Answer:
        return " ".join(f"{name}={value}" for name, value in request.query.items())

    @request_route("v1/models", method="DELETE")
    async def forget(self, request: Request) -> AsyncIterator[str]:
        yield "one "
        yield "two"

    @route("v1/chat/completions")
    async def talk(self, stream: Stream) -> None:
        await stream.send("a stream")


@pytest.fixture
async def url(anyio_backend: object) -> AsyncIterator[str]:
    async with serving(Chat()) as served:
        yield served.url


async def ask(url: str, method: str, body: bytes = b"", **headers: str) -> tuple[int, str, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=body, headers=headers) as response,
    ):
        return response.status, response.headers.get("Content-Type", ""), await response.text()


async def test_a_request_is_answered_by_its_handler(url: str) -> None:
    assert await ask(f"{url}/v1/chat/completions", "POST", b"hi") == (201, "a/b", "hi")
    status, _, said = await ask(f"{url}/v1/models?a=1&a=b%20c&d", "GET")
    assert (status, said) == (200, "a=1 a=b c d=")
    assert (await ask(f"{url}/v1/models", "DELETE"))[2] == "one two"


async def test_another_method_is_405(url: str) -> None:
    status, _, said = await ask(f"{url}/v1/models", "POST", b"x")
    assert (status, said) == (405, "the method must be one of DELETE, GET\n")


async def test_a_models_error_has_its_status(url: str) -> None:
    status, _, said = await ask(f"{url}/v1/chat/completions", "POST", b"busy")
    assert (status, said) == (503, "later\n")


async def test_a_web_page_may_not_ask(url: str) -> None:
    headers = {"Origin": "https://page.example"}
    assert (await ask(f"{url}/v1/models", "GET", **headers))[0] == 403


async def test_an_upgrade_at_the_same_path_opens_a_stream() -> None:
    async with serving(Chat()) as served, served.stream("v1/chat/completions") as client:
        assert await client.recv() == "a stream"


async def test_an_unknown_path_of_openai_is_refused_in_openai_s_form(url: str) -> None:
    status, kind, said = await ask(f"{url}/v1/embeddings", "POST", b"{}")
    assert (status, kind) == (404, "application/json")
    assert json.loads(said)["error"]["message"] == (
        "nothing is served here: use /ping, /invocations, /v1/chat/completions, /v1/models"
    )
    assert (await ask(f"{url}/other", "GET"))[1] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("path", ["", "a b", "a//b", "a/", "v1/é", "a" * 101])
def test_paths_that_no_client_could_name(path: str) -> None:
    with pytest.raises(ValueError, match="cannot be an invocation path"):
        request_route(path)


@pytest.mark.parametrize("path", ["ping", "/invocations", "execution-parameters"])
def test_paths_of_the_contract(path: str) -> None:
    with pytest.raises(ValueError, match="is reserved"):
        request_route(path)


@pytest.mark.parametrize("method", ["HEAD", "CONNECT", "post", ""])
def test_methods_that_are_not_taken(method: str) -> None:
    with pytest.raises(ValueError, match=f"method: '{method}' was given; it must be one of GET"):
        request_route("v1/models", method=method)


def test_two_handlers_of_one_path_and_method() -> None:
    class Twice(Model):
        @request_route("v1/models")
        async def one(self, request: Request) -> Answer:
            return b""

        @request_route("v1/models")
        async def two(self, request: Request) -> Answer:
            return b""

    with pytest.raises(TypeError, match="Twice has two handlers for POST /v1/models"):
        RequestRoutes(Twice())


def test_a_handler_that_is_not_async() -> None:
    class Plain(Model):
        @request_route("v1/models")
        def one(self, request: Request) -> Answer:
            return b""

    with pytest.raises(TypeError, match=r"Plain\.one answers requests: it must be async def"):
        RequestRoutes(Plain())
