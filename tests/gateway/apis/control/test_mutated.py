"""Requests that are changed at random get AWS's answer or a named refusal, and never a fault."""

from __future__ import annotations

from tests.gateway.apis.control.mutated import answers_to
from tests.gateway.apis.control.mutations import mutations
from tests.wire.conftest import container, gateway_for

__all__ = ["container", "gateway_for"]


async def test_no_request_is_answered_by_a_fault(gateway_for):
    seen = await answers_to(await gateway_for(), 200, seed=1)
    assert seen[""] > 10
    assert {"ValidationException", "SerializationException", "UnknownOperationException"} <= {*seen}


def test_they_are_the_same_for_the_same_seed():
    assert list(mutations(50, 3)) == list(mutations(50, 3)) != list(mutations(50, 4))
