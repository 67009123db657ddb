"""AWS's own SDK for Python through a real gateway: TLS, HTTP/2, signatures, events.

Run by ``make interop SDK_PYTHON=…``; docs/how-to/aws-sdk-python.md says how to get an interpreter.
What is sent and raised is the SDK's own; what the container gets is looked at frame by frame.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest
from botocore.credentials import Credentials

from tests.frame_factory import BINARY, CLOSE, CONTINUATION, PING, TEXT, close, frame
from tests.gateway.apis.control.deployments import Script, variant
from tests.interop.aws_sdk import (
    DEPLOYING,
    KEY,
    LIMITED,
    PRINCIPALS,
    REGION,
    ROOT,
    TEMPORARY,
    Hung,
    Key,
    Part,
    Sdk,
    SdkClient,
    SdkError,
    SdkStream,
    ServedGateway,
)
from tests.wire.peers import ModelStream, RawContainer, switching

#: Endpoints on raw containers, with what is set on each.
ENDPOINTS = {
    "model": "",
    "ends": 'normal_close = "end"',
    "drains": 'input_end = "drain"',
    "small": "max_part = 1000",
    "refuses": "",
}

DEFAULT_TARGET = "/invocations-bidirectional-stream"
BODY = "no such route, said the model: größer"


def refusal(request: bytes) -> bytes:
    """A container that knows no such path (section 6 of the contract has one of these)."""
    body = BODY.encode()
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


# --- Versions ------------------------------------------------------------------------------------


class Differences(NamedTuple):
    """What a version of the SDK does in a way of its own; all else is the same for all.

    Attributes:
        one_connection: a client's streams share one; else each gets its own.
        clients_close: a client can be closed, which closes its connections.
        closing_hangs: now and then closing a stream waits for ever for a buffer that nobody
            empties, if parts were sent after the response's end.
        end_patience: seconds within which a clean end of the response shows while the input is
            open; to some it shows only with the reset, which comes after 30 (clause 2.3-6).
        example: which of the page's examples is for it.
    """

    one_connection: bool
    clients_close: bool
    closing_hangs: bool
    end_patience: float
    example: int


#: By minor version; others are taken for the latest of these.
DIFFERENCES = {
    "0.4": Differences(False, False, True, 40.0, 1),
    "0.12": Differences(True, True, False, 10.0, 0),
}


# --- Peers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter that has the SDK."""
    found = os.environ.get("SDK_PYTHON")
    if not found:
        pytest.fail(
            "SDK_PYTHON names no interpreter: set it to a Python >= 3.12 with "
            "aws-sdk-sagemaker-runtime-http2[awscrt], as in "
            "make interop SDK_PYTHON=/tmp/sdk/bin/python (docs/how-to/aws-sdk-python.md)",
            pytrace=False,
        )
    return str(Path(found).absolute())


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
async def echo(anyio_backend: str) -> AsyncIterator[str]:
    """``partway-container``'s echo; gives its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "partway.container", "serve", "--host", "127.0.0.1", "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
    yield line.split()[-1]
    process.terminate()
    await process.wait()


@pytest.fixture(scope="module")
def config(containers: dict[str, RawContainer], echo: str, unused_port: int) -> str:
    """The gateway's settings."""
    tables = [f'[endpoints.echo]\nurl = "{echo}"']
    tables += ['[endpoints.launched]\nimage = "echo"\ninstances = 2']
    tables += [f'[endpoints.gone]\nurl = "http://127.0.0.1:{unused_port}"']
    tables += [
        f'[endpoints.{name}]\nurl = "http://127.0.0.1:{containers[name].port}"\n{more}'
        for name, more in ENDPOINTS.items()
    ]
    return "shutdown_grace = 0\nshutdown_spread = 0\n\n" + "\n\n".join(tables)


@pytest.fixture(scope="module")
async def unused_port(anyio_backend: str) -> int:
    """A port on which nothing listens."""
    async with RawContainer() as container:
        return container.port


