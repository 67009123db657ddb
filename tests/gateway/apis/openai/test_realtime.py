"""WebSocket upgrades below OpenAI's paths."""

from __future__ import annotations

import time

import pytest

from partway.protocol.signatures.api_keys import make_api_key
from partway.protocol.signatures.verification import Credentials
from tests.gateway.apis.openai.engine import KEY_ID, SECRET, TOKEN, authenticated
from tests.gateway.conftest import container, gateway_for
from tests.wire.peers import ENDPOINT, RawContainer, upgrade_request

__all__ = ["authenticated", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

PATH = f"/endpoints/{ENDPOINT}/openai/v1/realtime"


@pytest.mark.parametrize(
    ("target", "at_the_container"),
    [
        (PATH, "/v1/realtime"),
        (f"{PATH}?model=a%20b&model=c+d&x", "/v1/realtime?model=a%20b&model=c+d&x"),
        (f"/endpoints/{ENDPOINT}/openai/v1?intent=t", "/v1/realtime?intent=t"),
        (f"/endpoints/{ENDPOINT}/openai/v1/?model=m", "/v1/realtime?model=m"),
        (f"/endpoints/{ENDPOINT}/openai/v1/audio/x", "/v1/audio/x"),
        (f"/openai/v1/realtime?model={ENDPOINT}", "/v1/realtime?model="),
        (f"/openai/v1?model={ENDPOINT}&a=b", "/v1/realtime?model=&a=b"),
        (f"/openai/v1/?model={ENDPOINT}", "/v1/realtime?model="),
    ],
)
@pytest.mark.clause("3-6")
async def test_frames_pass_one_for_one(gateway_for, container, target, at_the_container):
    gateway = await gateway_for()
    client, model = await gateway.open("realtime", target)
    assert model.target == at_the_container
    assert model.header("Sec-WebSocket-Protocol") is None
    client.send_frame(1, b"ab", fin=False)
    client.send_frame(0, b"cd")
    first, second = await model.frames(2)
    assert (first.opcode, first.fin, first.payload) == (1, False, b"ab")
    assert (second.opcode, second.fin, second.payload) == (0, True, b"cd")


@pytest.mark.parametrize(
    ("offered", "granted"),
    [
        (None, None),
        ("realtime", "realtime"),
        ("openai-insecure-api-key.abc", None),
        ("openai-beta.realtime-v1, realtime, openai-insecure-api-key.abc", "realtime"),
    ],
)
async def test_a_token_is_never_granted_as_a_subprotocol(gateway_for, container, offered, granted):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(upgrade_request(PATH, offered))
    response = await client.response()
    assert response.status == 101
    headers = response.headers
    assert headers.get("sec-websocket-protocol") == granted
    assert headers["x-request-id"] == headers["x-amzn-requestid"]


async def test_another_subprotocol_is_refused(gateway_for, container):
    gateway = await gateway_for()
    response = await gateway.request(upgrade_request(PATH, "payloadpart.v1.json"))
    assert response.status == 400
    error = response.json["error"]
    assert error["message"].startswith("Sec-WebSocket-Protocol must offer one of realtime, ")


@pytest.mark.parametrize("said", ["200 voice streams are open", ""])
async def test_a_refusal_has_the_containers_own_words(gateway_for, said):
    refusal = f"HTTP/1.1 503 Busy\r\nContent-Length: {len(said) + 1}\r\n\r\n{said}\n"
    async with RawContainer(lambda request: refusal.encode()) as container:
        gateway = await gateway_for(container=container)
        response = await gateway.request(upgrade_request(PATH))
    message = response.json["error"]["message"]
    refused = "the container refused the stream with status 503"
    assert (response.status, message) == (502, f"{refused}: {said}" if said else refused)


@pytest.mark.parametrize("way", ["header", "subprotocol"])
@pytest.mark.parametrize("kind", ["token", "API key", "neither"])
async def test_who_may_open_one(gateway_for, container, authenticated, way, kind):
    key = make_api_key(Credentials(KEY_ID, SECRET), region="us-east-1", now=time.time())
    url_safe = key.replace("+", "-").replace("/", "_").rstrip("=")
    token = {"token": TOKEN, "API key": url_safe, "neither": "nobody-has-this"}[kind]
    gateway = await gateway_for(**authenticated)
    headers = [f"Authorization: Bearer {token}"] if way == "header" else []
    offered = f"realtime, openai-insecure-api-key.{token}" if way == "subprotocol" else "realtime"
    client = await gateway.connect()
    client.send(upgrade_request(PATH, offered, headers))
    response = await client.response()
    assert response.status == (401 if kind == "neither" else 101)
