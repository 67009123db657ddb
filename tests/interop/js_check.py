"""AWS's JavaScript SDK through a real gateway, in clear and with TLS. Run by ``make interop-js``.

The client is bedrock-runtime's with this operation's shapes (``js/operation.mjs`` says why); its
event streams, signatures and HTTP/2 are the SDK's own. What the container gets is looked at frame
by frame, and what passes between client and gateway is kept and read.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hpack import Decoder
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame

from tests.frame_factory import BINARY, CLOSE, CONTINUATION, PING, TEXT, close, frame
from tests.interop.aws_sdk import KEY, LIMITED, PRINCIPALS, TEMPORARY, Key, ServedGateway
from tests.interop.js_sdk import Chunk, JsClient, JsError, JsStream, Recorder, frames, installed
from tests.wire.peers import ModelStream, RawContainer, switching

#: Endpoints on raw containers, with what is set on each.
ENDPOINTS = {
    "model": "",
    "ends": 'normal_close = "end"',
    "drains": 'input_end = "drain"',
    "hurries": 'input_end = "close"\nclose_timeout = 0.3',
    "refuses": "",
}

DEFAULT_TARGET = "/invocations-bidirectional-stream"
BODY = "no such route, said the model: größer"
GLOBE = "🌍".encode()


def refusal(request: bytes) -> bytes:
    """A container that knows no such path."""
    body = BODY.encode()
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def part(payload: bytes, data_type: str = "UTF8", completion: str = "COMPLETE") -> dict[str, Any]:
    """A part as the SDK's user gets it."""
    return {"Bytes": payload, "DataType": data_type, "CompletionState": completion}


# --- Peers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def where() -> Path:
    return installed()


@pytest.fixture(scope="module")
async def containers(anyio_backend: str) -> AsyncIterator[dict[str, RawContainer]]:
    """Containers that say what a test says, by their endpoints' names."""
    async with AsyncExitStack() as running:
        yield {
            name: await running.enter_async_context(
                RawContainer(refusal if name == "refuses" else switching)
            )
            for name in ENDPOINTS
        }


@pytest.fixture(scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory, containers: dict[str, RawContainer]
) -> AsyncIterator[ServedGateway]:
    tables = [
        f'[endpoints.{name}]\nurl = "http://127.0.0.1:{containers[name].port}"\n{more}'
        for name, more in ENDPOINTS.items()
    ]
    config = "shutdown_grace = 0\nshutdown_spread = 0\n\n" + "\n\n".join(tables)
    directory = tmp_path_factory.mktemp("gateway")
    async with ServedGateway.start(directory, config, PRINCIPALS) as gateway:
        yield gateway
    log = gateway.log.read_text("utf-8")
    for key in (KEY, TEMPORARY, LIMITED):
        assert key.secret_access_key not in log
    assert str(TEMPORARY.session_token) not in log
    for unwanted in ("Traceback", "Logging error", "ERROR"):
        assert unwanted not in log, log


ClientFor = Callable[..., Awaitable[JsClient]]


@pytest.fixture(scope="module")
async def client_for(
    where: Path, gateway: ServedGateway, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ClientFor]:
    """Makes clients, each in a process of its own."""
    log = tmp_path_factory.mktemp("node") / "log"
    async with AsyncExitStack() as running:

        async def start(uri: str, key: Key = KEY, **options: Any) -> JsClient:
            starting = JsClient.start(where, uri, key, log, gateway.ca, **options)
            return await running.enter_async_context(starting)

        yield start


@pytest.fixture(scope="module", params=["h2c", "tls"])
def uri(request: pytest.FixtureRequest, gateway: ServedGateway) -> str:
    """The gateway's address in clear and with TLS."""
    return gateway.http if request.param == "h2c" else gateway.https


@pytest.fixture(scope="module")
async def client(client_for: ClientFor, uri: str) -> JsClient:
    """The client that most tests share, as an application's streams would."""
    return await client_for(uri)


