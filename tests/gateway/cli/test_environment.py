"""partway.gateway.cli.environment: the region that AWS's tools would take."""

from __future__ import annotations

import pytest

from partway.gateway.cli.environment import region


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, "us-east-1"),
        ("eu-west-1", "eu-north-1", "eu-west-1"),
        (None, "eu-north-1", "eu-north-1"),
        ("", "eu-north-1", "eu-north-1"),
        ("", "", "us-east-1"),
    ],
)
def test_region(monkeypatch, first, second, expected):
    for name, value in (("AWS_REGION", first), ("AWS_DEFAULT_REGION", second)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert region() == expected
