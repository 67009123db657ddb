"""partway.gateway.client.errors over both wires: how streams end, and why they do not begin."""

from __future__ import annotations

import json
import socket

import pytest

from partway.gateway.client import (
    BadMessage,
    ConnectionLost,
    GatewayUnreachable,
    ModelStreamFailed,
    PartwayError,
    PlatformStreamFailed,
    StreamEnded,
    StreamRefused,
    connect,
)
from partway.gateway.client.errors import refused, unreachable
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address, Untrusted
from tests.frame_factory import close
from tests.gateway.client.peers import http, refused_by, replying, url_of
from tests.wire.peers import ENDPOINT, soon

# --- Streams that end -----------------------------------------------------------------------------


@pytest.mark.clause("1.5-1")
@pytest.mark.parametrize(
    ("code", "reconnect"),
    [
        (1000, False),
        (1001, True),
        (1002, False),
        (1003, False),
        (1007, False),
        (1008, False),
        (1009, False),
        (1011, False),
        (1012, True),
        (1013, True),
        (1014, True),
        (3000, False),
        (4000, False),
        (4999, False),
    ],
)
async def test_the_models_own_end(transport, gateway_for, container, code, reconnect):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        model.send(close(code, b"because"))
        with pytest.raises(ModelStreamFailed) as caught:
            await soon(stream.receive())
        with pytest.raises(ModelStreamFailed):
            await stream.send_text("too late")
        with pytest.raises(ModelStreamFailed):
            await stream.end_input()
    assert (caught.value.code, caught.value.message) == (str(code), "because")
    assert caught.value.reconnect is reconnect
    assert str(caught.value) == f"{code}: because"


@pytest.mark.clause("1.5-3")
async def test_a_container_that_is_lost(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        (await container.stream()).reset()
        with pytest.raises(ModelStreamFailed) as caught:
            await soon(stream.receive())
    assert caught.value.code == "1006"
    assert caught.value.reconnect


@pytest.mark.clause("1.5-1")
async def test_the_models_normal_close_as_a_clean_end(transport, gateway_for, container):
    gateway = await gateway_for(StreamPolicy(normal_close="end"))
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        (await container.stream()).send(close(1000))
        assert await soon(stream.receive()) is None
        with pytest.raises(StreamEnded, match="the stream has ended") as caught:
            await stream.send_text("too late")
        assert not caught.value.reconnect


@pytest.mark.clause("1.4-5", "1.5-9")
async def test_the_gateways_own_end(transport, gateway_for, container):
    gateway = await gateway_for(StreamPolicy(lifetime=0.05))
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        await container.stream()
        with pytest.raises(PlatformStreamFailed, match=r"lifetime of 0\.05 s") as caught:
            await soon(stream.receive())
    assert caught.value.reconnect


async def test_nothing_is_sent_after_the_end_of_input(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        await container.stream()
        await stream.end_input()
        for send in (stream.send_text("x"), stream.send_bytes(b"x"), stream.end_input()):
            with pytest.raises(StreamEnded, match="the stream's input has ended"):
                await send


# --- Streams that do not begin --------------------------------------------------------------------


@pytest.mark.clause("4-1", "4-2", "4-6")
async def test_refused_for_what_was_asked(transport, gateway_for):
    gateway = await gateway_for()
    refusal = await refused_by(url_of(gateway), transport=transport, endpoint="nobody")
    assert (refusal.status, refusal.error) == (400, "InputValidationError")
    assert refusal.message == "there is no endpoint 'nobody'"
    assert not refusal.reconnect
    assert str(refusal) == "InputValidationError (400): there is no endpoint 'nobody'"
    assert (
        "ModelInvocationPath"
        in (await refused_by(url_of(gateway), transport=transport, path="/v1")).message
    )


@pytest.mark.clause("4-3", "4-6")
@pytest.mark.parametrize(
    ("status", "reconnect"),
    [
        ("403 Forbidden", False),
        ("404 Not Found", False),
        ("429 Too Many", True),
        ("500 Oops", False),
        ("503 Full", True),
        ("302 Elsewhere", False),
    ],
)
async def test_refused_by_the_container(transport, gateway_for, status, reconnect):
    async with replying(lambda request: http(status, "nö, not here".encode())) as container:
        gateway = await gateway_for(container_port=container.port)
        refusal = await refused_by(url_of(gateway), transport=transport)
    assert (refusal.status, refusal.error) == (424, "ModelError")
    assert refusal.original_status == int(status[:3])
    assert refusal.original_message == "nö, not here"
    assert refusal.reconnect is reconnect


@pytest.mark.parametrize("body", [b"x" * 5000, b"\xff" * 5000, b"\0" * 5000], ids=["x", "ff", "0"])
async def test_refused_by_the_container_at_length(transport, gateway_for, body):
    """All that the gateway passes on of the container's body arrives, however JSON writes it."""
    async with replying(lambda request: http("403 Forbidden", body)) as container:
        gateway = await gateway_for(container_port=container.port)
        refusal = await refused_by(url_of(gateway), transport=transport)
    assert (refusal.status, refusal.original_status, refusal.reconnect) == (424, 403, False)
    assert refusal.original_message == body[:2048].decode("utf-8", "replace")


@pytest.mark.clause("4-3", "4-6")
async def test_refused_since_no_container_listens(transport, gateway_for):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    gateway = await gateway_for(container_port=port)
    refusal = await refused_by(url_of(gateway), transport=transport)
    assert (refusal.status, refusal.original_status, refusal.reconnect) == (424, 0, True)
    assert str(port) not in refusal.message, "where containers run is no client's business"


@pytest.mark.clause("4-4", "4-6")
async def test_refused_since_the_container_s_name_is_wrong(transport, gateway_for):
    """Another try meets the same name; the status is that of a container that restarts."""
    gateway = await gateway_for(address=Address("a" * 64, 1))  # DNS has no such label
    refusal = await refused_by(url_of(gateway), transport=transport)
    assert (refusal.status, refusal.original_status, refusal.reconnect) == (424, 0, False)


async def test_refused_since_the_gateway_is_full(transport, gateway_for, container):
    gateway = await gateway_for(max_streams=1)
    async with connect(url_of(gateway), ENDPOINT, transport=transport):
        await container.stream()
        refusal = await refused_by(url_of(gateway), transport=transport)
    assert (refusal.status, refusal.error) == (503, "ServiceUnavailableError")
    assert refusal.message == "all 1 streams of this gateway are in use"
    assert refusal.reconnect


async def test_nothing_listens_there(transport):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(GatewayUnreachable, match=f"127.0.0.1:{port}"):
        async with connect(f"http://127.0.0.1:{port}", ENDPOINT, transport=transport):
            pytest.fail("a stream opened")


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8090",
        "ftp://127.0.0.1:8090",
        "http://",
        "http://:8090",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:port",
        "http://[::1",
        "",
    ],
)
async def test_a_url_that_is_none(transport, url):
    with pytest.raises(ValueError):
        async with connect(url, ENDPOINT, transport=transport):
            pytest.fail("a stream opened")


