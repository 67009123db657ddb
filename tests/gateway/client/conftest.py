"""Both transports, and the hunt for leaks."""

from __future__ import annotations

import pytest

from tests.gateway.streams.fakes import FakeClock


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """No task and no socket outlives a test."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clients' clock, which only the test advances."""
    clock = FakeClock()
    monkeypatch.setattr("partway.gateway.client.stream.LoopClock", lambda: clock)
    return clock


@pytest.fixture(params=["websocket", "http2"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param