class Conversation:
    """Both ends of one stream."""

    def __init__(self, stream: JsStream, model: ModelStream) -> None:
        self.stream = stream
        self.model = model

    async def frames(self, count: int) -> list[tuple[int, bool, bytes]]:
        """What the container got: opcode, FIN, payload of each frame."""
        frames = await self.model.frames(count)
        assert all(each.masked for each in frames)
        return [(each.opcode, each.fin, each.payload) for each in frames]

    async def answer_close(self) -> int | None:
        """The container answers the Close that it gets; returns its code."""
        (got,) = await self.model.frames(1)
        assert got.opcode == CLOSE, got
        self.model.send(frame(CLOSE, got.payload))
        return got.close_code

    async def greet(self) -> None:
        """The model speaks first, and ``send()`` resolves."""
        self.model.send(frame(TEXT, b"hello"))
        assert (await self.stream.opened())["status"] == 200
        assert await self.stream.part() == part(b"hello")

    async def finish(self) -> None:
        """The orderly end: the client's, then the container's."""
        await self.stream.end_input()
        assert await self.answer_close() == 1000
        await self.stream.end()


@pytest.fixture
def talk(client: JsClient, containers: dict[str, RawContainer]):
    """Opens a stream with a raw container."""

    async def start(endpoint: str = "model", **members: str) -> Conversation:
        stream = await client.open(endpoint, **members)
        return Conversation(stream, await containers[endpoint].stream())

    return start


# --- Parts ---------------------------------------------------------------------------------------


@pytest.mark.clause("2.1-1", "2.2-1", "2.2-2", "2.3-1", "2.3-3", "2.5-2")
async def test_text_and_binary(talk) -> None:
    talking = await talk()
    assert talking.model.target == DEFAULT_TARGET
    stream = talking.stream
    await stream.send(text="hi", DataType="UTF8", CompletionState="COMPLETE")
    await stream.send(b"\xff\x00", DataType="BINARY", CompletionState="COMPLETE")
    await stream.send(b"what is left out", P="padding, of which nobody hears")
    await stream.send(b"", DataType="UTF8")
    assert await talking.frames(4) == [
        (TEXT, True, b"hi"),
        (BINARY, True, b"\xff\x00"),
        (BINARY, True, b"what is left out"),
        (TEXT, True, b""),
    ]
    assert stream.news.empty()  # send() waits for the first part, though the head is there
    talking.model.send(frame(TEXT, "größer".encode()), frame(BINARY, b"\xff\x00"), frame(BINARY))
    opened = await stream.opened()
    assert (opened["InvokedProductionVariant"], opened["status"]) == ("AllTraffic", 200)
    assert opened["requestId"] == talking.model.header("X-Amzn-SageMaker-Request-Id")
    assert await stream.part() == part("größer".encode())
    assert await stream.part() == part(b"\xff\x00", "BINARY")
    assert await stream.part() == part(b"", "BINARY")
    await talking.finish()


@pytest.mark.clause("1.2-3", "1.2-5", "1.3-1", "1.3-2")
async def test_partial_runs_keep_their_boundaries(talk) -> None:
    """Also within a code point."""
    talking = await talk()
    stream, model = talking.stream, talking.model
    pieces = [(GLOBE[:1], "PARTIAL"), (GLOBE[1:3], "PARTIAL"), (GLOBE[3:], "COMPLETE")]
    for payload, completion in pieces:
        await stream.send(payload, DataType="UTF8", CompletionState=completion)
    await stream.send(b"\x01", DataType="BINARY", CompletionState="PARTIAL")
    await stream.send(b"\x02", CompletionState="COMPLETE")
    assert await talking.frames(5) == [
        (TEXT, False, GLOBE[:1]),
        (CONTINUATION, False, GLOBE[1:3]),
        (CONTINUATION, True, GLOBE[3:]),
        (BINARY, False, b"\x01"),
        (CONTINUATION, True, b"\x02"),
    ]
    model.send(
        frame(TEXT, GLOBE[:3], fin=False),
        frame(PING, b"between"),
        frame(CONTINUATION, b"", fin=False),
        frame(CONTINUATION, GLOBE[3:]),
        frame(BINARY, b"\x01", fin=False),
        frame(CONTINUATION, b"\x02"),
    )
    await stream.opened()
    assert [await stream.part() for _ in range(5)] == [
        part(GLOBE[:3], "UTF8", "PARTIAL"),
        part(b"", "UTF8", "PARTIAL"),
        part(GLOBE[3:]),
        part(b"\x01", "BINARY", "PARTIAL"),
        part(b"\x02", "BINARY"),
    ]
    assert (await model.frame()).payload == b"between"
    await talking.finish()


