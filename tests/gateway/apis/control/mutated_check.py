"""Two thousand mutated requests; ``make mutated``."""

from __future__ import annotations

import pytest

from tests.gateway.apis.control.mutated import answers_to
from tests.wire.conftest import container, gateway_for

__all__ = ["container", "gateway_for"]


@pytest.mark.parametrize("seed", range(2, 12))
async def test_no_request_is_answered_by_a_fault(gateway_for, seed):
    print(dict(await answers_to(await gateway_for(), 200, seed)))
