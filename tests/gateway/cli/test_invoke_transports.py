"""partway invoke over either transport: HTTP/2, TLS, signatures, tokens."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tests.gateway.cli.invoking import invoked
from tests.gateway.tls.peers import write_pair
from tests.processes import running

SECURED = """
[[principals]]
name = "caller"
tokens = ["a-token-of-sixteen-characters"]
[[principals.keys]]
access_key_id = "ASIATEMPORARY"
secret_access_key = "a-secret-that-nobody-sees"
session_token = "its-token"
"""
KEY = {
    "AWS_ACCESS_KEY_ID": "ASIATEMPORARY",
    "AWS_SECRET_ACCESS_KEY": "a-secret-that-nobody-sees",
    "AWS_SESSION_TOKEN": "its-token",
}


@pytest.fixture(scope="module")
def open_gateway() -> Iterator[str]:
    """A gateway that asks nobody; its URL."""
    with (
        running("partway.container", "serve", "--host", "127.0.0.1", "--port", "0") as echo,
        running(
            "partway.gateway.cli.main", "serve", "--port", "0", "--endpoint", f"echo={echo}"
        ) as url,
    ):
        yield url


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A gateway with TLS that asks who calls: its URL, and its CA's certificate."""
    folder = tmp_path_factory.mktemp("secured")
    files = write_pair(folder, "the gateway")
    principals = folder / "principals.toml"
    principals.write_text(SECURED)
    principals.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    serving = ["partway.gateway.cli.main", "serve", "--port", "0", "--tls-port", port]
    serving += ["--tls-cert", str(files.certificate), "--tls-key", str(files.key)]
    serving += ["--auth", "sigv4", "--principals", str(principals), "--region", "eu-west-1"]
    with (
        running("partway.container", "serve", "--host", "127.0.0.1", "--port", "0") as echo,
        running(*serving, "--endpoint", f"echo={echo}"),
    ):
        yield f"https://localhost:{port}", str(files.certificate)


def test_over_http2(open_gateway, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(300_000))
    ended = invoked(open_gateway, "echo", "--file", str(path), "--transport", "http2")
    assert (ended.status, ended.output) == (0, path.read_bytes())
    assert ended.errors.startswith("5 parts back")
    refused = invoked(open_gateway, "nobody", "--text", "hi", "--transport", "http2")
    assert (refused.status, refused.output) == (1, b"")
    assert "StreamRefused: InputValidationError (400)" in refused.errors


@pytest.mark.parametrize("transport", ["websocket", "http2"])
def test_signed_over_tls(secured, transport):
    url, ca = secured
    asked = ["echo", "--text", "hi", "--transport", transport, "--ca", ca]
    unsigned = invoked(url, *asked, **KEY)
    assert "MissingAuthenticationTokenException (403)" in unsigned.errors, "not without --sign"
    ended = invoked(url, *asked, "--sign", "--region", "eu-west-1", **KEY, PARTWAY_TOKEN="unused")
    assert (ended.status, ended.output) == (0, b"hi\n"), ended.errors
    assert invoked(url, *asked, "--sign", **KEY, AWS_REGION="eu-west-1").status == 0
    refused = invoked(
        url, *asked, "--sign", "--region", "eu-west-1", **KEY | {"AWS_SESSION_TOKEN": ""}
    )
    assert (refused.status, refused.output) == (1, b"")
    assert "StreamRefused: UnrecognizedClientException (403)" in refused.errors
    assert "nobody-sees" not in refused.errors


def test_a_token_from_the_environment_or_the_flag(secured):
    url, ca = secured
    asked = ["echo", "--text", "hi", "--ca", ca]
    token = "a-token-of-sixteen-characters"
    assert invoked(url, *asked, PARTWAY_TOKEN=token).output == b"hi\n"
    assert invoked(url, *asked, "--token", token, PARTWAY_TOKEN="another").output == b"hi\n"
    refused = invoked(url, *asked, PARTWAY_TOKEN="another-token-that-is-wrong")
    assert "UnrecognizedClientException (403)" in refused.errors
    assert "another-token" not in refused.errors


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["--sign"],
            "AWS_ACCESS_KEY_ID is not set, or is empty; requests cannot be signed without it",
        ),
        (["--token", "t", "--transport", "http2"], "token: a token was given for an event stream"),
        (["--ca", "ca.pem"], "ca: a file was given for http://; the URL must be https://"),
        (
            ["--gateway", "https://localhost:1", "--ca", "/no/such.pem"],
            "/no/such.pem: No such file",
        ),
        (["--region", "EU"], "region: 'EU' was given; it must be a region"),
    ],
)
def test_what_does_not_go_together(asked_wrongly, monkeypatch, arguments, why):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    ended = asked_wrongly("echo", "--text", "hi", *arguments)
    assert (ended.status, ended.output) == (2, b"")
    assert why in ended.errors
