"""partway.gateway.client.sync: the same conversations from threads, without asyncio in sight."""

from __future__ import annotations

import asyncio
import gc
import inspect
import itertools
import signal
import socket
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from partway.gateway.client import (
    ClientStream,
    CompletionState,
    DataType,
    GatewayUnreachable,
    ModelStreamFailed,
    PayloadPart,
    StreamEnded,
    StreamRefused,
    connect,
    sync,
)
from partway.gateway.client.sync import LoopThread, SyncStream, connect_sync
from partway.gateway.workbench.testing.running_gateway import RunningGateway
from tests.frame_factory import CLOSE, TEXT, close, frame
from tests.gateway.client.peers import ALL_IS_SAID, echo_container, grant, replying, until, url_of
from tests.test_docs import PUBLIC_METHODS
from tests.wire.peers import ENDPOINT, PATIENCE, soon

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _no_threads():
    """No thread of the client's outlives its block."""
    yield
    assert [each for each in threading.enumerate() if each.name.startswith("partway-client")] == []


async def elsewhere(talk: Callable[[], T]) -> T:
    """Run what blocks in a thread; the gateway is on this one's loop."""
    return await soon(asyncio.to_thread(talk), "a conversation")


# --- A conversation -------------------------------------------------------------------------------


async def test_a_conversation(transport, gateway_for):
    def talk() -> None:
        with connect_sync(url, ENDPOINT, transport=transport) as stream:
            assert len(stream.request_id) == 36
            assert stream.ask("Grüße", timeout=PATIENCE) == "Grüße"
            assert stream.ask(b"\x00\xff") == b"\x00\xff"
            stream.send_text("a ", partial=True)
            stream.send(PayloadPart(b"globe", DataType.UTF8, CompletionState.COMPLETE))
            stream.send_bytes(b"bytes")
            assert next(stream.messages()) == "a globe"
            assert stream.receive(timeout=PATIENCE) == PayloadPart(b"bytes")
            stream.send_text("last", timeout=PATIENCE)
            assert next(iter(stream)) == PayloadPart(b"last", DataType.UTF8)
            stream.end_input(timeout=PATIENCE)
            assert list(stream) == []
            assert stream.receive() is None
            assert list(stream.messages()) == []

    async with echo_container() as port:
        gateway = await gateway_for(ALL_IS_SAID, container_port=port)
        url = url_of(gateway)
        await elsewhere(talk)
    assert gateway.causes() == {"completed": 1}


def test_every_method_has_its_twin():
    def parameters(method: object) -> list[str]:
        return [name for name in inspect.signature(method).parameters if name != "timeout"]

    for name in PUBLIC_METHODS:
        twin = getattr(SyncStream, name)
        assert parameters(twin) == parameters(getattr(ClientStream, name)), name
        bounded = "timeout" in inspect.signature(twin).parameters
        assert bounded == (name != "close"), "how long leaving takes is bounded anyway"


def test_it_takes_the_arguments_of_connect():
    ours, theirs = inspect.signature(connect_sync), inspect.signature(connect)
    assert ours.parameters == theirs.parameters
    with pytest.raises(ValueError, match="transport: 'smoke' was given"):
        connect_sync("http://127.0.0.1:1", ENDPOINT, transport="smoke").__enter__()


async def test_in_a_thread_that_runs_a_loop():
    """As in a notebook, whose cells run on a loop."""
    with RunningGateway() as gateway:
        gateway.container.replies_with("hi")
        with connect_sync(gateway.http_url, "model", token=gateway.token) as stream:
            assert stream.ask("hello", timeout=PATIENCE) == "hi"


# --- Waiting --------------------------------------------------------------------------------------


async def test_a_wait_that_is_over_loses_nothing(gateway_for, container):
    timed_out = asyncio.Event()
    loop = asyncio.get_running_loop()

    def talk() -> list[object]:
        with connect_sync(url, ENDPOINT) as stream:
            messages = stream.messages(timeout=0.05)
            for waits in (lambda: next(messages), lambda: stream.receive(timeout=0.05)):
                with pytest.raises(TimeoutError, match=r"not done within 0\.05 s"):
                    waits()
            with pytest.raises(TimeoutError):
                stream.ask("question", timeout=0.05)
            loop.call_soon_threadsafe(timed_out.set)
            first = stream.receive()
            return [first, next(stream.messages(timeout=PATIENCE)), stream.ask("again")]

    gateway = await gateway_for()
    url = url_of(gateway)
    talking = asyncio.create_task(elsewhere(talk))
    model = await container.stream()
    assert (await model.frame()).payload == b"question"
    await timed_out.wait()
    model.send(frame(TEXT, b"one"), frame(TEXT, b"two"), frame(TEXT, b"three"))
    assert await talking == [PayloadPart(b"one", DataType.UTF8), "two", "three"]


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_a_timeout_of_the_calls_own_is_not_the_callers(timeout):
    class Stream:
        request_id = input_end = ""

        async def receive(self) -> None:
            raise TimeoutError("its own")

    with LoopThread() as thread, pytest.raises(TimeoutError, match=r"^its own$"):
        SyncStream(Stream(), thread).receive(timeout=timeout)


