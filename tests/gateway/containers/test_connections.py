"""partway.gateway.containers.connections: which connection a request goes by, and what is kept."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import closing
from datetime import UTC, datetime

import pytest

from partway.gateway.containers.connections import ContainerConnection, ContainerConnections
from partway.gateway.containers.container_answer import ContainerAnswer
from partway.gateway.containers.container_requests import Destination
from partway.gateway.containers.limits import (
    CONTAINER_IDLE_TIMEOUT,
    MAX_IDLE_OF_CONTAINER,
)
from partway.gateway.fleet.launchers.process import free_port
from partway.gateway.network.dialling import Address
from partway.gateway.tls.context import server_context
from partway.gateway.tls.local_ca import LocalCa
from partway.gateway.tls.trust import Trust
from partway.protocol.errors import ContainerBroke, ContainerUnreachable, InputValidationError
from partway.protocol.limits import JOIN_UP_TO
from tests.gateway.containers.containers import (
    HOST,
    OK,
    PATIENCE,
    ScriptedContainer,
    asked,
    pieces_of,
    whole,
)
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


@pytest.fixture
async def connections():
    connections = ContainerConnections(FakeClock())
    yield connections
    connections.close()


#: An answer that is told from the usual one.
OTHER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother"


async def answering(call):
    """Every request of the connection is answered."""
    while True:
        await call.request()
        call.say(OK)


async def ask(connections, container, request=None) -> bytes:
    async with await connections.ask(container.destination, request or asked()) as answer:
        return await soon(whole(answer))


# --- What is kept --------------------------------------------------------------------------------


async def test_a_connection_is_used_again(connections):
    async with ScriptedContainer(answering) as container:
        for _ in range(3):
            assert await ask(connections, container) == b"ok"
            assert connections.idle == 1
        assert [len(call.heads) for call in container.calls] == [3]


async def test_each_request_has_a_connection_of_its_own_while_it_lasts(connections):
    async with ScriptedContainer(answering) as container:
        there = container.destination
        async with (
            await connections.ask(there, asked()) as one,
            await connections.ask(there, asked()) as other,
        ):
            assert await soon(whole(one)) == await soon(whole(other)) == b"ok"
        assert len(container.calls) == 2
        assert connections.idle == 2


async def test_instances_do_not_share(connections):
    async with ScriptedContainer(answering) as container:
        for instance in ("a", "b", "a"):
            there = Destination(container.destination.container, instance, PATIENCE)
            async with await connections.ask(there, asked()) as answer:
                assert await soon(whole(answer)) == b"ok"
        assert [len(call.heads) for call in container.calls] == [2, 1]


async def test_an_idle_connection_is_closed_after_a_moment(connections):
    async def script(call):
        await call.request()
        call.say(OK)
        await call.end()

    async with ScriptedContainer(script) as container:
        await ask(connections, container)
        connections._clock.advance(CONTAINER_IDLE_TIMEOUT * 0.9)
        assert connections.idle == 1
        connections._clock.advance(CONTAINER_IDLE_TIMEOUT * 0.2)
        assert connections.idle == 0
        await soon(container.calls[0].ended.wait())


async def test_a_connection_that_was_used_again_waits_as_long_again(connections):
    async def script(call):
        for _ in range(2):
            await call.request()
            call.say(OK)
        await call.end()

    async with ScriptedContainer(script) as container:
        for _ in range(2):
            await ask(connections, container)
            connections._clock.advance(CONTAINER_IDLE_TIMEOUT * 0.9)
            assert connections.idle == 1
        assert len(container.calls) == 1
        connections._clock.advance(CONTAINER_IDLE_TIMEOUT * 0.2)
        assert connections.idle == 0
        await soon(container.calls[0].ended.wait())


async def test_no_more_are_kept_than_that(connections):
    release = asyncio.Event()

    async def script(call):
        await call.request()
        await release.wait()
        call.say(OK)
        await call.end()

    async with ScriptedContainer(script) as container:
        asking = [
            asyncio.create_task(ask(connections, container))
            for _ in range(MAX_IDLE_OF_CONTAINER + 2)
        ]
        await eventually(lambda: sum(len(each.heads) for each in container.calls) == len(asking))
        release.set()
        await soon(asyncio.gather(*asking))
        assert connections.idle == MAX_IDLE_OF_CONTAINER


async def test_no_more_are_kept_of_all_containers_together(connections, monkeypatch):
    monkeypatch.setattr("partway.gateway.containers.connections.MAX_IDLE_CONNECTIONS", 2)
    async with ScriptedContainer(answering) as container:
        for instance in ("a", "b", "c"):
            there = Destination(container.destination.container, instance, PATIENCE)
            async with await connections.ask(there, asked()) as answer:
                assert await soon(whole(answer)) == b"ok"
        assert connections.idle == 2


async def test_after_the_end_nothing_is_kept(connections):
    async with ScriptedContainer(answering) as container:
        await ask(connections, container)
        async with await connections.ask(container.destination, asked()) as answer:
            connections.close()
            assert await soon(whole(answer)) == b"ok"
        assert connections.idle == 0


# --- What is not kept ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1),
        OK.replace(b"1.1", b"1.0"),
        b"HTTP/1.1 200 OK\r\n\r\nok",
    ],
)
async def test_a_container_that_closes_is_believed(connections, answer):
    async def script(call):
        await call.request()
        call.say(answer)

    async with ScriptedContainer(script) as container:
        for _ in range(2):
            assert await ask(connections, container) == b"ok"
            assert connections.idle == 0
        assert len(container.calls) == 2


async def test_what_is_left_before_the_end_is_cut(connections):
    async def script(call):
        await call.request()
        call.say(OK[:-1])
        await call.end()

    async with ScriptedContainer(script) as container:
        async with await connections.ask(container.destination, asked()) as answer:
            assert (await soon(answer.head())).status == 200
        assert connections.idle == 0
        await soon(container.calls[0].ended.wait())


@pytest.mark.parametrize("behind", [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!", b"!"])
async def test_bytes_behind_the_end_are_no_answer_to_the_next(connections, behind):
    async def script(call):
        await call.request()
        call.say(OK, behind)
        await call.end()

    async with ScriptedContainer(script) as container:
        for _ in range(2):
            assert await ask(connections, container) == b"ok"
            assert connections.idle == 0
        assert len(container.calls) == 2


async def test_a_container_that_speaks_without_being_asked_is_cut(connections):
    may = asyncio.Event()

    async def script(call):
        await call.request()
        call.say(OK)
        await may.wait()
        call.say(OK)
        await call.end()

    async with ScriptedContainer(script) as container:
        await ask(connections, container)
        assert connections.idle == 1
        may.set()
        await soon(container.calls[0].ended.wait())
        may.clear()
        assert await ask(connections, container) == b"ok"
        assert len(container.calls) == 2


async def test_a_container_that_speaks_before_its_first_request_is_cut(connections):
    """It is seen though no loop has read it."""
    heads = []

    async def script(call):
        call.say(OK)
        heads.append(await call.head())

    async with ScriptedContainer(script) as container:
        dialled = connections._dialled

        async def dialled_slowly(*where):
            connection = await dialled(*where)
            connection.pause_reading()
            await eventually(lambda: not connection.is_usable())
            return connection

        connections._dialled = dialled_slowly
        with pytest.raises(
            ContainerBroke, match="the container sent bytes before it got the request"
        ):
            await soon(connections.ask(container.destination, asked()))
        assert connections.idle == 0
        await eventually(lambda: all(call.ended.is_set() for call in container.calls))
    assert heads == []


async def test_a_container_that_leaves_before_its_first_request(connections):
    """Its connection has ended by the time that its dialler hears of it."""

    async def script(call):
        call.writer.transport.abort()

    async with ScriptedContainer(script) as container:
        dialled = connections._dialled

        async def dialled_slowly(*where):
            connection = await dialled(*where)
            await eventually(lambda: not connection.is_open())
            return connection

        connections._dialled = dialled_slowly
        with pytest.raises(ContainerBroke, match="ended the connection before it got the request"):
            async with await soon(connections.ask(container.destination, asked())) as answer:
                await soon(answer.head())
        assert (connections.idle, connections._kept) == (0, {})


async def test_a_second_answer_that_comes_before_the_next_request_closes_the_connection(
    connections,
):
    """Also where the kernel alone has it; whatever the next request's body is."""
    for body in (b"hello", pieces_of([b"hel", b"lo"])):
        async with ScriptedContainer(answering) as container:
            assert await ask(connections, container) == b"ok"
            (call,) = container.calls
            os.write(call.writer.transport.get_extra_info("socket").fileno(), OTHER)
            assert await ask(connections, container, asked(body)) == b"ok"
            assert [len(each.heads) for each in container.calls] == [1, 1]