@pytest.fixture(scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory, config: str, anyio_backend: str
) -> AsyncIterator[ServedGateway]:
    directory = tmp_path_factory.mktemp("gateway")
    async with ServedGateway.start(directory, config, PRINCIPALS) as gateway:
        yield gateway
    log = gateway.log.read_text("utf-8")
    for key in (KEY, TEMPORARY, LIMITED):
        assert key.secret_access_key not in log
    assert str(TEMPORARY.session_token) not in log
    for unwanted in ("Traceback", "Logging error", "ERROR"):
        assert unwanted not in log, log


@pytest.fixture(scope="module")
async def sdk(
    tmp_path_factory: pytest.TempPathFactory, gateway: ServedGateway, python: str
) -> AsyncIterator[Sdk]:
    log = tmp_path_factory.mktemp("sdk") / "sdk.log"
    async with Sdk.start(python, gateway.ca, log) as sdk:
        yield sdk


@pytest.fixture(scope="module")
async def client(sdk: Sdk, gateway: ServedGateway) -> SdkClient:
    """The client that most tests share, as an application's streams would."""
    return await sdk.client(gateway.https, KEY)


@pytest.fixture(scope="module")
def differences(sdk: Sdk) -> Differences:
    return DIFFERENCES.get(sdk.version.rpartition(".")[0], DIFFERENCES["0.12"])


class Conversation:
    """Both ends of one stream."""

    def __init__(self, stream: SdkStream, model: ModelStream) -> None:
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

    async def finish(self) -> None:
        """The orderly end: the client's, then the container's."""
        await self.stream.end_input()
        assert await self.answer_close() == 1000
        assert await self.stream.rest() == []
        await self.stream.close()


@pytest.fixture
def talk(client: SdkClient, containers: dict[str, RawContainer]):
    """Opens a stream with a raw container."""

    async def start(endpoint: str = "model", **members: str) -> Conversation:
        stream = await client.begin(endpoint, **members)
        model = await containers[endpoint].stream()
        assert await stream.head() == "AllTraffic"
        return Conversation(stream, model)

    return start


async def ended(gateway: ServedGateway, cause: str, before: int) -> None:
    """Wait until one more stream has ended with a cause."""
    for _ in range(5):
        if (await gateway.causes()).get(cause, 0) > before:
            return
    raise AssertionError(f"no stream ended with {cause}: {await gateway.causes()}")


# --- Parts ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-1")
async def test_instances_that_the_gateway_has_started(client: SdkClient) -> None:
    streams = [await client.begin("launched") for _ in range(4)]
    for stream in streams:
        assert await stream.head() == "AllTraffic"
        await stream.send(b"hi", "UTF8", "COMPLETE")
        part = await stream.receive()
        assert part is not None
        assert part.payload == b"hi"
    for stream in streams:
        await stream.end_input()
        assert await stream.rest() == []
        await stream.close()


async def test_an_endpoint_that_boto3_updates_meanwhile(
    client: SdkClient, gateway: ServedGateway
) -> None:
    """Each stream is with the variant that it asked for, and goes on while others take over."""
    script = Script(urlsplit(gateway.http).port or 0, Credentials(*DEPLOYING[:2]))

    def deploy() -> None:
        script.model("echo", "echo")
        script.config("two", variant("echo", "a"), variant("echo", "b"))
        script.create("deployed", "two")
        script.in_service("deployed")

    async def talk(target: str, stream: SdkStream) -> None:
        assert await stream.head() == target
        await stream.send(b"hi", "UTF8", "COMPLETE")
        assert await stream.receive() == Part(b"hi", "UTF8", "COMPLETE")

    await asyncio.to_thread(deploy)
    open_ones = {each: await client.begin("deployed", target_variant=each) for each in "ab"}
    for target, stream in open_ones.items():
        await talk(target, stream)
    updating = asyncio.create_task(asyncio.to_thread(script.update_whole, "deployed", "two"))
    while not updating.done():
        for target in "ab":
            stream = await client.begin("deployed", target_variant=target)
            await talk(target, stream)
            await stream.end_input()
            assert await stream.rest() == []
            await stream.close()
    assert (await updating)["EndpointStatus"] == "InService"
    for stream in open_ones.values():
        await stream.send(b"still here", "UTF8", "COMPLETE")
        assert await stream.receive() == Part(b"still here", "UTF8", "COMPLETE")
        await stream.end_input()
        assert await stream.rest() == []
        await stream.close()
    await asyncio.to_thread(script.delete, "deployed")


