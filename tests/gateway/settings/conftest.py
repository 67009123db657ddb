"""What tests of endpoints' settings share."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from partway.gateway.tls.local_ca import LocalCa


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    """A file of roots."""
    found = LocalCa(tmp_path / "ca").ensure(["localhost"], datetime.now(UTC)).ca
    assert found is not None
    return found
