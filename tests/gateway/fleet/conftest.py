"""What holds the processes of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from partway.gateway.fleet.leash import Leash


@pytest.fixture
def leash() -> Iterator[Leash]:
    leash = Leash()
    yield leash
    leash.close()