@pytest.mark.clause("2.1-1", "2.1-2", "2.1-4", "2.2-1", "2.2-2", "2.3-1", "2.5-1")
async def test_text_and_binary(talk) -> None:
    talking = await talk()
    assert talking.model.target == DEFAULT_TARGET
    stream = talking.stream
    await stream.send(b"hi", "UTF8", "COMPLETE")
    await stream.send(b"\xff\x00", "BINARY", "COMPLETE")
    await stream.send(b"what is left out", p="padding, of which nobody hears")
    assert await talking.frames(3) == [
        (TEXT, True, b"hi"),
        (BINARY, True, b"\xff\x00"),
        (BINARY, True, b"what is left out"),
    ]
    talking.model.send(frame(TEXT, "größer".encode()), frame(BINARY, b"\xff\x00"))
    assert await stream.receive() == Part("größer".encode(), "UTF8", "COMPLETE")
    assert await stream.receive() == Part(b"\xff\x00", "BINARY", "COMPLETE")
    await talking.finish()


@pytest.mark.clause("1.2-3", "1.3-1", "1.3-2", "2.3-3")
async def test_partial_runs_keep_their_boundaries(talk) -> None:
    talking = await talk()
    stream, model = talking.stream, talking.model
    for payload, completion in [(b"a", "PARTIAL"), (b"bc", "PARTIAL"), (b"def", "COMPLETE")]:
        await stream.send(payload, "UTF8", completion)
    await stream.send(b"\x01", "BINARY", "PARTIAL")
    await stream.send(b"\x02", completion="COMPLETE")
    assert await talking.frames(5) == [
        (TEXT, False, b"a"),
        (CONTINUATION, False, b"bc"),
        (CONTINUATION, True, b"def"),
        (BINARY, False, b"\x01"),
        (CONTINUATION, True, b"\x02"),
    ]
    model.send(
        frame(TEXT, b"a", fin=False),
        frame(PING, b"between"),
        frame(CONTINUATION, b"bc", fin=False),
        frame(CONTINUATION, b"def"),
        frame(BINARY, b"\x01", fin=False),
        frame(CONTINUATION, b"\x02"),
    )
    assert [await stream.receive() for _ in range(5)] == [
        Part(b"a", "UTF8", "PARTIAL"),
        Part(b"bc", "UTF8", "PARTIAL"),
        Part(b"def", "UTF8", "COMPLETE"),
        Part(b"\x01", "BINARY", "PARTIAL"),
        Part(b"\x02", "BINARY", "COMPLETE"),
    ]
    assert (await model.frame()).payload == b"between"
    await talking.finish()


@pytest.mark.clause("1.2-5", "2.3-1")
async def test_a_code_point_split_over_parts(talk) -> None:
    talking = await talk()
    globe = "🌍".encode()
    await talking.stream.send(globe[:1], "UTF8", "PARTIAL")
    await talking.stream.send(globe[1:3], "UTF8", "PARTIAL")
    await talking.stream.send(globe[3:], "UTF8", "COMPLETE")
    assert await talking.frames(3) == [
        (TEXT, False, globe[:1]),
        (CONTINUATION, False, globe[1:3]),
        (CONTINUATION, True, globe[3:]),
    ]
    talking.model.send(frame(TEXT, globe[:3], fin=False), frame(CONTINUATION, globe[3:]))
    assert await talking.stream.receive() == Part(globe[:3], "UTF8", "PARTIAL")
    assert await talking.stream.receive() == Part(globe[3:], "UTF8", "COMPLETE")
    await talking.finish()


