"""Both transports, and the hunt for leaks."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """No task and no socket outlives a test."""


@pytest.fixture(params=["websocket", "http2"])
def transport(request: pytest.FixtureRequest) -> str:
    """Each in turn."""
    return request.param
