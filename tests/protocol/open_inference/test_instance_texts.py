"""partway.protocol.open_inference.instance_texts: blocks, and checkpoints between them."""

from __future__ import annotations

import json
import sys

import pytest

from partway.protocol.open_inference.instance_texts import instance_texts
from partway.protocol.open_inference.tensors import from_binary
from partway.protocol.prediction.checkpoints import checked_by

SHAPES = [
    [60_000],
    [60_000, 1, 1, 1, 1, 1, 1, 1],
    [1, 60_000, 1, 1, 1, 1, 1, 1],
    [2, 30_000],
    [30_000, 1, 2, 1],
    [1, 1, 30_000, 2, 1],
    [2, 10_000, 1, 3],
    [7500, 2, 1, 2, 1, 2],
]


def calls_of(work):
    """How many functions a piece of work calls, in Python and in C."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", [{}, {"named": True, "wrap": True}])
def test_an_element_costs_a_call_or_two_whatever_the_shape_is(shape, how):
    how = {"named": False, "wrap": False, **how}
    tensor = from_binary("x", "INT8", shape, b"\1" * 60_000)
    texts = []
    calls = calls_of(lambda: texts.extend(instance_texts([tensor], **how)))
    assert calls < 2 * 60_000
    assert len(json.loads(b"[%b]" % b",".join(texts))) == shape[0]


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[1], [1, 30_000, 2], [1, 1, 30_000, 2, 1]])
@pytest.mark.parametrize("datatype", ["INT8", "BYTES"])
def test_between_blocks_there_is_a_checkpoint(shape, datatype):
    data = b"\1" * 60_000 if datatype == "INT8" else b"\0\0\0\0" * 60_000
    seen = []
    with checked_by(lambda: seen.append(None)):
        for _ in instance_texts([from_binary("x", datatype, shape, data)], named=False, wrap=False):
            pass
    assert len(seen) >= 15