@pytest.mark.clause("1.2-1", "1.3-1", "2.6-3")
async def test_parts_of_half_a_megabyte(talk) -> None:
    talking = await talk()
    size = 512 * 1024
    for number in range(8):
        await talking.stream.send(fill=number, size=size, DataType="BINARY")
    for number in range(8):
        got = await talking.model.frame()
        assert (got.opcode, got.fin, got.payload) == (BINARY, True, bytes([number]) * size)
    for number in range(8):
        talking.model.send(frame(BINARY, bytes([number]) * size))
    await talking.stream.opened()
    for number in range(8):
        assert await talking.stream.part() == {
            "size": size,
            "sha256": hashlib.sha256(bytes([number]) * size).hexdigest(),
            "DataType": "BINARY",
            "CompletionState": "COMPLETE",
        }
    await talking.finish()


@pytest.mark.clause("2.1-4", "2.6-2")
async def test_twenty_streams_of_one_client(talk) -> None:
    talking = [await talk() for _ in range(20)]

    async def converse(here: Conversation) -> None:
        for turn in range(10):
            payload = f"{turn} ".encode() * 100
            completion = "PARTIAL" if turn < 9 else "COMPLETE"
            await here.stream.send(payload, DataType="UTF8", CompletionState=completion)
            got = await here.model.frame()
            assert (got.fin, got.payload) == (turn == 9, payload)
            here.model.send(frame(got.opcode, payload, fin=got.fin))
            if turn == 0:
                await here.stream.opened()
            assert await here.stream.part() == part(payload, "UTF8", completion)
        await here.finish()

    # Which of them the container took first is not known: pair them by what they say.
    for number, here in enumerate(talking):
        await here.stream.send(b"%d" % number)
    models = {}
    for here in talking:
        models[int((await here.model.frame()).payload)] = here.model
    async with asyncio.TaskGroup() as conversations:
        for number, here in enumerate(talking):
            conversations.create_task(converse(Conversation(here.stream, models[number])))


# --- The request ---------------------------------------------------------------------------------


@pytest.mark.clause("1.6-1", "2.1-3", "2.4-3")
async def test_path_query_and_variant(talk) -> None:
    talking = await talk(
        ModelInvocationPath="v1/listen",
        ModelQueryString="model=nova-2&language=de%2DDE",
        TargetVariant="AllTraffic",
    )
    assert talking.model.target == "/v1/listen?model=nova-2&language=de%2DDE"
    await talking.finish()


@pytest.mark.clause("2.1-3")
async def test_empty_members_count_as_absent(talk) -> None:
    talking = await talk(ModelInvocationPath="", ModelQueryString="", TargetVariant="")
    assert talking.model.target == DEFAULT_TARGET
    await talking.finish()


@pytest.mark.clause("2.1-4", "2.4-2")
async def test_a_base_path_in_front(
    client_for: ClientFor, uri: str, containers: dict[str, RawContainer]
) -> None:
    client = await client_for(f"{uri}/base/path")
    stream = await client.open("model")
    await Conversation(stream, await containers["model"].stream()).finish()


