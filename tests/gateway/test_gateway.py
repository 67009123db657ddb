"""partway.gateway.gateway: taking streams, refusing them, and the way down."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from partway.gateway.access.authentication import Access
from partway.gateway.apis.control.api import ControlApi
from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.openai.errors import openai_object
from partway.gateway.apis.prediction.errors import grpc_status
from partway.gateway.apis.prediction.routes import HOST_PREDICT
from partway.gateway.client import ClientStream, PlatformStreamFailed, StreamRefused, connect
from partway.gateway.fleet.endpoint import Attached, Endpoint, Program, Variant
from partway.gateway.fleet.launchers.attached import AttachLauncher
from partway.gateway.fleet.launchers.programs import ProgramLauncher
from partway.gateway.fleet.output.capture import OutputFolder
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.http.routes import Leave
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.streams.bidirectional import BidirectionalStream
from partway.gateway.timing.clock import LoopClock
from tests.frame_factory import TEXT, close, frame
from tests.gateway.apis.control.deployed import a_model, a_plan
from tests.gateway.kept_in_memory import KeptInMemory
from tests.wire.peers import (
    ENDPOINT,
    MSGPACK,
    RAW,
    RunningGateway,
    soon,
    switching,
    upgrade_request,
)

DRAINING = "the gateway is draining"


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """Nothing of a gateway is left once it has drained."""


def url_of(gateway: RunningGateway) -> str:
    return f"http://127.0.0.1:{gateway.port}"


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: gateway.example\r\n\r\n".encode()


async def status_of(gateway: RunningGateway, path: str) -> int:
    return (await gateway.request(get(path))).status


async def until(condition: Callable[[], bool], what: str) -> None:
    async def poll() -> None:
        while not condition():  # noqa: ASYNC110 (nobody sets an event)
            await asyncio.sleep(0.002)

    await soon(poll(), what)


async def failure_of(stream: ClientStream) -> tuple[str, float]:
    """How the gateway ended a stream, and when."""
    with pytest.raises(PlatformStreamFailed) as caught:
        await stream.receive()
    return str(caught.value), time.monotonic()


async def drained(gateway: RunningGateway, draining: asyncio.Task[None]) -> None:
    """Wait for the end of a drain, sooner than any time of a minute; the port is closed then."""
    await soon(draining, "the drain")
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", gateway.port)


# --- Taking streams ------------------------------------------------------------------------------


async def test_it_tells_where_it_listens(gateway_for):
    gateway = await gateway_for()
    assert gateway.port > 0
    assert await status_of(gateway, "/healthz") == 200
    assert await status_of(gateway, "/readyz") == 200
    assert await status_of(gateway, "/nothing") == 404


async def test_it_has_the_store_that_it_is_given_or_one_in_memory(anyio_backend):
    store = MemoryStore()
    assert Gateway(Settings(), store=store).store is store
    assert isinstance(Gateway(Settings()).store, MemoryStore)


async def test_what_is_still_sought_may_take_over_what_was_left(monkeypatch):
    """An endpoint that a slow file system holds up finds its containers, when it is found."""
    asked, found = [], asyncio.Event()

    async def remove_leftovers(_, but=None):
        asked.append(but)

    async def has_found(*_):
        await found.wait()

    monkeypatch.setattr(Provisions, "remove_leftovers", remove_leftovers)
    monkeypatch.setattr(EndpointKeeper, "sought", frozenset({"late"}))
    monkeypatch.setattr(EndpointKeeper, "has_found", has_found)
    gateway = Gateway(Settings(port=0))
    await soon(gateway.start())
    await until(lambda: bool(asked), "the first removal")
    (is_wanted,) = asked
    assert is_wanted("late", "AllTraffic")
    assert not is_wanted("gone", "AllTraffic")
    found.set()
    await until(lambda: asked[1:] == [None], "the removal of the rest")
    await soon(gateway.drain())


async def test_a_port_in_use(gateway_for):
    gateway = await gateway_for()
    with pytest.raises(OSError):
        await gateway_for(port=gateway.port)


async def test_the_log_has_one_line_for_a_stream(gateway_for, caplog):
    gateway = await gateway_for()
    with caplog.at_level(logging.DEBUG):
        client, model = await gateway.open(RAW)
        client.send_frame(TEXT, b"secret")
        await model.frame()
        model.send(frame(TEXT, b"x"), frame(TEXT, b"secret"), close(4000, b"done"))
        await client.until_close()
        await until(lambda: bool(gateway.causes()), "the end")
    (line,) = [record for record in caplog.records if record.name == "partway.stream"]
    request_id = model.header("x-amzn-sagemaker-request-id")
    assert re.fullmatch(
        rf"stream ended endpoint=model request_id={request_id} duration=0\.\d{{1,3}} parts_in=1 "
        r"bytes_in=6 parts_out=2 bytes_out=7 first_part=0\.\d{1,4} parts_saved=0 "
        r"cause=model_error",
        line.getMessage(),
    )
    assert f"x-amzn-requestid: {request_id}" in client.head.decode()
    assert "secret" not in caplog.text


async def test_the_log_of_a_stream_without_a_first_part(gateway_for, caplog):
    gateway = await gateway_for()
    with caplog.at_level(logging.INFO, "partway.stream"):
        client, model = await gateway.open(RAW)
        model.send(close(1011))
        await client.until_close()
    assert "first_part=- parts_saved=0 cause=model_error" in caplog.text


async def test_metrics_over_http(gateway_for, monkeypatch):
    monkeypatch.setattr("partway.gateway.status_routes.METRICS_AGE", 0)
    gateway = await gateway_for()
    client, model = await gateway.open(RAW)
    client.send_frame(TEXT, b"four")
    await model.frame()
    response = await gateway.request(get("/metrics"))
    text = response.body.decode()
    assert response.headers["content-type"].startswith("text/plain")
    assert 'partway_streams_open{endpoint="model"} 1.0' in text
    assert 'partway_part_bytes_total{direction="from_client",endpoint="model"} 4.0' in text
    model.send(close(1000))
    await client.until_close()
    text = (await gateway.request(get("/metrics"))).body.decode()
    assert 'partway_stream_ends_total{cause="model_closed",endpoint="model"} 1.0' in text
    assert "partway_streams_open{" not in text


async def test_refusals_are_logged_and_counted(gateway_for, caplog):
    gateway = await gateway_for()
    with caplog.at_level(logging.INFO, "partway.gateway"):
        target = "/endpoints/nobody/invocations-bidirectional-stream?access_token=secret"
        response = await gateway.request(upgrade_request(target))
    assert response.status == 400
    (line,) = caplog.messages
    assert line == (
        f"refused request_id={response.headers['x-amzn-requestid']} peer=127.0.0.1 status=400 "
        "error=InputValidationError reason=\"there is no endpoint 'nobody'\""
    )
    assert "secret" not in caplog.text
    text = (await gateway.request(get("/metrics"))).body.decode()
    assert 'partway_requests_refused_total{error="InputValidationError"} 1.0' in text


@pytest.mark.clause("4-4")
async def test_a_fault_of_ours_is_a_500_and_one_record_of_the_log(gateway_for, monkeypatch, caplog):
    async def fail(*_: object) -> None:
        raise ZeroDivisionError("detail for the operator")

    monkeypatch.setattr(BidirectionalStream, "__call__", fail)
    gateway = await gateway_for()
    response = await gateway.request(upgrade_request())
    assert response.status == 500
    assert response.headers["x-amzn-errortype"] == "InternalServerError"
    assert b"detail" not in response.body
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    refused = f"refused request_id={response.headers['x-amzn-requestid']} "
    assert record.getMessage().startswith(refused)
    assert "detail for the operator" in caplog.text


# --- How many ------------------------------------------------------------------------------------


@pytest.mark.clause("4-4", "4-6")
async def test_no_more_streams_than_that(gateway_for):
    gateway = await gateway_for(max_streams=2)
    streams = [await gateway.open(RAW) for _ in range(2)]
    response = await gateway.request(upgrade_request())
    assert response.status == 503
    assert response.headers["x-amzn-errortype"] == "ServiceUnavailableError"
    assert response.json["Message"] == "all 2 streams of this gateway are in use"
    streams[0][1].send(close(1000))
    await streams[0][0].until_close()
    await gateway.open(RAW)


async def test_a_stream_that_is_being_opened_counts(gateway_for, container):
    container.answer = lambda request: None
    gateway = await gateway_for(max_streams=1)
    opening = await gateway.connect()
    opening.send(upgrade_request())
    model = await container.stream()
    assert (await gateway.request(upgrade_request())).status == 503
    model.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    assert (await opening.response()).status == 424
    container.answer = switching
    await gateway.open(RAW)


async def test_a_refused_request_takes_no_place(gateway_for):
    gateway = await gateway_for(max_streams=1)
    for _ in range(3):
        assert (await gateway.request(upgrade_request(subprotocols="mqtt"))).status == 400
    await gateway.open(RAW)


# --- The way down --------------------------------------------------------------------------------


async def test_with_nothing_open_it_ends_at_once(gateway_for):
    gateway = await gateway_for(shutdown_grace=60, shutdown_spread=60, shutdown_hard=60)
    idle = await gateway.connect()
    idle.send(get("/healthz"))
    assert (await idle.response()).status == 200
    await drained(gateway, asyncio.create_task(gateway.gateway.drain()))
    assert await idle.eof() == b""


@pytest.mark.clause("4-6")
async def test_while_streams_end_by_themselves_nothing_new_is_taken(gateway_for):
    gateway = await gateway_for(shutdown_grace=60)
    client, model = await gateway.open(RAW)
    draining = asyncio.create_task(gateway.gateway.drain())
    await until(lambda: gateway.gateway.streams.draining, "the drain")
    assert await status_of(gateway, "/readyz") == 503
    assert await status_of(gateway, "/healthz") == 200
    refused = await gateway.request(upgrade_request())
    assert refused.status == 503
    assert DRAINING in str(refused.json["Message"])
    client.send_frame(TEXT, b"still")
    assert (await model.frame()).payload == b"still"
    model.send(frame(TEXT, b"here"), close(1000))
    assert (await client.frame()).payload == b"here"
    assert not draining.done()
    await client.until_close()
    client.abort()
    model.abort()
    await drained(gateway, draining)
    assert gateway.causes() == {"model_closed": 1}


async def test_a_client_is_told_to_come_back(gateway_for, container):
    gateway = await gateway_for(shutdown_grace=60)
    async with connect(url_of(gateway), ENDPOINT):
        await container.stream()
        draining = asyncio.create_task(gateway.gateway.drain())
        await until(lambda: gateway.gateway.streams.draining, "the drain")
        with pytest.raises(StreamRefused, match="draining") as caught:
            async with connect(url_of(gateway), ENDPOINT):
                pytest.fail("a stream opened")
        assert caught.value.reconnect
    await soon(draining)


@pytest.mark.clause("1.5-9")
async def test_the_rest_are_ended_one_by_one(gateway_for, container):
    gateway = await gateway_for(shutdown_grace=0.05, shutdown_spread=1.6)
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(connect(url_of(gateway), ENDPOINT)) for _ in range(4)
        ]
        models = [await container.stream() for _ in streams]
        started = time.monotonic()
        draining = asyncio.create_task(gateway.gateway.drain())
        ends = await soon(asyncio.gather(*map(failure_of, streams)))
        assert {text for text, _ in ends} == {"the gateway is draining; open the stream again"}
        times = sorted(at - started for _, at in ends)
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert times[0] >= 0.05, "the grace comes first"
        assert min(gaps) > 0.1, f"no herd: {gaps}"
        for model in models:
            farewell = (await model.until_close())[-1]
            assert farewell.payload == (1001).to_bytes(2, "big") + b"gateway draining"
            model.abort()
    await drained(gateway, draining)
    assert gateway.causes() == {"gateway_draining": 4}


@pytest.mark.parametrize("when", ["in the grace", "in the spread"])
async def test_hastening(gateway_for, when):
    grace = 60 if when == "in the grace" else 0
    gateway = await gateway_for(shutdown_grace=grace, shutdown_spread=60)
    clients = [await gateway.open(MSGPACK) for _ in range(3)]
    draining = asyncio.create_task(gateway.gateway.drain())
    await until(lambda: gateway.gateway.streams.draining, "the drain")
    if when == "in the spread":
        await until(lambda: gateway.causes() == {"gateway_draining": 1}, "the first end")
    assert not draining.done()
    gateway.gateway.hasten()
    for client, model in clients:
        assert DRAINING.encode() in (await client.frame()).payload
        await client.until_close()
        client.abort()
        model.abort()
    await drained(gateway, draining)
    assert gateway.causes() == {"gateway_draining": 3}


async def test_hastened_beforehand(gateway_for):
    gateway = await gateway_for(shutdown_grace=60, shutdown_spread=60)
    client, model = await gateway.open(RAW)
    gateway.gateway.hasten()
    draining = asyncio.create_task(gateway.gateway.drain())
    assert (await client.until_close())[-1].payload[2:].startswith(b"InternalStreamFailure")
    client.abort()
    model.abort()
    await drained(gateway, draining)


async def test_peers_that_do_not_let_go_are_left_behind(gateway_for):
    """Grace, spread and hard together bound the way down, whatever clients and containers do."""
    gateway = await gateway_for(shutdown_grace=0.1, shutdown_spread=0.1, shutdown_hard=0.4)
    clients = [await gateway.open(RAW) for _ in range(3)]
    started = time.monotonic()
    await soon(gateway.gateway.drain())
    assert time.monotonic() - started >= 0.2
    assert gateway.causes() == {"gateway_draining": 3}
    for client, _ in clients:
        await client.eof()


async def test_a_client_in_the_middle_of_its_head_does_not_hold_it_up(gateway_for):
    gateway = await gateway_for(shutdown_grace=60, shutdown_hard=0.4)
    silent, slow = await gateway.connect(), await gateway.connect()
    slow.send(b"GET /healthz HTT")
    await status_of(gateway, "/healthz")
    await drained(gateway, asyncio.create_task(gateway.gateway.drain()))
    await silent.eof()
    await slow.eof()


@pytest.mark.clause("4-6")
async def test_a_stream_that_opens_too_late_is_refused(gateway_for, container):
    """Its container would answer while the streams that were open are being ended."""
    container.answer = lambda request: None
    gateway = await gateway_for(shutdown_grace=0.05, shutdown_spread=0.4)
    late = await gateway.connect()
    late.send(upgrade_request(subprotocols=MSGPACK))
    model = await container.stream()
    container.answer = switching
    client, other = await gateway.open(MSGPACK)
    draining = asyncio.create_task(gateway.gateway.drain())
    assert DRAINING.encode() in (await client.frame()).payload
    response = await late.response()
    assert response.status == 503
    assert DRAINING in str(response.json["Message"])
    for peer in (client, other, late, model):
        peer.abort()
    await soon(draining)


@pytest.mark.clause("4-6")
async def test_a_stream_that_never_opens_is_refused_in_the_end(gateway_for, container):
    container.answer = lambda request: None
    gateway = await gateway_for(shutdown_grace=0.05, shutdown_spread=0.05, shutdown_hard=0.4)
    late = await gateway.connect()
    late.send(upgrade_request(subprotocols=MSGPACK))
    await container.stream()
    draining = asyncio.create_task(gateway.gateway.drain())
    response = await late.response()
    assert response.status == 503
    assert DRAINING in str(response.json["Message"])
    await drained(gateway, draining)


async def test_the_log_tells_of_the_drain(gateway_for, caplog):
    gateway = await gateway_for()
    client, model = await gateway.open(RAW)
    with caplog.at_level(logging.INFO, "partway.gateway"):
        draining = asyncio.create_task(gateway.gateway.drain())
        await client.until_close()
        client.abort()
        model.abort()
        await soon(draining)
    lines = [record.getMessage() for record in caplog.records if record.name == "partway.gateway"]
    assert lines == ["draining streams=1", "drained"]


async def test_what_comes_after_the_drain_finds_nobody(gateway_for):
    gateway = await gateway_for()
    await soon(gateway.gateway.drain())
    with socket.create_server(("127.0.0.1", gateway.port)):
        pass  # the port is free again


async def test_what_cannot_be_given_back_keeps_none_of_the_rest(monkeypatch):
    given_back = []

    async def aclose(self):
        given_back.append(type(self))
        if type(self) is ProgramLauncher:
            raise OSError("the disk is full")

    for each in (AttachLauncher, ProgramLauncher, OutputFolder):
        monkeypatch.setattr(each, "aclose", aclose)
    provisions = Provisions(LoopClock())
    for source in (Program(("serve",)), Attached(())):
        provisions.means.launcher(Variant(source=source))
    with pytest.raises(OSError, match="the disk is full"):
        await provisions.aclose()
    assert given_back == [AttachLauncher, ProgramLauncher, OutputFolder]


def settings(*names: str) -> Settings:
    """Return settings with attached endpoints."""
    address = Address("127.0.0.1", 9)
    endpoints = tuple(Endpoint.attached(name, address, StreamPolicy()) for name in names)
    return Settings(port=0, endpoints=endpoints)


@pytest.mark.parametrize("undoes_failure", [True, False])
async def test_a_start_that_fails_may_leave_instances_to_the_next_process(undoes_failure):
    class Front:
        async def open(self) -> None:
            raise OSError("there is no room")

    kept = KeptInMemory()
    gateway = Gateway(settings("stays"), kept=kept)
    with pytest.raises(OSError, match="there is no room"):
        await soon(gateway.start_behind(Front(), undoes_failure=undoes_failure))
    assert any("stays" in each for each in kept.names) is not undoes_failure
    await gateway._undo_start()


async def test_the_next_process_goes_on_with_its_instances_and_ends_the_rest(caplog):
    kept = KeptInMemory()
    first = Gateway(settings("stays", "goes"), kept=kept)
    await soon(first.start())
    stays = {name for name in kept.names if "stays" in name}
    following = kept.next_process()
    second = Gateway(settings("stays"), kept=following)
    await soon(second.start())
    await until(lambda: following.names == {"fleet", *stays}, "the rest is forgotten")
    ((instance,),) = [each.instances for each in second.router.table["stays"]]
    assert {f"instance/{instance.id}"} == stays
    await soon(second.drain())
    await soon(first.drain())
    assert following.names == {"fleet"}
    assert not [each for each in caplog.records if each.levelno > logging.WARNING]


async def test_each_route_says_who_checks_what_its_sender_may_do():
    for route in Gateway(Settings()).routes:
        if route.access is not Access.ANYONE:
            by_endpoint = "endpoint" in route.path.groupindex
            assert by_endpoint == (route.leave is Leave.OF_ENDPOINT), route.name
            # Others find the endpoint in the request's host, message or model.
            elsewhere = route.path == HOST_PREDICT
            elsewhere = elsewhere or route.errors in (grpc_status, openai_object)
            assert by_endpoint or route.control or elsewhere, route.name
        else:
            known = {"Healthz", "Readyz", "Metrics", "GetServerStatus", "UnknownOperation"}
            known |= {"ServerLive", "ServerReady", "ServerMetadata", "Check", "UnknownCall"}
            known |= {"DescribeApi", "ShowApi", "UnknownPrediction", "UnknownOpenAiPath"}
            known |= {"DiscoverResources", "UnknownKubernetesPath"}
            assert route.name in known


@pytest.mark.parametrize("own", ["principals", "tls_key"])
async def test_callers_may_name_no_file_of_secrets(tmp_path, own):
    file = tmp_path / "keys" / "secret"
    file.parent.mkdir()
    file.write_text('[[principals]]\nname = "a"\ntokens = ["0123456789abcdef"]\n')
    file.chmod(0o600)
    auth = "sigv4" if own == "principals" else "none"
    settings = Settings(auth=auth, local_roots=(tmp_path,), **{own: file})
    planning = Gateway(settings).service(ControlApi).endpoint_keeper.planning
    (tmp_path / "models").mkdir()
    await planning.endpoint_of("a", a_plan(None, a_model(ModelDataUrl=str(tmp_path / "models"))))
    for path in (tmp_path, file.parent, file):
        with pytest.raises(ValidationException, match="data of the gateway itself"):
            await planning.endpoint_of("a", a_plan(None, a_model(ModelDataUrl=str(path))))