async def test_a_second_answer_that_comes_behind_the_next_request_is_taken_for_its_own(
    connections,
):
    """HTTP/1.1 has no way to tell; the request's own answer closes the connection then."""
    may = asyncio.Event()

    async def script(call):
        await call.request()
        call.say(OK)
        await call.request()
        call.say(OTHER if call.number == 0 else OK)
        await may.wait()
        call.say(OK)
        await call.end()

    async with ScriptedContainer(script) as container:
        assert await ask(connections, container) == b"ok"
        assert await ask(connections, container) == b"other"
        may.set()
        await soon(container.calls[0].ended.wait())
        assert await ask(connections, container) == b"ok"
        assert len(container.calls) == 2


async def test_a_connection_that_was_cut_is_forgotten(connections):
    """Also where its container is never asked again."""
    may = asyncio.Event()

    async def script(call):
        await call.request()
        call.say(OK)
        await may.wait()
        call.say(OTHER)
        await call.end()

    async with ScriptedContainer(script) as container:
        assert await ask(connections, container) == b"ok"
        may.set()
        await soon(container.calls[0].ended.wait())
        connections._clock.advance(CONTAINER_IDLE_TIMEOUT)
        assert (connections.idle, connections._kept) == (0, {})


class NotingTransport:
    def __init__(self):
        self.writes = []
        self.is_gone = False
        self._socket, self._other_side = socket.socketpair()

    def get_extra_info(self, name):
        return self._socket if name == "socket" else None

    def set_write_buffer_limits(self, high):
        pass

    def is_closing(self):
        return self.is_gone

    def write(self, data):
        self.writes.append((data,))

    def writelines(self, pieces):
        self.writes.append(tuple(pieces))

    def close(self):
        self._socket.close()
        self._other_side.close()