@pytest.mark.clause("2.4-3")
async def test_temporary_credentials(
    client_for: ClientFor, uri: str, containers: dict[str, RawContainer]
) -> None:
    client = await client_for(uri, TEMPORARY)
    stream = await client.open("model")
    talking = Conversation(stream, await containers["model"].stream())
    await stream.send(b"signed", DataType="UTF8")
    assert await talking.frames(1) == [(TEXT, True, b"signed")]
    await talking.finish()


@pytest.mark.clause("2.2-1", "2.4-5")
async def test_a_clock_that_is_wrong(
    client_for: ClientFor, uri: str, containers: dict[str, RawContainer]
) -> None:
    """The SDK learns the time from the refusal's date, and its next stream is right."""
    client = await client_for(uri, clock_ahead_ms=20 * 60 * 1000)
    error = await refused(client, "model")
    assert (error.name, error.status) == ("InvalidSignatureException", 403)
    stream = await client.open("model")
    talking = Conversation(stream, await containers["model"].stream())
    await stream.send(b"on time", DataType="UTF8")
    assert await talking.frames(1) == [(TEXT, True, b"on time")]
    await talking.finish()


# --- Refusals ------------------------------------------------------------------------------------


async def refused(client: JsClient, endpoint: str, **members: str) -> JsError:
    """What opening a stream throws."""
    stream = await client.open(endpoint, **members)
    return await stream.error()


@pytest.mark.clause("4-3", "4-6")
async def test_a_container_that_refuses(client: JsClient) -> None:
    error = await refused(client, "refuses")
    assert (error.name, error.status) == ("ModelError", 424)
    assert error.members["OriginalStatusCode"] == 403
    assert error.members["OriginalMessage"] == BODY
    assert error.message


@pytest.mark.clause("4-2", "4-6")
async def test_an_unknown_endpoint(client: JsClient) -> None:
    error = await refused(client, "nobody")
    assert (error.name, error.status) == ("InputValidationError", 400)
    assert error.members["ErrorCode"] == "EndpointNotFound"


@pytest.mark.clause("2.1-4", "2.4-2", "4-7")
async def test_a_name_that_has_to_be_percent_encoded(client: JsClient) -> None:
    error = await refused(client, "no body/here")  # its signature holds, or it would be 403
    assert (error.name, error.status) == ("InputValidationError", 400)


@pytest.mark.parametrize(
    ("key", "region", "name"),
    [
        (KEY._replace(secret_access_key="another"), "us-east-1", "InvalidSignatureException"),
        (KEY._replace(access_key_id="AKIDNOBODY"), "us-east-1", "UnrecognizedClientException"),
        (TEMPORARY._replace(session_token="other"), "us-east-1", "UnrecognizedClientException"),
        (KEY, "eu-west-1", "InvalidSignatureException"),
        (LIMITED, "us-east-1", "AccessDeniedException"),
    ],
    ids=["wrong-secret", "unknown-key", "wrong-token", "wrong-region", "not-allowed"],
)
@pytest.mark.clause("2.4-3", "2.4-6")
async def test_who_may_not(
    client_for: ClientFor, uri: str, key: Key, region: str, name: str
) -> None:
    error = await refused(await client_for(uri, key, region=region), "model")
    assert (error.name, error.status) == (name, 403)


# --- Ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (1011, "out of memory", "out of memory"),
        (4321, "größer als erlaubt", "größer als erlaubt"),
        (1000, "done", "done"),
    ],
)
@pytest.mark.clause("1.5-1", "2.3-5", "2.3-6")
async def test_the_containers_close(talk, code: int, reason: str, message: str) -> None:
    talking = await talk()
    talking.model.send(frame(TEXT, b"last words"), close(code, reason.encode()))
    await talking.stream.opened()
    assert await talking.stream.part() == part(b"last words")
    error = await talking.stream.error()
    assert (error.name, error.message) == ("ModelStreamError", message)
    assert error.members["ErrorCode"] == str(code)
    assert error.members["Message"] == message
    assert (await talking.model.frame()).close_code == code


