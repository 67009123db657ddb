from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """Nothing that a connection made outlives its test."""
