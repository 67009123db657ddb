"""partway.service_links: what Kubernetes has put there is told from what somebody has set."""

from __future__ import annotations

import pytest

from partway.service_links import is_link


@pytest.mark.parametrize("name", ["PARTWAY_PORT", "PARTWAY_TLS_PORT"])
def test_a_link_may_be_named_as_a_setting_is(name):
    assert is_link(name, "tcp://10.0.0.11:8090")
    assert is_link(name, "udp://10.0.0.11:8090")
    assert not is_link(name, "8090")
    assert not is_link("PARTWAY_HOST", "tcp://10.0.0.11:8090")