async def test_errors_come_through(transport, gateway_for, container):
    def refused() -> StreamRefused:
        with (
            pytest.raises(StreamRefused) as caught,
            connect_sync(url, "nobody", transport=transport),
        ):
            pytest.fail("a stream opened")
        return caught.value

    def failed() -> ModelStreamFailed:
        with connect_sync(url, ENDPOINT, transport=transport) as stream:
            with pytest.raises(ModelStreamFailed) as caught:
                list(stream.messages())
            return caught.value

    gateway = await gateway_for()
    url = url_of(gateway)
    assert (await elsewhere(refused)).error == "InputValidationError"
    failing = asyncio.create_task(elsewhere(failed))
    (await container.stream()).send(close(4000, b"out of memory"))
    assert (await failing).code == "4000"


async def test_nobody_there(transport):
    with (
        pytest.raises(GatewayUnreachable),
        connect_sync("http://127.0.0.1:1", ENDPOINT, transport=transport),
    ):
        pytest.fail("a stream opened")


def test_a_name_server_that_does_not_answer_is_not_waited_for(monkeypatch):
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait() and [])
    monkeypatch.setattr("partway.gateway.network.dialling.CONTAINER_RESOLVE_TIMEOUT", 0.01)
    monkeypatch.setattr("partway.gateway.client.sync._RESOLVER_PATIENCE", 0.01)
    try:
        with (
            pytest.raises(GatewayUnreachable, match="no address"),
            connect_sync("http://gateway.example", ENDPOINT),
        ):
            pytest.fail("a stream opened")
        (resolver,) = [each for each in threading.enumerate() if "resolver" in each.name]
    finally:
        answered.set()
    resolver.join(PATIENCE)


# --- Threads --------------------------------------------------------------------------------------


async def test_one_thread_sends_while_another_receives(transport, gateway_for):
    sent = [b"%d" % number * (number % 100) for number in range(500)]

    def talk() -> list[bytes]:
        with connect_sync(url, ENDPOINT, transport=transport) as stream:

            def send() -> None:
                for payload in sent:
                    stream.send_bytes(payload)

            with ThreadPoolExecutor(1) as sending:
                done = sending.submit(send)
                received = [stream.receive().payload for _ in sent]
                done.result()
        return received

    async with echo_container() as port:
        gateway = await gateway_for(container_port=port)
        url = url_of(gateway)
        assert await elsewhere(talk) == sent


async def test_threads_that_ask_at_once_get_their_own_answers(gateway_for):
    def talk() -> list[str | bytes]:
        with connect_sync(url, ENDPOINT) as stream, ThreadPoolExecutor(8) as threads:
            return list(threads.map(stream.ask, map(str, range(40))))

    async with echo_container() as port:
        gateway = await gateway_for(container_port=port)
        url = url_of(gateway)
        assert await elsewhere(talk) == [str(number) for number in range(40)]


@pytest.mark.parametrize("call", ["receive", "ask"])
async def test_a_thread_that_waits_is_freed_when_the_block_is_left(gateway_for, container, call):
    waits = threading.Event()

    def wait(stream: SyncStream) -> object:
        waits.set()
        try:
            return stream.receive() if call == "receive" else stream.ask("anybody?")
        except StreamEnded as error:
            return str(error)

    def talk() -> object:
        with ThreadPoolExecutor(1) as threads:
            with connect_sync(url, ENDPOINT) as stream:
                waiting = threads.submit(wait, stream)
                waits.wait()
            return waiting.result()

    gateway = await gateway_for()
    url = url_of(gateway)
    freed = await elsewhere(talk)
    assert freed is None or "ended" in freed or "left" in freed


# --- Leaving --------------------------------------------------------------------------------------