@pytest.mark.clause("1.2-4", "2.3-1", "2.3-3")
async def test_empty_parts(talk) -> None:
    talking = await talk()
    await talking.stream.send(b"", "UTF8", "COMPLETE")
    await talking.stream.send(b"", "BINARY", "PARTIAL")
    await talking.stream.send(b"", "BINARY", "COMPLETE")
    assert await talking.frames(3) == [
        (TEXT, True, b""),
        (BINARY, False, b""),
        (CONTINUATION, True, b""),
    ]
    talking.model.send(frame(TEXT), frame(BINARY, fin=False), frame(CONTINUATION))
    assert [await talking.stream.receive() for _ in range(3)] == [
        Part(b"", "UTF8", "COMPLETE"),
        Part(b"", "BINARY", "PARTIAL"),
        Part(b"", "BINARY", "COMPLETE"),
    ]
    await talking.finish()


@pytest.mark.clause("1.2-1", "1.3-1", "2.6-1")
async def test_parts_of_half_a_megabyte(client: SdkClient) -> None:
    stream = await client.open("echo")
    parts = [bytes([number]) * 500_000 for number in range(12)]

    async def send() -> None:
        for part in parts:
            await stream.send(part, "BINARY", "COMPLETE")

    sending = asyncio.create_task(send())
    for part in parts:
        assert await stream.receive() == Part(part, "BINARY", "COMPLETE")
    await sending
    await stream.end_input()
    assert await stream.rest() == []
    await stream.close()


@pytest.mark.clause("2.6-2")
async def test_twenty_streams_of_one_client(
    client: SdkClient, gateway: ServedGateway, differences: Differences
) -> None:
    everybody_talks = asyncio.Barrier(21)

    async def converse(number: int) -> None:
        stream = await client.open("echo")
        for turn in range(10):
            payload = f"{number}: {turn} ".encode() * 100
            await stream.send(payload, "UTF8", "PARTIAL" if turn % 2 else "COMPLETE")
            completion = "PARTIAL" if turn % 2 else "COMPLETE"
            assert await stream.receive() == Part(payload, "UTF8", completion)
        await everybody_talks.wait()
        await everybody_talks.wait()
        await stream.end_input()
        assert await stream.rest() == []
        await stream.close()

    async with asyncio.TaskGroup() as conversations:
        for number in range(20):
            conversations.create_task(converse(number))
        await everybody_talks.wait()
        taken = await asyncio.to_thread(tls_connections, gateway)
        await everybody_talks.wait()
    assert (taken == 1) is differences.one_connection, taken


async def test_streams_over_the_limit_of_a_connection(
    python: str, config: str, differences: Differences, tmp_path: Path
) -> None:
    """The SDK neither begins such a stream nor fails it; another client opens a connection."""
    if not differences.one_connection:
        pytest.skip("each stream has a connection of its own")
    async with AsyncExitStack() as running:
        limited = f"max_streams_per_connection = 2\n{config}"
        gateway = await running.enter_async_context(
            ServedGateway.start(tmp_path, limited, PRINCIPALS)
        )
        sdk = await running.enter_async_context(Sdk.start(python, gateway.ca, tmp_path / "log"))
        client, other = [await sdk.client(gateway.https, KEY) for _ in range(2)]
        ends, stays = [await client.open("echo") for _ in range(2)]
        late = await client.begin("echo")
        with pytest.raises(Hung):
            await late.head(patience=3)
        assert await asyncio.to_thread(tls_connections, gateway) == 1
        beside = await other.open("echo")
        assert await asyncio.to_thread(tls_connections, gateway) == 2
        await ends.end_input()
        assert await ends.rest() == []
        with pytest.raises(Hung):
            await late.head(patience=3)
        for stream in (await client.open("echo"), stays, beside):
            await stream.end_input()
            assert await stream.rest() == []


