"""partway.gateway.client.request: who asks, and over what: signatures, tokens, TLS, URLs."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from partway.gateway.client import (
    Credentials,
    GatewayUnreachable,
    ModelStreamFailed,
    connect,
    credentials_from_environment,
)
from partway.gateway.client.request import request_for
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from partway.gateway.tls.context import TlsFiles, server_context
from partway.protocol.signatures.verification import EventSigner
from tests.frame_factory import TEXT, close, frame
from tests.gateway.client.http2_server import RawGateway
from tests.gateway.client.peers import all_parts, grant, refused_by, replying, url_of
from tests.gateway.tls.peers import write_pair
from tests.wire.event_signing import EMPTY_HASH, KEY_ID, SECRET, EventSigning, mac
from tests.wire.peers import ENDPOINT, RawContainer, RunningGateway, soon

TOKEN = "a-token-of-sixteen-characters"
KEY = Credentials(KEY_ID, SECRET)
TEMPORARY = Credentials("ASIAEXAMPLE", "another secret", "session/token+==")

PRINCIPALS = f"""
[[principals]]
name = "caller"
tokens = ["{TOKEN}"]
[[principals.keys]]
access_key_id = "{KEY_ID}"
secret_access_key = "{SECRET}"
[[principals.keys]]
access_key_id = "{TEMPORARY.access_key_id}"
secret_access_key = "{TEMPORARY.secret_access_key}"
session_token = "{TEMPORARY.session_token}"
"""

Secured = Callable[..., Awaitable[str]]


@pytest.fixture
def principals(tmp_path: Path) -> Path:
    path = tmp_path / "principals.toml"
    path.write_text(PRINCIPALS)
    path.chmod(0o600)
    return path


@pytest.fixture
def certificate(tmp_path: Path) -> TlsFiles:
    return write_pair(tmp_path, "the gateway")


@pytest.fixture
async def tls_gateway(container: RawContainer, certificate: TlsFiles) -> AsyncIterator[Secured]:
    """Starts a gateway on a TLS port; gives its URL."""
    async with AsyncExitStack() as running:

        async def start(**more: Any) -> str:
            address = Address("127.0.0.1", container.port)
            settings = Settings(
                port=0,
                tls_port=0,
                endpoints=(Endpoint.attached(ENDPOINT, address, StreamPolicy()),),
                shutdown_grace=0.0,
                shutdown_spread=0.0,
                **more,
            )
            gateway = Gateway(settings, server_context(certificate))
            listening = await gateway.start()
            # It drops the container's end first: the gateway would wait for it to end TCP.
            running.push_async_callback(RunningGateway(gateway, listening.port, container).stop)
            return f"https://localhost:{listening.tls_port}"

        yield start


async def converse(container: RawContainer, url: str, **how: Any) -> str:
    """A whole conversation; the target that the container was asked for."""
    async with connect(url, ENDPOINT, **how) as stream:
        model = await container.stream()
        await stream.send_text("up")
        await stream.send_bytes(bytes(100_000))
        assert [(await model.frame()).payload for _ in range(2)] == [b"up", bytes(100_000)]
        model.send(frame(TEXT, b"down"))
        await stream.end_input()
        assert (await model.frame()).payload == (1000).to_bytes(2, "big")
        model.send(frame(TEXT, b"last"), close(1000))
        assert [part.payload for part in await soon(all_parts(stream))] == [b"down", b"last"]
    return model.target


# --- Signatures -----------------------------------------------------------------------------------


@pytest.mark.clause("2.4-1", "2.4-2", "2.4-3", "2.4-4", "2.4-5", "3-5")
@pytest.mark.parametrize("credentials", [KEY, TEMPORARY], ids=["permanent", "temporary"])
async def test_a_signed_conversation(transport, credentials, gateway_for, container, principals):
    gateway = await gateway_for(auth="sigv4", principals=principals, region="eu-west-1")
    target = await converse(
        container,
        url_of(gateway),
        transport=transport,
        credentials=credentials,
        region="eu-west-1",
        path="v1/listen",
        query="b=%20c&a=1",
        variant="AllTraffic",
    )
    assert target == "/v1/listen?b=%20c&a=1"


@pytest.mark.clause("2.4-6")
@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({}, "MissingAuthenticationTokenException"),
        ({"credentials": Credentials(KEY_ID, "wrong")}, "InvalidSignatureException"),
        ({"credentials": KEY, "region": "eu-west-1"}, "InvalidSignatureException"),
        ({"credentials": Credentials("AKIANOBODY", SECRET)}, "UnrecognizedClientException"),
        ({"credentials": Credentials(KEY_ID, SECRET, "t")}, "UnrecognizedClientException"),
    ],
)
async def test_a_signature_that_does_not_fit(transport, how, error, gateway_for, principals):
    gateway = await gateway_for(auth="sigv4", principals=principals)
    refusal = await refused_by(url_of(gateway), transport=transport, **how)
    assert (refusal.status, refusal.error, refusal.reconnect) == (403, error, False)


@pytest.mark.clause("1.5-10", "2.4-4")
async def test_an_event_that_is_signed_wrongly(gateway_for, container, principals, monkeypatch):
    gateway = await gateway_for(auth="sigv4", principals=principals)
    url = url_of(gateway)
    async with connect(url, ENDPOINT, transport="http2", credentials=KEY) as stream:
        await container.stream()
        monkeypatch.setattr(EventSigner, "sign", lambda self, date_ms, payload: bytes(32))
        await stream.send_text("x")
        with pytest.raises(ModelStreamFailed) as caught:
            await soon(stream.receive())
    assert (caught.value.code, caught.value.reconnect) == ("InvalidSignature", False)


@pytest.mark.clause("3-5")
async def test_an_upgrade_is_signed_as_another_signer_would():
    async with (
        replying(grant) as server,
        connect(url_of(server), "m", path="v1/a", query="a=%20", credentials=TEMPORARY),
    ):
        asked = await server.stream()
        asked.abort()
    path, _, query = asked.target.partition("?")
    assert query == "path=v1%2Fa&query=a%3D%2520"
    date = asked.header("x-amz-date") or ""
    signing = EventSigning(TEMPORARY.secret_access_key, "ASIAEXAMPLE", token="session/token+==")
    found = asked.header("authorization") or ""
    names = ["host", "x-amz-date", "x-amz-security-token"]
    assert re.search(r"SignedHeaders=([^,]*)", found)[1].split(";") == names
    lines = [f"{name}:{asked.header(name)}" for name in names]
    canonical = ["GET", path, query, *lines, "", ";".join(names), EMPTY_HASH]
    digest = sha256("\n".join(canonical).encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{date}\n{signing.scope(date)}\n{digest}"
    assert found.endswith(f"Signature={mac(signing.key(date), to_sign).hex()}")
    assert asked.header("x-amz-content-sha256") is None


def test_credentials_from_the_environment():
    both = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_PROFILE": "other"}
    assert credentials_from_environment(both) == Credentials("a", "s")
    assert credentials_from_environment({**both, "AWS_SESSION_TOKEN": ""}) == Credentials("a", "s")
    temporary = credentials_from_environment({**both, "AWS_SESSION_TOKEN": "t"})
    assert temporary == Credentials("a", "s", "t")
    for missing in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        with pytest.raises(ValueError, match=f"{missing} is not set, or is empty"):
            credentials_from_environment({**both, missing: ""})


# --- Tokens ---------------------------------------------------------------------------------------


@pytest.mark.clause("3-5")
async def test_a_token_opens_a_websocket(gateway_for, container, principals):
    gateway = await gateway_for(auth="sigv4", principals=principals)
    await converse(container, url_of(gateway), token=TOKEN)
    refusal = await refused_by(url_of(gateway), token=TOKEN + "x")
    assert (refusal.status, refusal.error) == (403, "UnrecognizedClientException")
    assert TOKEN not in str(refusal) + repr(refusal)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"transport": "http2", "token": TOKEN}, "token: a token was given for an event stream"),
        ({"credentials": KEY, "token": TOKEN}, "credentials and a token were given"),
        ({"token": "secret\r\nx: y"}, "token: it must be one or more visible ASCII characters"),
        ({"token": ""}, "token: it must be one or more visible ASCII characters"),
        ({"region": "EU\nwest"}, r"region: 'EU\\nwest' was given; it must be a region"),
        ({"ca": "/ca.pem"}, "ca: a file was given for http://; the URL must be https://"),
        ({"path": "a\r\nb"}, r"path has '\\r'; it must not have control characters"),
        (
            {"transport": "carrier pigeon"},
            "transport: 'carrier pigeon' was given; it must be one of websocket, http2",
        ),
    ],
)
async def test_what_is_asked_wrongly(how, why):
    with pytest.raises(ValueError, match=why) as caught:
        async with connect("http://127.0.0.1:1", ENDPOINT, **how):
            pytest.fail("a stream opened")
    assert "secret" not in str(caught.value)


async def test_a_password_in_the_url_is_not_repeated():
    with pytest.raises(GatewayUnreachable) as caught:
        async with connect("http://me:hidden@127.0.0.1:1/base?hidden", ENDPOINT):
            pytest.fail("a stream opened")
    assert "cannot open a stream to http://127.0.0.1:1/base: " in str(caught.value)
    assert "hidden" not in str(caught.value)


# --- TLS ------------------------------------------------------------------------------------------


@pytest.mark.clause("2.5-6")
async def test_over_tls(transport, tls_gateway, container, certificate, principals):
    url = await tls_gateway(auth="sigv4", principals=principals)
    await converse(container, url, transport=transport, ca=certificate.certificate, credentials=KEY)


@pytest.mark.clause("2.5-6")
async def test_the_scheme_may_be_a_websockets(transport, tls_gateway, container, certificate):
    url = (await tls_gateway()).replace("https", "wss")
    await converse(container, url, transport=transport, ca=str(certificate.certificate))


async def test_the_default_context_honours_ssl_cert_file(
    transport, tls_gateway, container, certificate, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    await converse(container, await tls_gateway(), transport=transport)


async def test_leaving_early_over_tls_is_quick(transport, tls_gateway, container, certificate):
    url = await tls_gateway()
    async with connect(url, ENDPOINT, transport=transport, ca=certificate.certificate) as stream:
        await container.stream()
        started = asyncio.get_running_loop().time()
        await soon(stream.close())
    assert asyncio.get_running_loop().time() - started < 4


@pytest.mark.parametrize("trusted", [None, "another"])
async def test_a_certificate_that_nobody_trusts(transport, trusted, tls_gateway, tmp_path):
    (tmp_path / "other").mkdir()
    ca = write_pair(tmp_path / "other", "else").certificate if trusted else None
    url = await tls_gateway()
    with pytest.raises(
        GatewayUnreachable, match="the server's certificate is not trusted"
    ) as caught:
        async with connect(url, ENDPOINT, transport=transport, ca=ca):
            pytest.fail("a stream opened")
    assert not caught.value.reconnect
    assert str(caught.value).endswith(
        "; its root must be in the file that ca= (--ca FILE) or SSL_CERT_FILE names: "
        "`partway certs` makes the local CA's root, and prints where it is"
    )


async def test_a_certificate_of_another_name(transport, tls_gateway, certificate):
    url = (await tls_gateway()).replace("localhost", "127.0.0.1")
    with pytest.raises(GatewayUnreachable, match="not trusted: IP address mismatch") as caught:
        async with connect(url, ENDPOINT, transport=transport, ca=certificate.certificate):
            pytest.fail("a stream opened")
    assert not caught.value.reconnect
    assert "; the URL must have a name that is in the certificate: `partway certs --name NAME`" in (
        str(caught.value)
    )


@pytest.mark.parametrize("alpn", [["http/1.1"], None])
async def test_a_tls_server_without_http2(alpn, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    if alpn is not None:
        context.set_alpn_protocols(alpn)
    async with RawGateway(tls=context) as server:
        with pytest.raises(
            GatewayUnreachable, match="does not speak HTTP/2: TLS agreed on no"
        ) as caught:
            async with connect(server.url, ENDPOINT, transport="http2", ca=certificate.certificate):
                pytest.fail("a stream opened")
    assert not caught.value.reconnect


async def test_no_tls_there(transport, gateway_for, certificate):
    url = url_of(await gateway_for()).replace("http:", "https:")
    why = r"the server does not speak TLS on this port \(\w+\): the URL must begin with http://"
    with pytest.raises(GatewayUnreachable, match=why) as caught:
        async with connect(url, ENDPOINT, transport=transport, ca=certificate.certificate):
            pytest.fail("a stream opened")
    assert not caught.value.reconnect


async def test_tls_there(transport, tls_gateway):
    url = (await tls_gateway()).replace("https:", "http:")
    why = "the server speaks TLS on this port: the URL must begin with https://"
    with pytest.raises(GatewayUnreachable, match=why) as caught:
        async with connect(url, ENDPOINT, transport=transport):
            pytest.fail("a stream opened")
    assert not caught.value.reconnect


async def test_a_ca_that_is_none(transport, tmp_path, certificate):
    (tmp_path / "text").write_text("no PEM")
    for path, why in ((tmp_path / "text", "must hold certificates"), (tmp_path / "no", "No such")):
        with pytest.raises(ValueError, match=why) as caught:
            async with connect("https://localhost:1", ENDPOINT, transport=transport, ca=path):
                pytest.fail("a stream opened")
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_a_client_asks_for_tls_1_2_at_least(protocol):
    unsigned = {"ca": None, "credentials": None, "region": "us-east-1", "token": None}
    request = request_for("https://localhost:1", "echo", {}, **unsigned)
    assert request.context(protocol).minimum_version == ssl.TLSVersion.TLSv1_2
