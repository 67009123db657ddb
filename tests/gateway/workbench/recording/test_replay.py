"""Saying a recording again, to containers that answer the same, and to others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from partway.gateway.fleet.launchers.process import free_port
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.intermediary.observer import Sender, UpgradeAnswer, UpgradeRequest
from partway.gateway.workbench.recording import replay as module
from partway.gateway.workbench.recording.comparison import (
    By,
    Comparison,
    ReplyVerdict,
    StreamAnswers,
    compare,
)
from partway.gateway.workbench.recording.recorder import Recorder
from partway.gateway.workbench.recording.recording import RecordingError, load_recording
from partway.gateway.workbench.recording.replay import plan_of, replay
from partway.protocol.websocket.frames import Frame, Opcode
from tests.gateway.workbench.recording.recordings import (
    GRANTED,
    HEAD,
    OVER,
    both_close,
    came,
    closed,
    ended,
    said,
    whole,
    written,
)

Handler = Callable[[ServerConnection], Awaitable[None]]

SAME, DIFFERS, MISSING, EXTRA = (
    ReplyVerdict.SAME,
    ReplyVerdict.DIFFERS,
    ReplyVerdict.MISSING,
    ReplyVerdict.EXTRA,
)
TARGET = "/invocations-bidirectional-stream"


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """Whatever became of a stream, nothing of it is left."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recording.jsonl"


@asynccontextmanager
async def container(handler: Handler, **options: Any) -> AsyncIterator[Address]:
    """A container of the websockets library."""
    async with serve(handler, "127.0.0.1", 0, compression=None, **options) as server:
        yield Address(*next(iter(server.sockets)).getsockname()[:2])


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


async def again(path, handler: Handler, by: By = By.EXACT, **options: Any) -> Comparison:
    plan = plan_of(load_recording(path))
    async with container(handler) as address:
        now = await replay(plan, address, TARGET, **{"speed": 0, **options})
    return compare(plan.answers, now, by)


def verdicts(found: Comparison) -> list[ReplyVerdict]:
    return [row.verdict for row in found.rows]


HELLO = [said(0.1, "hello"), came(0.2, "hello"), said(0.3, b"/w=="), came(0.4, b"/w==")]


async def test_the_same(path):
    found = await again(whole(path, *HELLO, *both_close(0.5)), echo)
    assert found.same
    assert verdicts(found) == [SAME, SAME]
    assert (found.now.code, found.now.status, found.now.trouble) == (1000, 101, "")
    assert [round(row.recorded.after, 3) for row in found.rows] == [0.1, 0.1]
    assert all(0 <= row.now.after < 10 for row in found.rows)


async def test_what_a_recorder_has_kept_can_be_said_again(tmp_path):
    recorder = Recorder(tmp_path)
    observer = recorder.observe("echo", UpgradeRequest(TARGET, ()))
    observer.answered(UpgradeAnswer(101, "", ()))
    for payload, fin in ((b"h\xc3", False), (b"\xa4", False), (b"", True)):
        opcode = Opcode.TEXT if payload == b"h\xc3" else Opcode.CONTINUATION
        observer.frame(Sender.GATEWAY, Frame(opcode, payload, fin))
    observer.frame(Sender.CONTAINER, Frame(Opcode.TEXT, "hä".encode()))
    for sender in (Sender.GATEWAY, Sender.CONTAINER):
        observer.frame(sender, Frame(Opcode.CLOSE, b"\x03\xe8"))
    observer.ended(Sender.CONTAINER)
    observer.closed()
    recorder.close()
    fragments: list[str] = []

    async def handler(connection: ServerConnection) -> None:
        fragments.extend([each async for each in connection.recv_streaming(decode=False)])
        await connection.send("hä")
        await connection.wait_closed()

    (path,) = tmp_path.iterdir()
    assert (await again(path, handler)).same
    assert fragments == [b"h\xc3", b"\xa4", b""], "each frame is a frame again"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["hello", b"\xfe"], [SAME, DIFFERS]),
        (["hello", "\xff"], [SAME, DIFFERS]),
        (["hello"], [SAME, MISSING]),
        ([], [MISSING, MISSING]),
        (["hello", b"\xff", "and more"], [SAME, SAME, EXTRA]),
    ],
)
async def test_other_replies(path, answers, expected):
    async def all_at_once(connection: ServerConnection) -> None:
        await connection.recv()
        for answer in answers:
            await connection.send(answer)
        await connection.wait_closed()

    found = await again(whole(path, *HELLO, *both_close(0.5)), all_at_once, patience=0.2)
    assert verdicts(found) == expected
    assert not found.same
    assert found.notes == ()


