"""partway.gateway.batch.gateway_endpoint: an endpoint of a gateway, byte by byte."""

from __future__ import annotations

import json

import pytest

from partway.gateway.batch.gateway_endpoint import GatewayModel
from partway.gateway.batch.model import AskFailed, ModelGone
from partway.gateway.batch.options import TransformOptions
from partway.gateway.timing.clock import LoopClock
from tests.gateway.containers.containers import HOST, OK, ScriptedContainer
from tests.gateway.fleet.waiting import soon

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

KEY = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "t"}


class Gateway:
    """A gateway that says what a test says, and a model that asks it."""

    def __init__(self, answer=OK, path="", **environment):
        async def script(call):
            head = await call.head()
            self.body = b"" if head.startswith(b"GET") else await call.body(head)
            call.say(answer)
            await call.end()

        self.container = ScriptedContainer(script)
        self.path, self.environment = path, environment

    async def __aenter__(self):
        container = await self.container.__aenter__()
        self.model = GatewayModel(
            f"http://{HOST}:{container.port}{self.path}", "my-echo", "eu-west-1",
            self.environment, TransformOptions(content_type="text/csv"), LoopClock(),
            lambda: 1_700_000_000.0,
        )  # fmt: skip
        await self.model.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.model.__aexit__(*error)
        await self.container.__aexit__(*error)

    @property
    def lines(self):
        return self.container.calls[0].heads[0].decode().split("\r\n")

    async def asked(self, body=b"1,2\n"):
        return await self.model.ask(body, lambda answer: answer.read())


def refused(status, headers="", **members):
    body = json.dumps(members).encode()
    head = f"HTTP/1.1 {status} X\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def test_what_a_gateway_is_asked():
    async with Gateway(path="/base") as gateway:
        assert await soon(gateway.asked()) == b"ok"
        assert gateway.lines[0] == "POST /base/endpoints/my-echo/invocations HTTP/1.1"
        assert gateway.lines[2:] == ["Content-Type: text/csv", "Content-Length: 4", "", ""]
        assert gateway.body == b"1,2\n"


async def test_with_a_key_it_is_signed():
    async with Gateway(**KEY) as gateway:
        assert await soon(gateway.asked()) == b"ok"
        (signed,) = [line for line in gateway.lines if line.startswith("authorization: ")]
        assert "Credential=AKID/20231114/eu-west-1/sagemaker/aws4_request" in signed
        assert "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token" in signed
        assert "x-amz-security-token: t" in gateway.lines


@pytest.mark.parametrize(
    ("answer", "said", "passing"),
    [
        (refused(424, OriginalStatusCode=400, OriginalMessage="no float", Message="…"),
         "the container answered 400: no float", False),
        (refused(424, OriginalStatusCode=503, OriginalMessage="busy", Message="…"),
         "the container answered 503: busy", True),
        (refused(424, OriginalStatusCode=0, OriginalMessage="", Message="it broke off"),
         "the gateway answered 424: it broke off", True),
        (refused(424, "x-partway-retry: no\r\n", OriginalStatusCode=0, Message="wrong root"),
         "the gateway answered 424: wrong root", False),
        (refused(503, Message="it is draining"), "the gateway answered 503: it is draining", True),
        (refused(413, Message="too large"), "the gateway answered 413: too large", False),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 6\r\n\r\n<html>",
         "the gateway answered 502: <html>", True),
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\n[]",
         "the gateway answered 400: []", False),
        (b"nonsense\r\n\r\n", "the gateway gave no whole answer: ", True),
    ],
)  # fmt: skip
async def test_what_is_no_answer(answer, said, passing):
    async with Gateway(answer) as gateway:
        with pytest.raises(AskFailed) as caught:
            await soon(gateway.asked())
    assert str(caught.value).startswith(said)
    assert caught.value.passing is passing


@pytest.mark.parametrize(
    "answer",
    [
        refused(400, Message="Endpoint my-echo of account 000000000000 not found."),
        refused(403, Message="The security token included in the request is invalid."),
        refused(404, Message="no such path"),
    ],
)
async def test_what_every_request_would_hear(answer):
    async with Gateway(answer) as gateway:
        with pytest.raises(ModelGone, match=r"the gateway answered 4\d\d: .* (found|inval|path)"):
            await soon(gateway.asked())


async def test_whether_it_is_there():
    async with Gateway(refused(404)) as gateway:
        assert await soon(gateway.model.parameters()) == b""
        assert gateway.lines[0] == "GET /healthz HTTP/1.1"
        await gateway.model.there()
    async with Gateway() as gateway:
        gateway.container._server.close()
        with pytest.raises(ModelGone, match=r"no connection with the gateway: .*; --gateway mus"):
            await soon(gateway.model.parameters())


async def test_what_is_no_url():
    with pytest.raises(ValueError, match="it must be a gateway's URL"):
        GatewayModel("ftp://a", "e", "eu-west-1", {}, TransformOptions(), LoopClock())