def tls_connections(gateway: ServedGateway) -> int:
    """How many connections there are to the TLS port."""
    port = urlsplit(gateway.https).port
    return sum(
        each.raddr != () and each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED
        for each in psutil.net_connections("tcp4")
    )


# --- The request ---------------------------------------------------------------------------------


@pytest.mark.clause("1.6-1", "2.1-3", "2.4-3")
async def test_path_query_and_variant(talk) -> None:
    talking = await talk(
        model_invocation_path="v1/listen",
        model_query_string="model=nova-2&language=de%2DDE",
        target_variant="AllTraffic",
    )
    assert talking.model.target == "/v1/listen?model=nova-2&language=de%2DDE"
    await talking.finish()


@pytest.mark.clause("2.1-3")
async def test_empty_members_count_as_absent(talk) -> None:
    talking = await talk(model_invocation_path="", model_query_string="", target_variant="")
    assert talking.model.target == DEFAULT_TARGET
    await talking.finish()


@pytest.mark.clause("2.1-4", "2.4-2")
async def test_a_base_path_in_front(
    sdk: Sdk, gateway: ServedGateway, containers: dict[str, RawContainer]
) -> None:
    client = await sdk.client(f"{gateway.https}/base/path", KEY)
    stream = await client.begin("model")
    talking = Conversation(stream, await containers["model"].stream())
    await stream.head()
    assert talking.model.target == DEFAULT_TARGET
    await talking.finish()
    await client.close()


@pytest.mark.clause("2.4-3")
async def test_temporary_credentials(
    sdk: Sdk, gateway: ServedGateway, containers: dict[str, RawContainer]
) -> None:
    client = await sdk.client(gateway.https, TEMPORARY)
    stream = await client.begin("model")
    talking = Conversation(stream, await containers["model"].stream())
    await stream.head()
    await stream.send(b"signed", "UTF8")
    assert await talking.frames(1) == [(TEXT, True, b"signed")]
    await talking.finish()
    await client.close()


# --- Refusals ------------------------------------------------------------------------------------


async def refused(client: SdkClient, endpoint: str, **members: str) -> SdkError:
    """What opening a stream raises."""
    with pytest.raises(SdkError) as refusal:
        await client.open(endpoint, **members)
    return refusal.value


@pytest.mark.clause("4-3", "4-6")
async def test_a_container_that_refuses(client: SdkClient) -> None:
    error = await refused(client, "refuses")
    assert error.kind == "ModelError"
    assert error.members["original_status_code"] == 403
    assert error.members["original_message"] == BODY
    assert error.members["message"]


@pytest.mark.clause("4-3", "4-6")
async def test_a_container_that_is_not_there(client: SdkClient) -> None:
    error = await refused(client, "gone")
    assert error.kind == "ModelError"
    assert error.members["original_status_code"] == 0


@pytest.mark.clause("4-2", "4-6")
async def test_an_unknown_endpoint(client: SdkClient) -> None:
    error = await refused(client, "nobody")
    assert (error.kind, error.members["error_code"]) == ("InputValidationError", "EndpointNotFound")
    assert "nobody" in error.members["message"]


@pytest.mark.clause("2.1-4", "2.4-2", "4-7")
async def test_a_name_that_has_to_be_percent_encoded(client: SdkClient) -> None:
    error = await refused(client, "no body/here")  # its signature holds, or it would be 403
    assert error.kind == "InputValidationError"


@pytest.mark.clause("4-2", "4-7")
async def test_a_bad_path(client: SdkClient) -> None:
    error = await refused(client, "model", model_invocation_path="/absolute")
    assert error.kind == "InputValidationError"
    assert error.members["error_code"] == "InvalidModelInvocationPath"


