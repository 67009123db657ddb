"""partway.gateway.fleet.container_ids: ids of containers, and back."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.container_ids import container_id, hostname_of, instance_of


@pytest.mark.parametrize(
    ("hostname", "expected"), [("", "echo-a-b-1a2b3c4d"), ("pre-1", "echo-a-b-1a2b3c4d_pre-1")]
)
def test_there_and_back(hostname, expected):
    assert container_id("echo-a-b-1a2b3c4d", hostname) == expected
    assert (instance_of(expected), hostname_of(expected)) == ("echo-a-b-1a2b3c4d", hostname)