async def test_a_request_leaves_before_what_is_kept_of_it_is_made(connections, monkeypatch):
    """And its body, where that comes bit by bit, behind it."""
    made = []

    def noting(write):
        def wrapped(connection, *data, **how):
            made.append(connection.answer)
            write(connection, *data, **how)

        return wrapped

    for name in ("write", "write_whole"):
        write = getattr(ContainerConnection, name)
        monkeypatch.setattr(ContainerConnection, name, noting(write))
    async with ScriptedContainer(answering) as container:
        for request in (asked(), asked(), asked(pieces_of([b"a"]))):
            assert await ask(connections, container, request) == b"ok"
    *of_heads, of_body, of_end = made
    assert of_heads == [None] * 3
    assert isinstance(of_body, ContainerAnswer)
    assert of_body is of_end


@pytest.mark.parametrize(("length", "is_small"), [(JOIN_UP_TO, True), (JOIN_UP_TO + 1, False)])
async def test_a_whole_request_leaves_at_once_in_one_write(length, is_small):
    connection, body = ContainerConnection(None, None), bytes(length)
    with closing(NotingTransport()) as transport:
        connection.connection_made(transport)
        connection.write_whole(b"head", body)
        assert transport.writes == [(b"head" + body,) if is_small else (b"head", body)]
        transport.writes, transport.is_gone = [], True
        connection.write_whole(b"head", body)
        assert transport.writes == []


async def test_a_connection_that_the_container_has_closed_is_never_used(connections):
    """It is seen though the loop has had no turn between the close and the request."""
    closed = asyncio.Event()

    async def script(call):
        while True:
            await call.request()
            call.say(OK)
            if call.number == 0:
                await closed.wait()
                return

    async with ScriptedContainer(script) as container:
        await ask(connections, container)
        (idle,) = connections._kept[container.destination.key].waiting
        closed.set()
        await eventually(lambda: not idle.is_usable())
        assert await ask(connections, container) == b"ok"
        assert [len(call.heads) for call in container.calls] == [1, 1]


async def test_a_request_that_was_sent_is_never_sent_again(connections):
    async def script(call):
        await call.request()
        call.say(OK)
        await call.request()  # and no answer, on a connection that was kept

    async with ScriptedContainer(script) as container:
        await ask(connections, container)
        with pytest.raises(ContainerBroke, match="before the head of an answer"):
            await ask(connections, container)
        assert [len(call.heads) for call in container.calls] == [2]
        assert connections.idle == 0


async def test_an_answer_before_the_requests_end_ends_the_connection(connections):
    async def script(call):
        await call.head()
        call.say(OK.replace(b"200 OK", b"413 No"))
        await call.end()

    async with ScriptedContainer(script) as container:
        more = asyncio.Event()
        request = asked(pieces_of([b"some"], after=more))
        async with await connections.ask(container.destination, request) as answer:
            assert (await soon(answer.head())).status == 413
            assert await soon(answer.read()) == b"ok"
            assert await soon(answer.read()) == b""
        assert connections.idle == 0
        await soon(container.calls[0].ended.wait())


# --- Nobody there --------------------------------------------------------------------------------


async def test_nobody_there(connections):
    there = Destination(Address(HOST, free_port()))
    body = pieces_of([b"never asked for"])
    with pytest.raises(ContainerUnreachable, match="no connection with the container: ") as error:
        async with await connections.ask(there, asked(body)):
            pytest.fail("there is no answer")
    assert "Connection refused" in error.value.for_operator
    assert await anext(body) == b"never asked for"
    await body.aclose()


async def test_a_request_that_cannot_be_sent_reaches_nobody(connections):
    async with ScriptedContainer(answering) as container:
        with pytest.raises(InputValidationError, match="the header Accept"):
            await ask(connections, container, asked(b"", ("Accept", "a\r\nB: c")))
        assert container.calls == []


async def test_over_tls(connections, tmp_path):
    files = LocalCa(tmp_path).ensure(["localhost"], datetime.now(UTC))
    async with ScriptedContainer(answering, server_context(files)) as container:
        at = Address("localhost", container.port)
        there = Destination(at, "", PATIENCE, Trust(files.ca).context())
        for _ in range(2):
            async with await connections.ask(there, asked()) as answer:
                assert await soon(whole(answer)) == b"ok"
        assert len(container.calls) == 1