async def test_a_message_waits_for_the_replies_that_had_come_before_it(path):
    heard: list[str] = []
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def handler(connection: ServerConnection) -> None:
        heard.append(await connection.recv())
        asked.set()
        await go_on.wait()
        await connection.ping()  # long after all else that was sent has come
        heard.append("go on")
        await connection.send("1")
        heard.append(await connection.recv())
        await connection.send("2")
        await connection.wait_closed()

    whole(path, said(0.1, "a"), came(0.2, "1"), said(0.3, "b"), came(0.4, "2"), *both_close(0.5))
    saying = asyncio.create_task(again(path, handler))
    await asked.wait()
    go_on.set()
    assert (await saying).same
    assert heard == ["a", "go on", "b"]


@pytest.mark.parametrize(("unanswered", "least", "most"), [(1, 0.2, 1.5), (20, 0.6, 2.5)])
async def test_what_does_not_come_is_waited_for_no_longer_than_it_may(
    path, unanswered, least, most
):
    async def handler(connection: ServerConnection) -> None:
        async for message in connection:
            if int(message) >= unanswered:
                await connection.send(message)

    lines = [line(at, str(at)) for at in range(20) for line in (said, came)]
    plan = plan_of(load_recording(whole(path, *lines, *both_close(30))))
    async with container(handler) as address:
        began = time.monotonic()
        now = await replay(plan, address, TARGET, speed=0, patience=0.2)
        took = time.monotonic() - began
    assert least < took < most, "each of twenty would be four seconds"
    assert len(now.replies) == 20 - unanswered


async def test_who_speaks_again_is_waited_for_again(path):
    async def handler(connection: ServerConnection) -> None:
        async for message in connection:
            if int(message) % 4:
                await connection.send(message)

    lines = [line(at, str(at)) for at in range(20) for line in (said, came)]
    began = time.monotonic()
    found = await again(whole(path, *lines, *both_close(30)), handler, patience=0.1)
    assert time.monotonic() - began > 0.5, "of five replies that do not come, each is waited for"
    assert found.count(ReplyVerdict.MISSING) == 5


async def test_how_replies_are_cut_in_fragments_makes_no_difference(path):
    async def handler(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send([message[:1], message[1:]])

    found = await again(whole(path, *HELLO, *both_close(0.5)), handler)
    assert verdicts(found) == [SAME, SAME]


async def test_its_pace(path):
    times: list[float] = []

    async def handler(connection: ServerConnection) -> None:
        async for _ in connection:
            times.append(asyncio.get_running_loop().time())

    whole(path, said(0.1, "a"), said(0.3, "b"), said(0.7, "c"), *both_close(0.7))
    await again(path, handler, speed=2)
    first, second = times[1] - times[0], times[2] - times[1]
    assert first > 0.09
    assert second > 0.19
    assert first + second < 2.0


@pytest.mark.parametrize(
    ("code", "reason", "same"), [(1000, "", True), (1011, "it broke", False), (1000, "bye", True)]
)
async def test_the_end_is_the_containers(path, code, reason, same):
    async def handler(connection: ServerConnection) -> None:
        await connection.send(await connection.recv())
        await connection.close(code, reason)

    whole(
        path,
        said(0.1, "a"),
        came(0.2, "a"),
        closed(0.3, "container"),
        closed(0.3, "gateway"),
        ended(0.4, "container"),
    )
    found = await again(path, handler)
    assert verdicts(found) == [SAME]
    assert (found.now.code, found.now.reason) == (code, reason)
    assert found.same == same


async def test_a_container_that_cuts_where_it_closed(path):
    async def handler(connection: ServerConnection) -> None:
        await connection.recv()
        connection.transport.abort()

    found = await again(whole(path, *HELLO, *both_close(0.5)), handler)
    assert verdicts(found) == [MISSING, MISSING]
    assert found.notes == (
        "the stream ends with no Close (1006); in the recording it ended with Close 1000",
    )


async def test_a_container_that_goes_on_where_it_closed(path):
    whole(path, said(0.1, "a"), came(0.2, "a"), closed(0.3, "container"), ended(0.3, "container"))
    found = await again(path, echo, patience=0.1)
    assert found.notes == ("the stream goes on; in the recording it ended with Close 1000",)


async def test_a_client_that_had_cut_the_stream_cuts_it_again(path):
    ends: list[int | None] = []

    async def handler(connection: ServerConnection) -> None:
        try:
            await echo(connection)
        except ConnectionClosed as error:
            ends.append(error.rcvd.code if error.rcvd else None)

    whole(path, *HELLO, came(0.5, "begun", fin=False), ended(0.6, "gateway"))
    found = await again(path, handler)
    assert found.same
    assert ends == [None]


async def test_what_ends_early_is_compared_as_far_as_it_goes(path):
    written(path, GRANTED, *HELLO[:2], {"at": 1, "complete": False, "why": "a full disk"})

    async def talkative(connection: ServerConnection) -> None:
        await connection.send(await connection.recv())
        await connection.send("more")
        await connection.close(1011)

    found = await again(path, talkative)
    assert found.same
    assert verdicts(found) == [SAME]


async def test_frames_against_rfc_6455(path):
    async def handler(connection: ServerConnection) -> None:
        await connection.recv()
        connection.transport.write(b"\xc1\x00")
        await connection.wait_closed()

    found = await again(whole(path, *HELLO, *both_close(0.5)), handler)
    assert [note.partition(":")[0] for note in found.notes] == ["the container broke RFC 6455"]


async def test_a_container_that_says_far_more_than_it_had_said(path, monkeypatch):
    monkeypatch.setattr(module, "MAX_MORE_REPLIES", 5)

    async def handler(connection: ServerConnection) -> None:
        for _ in range(20):
            await connection.send("more")
        await connection.wait_closed()

    found = await again(whole(path, *HELLO, *both_close(0.5)), handler)
    assert "far more" in found.notes[0]
    assert len(found.rows) == 8


async def test_a_container_that_takes_nothing(path):
    release = asyncio.Event()

    async def handler(connection: ServerConnection) -> None:
        connection.transport.pause_reading()
        await release.wait()
        connection.transport.abort()

    large = "a" * (12 << 20)
    whole(path, said(0.1, large), said(0.1, large), said(0.1, large), *both_close(0.5))
    plan = plan_of(load_recording(path))
    async with container(handler) as address:
        now = await replay(plan, address, TARGET, speed=0, patience=0.2)
        release.set()
    assert now.trouble == "the container took nothing for 0.2 s"


async def test_refusals(path):
    def refusing(connection: ServerConnection, request: object) -> object:
        return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "loading")

    granted = plan_of(load_recording(whole(path, *HELLO, *both_close(0.5))))
    written(path, {"at": 0.1, "answer": 503, "headers": {}}, ended(0.2, "container"), OVER)
    refused = plan_of(load_recording(path))
    async with container(echo, process_request=refusing) as address:
        now = await replay(granted, address, TARGET)
        assert compare(granted.answers, now).notes == (
            "the container answers the upgrade with 503; in the recording with 101",
        )
        assert compare(refused.answers, await replay(refused, address, TARGET)).same
    async with container(echo) as address:
        assert not compare(refused.answers, await replay(refused, address, TARGET)).same


