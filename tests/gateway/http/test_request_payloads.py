from __future__ import annotations

from hashlib import sha256

import pytest

from partway.gateway.http.request_payloads import (
    DUPLEX_PAYLOAD,
    NO_PAYLOAD,
    GatheredPayload,
    StreamedPayload,
)
from partway.protocol.errors import InvalidSignature, RequestTimeout, RequestTooLarge
from tests.gateway.http.test_exchange import Recorded

STATED = "x-amz-content-sha256"
HASH, EMPTY = sha256(b"body").hexdigest(), sha256(b"").hexdigest()


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize("rule", [GatheredPayload(4), StreamedPayload(4)])
@pytest.mark.parametrize("headers", [(), ((STATED, HASH),)])
async def test_the_signature_covers_the_whole_body(rule, headers):
    exchange = Recorded(*headers, chunks=[b"bo", b"dy"])
    assert await rule.signed_hash(exchange) == HASH
    await rule.prepare(exchange)
    assert await exchange.body(4) == b"body"


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize("rule", [GatheredPayload(4), StreamedPayload(4), NO_PAYLOAD])
async def test_a_hash_that_is_another_bodys(rule):
    with pytest.raises(InvalidSignature):
        await rule.signed_hash(Recorded((STATED, "0" * 64), chunks=[b"body"]))


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize(
    ("rule", "headers", "known"),
    [
        (GatheredPayload(4), (), None),
        (StreamedPayload(4), ((STATED, HASH),), HASH),
        (NO_PAYLOAD, (), EMPTY),
        (DUPLEX_PAYLOAD, ((STATED, EMPTY),), EMPTY),
    ],
)
async def test_what_is_known_of_a_body_before_it_is_there(rule, headers, known):
    exchange = Recorded(*headers, chunks=[None])
    assert rule.hash_beforehand(exchange) == known
    assert not exchange.gathered


async def test_only_what_is_to_be_gathered_is_read_before_the_operation_runs():
    for rule, left in ((GatheredPayload(4), 0), (StreamedPayload(4), 1), (NO_PAYLOAD, 1)):
        exchange = Recorded(chunks=[b"body"])
        await rule.prepare(exchange)
        assert len(exchange._chunks) == left


@pytest.mark.parametrize("ask", ["signed_hash", "prepare"])
async def test_limits_hold_before_the_operation_runs(ask):
    rule = GatheredPayload(3, within=0.01)
    with pytest.raises(RequestTooLarge):
        await getattr(rule, ask)(Recorded(chunks=[b"body"]))
    with pytest.raises(RequestTimeout):
        await getattr(rule, ask)(Recorded(chunks=[None]))


@pytest.mark.clause("2.4-1")
async def test_what_is_open_both_ways_is_signed_event_by_event():
    streaming = "STREAMING-AWS4-HMAC-SHA256-EVENTS"
    assert await DUPLEX_PAYLOAD.signed_hash(Recorded((STATED, streaming))) == streaming
    assert await DUPLEX_PAYLOAD.signed_hash(Recorded(chunks=[None])) == EMPTY
    assert await NO_PAYLOAD.signed_hash(Recorded(chunks=[None])) == EMPTY
