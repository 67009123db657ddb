"""partway.protocol.prediction.work_cost: elements and arrays count, and not only bytes."""

from __future__ import annotations

import json

import pytest

from partway.protocol.prediction.work_cost import (
    bytes_cost,
    json_cost,
    message_cost,
    numbers_cost,
    shape_cost,
)


def test_bytes_cost_by_their_number():
    assert (bytes_cost(0), bytes_cost(1600)) == (0, 100)
    assert (message_cost(0), message_cost(1600)) == (0, 400)


@pytest.mark.parametrize("value", [[1] * 1000, ["a"] * 1000, [[]] * 1000, [{"a": 1}] * 1000])
def test_json_costs_by_its_elements(value):
    text = json.dumps(value).encode()
    assert 1000 <= json_cost(text) <= 3000 + len(text) // 16
    assert json_cost(json.dumps("a" * len(text)).encode()) < 1000


def test_the_elements_of_a_long_text_are_not_counted():
    assert json_cost(b"," * 64_000) > 64_000
    assert json_cost(b"," * 64_000_000) == 4_000_000


def test_numbers_that_stay_text_cost_by_their_bytes_and_arrays():
    flat = b'{"predictions": [%b]}' % b",".join([b"1"] * 10_000)
    assert numbers_cost(flat) == len(flat) // 16 + 3
    arrays = b'{"predictions": [%b]}' % b",".join([b"[1]"] * 10_000)
    assert numbers_cost(arrays) > 30_000
    texts = b'{"predictions": [%b]}' % b",".join([b'"1"'] * 10_000)
    assert numbers_cost(texts) == json_cost(texts) > 10_000


@pytest.mark.parametrize(
    ("shape", "least"),
    [([1000], 1000), ([1000, 1, 1, 1], 4000), ([1, 1, 1, 1000], 1000), ([10, 10, 10], 1110)],
)
def test_a_tensor_costs_by_its_elements_and_arrays(shape, least):
    assert least <= shape_cost(shape) < least + 20
