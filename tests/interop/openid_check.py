"""Envoy in front of ``partway serve`` as docs/how-to/openid-connect.md has it.

Run by ``make interop-openid``, with the Envoy of the ``bench`` extra.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from tests.interop.aws_sdk import ServedGateway
from tests.interop.served_api import blocks

pytestmark = pytest.mark.timeout(120)

PAGE = "how-to/openid-connect.md"
HOST = "127.0.0.1"
ISSUER = "https://login.example.com"
HELLO = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough: the other processes matter."""
    return "asyncio"


class Provider:
    """An OpenID Connect provider: one key, and tokens that it signs."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def keys(self) -> dict[str, Any]:
        """Return a JSON Web Key Set (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        both = {"n": numbers.n, "e": numbers.e}
        named = {
            name: _unpadded(value.to_bytes(256, "big").lstrip(b"\0"))
            for name, value in both.items()
        }
        return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", **named}]}

    def token(self, **claims: object) -> str:
        """Return a JSON Web Token (RFC 7519) for this gateway, ten minutes long."""
        usual = {"iss": ISSUER, "aud": "partway", "exp": int(time.time()) + 600}
        head = {"alg": "RS256", "kid": "1", "typ": "JWT"}
        parts = [_unpadded(json.dumps(part).encode()) for part in (head, {**usual, **claims})]
        signed = ".".join(parts)
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), SHA256())
        return f"{signed}.{_unpadded(signature)}"


def _unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@asynccontextmanager
async def serving(*routes: web.RouteDef) -> AsyncIterator[int]:
    """Serve on a free port; yield the port."""
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, 0)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def envoy(folder: Path, config: str) -> AsyncIterator[int]:
    """Run Envoy on a free port; yield the port."""
    file = folder / "envoy.yaml"
    file.write_text(config)
    log, admin = folder / "envoy.log", folder / "admin"
    command = [str(Path(sys.executable).with_name("envoy")), "--concurrency", "1"]
    command += ["-c", str(file), "--admin-address-path", str(admin)]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
    try:
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while not (admin.exists() and (address := admin.read_text().strip())):
                assert process.returncode is None, log.read_text()[-2000:]
                await asyncio.sleep(0.05)
            async with session.get(f"http://{address}/listeners?format=json") as answer:
                found = await answer.json()
        yield found["listener_statuses"][0]["local_address"]["socket_address"]["port_value"]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def test_the_page(tmp_path: Path) -> None:
    provider = Provider()

    async def keys(_: web.Request) -> web.Response:
        return web.json_response(provider.keys())

    async def pong(_: web.Request) -> web.Response:
        return web.Response()

    async def chat(request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization")
        return web.json_response({"authorization": authorization, **await request.json()})

    (principals,) = blocks(PAGE, "toml")
    (config,) = blocks(PAGE, "yaml")
    async with AsyncExitStack() as stack:
        issuer = await stack.enter_async_context(serving(web.get("/keys", keys)))
        paths = (web.get("/ping", pong), web.post("/v1/chat/completions", chat))
        container = await stack.enter_async_context(serving(*paths))
        endpoint = f'[endpoints.chat]\nurl = "http://{HOST}:{container}"\n'
        gateway = await stack.enter_async_context(
            ServedGateway.start(tmp_path, endpoint, principals)
        )
        port = gateway.http.rpartition(":")[2]
        for printed, here in {
            "0.0.0.0, port_value: 8443": f"{HOST}, port_value: 0",
            "login.example.com, port_value: 80": f"{HOST}, port_value: {issuer}",
            "port_value: 8090": f"port_value: {port}",
        }.items():
            assert config.count(printed) == 1, printed
            config = config.replace(printed, here)
        admin = f"admin: {{address: {{socket_address: {{address: {HOST}, port_value: 0}}}}}}\n"
        proxy = await stack.enter_async_context(envoy(tmp_path, admin + config))
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def asked(token: str, endpoint: str = "chat", **headers: str) -> tuple[int, str]:
            url = f"http://{HOST}:{proxy}/endpoints/{endpoint}/openai/v1/chat/completions"
            headers |= {"Authorization": f"Bearer {token}"} if token else {}
            async with session.post(url, json=HELLO, headers=headers) as answer:
                return answer.status, await answer.text()

        status, body = await asked(provider.token(team="support"))
        assert (status, json.loads(body)) == (200, {"authorization": None, **HELLO})
        status, body = await asked(provider.token(team="support"), "other")
        assert status == 403
        assert "not authorized to perform: sagemaker:InvokeEndpoint" in body
        for claims in ({"team": "sales"}, {}):
            status, body = await asked(provider.token(**claims), team="support")
            assert status == 403
            assert "your team has no principal" in body
        expired = provider.token(team="support", exp=int(time.time()) - 300)
        forged = Provider().token(team="support")
        assert [(await asked(token))[0] for token in (expired, forged, "")] == [401] * 3
        status, body = await asked(provider.token(team="support", aud="another"))
        assert (status, body) == (403, "Audiences in Jwt are not allowed")
