"""The gateways and raw peers of the tests of the wire, for what is tested against a running one."""

from __future__ import annotations

from tests.wire.conftest import container, gateway_for

__all__ = ["container", "gateway_for"]
