"""A tensor's three members, and what they mean together."""

from __future__ import annotations

import numpy as np
import pytest

from partway.protocol.formats.tensors import tensor_row
from partway.protocol.limits import MAX_WIDTH


@pytest.mark.parametrize(
    ("values", "keys", "shape", "width", "expected"),
    [
        ([1, 2], [], [], None, ([1, 2], None, 2)),
        ([1, 2], [], [2], None, ([1, 2], None, 2)),
        ([1, 2, 3, 4], [], [2, 2], None, ([1, 2, 3, 4], None, 4)),
        ([], [], [], None, ([], None, 0)),
        ([], [], [5], None, ([], [], 5)),
        ([7, 8], [3, 0], [4], None, ([7, 8], [3, 0], 4)),
        ([7], [5], [2, 3], None, ([7], [5], 6)),
        ([7], [3], [], 4, ([7], [3], 4)),
    ],
)
def test_rows(values, keys, shape, width, expected):
    row = tensor_row(np.array(values), np.array(keys, float), np.array(shape, float), width)
    found_keys = None if row.keys is None else row.keys.tolist()
    assert (row.values.tolist(), found_keys, row.width) == expected


@pytest.mark.parametrize(
    ("values", "keys", "shape", "why"),
    [
        ([1, 2], [], [3], "there must be 3, or keys"),
        ([1], [1, 2], [3], "2 keys and 1 values"),
        ([1], [3], [3], "from 0 to 2"),
        ([1], [-1], [3], "from 0 to 2"),
        ([1], [0.5], [3], "from 0 to 2"),
        ([1], [np.nan], [3], "from 0 to 2"),
        ([1, 2], [1, 1], [3], "a key appears twice"),
        ([1], [1], [], "keys without a shape"),
        ([1], [1], [0], "shape must be whole numbers"),
        ([1], [1], [2.5], "shape must be whole numbers"),
        ([1], [1], [MAX_WIDTH, 2], "at most"),
        ([1], [1], [1e300], "shape must be whole numbers"),
    ],
)
def test_contradictions(values, keys, shape, why):
    with pytest.raises(ValueError, match=why):
        tensor_row(np.array(values), np.array(keys, float), np.array(shape, float), None)