def test_every_error_can_be_caught_as_one():
    errors = {
        BadMessage,
        ConnectionLost,
        GatewayUnreachable,
        ModelStreamFailed,
        PlatformStreamFailed,
        StreamEnded,
        StreamRefused,
    }
    assert set(PartwayError.__subclasses__()) == errors


@pytest.mark.parametrize(
    ("status", "error", "reconnect"),
    [
        (400, "InputValidationError", False),
        (400, "ThrottlingException", True),
        (400, "ThrottlingException:http://internal.amazon.com/coral/", True),
        (403, "ExpiredTokenException", False),
        (404, "", False),
        (408, "", True),
        (425, "", True),
        (429, "", True),
        (500, "InternalServerError", True),
        (501, "", False),
        (503, "ServiceUnavailableError", True),
        (505, "", False),
        (530, "", True),
    ],
)
def test_a_refusal_is_tried_again_only_where_that_can_help(status, error, reconnect):
    assert StreamRefused(status, error, "m").reconnect is reconnect


@pytest.mark.clause("4-3")
@pytest.mark.parametrize(
    ("original", "reconnect"),
    [(0, True), (400, False), (408, True), (429, True), (500, False), (501, False), (504, True)],
)
def test_a_containers_500_is_an_exception_of_its_models(original, reconnect):
    assert StreamRefused(424, "ModelError", "m", original).reconnect is reconnect


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        ("root", "--ca FILE"),
        ("name", "`partway certs --name NAME`"),
        ("time", "this machine's clock: `partway certs` renews"),
    ],
)
def test_a_certificates_error_says_what_to_do(wrong, remedy):
    error = unreachable("https://a", Untrusted("it is wrong.", wrong=wrong))
    assert (
        "cannot open a stream to https://a: the server's certificate is not trusted: it is wrong; "
        in (str(error))
    )
    assert remedy in str(error)
    assert not error.reconnect


@pytest.mark.parametrize("code", ["1000", "1005", "1010", "1015", "InputStreamError", "3008"])
def test_what_the_same_words_would_end_again(code):
    assert not ModelStreamFailed(code, "m").reconnect


def test_the_api_error_is_read_as_the_gateway_writes_it():
    """The members' names are the wire's; a body that lacks them is shown as it is."""
    body = {"Message": "m", "OriginalStatusCode": 418, "OriginalMessage": "teapot"}
    refusal = refused(424, {"x-amzn-errortype": "ModelError"}, json.dumps(body).encode())
    assert (refusal.original_status, refusal.original_message) == (418, "teapot")
    del body["Message"]
    shown = refused(424, {}, json.dumps(body).encode())
    assert (shown.error, shown.message) == ("HTTP error", json.dumps(body))