@pytest.mark.parametrize(
    ("key", "region", "name"),
    [
        (KEY._replace(secret_access_key="another"), REGION, "InvalidSignatureException"),
        (KEY._replace(access_key_id="AKIDNOBODY"), REGION, "UnrecognizedClientException"),
        (TEMPORARY._replace(session_token="other"), REGION, "UnrecognizedClientException"),
        (KEY, "eu-west-1", "InvalidSignatureException"),
        (LIMITED, REGION, "AccessDeniedException"),
    ],
    ids=["wrong-secret", "unknown-key", "wrong-token", "wrong-region", "not-allowed"],
)
@pytest.mark.clause("2.4-3", "2.4-6")
async def test_who_may_not(
    sdk: Sdk, gateway: ServedGateway, key: Key, region: str, name: str
) -> None:
    client = await sdk.client(gateway.https, key, region)
    error = await refused(client, "model")
    assert error.kind == "CallError"  # not in the service's model: its name is all that is shown
    assert error.text.endswith(name)
    assert "403" in error.text
    await client.close()


# --- Ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (1011, "out of memory", "out of memory"),
        (4321, "größer als erlaubt", "größer als erlaubt"),
        (4000, "", None),
        (1000, "done", "done"),
    ],
)
@pytest.mark.clause("1.5-1", "2.3-5", "2.3-6")
async def test_the_containers_close(talk, code: int, reason: str, message: str | None) -> None:
    talking = await talk()
    talking.model.send(frame(TEXT, b"last words"), close(code, reason.encode()))
    assert await talking.stream.receive() == Part(b"last words", "UTF8", "COMPLETE")
    error = await talking.stream.error()
    assert (error.kind, error.members["error_code"]) == ("ModelStreamError", str(code))
    assert message is None or error.members["message"] == message
    assert (await talking.model.frame()).close_code == code
    await talking.stream.close()


@pytest.mark.clause("1.5-1", "1.5-2", "2.3-6")
async def test_a_close_that_is_an_end(talk, differences: Differences) -> None:
    async def end(talking: Conversation, code: int | None) -> None:
        talking.model.send(frame(TEXT, b"bye"), close(code))
        rest = await talking.stream.rest(differences.end_patience)
        assert rest == [Part(b"bye", "UTF8", "COMPLETE")]
        await talking.stream.close()

    streams = {code: await talk("ends") for code in (1000, 1001, None)}
    async with asyncio.TaskGroup() as ends:
        for code, talking in streams.items():
            ends.create_task(end(talking, code))


@pytest.mark.clause("1.5-3")
@pytest.mark.parametrize("way", ["reset", "abort"])
async def test_the_containers_connection_is_lost(talk, way: str) -> None:
    talking = await talk()
    await talking.stream.send(b"hi")
    await talking.frames(1)
    getattr(talking.model, way)()
    error = await talking.stream.error()
    assert (error.kind, error.members["error_code"]) == ("ModelStreamError", "1006")
    assert "abnormal" in error.members["message"].lower()
    await talking.stream.close_output()


@pytest.mark.clause("1.5-4")
async def test_a_frame_that_is_none(talk) -> None:
    talking = await talk()
    talking.model.send(frame(3, b"opcode 3"))
    error = await talking.stream.error()
    assert (error.kind, error.members["error_code"]) == ("ModelStreamError", "1002")
    await talking.stream.close()


@pytest.mark.clause("1.5-10")
async def test_parts_that_are_none(talk) -> None:
    talking = await talk()
    await talking.stream.send(b"hi", "TEXT")
    error = await talking.stream.error()
    assert (error.kind, error.members["error_code"]) == ("ModelStreamError", "InputStreamError")
    assert (await talking.model.frame()).close_code == 1008
    await talking.stream.close_output()


