"""Gateways and raw clients, as in the tests of the wire."""

from __future__ import annotations

import pytest

from tests.wire.conftest import container, gateway_for

__all__ = ["container", "gateway_for"]


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """Nothing that a connection made outlives its test."""