async def test_nobody_there(path):
    port = free_port()
    plan = plan_of(load_recording(whole(path, *HELLO, *both_close(0.5))))
    now = await replay(plan, Address("127.0.0.1", port), TARGET)
    assert now.status == 0
    assert now.trouble == f"cannot open a stream to 127.0.0.1:{port}: Connection refused"
    assert not compare(plan.answers, now).same


async def test_pings_are_answered_and_none_is_said_again(path):
    pings: list[str] = []

    async def handler(connection: ServerConnection) -> None:
        protocol_received = connection.protocol.recv_frame

        def seen(frame: Any) -> None:
            pings.append(frame.opcode.name)
            protocol_received(frame)

        connection.protocol.recv_frame = seen
        await (await connection.ping(b"there?"))
        await echo(connection)

    ping = {"at": 0.1, "from": "gateway", "frame": "ping", "fin": True, "text": "1"}
    pong = {"at": 0.1, "from": "gateway", "frame": "pong", "fin": True, "text": "1"}
    whole(path, ping, pong, *HELLO, *both_close(0.5))
    assert (await again(path, handler)).same
    assert pings == ["PONG", "TEXT", "BINARY", "CLOSE"]


def test_what_cannot_be_said_again(path):
    written(path, GRANTED, OVER, head={**HEAD, "payloads": False})
    with pytest.raises(RecordingError, match="the recording has no payloads, so there is nothing"):
        plan_of(load_recording(path))
    written(path, ended(0.1, "container"), OVER)
    with pytest.raises(RecordingError, match="the recording has no answer to the upgrade"):
        plan_of(load_recording(path))


async def test_an_interrupted_replay_leaves_nothing(path):
    begun = asyncio.Event()

    async def handler(connection: ServerConnection) -> None:
        await connection.recv()
        begun.set()
        await connection.wait_closed()

    whole(path, *HELLO, *both_close(0.5))
    plan = plan_of(load_recording(path))
    async with container(handler) as address:
        saying: asyncio.Task[StreamAnswers] = asyncio.create_task(
            replay(plan, address, TARGET, speed=0)
        )
        await begun.wait()
        saying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saying