@pytest.mark.clause("2.3-6", "2.1-4")
async def test_a_long_tail_before_the_error(talk) -> None:
    """The SDK drops what it has not read when a reset comes; so none comes that early."""
    talking = await talk()
    talking.model.send(*[frame(BINARY, bytes(10_000))] * 200, close(1011, b"out of memory"))
    await talking.stream.opened()
    for _ in range(200):
        assert (await talking.stream.part())["Bytes"] == bytes(10_000)
    error = await talking.stream.error()
    assert (error.name, error.members["ErrorCode"]) == ("ModelStreamError", "1011")


@pytest.mark.clause("1.5-1", "2.3-5")
async def test_a_close_before_the_first_part(talk) -> None:
    """``send()`` itself throws, though the response's status was 200."""
    talking = await talk()
    talking.model.send(close(1011, b"out of memory"))
    error = await talking.stream.error()
    assert (error.name, error.members["ErrorCode"]) == ("ModelStreamError", "1011")


@pytest.mark.clause("1.5-1", "2.3-6")
async def test_a_close_that_is_an_end(talk) -> None:
    talking = await talk("ends")
    talking.model.send(frame(TEXT, b"bye"), close(1000))
    await talking.stream.opened()
    assert await talking.stream.part() == part(b"bye")
    await talking.stream.end()


@pytest.mark.clause("1.5-8", "2.3-5")
async def test_internal_stream_failure(talk) -> None:
    talking = await talk("hurries")
    await talking.greet()
    await talking.stream.end_input()
    assert (await talking.model.frame()).close_code == 1000  # and it says no more
    error = await talking.stream.error()
    assert error.name == "InternalStreamFailure"
    assert error.members["$fault"] == "server"
    assert "container" in error.message


@pytest.mark.clause("1.5-3")
@pytest.mark.parametrize("way", ["reset", "abort"])
async def test_the_containers_connection_is_lost(talk, way: str) -> None:
    talking = await talk()
    await talking.greet()
    getattr(talking.model, way)()
    error = await talking.stream.error()
    assert (error.name, error.members["ErrorCode"]) == ("ModelStreamError", "1006")


@pytest.mark.clause("1.5-10")
async def test_parts_that_are_none(talk) -> None:
    talking = await talk()
    await talking.stream.send(b"hi", DataType="TEXT")
    error = await talking.stream.error()
    assert (error.name, error.members["ErrorCode"]) == ("ModelStreamError", "InputStreamError")
    assert (await talking.model.frame()).close_code == 1008


@pytest.mark.clause("1.5-11", "1.5-12", "2.3-2")
async def test_end_of_input(talk) -> None:
    talking = await talk()
    await talking.stream.send(b"question", DataType="UTF8")
    await talking.stream.end_input()
    assert await talking.frames(1) == [(TEXT, True, b"question")]
    assert (await talking.model.frame()).close_code == 1000
    talking.model.send(frame(TEXT, b"answer"), close(1000))
    await talking.stream.opened()
    assert await talking.stream.part() == part(b"answer")
    await talking.stream.end()


@pytest.mark.clause("1.5-12", "2.3-2")
async def test_end_of_input_drains(talk) -> None:
    talking = await talk("drains")
    await talking.greet()
    await talking.stream.end_input()
    for number in range(3):
        talking.model.send(frame(TEXT, b"%d" % number))
        assert await talking.stream.part() == part(b"%d" % number)
    assert talking.model.seen == []  # the model has not been told
    talking.model.send(close(1000))
    await talking.stream.end()


@pytest.mark.clause("1.2-7")
async def test_end_of_input_in_a_message(talk) -> None:
    talking = await talk()
    await talking.stream.send(b"half a", DataType="UTF8", CompletionState="PARTIAL")
    await talking.stream.end_input()
    assert await talking.frames(1) == [(TEXT, False, b"half a")]
    assert await talking.answer_close() == 1000
    await talking.stream.end()


