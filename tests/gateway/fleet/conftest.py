"""What holds the processes of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from partway.gateway.fleet.leash import Leash
from tests.gateway.fleet.fakes import FakeFleet

# No module of tests by its name, so that what its assertions found is not shown otherwise.
pytest.register_assert_rewrite("tests.gateway.fleet.launchers.contract")

# No module of tests by its name, so that what its assertions found is not shown otherwise.
pytest.register_assert_rewrite("tests.gateway.fleet.launchers.contract")


@pytest.fixture
def leash() -> Iterator[Leash]:
    leash = Leash()
    yield leash
    leash.close()


@pytest.fixture
async def of():
    fake = FakeFleet()
    yield fake
    fake.fleet.hasten()
    await fake.fleet.stop()
