"""Clients that go on sending behind a response (clause 2.3-6), through a running gateway."""

from __future__ import annotations

import asyncio

import pytest

from tests.frame_factory import close
from tests.wire.event_dialect import as_event
from tests.wire.event_messages import END, part_event
from tests.wire.peers import soon
from tests.wire.test_http2 import EVENT, open_on

NEVER = 1e9


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is silent behind a response is not told to stop."""
    monkeypatch.setattr("partway.gateway.http.http2.late_input.HTTP2_LATE_QUIET", NEVER)


@pytest.mark.clause("2.3-6", "2.6-2")
async def test_what_comes_behind_the_models_error_is_taken_and_dropped(gateway_for, patient):
    """More than any window, and then the client's own end of it: no reset, and no other harm."""
    gateway = await gateway_for(max_streams=1)
    client, model = await gateway.open("http2")
    model.send(close(4321, b"bye"))
    assert as_event(await client.event())["ModelStreamError"]["ErrorCode"] == "4321"
    assert await client.event() is END
    assert (await model.frame()).close_code == 4321
    await client.stream.send_data(part_event(bytes(2 << 20)))
    await client.client.settled()
    assert client.stream.ends == ["END_STREAM"]
    stream, _ = await open_on(gateway, client.client)  # the first one's place is free meanwhile
    client.end_input()
    stream.send(EVENT)
    await client.client.settled()
    assert client.stream.ends == ["END_STREAM"]
    assert client.client.goaway is None
    assert gateway.causes() == {"model_error": 1}


@pytest.mark.clause("2.3-6")
async def test_what_comes_behind_a_response_without_an_end_is_not_taken(
    gateway_for, patient, monkeypatch
):
    monkeypatch.setattr("partway.gateway.http.http2.late_input.HTTP2_LATE_BYTES", 1 << 20)
    gateway = await gateway_for()
    client, model = await gateway.open("http2")
    model.send(close(4321))
    assert as_event(await client.event())["ModelStreamError"]["ErrorCode"] == "4321"
    client.stream.send(bytes(8 << 20))
    assert await client.ended() == ("END_STREAM", "RST_STREAM(NO_ERROR)")
    assert 8 << 20 > client.stream.unsent > 6 << 20
    await open_on(gateway, client.client)


@pytest.mark.clause("2.3-6", "4-6")
async def test_a_drain_does_not_wait_for_who_goes_on_behind_a_response(
    gateway_for, patient, short_linger
):
    gateway = await gateway_for(shutdown_grace=30.0, shutdown_hard=NEVER)
    client, model = await gateway.open("http2")
    model.send(close(4321))
    assert as_event(await client.event())["ModelStreamError"]["ErrorCode"] == "4321"
    assert await client.event() is END
    draining = asyncio.create_task(gateway.gateway.drain())
    assert await client.client.eof() == "EOF"
    ends = [end for end in client.stream.ends if "GOAWAY" not in end]
    assert ends[:2] == ["END_STREAM", "RST_STREAM(NO_ERROR)"]
    client.client.abort()
    await soon(draining, "the drain")
