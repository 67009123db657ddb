from __future__ import annotations

import dataclasses

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy

#: What the contract says, where it gives a number.
CONTRACT = {
    "input_end": "auto",
    "normal_close": "error",
    "lifetime": 30 * 60,
    "response_lifetime": 8 * 60,
    "request_lifetime": 8 * 60,
    "stall_timeout": 300,
    "close_timeout": 10,
    "drain_timeout": 3,
    "answer_timeout": 60,
    "connect_timeout": 0.250,
    "handshake_timeout": 60,
    "ping_interval": 60,
    "pings_unanswered": 5,
    "client_ping_interval": 25,
    "http2_ping_interval": 60,
    "client_pings_unanswered": 2,
    "max_part": 16_777_216,
}


@pytest.mark.clause("1.3-3", "1.4-1", "1.4-4", "1.4-5", "1.5-12")
def test_defaults_are_the_contracts():
    policy = dataclasses.asdict(StreamPolicy())
    assert {name: policy[name] for name in CONTRACT} == CONTRACT


def test_low_water_is_below_high_water():
    policy = StreamPolicy()
    assert 0 < policy.low_water < policy.high_water < policy.max_part