@pytest.mark.clause("1.5-9")
async def test_abort(talk) -> None:
    """To the loop over the response it is an end like any other."""
    talking = await talk()
    await talking.greet()
    await talking.stream.abort()
    assert (await talking.model.frame()).close_code == 1001
    await talking.stream.end()


@pytest.mark.clause("1.5-9")
async def test_abort_before_the_first_part(talk) -> None:
    """Even then: ``send()`` resolves."""
    talking = await talk()
    await talking.stream.send(b"question", DataType="UTF8")
    await talking.frames(1)
    await talking.stream.abort()
    assert (await talking.model.frame()).close_code == 1001
    await talking.stream.end()


async def test_break_alone_tells_nobody(talk) -> None:
    """The SDK goes on with the request; who leaves the loop has to abort it too."""
    talking = await talk()
    await talking.greet()
    await talking.stream.leave()
    talking.model.send(frame(TEXT, b"one more"))
    assert await talking.stream.part() == part(b"one more")
    await talking.stream.end()
    await talking.stream.send(b"still here", DataType="UTF8")
    assert await talking.frames(1) == [(TEXT, True, b"still here")]
    await talking.stream.abort()
    assert (await talking.model.frame()).close_code == 1001


# --- What is on the wire -------------------------------------------------------------------------


@pytest.fixture(params=["h2c", "tls"])
async def recorder(
    request: pytest.FixtureRequest, gateway: ServedGateway
) -> AsyncIterator[Recorder]:
    """In front of the gateway's port without TLS; with TLS, it takes that off."""
    tls = None
    if request.param == "tls":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        files = gateway.ca.parent
        tls.load_cert_chain(files / "server.pem", files / "server-key.pem")
        tls.set_alpn_protocols(["h2"])
    port = urlsplit(gateway.http).port
    assert port is not None
    async with Recorder(port, tls) as recorder:
        yield recorder


async def converse(recorder: Recorder, client: JsClient, container: RawContainer) -> list[Chunk]:
    """A whole conversation with words both ways after the head; returns what passed."""
    stream = await client.open(
        "model", ModelInvocationPath="v1/listen", ModelQueryString="language=de%2DDE"
    )
    talking = Conversation(stream, await container.stream())
    await stream.send("Grüße, ".encode(), DataType="UTF8", CompletionState="PARTIAL")
    assert await talking.frames(1) == [(TEXT, False, "Grüße, ".encode())]
    talking.model.send(frame(TEXT, b"Wie ", fin=False))
    await stream.opened()
    assert await stream.part() == part(b"Wie ", "UTF8", "PARTIAL")
    for payload, completion in [(GLOBE[:2], "PARTIAL"), (GLOBE[2:], "COMPLETE")]:
        await stream.send(payload, DataType="UTF8", CompletionState=completion)
    await stream.send(b"", DataType="UTF8")
    await stream.send(bytes(range(256)), P="abcdefghijklmnopqrstuvwxyz")
    assert await talking.frames(4) == [
        (CONTINUATION, False, GLOBE[:2]),
        (CONTINUATION, True, GLOBE[2:]),
        (TEXT, True, b""),
        (BINARY, True, bytes(range(256))),
    ]
    talking.model.send(frame(CONTINUATION, "geht’s?".encode()), frame(BINARY, b"\0"))
    assert await stream.part() == part("geht’s?".encode())
    assert await stream.part() == part(b"\0", "BINARY")
    await stream.end_input()
    assert (await talking.model.frame()).close_code == 1000
    talking.model.send(frame(TEXT, b"the tail"), close(1000))
    assert await stream.part() == part(b"the tail")
    await stream.end()
    (chunks,) = recorder.conversations
    return chunks