@pytest.mark.clause("1.5-10")
async def test_a_part_over_the_limit(talk) -> None:
    talking = await talk("small")
    await talking.stream.send(bytes(1000))
    assert await talking.frames(1) == [(BINARY, True, bytes(1000))]
    await talking.stream.send(bytes(1001))
    error = await talking.stream.error()
    assert (error.kind, error.members["error_code"]) == ("ModelStreamError", "InputStreamError")
    assert (await talking.model.frame()).close_code == 1009
    await talking.stream.close_output()


@pytest.mark.clause("1.5-11", "1.5-12", "2.3-2")
async def test_end_of_input_closes(talk) -> None:
    talking = await talk()
    await talking.stream.send(b"question", "UTF8")
    await talking.stream.end_input()
    assert await talking.frames(1) == [(TEXT, True, b"question")]
    assert (await talking.model.frame()).close_code == 1000
    talking.model.send(frame(TEXT, b"answer"), close(1000))
    assert await talking.stream.rest() == [Part(b"answer", "UTF8", "COMPLETE")]
    await talking.stream.close()


@pytest.mark.clause("1.5-12", "2.3-2")
async def test_end_of_input_drains(talk) -> None:
    talking = await talk("drains")
    await talking.stream.send(b"question", "UTF8")
    await talking.stream.end_input()
    assert await talking.frames(1) == [(TEXT, True, b"question")]
    for number in range(3):
        talking.model.send(frame(TEXT, b"%d" % number))
        assert await talking.stream.receive() == Part(b"%d" % number, "UTF8", "COMPLETE")
    assert [each.opcode for each in talking.model.seen] == [TEXT]  # the model has not been told
    talking.model.send(close(1000))
    assert await talking.stream.rest() == []
    await talking.stream.close()


@pytest.mark.clause("1.2-7")
async def test_end_of_input_in_a_message(talk) -> None:
    talking = await talk()
    await talking.stream.send(b"half a", "UTF8", "PARTIAL")
    await talking.stream.end_input()
    assert await talking.frames(1) == [(TEXT, False, b"half a")]
    assert await talking.answer_close() == 1000
    assert await talking.stream.rest() == []
    await talking.stream.close()


@pytest.mark.clause("2.3-6")
@pytest.mark.parametrize("code", [4321, 1000])
async def test_parts_that_cross_the_end(
    talk, code: int, differences: Differences, request: pytest.FixtureRequest
) -> None:
    """Nothing tells it to stop before it could have ended its side (clause 2.3-6)."""
    if differences.closing_hangs:
        request.applymarker(pytest.mark.xfail(raises=Hung, strict=False, reason="SDK 0.4"))
    talking = await talk("ends")
    talking.model.send(close(code))
    if code == 1000:
        assert await talking.stream.rest() == []
    else:
        assert (await talking.stream.error()).kind == "ModelStreamError"
    await talking.stream.send(b"said before one knew")
    await talking.stream.send(b"and this")
    await talking.stream.close(patience=3)


@pytest.mark.clause("2.3-6")
@pytest.mark.parametrize("sends_on", [False, True], ids=["silent", "sends on"])
async def test_a_client_that_closes_long_after_the_models_error(talk, *, sends_on: bool) -> None:
    """As a pipeline does that is shut down in its own time: a reset must not have come by then."""
    talking = await talk()
    talking.model.send(close(4321))
    assert (await talking.stream.error()).kind == "ModelStreamError"
    for _ in range(4):
        await asyncio.sleep(0.75)  # the SDK's own time, which nobody can inject
        if sends_on:
            await talking.stream.send(bytes(3200))  # a tenth of a second of speech
    await talking.stream.end_input(patience=3)
    await talking.stream.close(patience=3)


@pytest.mark.clause("2.3-6", "4-6")
async def test_a_refused_client_that_closes_late(client: SdkClient) -> None:
    """The same where the answer is an HTTP error."""
    stream = await client.begin("nobody")
    with pytest.raises(SdkError):
        await stream.head()
    await asyncio.sleep(3)
    await stream.end_input(patience=3)