async def test_leaving_is_told_from_failing(transport, gateway_for, container):
    def leave() -> SyncStream:
        with connect_sync(url, ENDPOINT, transport=transport) as stream:
            return stream

    def fail() -> None:
        with connect_sync(url, ENDPOINT, transport=transport):
            raise ZeroDivisionError

    gateway = await gateway_for()
    url = url_of(gateway)
    left = await elsewhere(leave)
    model = await container.stream()
    await model.until_close()
    model.send(close(1000))
    model.end()
    with pytest.raises(ZeroDivisionError):
        await elsewhere(fail)
    assert (await (await container.stream()).until_close())[-1].close_code == 1001
    await until(lambda: sum(gateway.causes().values()) == 2, "both ends")
    assert gateway.causes() == {"client_finished": 1, "client_cancelled": 1}
    for late in (left.receive, left.end_input, lambda: left.ask("too late")):
        with pytest.raises(StreamEnded, match="block has ended"):
            late()
    left.close()  # as a stream that is closed already may be, whose close() does nothing


def test_whatever_still_runs_is_cancelled_and_nothing_runs_after():
    begun = threading.Event()

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as threads:
        with LoopThread() as thread:
            waiting = threads.submit(thread.run, never)
            begun.wait()
        with pytest.raises(StreamEnded):
            waiting.result()
        with pytest.raises(StreamEnded):
            thread.run(never)


# --- Interrupts -----------------------------------------------------------------------------------


def interrupted_at(count: int, call: Callable[[], object]) -> bool:
    """Make a call with a Ctrl-C as one of the client's own functions begins; False: it has fewer.

    There, and where a loop turns, is where CPython looks for a signal.
    """
    calls = itertools.count()

    def trace(frame, event, argument):
        if frame.f_code.co_filename == sync.__file__ and next(calls) == count:
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_where_a_call_begins_leaves_nothing_that_nobody_awaits():
    class Stream:
        request_id = input_end = ""

        async def receive(self) -> str:
            return "part"

    with LoopThread() as thread, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        stream = SyncStream(Stream(), thread)
        tried = 0
        while interrupted_at(tried, stream.receive):
            assert stream.receive(timeout=PATIENCE) == "part"
            tried += 1
        gc.collect()
    assert tried >= 3
    assert [str(each.message) for each in warned] == []


PROGRAM = """\
import gc, signal, sys, threading
from partway import connect_sync
from partway.protocol.connections.websocket import FrameConnection

# What a shell starts in the background has inherited that it ignores SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Whoever waits for a goodbye does so beyond the test's patience.
FrameConnection.__init__.__kwdefaults__["linger"] = 3600.0
try:
    with connect_sync(sys.argv[1], "model") as stream:
        print("open", flush=True)
        stream.receive()
except KeyboardInterrupt:
    print("interrupted", flush=True)
gc.collect()
print([each.name for each in threading.enumerate()], flush=True)
"""


@asynccontextmanager
async def running(url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-X", "dev", "-c", PROGRAM, url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def last_words(process: asyncio.subprocess.Process) -> str:
    output, errors = await soon(process.communicate(), "the program's end")
    assert (process.returncode, errors.decode()) == (0, "")
    return output.decode()


async def test_ctrl_c_cancels_the_stream_and_leaves_nothing(gateway_for, container):
    gateway = await gateway_for()
    async with running(url_of(gateway)) as program:
        await soon(program.stdout.readline(), "the program to be ready")
        model = await container.stream()
        program.send_signal(signal.SIGINT)
        assert (await model.until_close())[-1].close_code == 1001
        assert await last_words(program) == "interrupted\n['MainThread']\n"
    assert gateway.causes() == {"client_cancelled": 1}


async def test_a_second_ctrl_c_does_not_wait_for_the_goodbye():
    async with replying(grant) as server, running(url_of(server)) as program:
        await soon(program.stdout.readline(), "the program to be ready")
        at_gateway = await server.stream()
        program.send_signal(signal.SIGINT)
        assert (await at_gateway.frame()).opcode == CLOSE, "which nobody answers"
        program.send_signal(signal.SIGINT)
        assert await last_words(program) == "interrupted\n['MainThread']\n"
        assert await at_gateway.eof() == b""


async def test_ctrl_c_while_the_stream_opens():
    async with replying(lambda request: None) as server, running(url_of(server)) as program:
        at_gateway = await server.stream()
        program.send_signal(signal.SIGINT)
        assert await last_words(program) == "interrupted\n['MainThread']\n"
        assert await at_gateway.eof() == b""
