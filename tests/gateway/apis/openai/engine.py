"""A gateway before an engine that is told what to answer, and a client of OpenAI's API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from yarl import URL

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from tests.gateway.apis.prediction.predicting import answer
from tests.gateway.containers.containers import HOST, PATIENCE, ScriptedContainer
from tests.wire.peers import ENDPOINT

BELOW_ENDPOINT = f"/endpoints/{ENDPOINT}/openai/v1"
BY_MODEL = "/openai/v1"

TOKEN = "a-token-of-the-callers"
KEY_ID, SECRET = "AKIDCALLER", "a-secret-of-the-callers"
PRINCIPALS = f"""
[[principals]]
name = "caller"
actions = ["sagemaker:InvokeEndpoint", "sagemaker:CallWithBearerToken"]
resources = ["*"]
tokens = ["{TOKEN}"]
[[principals.keys]]
access_key_id = "{KEY_ID}"
secret_access_key = "{SECRET}"

[[principals]]
name = "reader"
actions = ["sagemaker:Describe*"]
tokens = ["{TOKEN}-who-may-not"]

[[principals]]
name = "another"
resources = ["arn:aws:sagemaker:us-east-1:000000000000:endpoint/other"]
tokens = ["{TOKEN}-for-another"]
"""


class Engine:
    """A container that answers each request with what a test says.

    Attributes:
        says: the answer's bytes.
        heads: of the requests.
        bodies: of the requests.
    """

    def __init__(self) -> None:
        self.says = answer(b'{"object": "chat.completion"}', b"Content-Type: application/json")
        self.heads: list[str] = []
        self.bodies: list[bytes] = []

    async def script(self, call) -> None:
        while True:
            head = await call.head()
            self.heads.append(head.decode())
            has_body = b"Content-Length" in head or b"Transfer-Encoding" in head
            self.bodies.append(await call.body(head) if has_body else b"")
            call.say(self.says)


class Client:
    """Asks a gateway.

    Attributes:
        engine: says and hears.
        gateway: the gateway.
    """

    def __init__(self, gateway, engine, session) -> None:
        self.gateway = gateway
        self.engine = engine
        self._session = session

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}"

    async def ask(self, path, body: Any = None, method="POST", **headers):
        """Status, headers and body of an answer."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(self.url + path, encoded=True)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        async with (
            asyncio.timeout(PATIENCE),
            self._session.request(method, url, data=body, headers=names) as response,
        ):
            return response.status, response.headers, await response.read()

    async def error(self, *what, **headers):
        """Status and error of a refusal."""
        status, found, said = await self.ask(*what, **headers)
        assert found["Content-Type"] == "application/json"
        assert found["x-request-id"] == found["x-amzn-requestid"]
        return status, json.loads(said)["error"]


@pytest.fixture
async def asking(gateway_for, anyio_backend) -> AsyncIterator:
    """Starts an engine and a gateway; yields a function that gives a client."""
    running, sessions = [], []

    async def start(endpoints=(ENDPOINT,), script=None, streams=None, **settings):
        engine = Engine()
        container = await ScriptedContainer(script or engine.script).__aenter__()
        running.append(container)
        streams = streams or StreamPolicy(connect_timeout=PATIENCE)
        settings["endpoints"] = tuple(
            Endpoint.attached(name, Address(HOST, container.port), streams) for name in endpoints
        )
        gateway = await gateway_for(**settings)
        sessions.append(aiohttp.ClientSession())
        return Client(gateway, engine, sessions[-1])

    yield start
    for session in sessions:
        await session.close()
    for container in running:
        await container.__aexit__()


@pytest.fixture
def authenticated(tmp_path):
    """Settings of a gateway that authenticates."""
    principals = tmp_path / "principals.toml"
    principals.write_text(PRINCIPALS)
    principals.chmod(0o600)
    return {"auth": "sigv4", "principals": principals}