@pytest.mark.clause("2.1-4", "2.4-3", "2.5-2")
async def test_goaway_follows_the_head_and_the_stream_goes_on(
    client_for: ClientFor, recorder: Recorder, containers: dict[str, RawContainer]
) -> None:
    client = await client_for(recorder.uri)
    chunks = await converse(recorder, client, containers["model"])
    passed = list(frames(chunks))
    assert chunks[0].from_client  # whoever speaks first, in clear, knows what is spoken
    kinds = [(from_client, type(each)) for from_client, each in passed]
    head = kinds.index((False, HeadersFrame))
    goaway = kinds.index((True, GoAwayFrame))
    assert head < goaway < len(kinds)
    after = passed[goaway + 1 :]
    for side in (True, False):
        data = [f for from_client, f in after if from_client == side and isinstance(f, DataFrame)]
        assert len(data) > 1, f"nothing more from {'the client' if side else 'the gateway'}"
    assert isinstance(passed[goaway][1], GoAwayFrame)
    assert passed[goaway][1].error_code == 0


@pytest.mark.clause("2.1-1", "2.1-4", "2.4-3")
async def test_authority_is_signed_and_there_is_no_host(
    client_for: ClientFor, recorder: Recorder, containers: dict[str, RawContainer]
) -> None:
    client = await client_for(recorder.uri)
    chunks = await converse(recorder, client, containers["model"])
    block = next(f for client, f in frames(chunks) if client and isinstance(f, HeadersFrame))
    assert "END_HEADERS" in block.flags
    headers = dict(Decoder().decode(block.data))
    assert "host" not in headers
    assert "content-length" not in headers
    assert headers[":authority"] == urlsplit(recorder.uri).netloc
    assert headers["content-type"] == "application/vnd.amazon.eventstream"
    assert headers["x-amz-content-sha256"] == "STREAMING-AWS4-HMAC-SHA256-EVENTS"
    found = re.search(r"SignedHeaders=([^,]+)", headers["authorization"])
    assert found is not None
    signed = found[1].split(";")
    assert ":authority" in signed
    assert "host" not in signed
    assert {n for n in headers if n.startswith(("x-amz-", "x-amzn-sagemaker-"))} <= set(signed)


@pytest.mark.clause("2.1-4")
async def test_an_abort_drops_the_connection(
    client_for: ClientFor,
    recorder: Recorder,
    gateway: ServedGateway,
    containers: dict[str, RawContainer],
) -> None:
    """No RST_STREAM: another GOAWAY, and the end. So it counts as a loss."""
    client = await client_for(recorder.uri)
    talking = Conversation(await client.open("model"), await containers["model"].stream())
    await talking.greet()
    before = await gateway.causes()
    await talking.stream.abort()
    assert (await talking.model.frame()).close_code == 1001
    (chunks,) = recorder.conversations
    last = [each for from_client, each in frames(chunks) if from_client][-2:]
    assert [type(each) for each in last] == [GoAwayFrame, GoAwayFrame]
    after = await gateway.causes()
    assert after["client_lost"] == before.get("client_lost", 0) + 1


@pytest.mark.clause("2.3-6")
async def test_a_lost_connection_reads_as_an_end(
    client_for: ClientFor, recorder: Recorder, containers: dict[str, RawContainer]
) -> None:
    """So what is wrong has to come as an event."""
    client = await client_for(recorder.uri)
    talking = Conversation(await client.open("model"), await containers["model"].stream())
    await talking.greet()
    recorder.cut()
    await talking.stream.end()
    assert (await talking.model.frame()).close_code == 1001


@pytest.mark.clause("2.3-6")
async def test_a_reset_connection_is_an_error(
    client_for: ClientFor, recorder: Recorder, containers: dict[str, RawContainer]
) -> None:
    client = await client_for(recorder.uri)
    talking = Conversation(await client.open("model"), await containers["model"].stream())
    await talking.greet()
    # The SDK takes no more streams on this connection, and says so. Of a reset one system call
    # hears: were it the sending of this, what is read would be an end.
    await recorder.heard(GoAwayFrame)
    recorder.reset()
    assert (await talking.stream.error()).members["code"] == "ECONNRESET"
    assert (await talking.model.frame()).close_code == 1001
