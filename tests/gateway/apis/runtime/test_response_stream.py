"""A response stream's beginning, and what is made of heads, each of which comes again and again."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from multidict import CIMultiDict
from prometheus_client.exposition import generate_latest

from partway.gateway.access.authentication import ANYBODY
from partway.gateway.apis.runtime import response_stream
from partway.gateway.apis.runtime.response_stream import AnswerResponse, relay_answer
from partway.gateway.containers.answers import AnswerHead, AnswerPiece
from partway.gateway.streams.registry import Streams
from partway.gateway.streams.response_relay import EVENTS
from partway.protocol.errors import ClientLeft, InputValidationError
from tests import event_factory as raw
from tests.gateway.http.test_exchange import Recorded

EMPTY = AnswerResponse({}, EVENTS)


def test_the_headers_of_a_response_name_its_variant():
    head = AnswerHead(200, CIMultiDict({"content-type": "a/b", "X": "y"}), None, True, True)
    for variant in ("one", "two"):
        invoked = SimpleNamespace(head=head, lease=SimpleNamespace(variant=variant))
        headers = response_stream._as_events(invoked).headers
        assert headers == {
            "Content-Type": "application/vnd.amazon.eventstream",
            "x-Amzn-Invoked-Production-Variant": variant,
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox",
            "X-Amzn-SageMaker-Content-Type": "a/b",
        }


def test_what_goes_along():
    headers = CIMultiDict({"Accept": "not/asked", "x-amzn-sagemaker-accept": "a/b", "X": "y"})
    assert response_stream._passed_on(headers) == {"Accept": "a/b"}


def test_it_begins_no_session():
    headers = CIMultiDict({"X-Amzn-SageMaker-Session-Id": "NEW_SESSION"})
    with pytest.raises(InputValidationError, match="must be the id of a session"):
        response_stream.session_of(headers)


class Client(Recorded):
    """A client that notes how many streams are kept when something is sent to it."""

    def __init__(self, streams, leaves=False):
        super().__init__(method="POST")
        self.kept = []
        self._streams = streams
        self._leaves = leaves

    async def _write(self, piece):
        self.kept.append(len(self._streams.sessions))
        if self._leaves:
            raise ClientLeft
        await super()._write(piece)

    async def _begin(self, status, headers, first):
        await super()._begin(status, headers, b"")
        if first:
            await self._write(first)


def answering(*chunks, at_hand, kept_as_stream=id):
    """A block that has an answer of these chunks, of which the first may be there by then."""
    said = [AnswerPiece(each, ends_chunk=True) for each in chunks]

    async def piece():
        return said.pop(0) if said else None

    answer = SimpleNamespace(
        piece=piece, piece_at_hand=lambda: said.pop(0) if at_hand else None, buffered_bytes=0
    )
    policy = SimpleNamespace(response_lifetime=60)
    place = SimpleNamespace(endpoint="model", policy=policy)

    @asynccontextmanager
    async def block():
        lease = SimpleNamespace(place=place)
        yield SimpleNamespace(answer=answer, lease=lease, kept_as_stream=kept_as_stream)

    return block()


@pytest.mark.parametrize(("at_hand", "kept"), [(True, [0, 1]), (False, [1, 1])])
async def test_the_first_part_goes_before_the_stream_is_kept(at_hand, kept):
    streams, told = Streams(1), []
    client = Client(streams)
    answered = answering(
        *(b"one", b"two"),
        at_hand=at_hand,
        kept_as_stream=lambda end: told.append((end, len(client.kept))),
    )
    await relay_answer(streams, client, ANYBODY, answered, lambda _: EMPTY)
    assert client.kept == kept
    status, *parts, _, end = client.said
    assert (status, end) == (200, "end")
    assert [each.payload for each in raw.read(b"".join(parts))] == [b"one", b"two"]
    assert streams.idle
    ((drain, kept_before),) = told
    relay = drain.__self__
    assert kept_before == int(at_hand)
    assert (relay.from_container.parts, relay.from_container.bytes) == (2, 6)
    assert relay.started_at <= relay.first_part_at <= relay.ended_at


async def test_a_response_stream_is_counted_and_logged_once_it_has_ended(caplog):
    caplog.set_level(logging.INFO, "partway.stream")
    streams = Streams(1)
    answered = answering(b"one", at_hand=True)
    await relay_answer(
        streams, Client(streams), ANYBODY, answered, lambda _: AnswerResponse({}, EVENTS)
    )
    (line,) = caplog.messages
    assert line.startswith("stream ended")
    page = generate_latest(streams.metrics.registry).decode()
    assert 'partway_stream_ends_total{cause="completed",endpoint="model"} 1.0' in page


async def test_a_client_that_leaves_with_the_first_part_leaves_no_stream():
    streams = Streams(1)
    answered = answering(b"one", at_hand=True)
    client = Client(streams, leaves=True)
    with pytest.raises(ClientLeft):
        await relay_answer(streams, client, ANYBODY, answered, lambda _: EMPTY)
    assert streams.idle