# --- Leaving -------------------------------------------------------------------------------------


@pytest.mark.clause("1.5-9", "2.3-2")
async def test_a_client_that_is_closed(
    sdk: Sdk,
    gateway: ServedGateway,
    containers: dict[str, RawContainer],
    differences: Differences,
) -> None:
    """The SDK has no cancel: what ends a stream in its middle is the end of its connection."""
    before = (await gateway.causes()).get("client_lost", 0)
    client = await sdk.client(gateway.https, KEY)
    stream = await client.begin("model")
    talking = Conversation(stream, await containers["model"].stream())
    await stream.head()
    await stream.send(b"half a", completion="PARTIAL")
    assert await talking.frames(1) == [(BINARY, False, b"half a")]
    await client.close()
    if differences.clients_close:
        left = await talking.model.frame()
        assert (left.close_code, left.close_reason) == (1001, "client lost")
        await ended(gateway, "client_lost", before)
    else:
        await stream.send(b" message")  # a client of 0.4 cannot be closed, and its streams go on
        assert await talking.frames(1) == [(CONTINUATION, True, b" message")]
        await talking.finish()


@pytest.mark.clause("1.5-9", "2.3-2")
async def test_a_process_that_ends(
    gateway: ServedGateway, containers: dict[str, RawContainer], python: str, tmp_path: Path
) -> None:
    before = (await gateway.causes()).get("client_lost", 0)
    async with Sdk.start(python, gateway.ca, tmp_path / "sdk.log") as sdk:
        client = await sdk.client(gateway.https, KEY)
        stream = await client.begin("model")
        model = await containers["model"].stream()
        await stream.head()
        sdk.kill()
    left = await model.frame()
    assert (left.close_code, left.close_reason) == (1001, "client lost")
    await ended(gateway, "client_lost", before)


@pytest.mark.clause("1.5-9", "2.3-5")
async def test_a_gateway_that_drains(
    python: str, config: str, containers: dict[str, RawContainer], tmp_path: Path
) -> None:
    async with AsyncExitStack() as running:
        gateway = await running.enter_async_context(
            ServedGateway.start(tmp_path, config, PRINCIPALS)
        )
        sdk = await running.enter_async_context(Sdk.start(python, gateway.ca, tmp_path / "log"))
        client = await sdk.client(gateway.https, KEY)
        stream = await client.begin("model")
        model = await containers["model"].stream()
        await stream.head()
        gateway.terminate()
        error = await stream.error()
        assert error.kind == "InternalStreamFailure"
        assert "draining" in error.members["message"]
        assert (await model.frame()).close_code == 1001
        await stream.close()


# --- The page ------------------------------------------------------------------------------------


async def test_the_example_of_the_page(
    gateway: ServedGateway, python: str, tmp_path: Path, differences: Differences
) -> None:
    page = (ROOT / "docs" / "how-to" / "aws-sdk-python.md").read_text("utf-8")
    examples = re.findall(r"^```python\n(.*?)^```\n", page, re.MULTILINE | re.DOTALL)
    program = tmp_path / "example.py"
    example = examples[differences.example]
    assert "https://localhost:8443" in example
    localhost = gateway.https.replace("127.0.0.1", "localhost")
    program.write_text(example.replace("https://localhost:8443", localhost), "utf-8")
    environment = {
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": KEY.access_key_id,
        "AWS_SECRET_ACCESS_KEY": KEY.secret_access_key,
        "SSL_CERT_FILE": str(gateway.ca),
        "PATH": os.environ["PATH"],
    }
    process = await asyncio.create_subprocess_exec(
        python, str(program), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        cwd=ROOT, env=environment,
    )  # fmt: skip
    output, errors = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0, errors.decode()
    printed = output.decode()
    assert f"```\n{printed}```" in page
