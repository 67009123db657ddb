"""A gateway before containers that are told what to answer, and a client of online prediction."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from tests.gateway.containers.containers import HOST, PATIENCE, ScriptedContainer
from tests.wire.peers import ENDPOINT

PARENT = "projects/p-1/locations/here"
OF_ENDPOINT = f"/v1/{PARENT}/endpoints/{ENDPOINT}"
JSON = "application/json"

TOKEN = "a-token-of-the-callers"
KEY = Credentials("AKIDPREDICTING", "a-secret-of-the-callers")
PRINCIPALS = f"""
[[principals]]
name = "caller"
resources = ["arn:aws:sagemaker:us-east-1:000000000000:endpoint/{ENDPOINT}"]
tokens = ["{TOKEN}"]
[[principals.keys]]
access_key_id = "{KEY.access_key}"
secret_access_key = "{KEY.secret_key}"
[[principals]]
name = "reader"
actions = ["sagemaker:Describe*"]
tokens = ["{TOKEN}-who-may-not"]
"""


def answer(body=b"ok", *headers, status=b"200 OK"):
    lines = [b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body), b"", body]
    return b"\r\n".join(lines)


class Told:
    """A container that answers each request with what a test says; what it was asked.

    Attributes:
        says: the answer's bytes.
        bodies: of the requests.
    """

    def __init__(self) -> None:
        self.says = answer(b'{"predictions": [1]}')
        self.heads: list[str] = []
        self.bodies: list[bytes] = []

    async def script(self, call) -> None:
        while True:
            head = await call.head()
            self.heads.append(head.decode())
            self.bodies.append(await call.body(head))
            call.say(self.says)


class Client:
    """Asks a gateway.

    Attributes:
        told: what the container says and hears.
        gateway: the gateway.
    """

    def __init__(self, gateway, told, session) -> None:
        self.gateway = gateway
        self.told = told
        self._session = session

    async def ask(self, path, body=b'{"instances": [7]}', method="POST", **headers):
        """Status, headers and body of an answer."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"http://127.0.0.1:{self.gateway.port}{path}"
        data = None if method == "GET" else body
        async with self._session.request(method, url, data=data, headers=names) as response:
            return response.status, response.headers, await response.read()

    def signed(self, path, body=b'{"instances": [7]}'):
        """Headers of a request that is signed as boto3's are."""
        url = f"http://127.0.0.1:{self.gateway.port}{path}"
        request = AWSRequest("POST", url, data=body)
        SigV4Auth(KEY, "sagemaker", "us-east-1").add_auth(request)
        return dict(request.headers.items())

    async def json(self, path, body=b'{"instances": [7]}', method="POST", **headers):
        """Status of an answer, and its JSON."""
        status, _, said = await self.ask(path, body, method, **headers)
        return status, json.loads(said)


@pytest.fixture
async def asking(gateway_for, anyio_backend) -> AsyncIterator:
    """Starts a container and a gateway; yields a function that gives a client."""
    running, sessions = [], []

    async def start(endpoints=(ENDPOINT,), policy=None, script=None, streams=None, **settings):
        told = Told()
        container = await ScriptedContainer(script or told.script).__aenter__()
        running.append(container)
        streams = streams or StreamPolicy(connect_timeout=PATIENCE)
        made = (
            Endpoint.attached(name, Address(HOST, container.port), streams) for name in endpoints
        )
        policy = policy or PredictionPolicy()
        settings["endpoints"] = tuple(dataclasses.replace(each, prediction=policy) for each in made)
        gateway = await gateway_for(**settings)
        sessions.append(aiohttp.ClientSession())
        return Client(gateway, told, sessions[-1])

    yield start
    for session in sessions:
        await session.close()
    for container in running:
        await container.__aexit__()


@pytest.fixture
def authenticated(tmp_path):
    """Settings of a gateway that asks who asks."""
    principals = tmp_path / "principals.toml"
    principals.write_text(PRINCIPALS)
    principals.chmod(0o600)
    return {"auth": "sigv4", "principals": principals}
