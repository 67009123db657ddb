"""A bridge's settings, from texts."""

from __future__ import annotations

import pytest

from partway.container.bridge.settings import WEBSOCKET, ServerUrl, bridge_settings
from tests.container.bridge.bridging import given

STREAM = "invocations-bidirectional-stream"


@pytest.mark.parametrize(
    ("text", "authority", "target", "shown"),
    [
        ("ws://localhost:8081/v1/realtime", "localhost:8081", "/v1/realtime?q=1", None),
        ("ws://LOCALHOST", "localhost", "/?q=1", "ws://localhost/"),
        ("wss://h:443/a%20b?key=1&x", "h", "/a%20b?key=1&x&q=1", "wss://h/a%20b"),
        ("ws://[::1]:80/", "[::1]", "/?q=1", "ws://[::1]/"),
        ("wss://[::1]:80/", "[::1]:80", "/?q=1", None),
    ],
)
def test_a_url(text: str, authority: str, target: str, shown: str | None) -> None:
    url = ServerUrl.parse(text, "--upstream", WEBSOCKET)
    assert url.authority == authority
    assert url.target("q=1") == target
    assert str(url) == (shown or text)
    assert url.is_secure is text.startswith("wss")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("localhost:8081", "localhost:8081"),
        ("http://localhost/", "http://localhost/"),
        ("http://localhost:8081/", "http://localhost:8081/"),
        ("ws://", "ws://"),
        ("ws://h:0/", "ws://h:0/"),
        ("ws://h:99999/", "ws://h:99999/"),
        ("ws://[::1/", "ws://[::1/"),
        ("ws://h/a b", "ws://h/a b"),
        ("ws://h/\xe4", "ws://h/\xe4"),
        ("ws://h/a#b", "ws://h/a#b"),
        (f"ws://{'a' * 64}/", f"ws://{'a' * 64}/"),
        ("ws://user:s3cret@h/", "h/"),
        ("ws:/h?token=s3cret", "ws:/h"),
    ],
)
def test_a_wrong_url_is_shown_without_secrets(text: str, shown: str) -> None:
    with pytest.raises(ValueError, match="must be a URL of visible ASCII") as caught:
        bridge_settings(given(text))
    assert str(caught.value).startswith(f"--upstream names {shown!r}; it must be a URL")
    assert "s3cret" not in str(caught.value)


def test_the_table_of_paths() -> None:
    settings = bridge_settings(
        given("ws://a:1/v1/realtime?k=1"),
        [given("v1/listen", "--route"), given("/v1/speak=wss://b/x?y=z=1", "--route")],
    )
    assert {path: url.target() for path, url in settings.paths.items()} == {
        STREAM: "/v1/realtime?k=1",
        "v1/realtime": "/v1/realtime?k=1",
        "v1/listen": "/v1/listen",
        "v1/speak": "/x?y=z=1",
    }
    assert settings.paths["v1/listen"].authority == "a:1"
    assert settings.paths["v1/speak"].authority == "b"
    assert settings.upstream is settings.paths[STREAM]
    assert str(settings.health.url) == "http://a:1/health"
    assert not settings.health.by_success


def test_a_route_may_replace_the_upstream_s_own_path() -> None:
    paths = bridge_settings(given("ws://a/x"), [given("x=ws://b/y", "--route")]).paths
    assert (str(paths["x"]), str(paths[STREAM])) == ("ws://b/y", "ws://a/x")


@pytest.mark.parametrize(
    ("routes", "why"),
    [
        (["v1/*"], r"--route names the path 'v1/\*'; it must be PATH or PATH=URL"),
        (["=ws://h/"], "--route names the path ''"),
        (["v1/listen=http://h/"], "--route names 'http://h/'; it must be a URL"),
        (["a", "a=ws://h/"], "--route names the path a twice"),
        ([STREAM], f"--route names the path {STREAM} twice"),
    ],
)
def test_a_wrong_route(routes: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        bridge_settings(given("ws://a/x"), [given(each, "--route") for each in routes])


def test_the_health_s_url() -> None:
    health = bridge_settings(given("wss://a/x"), health=given("https://b/ready?a=1", "--health"))
    assert (health.health.url.target(), health.health.by_success) == ("/ready?a=1", True)
    assert str(bridge_settings(given("wss://a/x")).health.url) == "https://a/health"
    with pytest.raises(ValueError, match=r"^--health names 'ws://b/'; it must be a URL .* http://"):
        bridge_settings(given("ws://a/x"), health=given("ws://b/", "--health"))


def test_the_secret_is_never_shown() -> None:
    settings = bridge_settings(given("ws://a/x"), authorization=given(" Bearer s3cret ", "X"))
    assert settings.authorization == "Bearer s3cret"
    assert "s3cret" not in repr(settings)
    with pytest.raises(ValueError, match=r"^X has other characters") as caught:
        bridge_settings(given("ws://a/x"), authorization=given("Bearer s3cret\n", "X"))
    assert "s3cret" not in str(caught.value)


def test_the_program_s_words() -> None:
    settings = bridge_settings(given("ws://a/x"), program=given("vllm serve 'a b' -p 1", "X"))
    assert settings.program == ["vllm", "serve", "a b", "-p", "1"]
    assert bridge_settings(given("ws://a/x"), program=["a b"]).program == ["a b"]
    with pytest.raises(ValueError, match=r"^X is no command: No closing quotation"):
        bridge_settings(given("ws://a/x"), program=given("vllm 'serve", "X"))
