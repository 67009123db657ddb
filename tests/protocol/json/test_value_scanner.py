"""Where a value of JSON ends."""

from __future__ import annotations

import pytest

from partway.protocol.json.value_scanner import JsonScanner, TooDeep
from partway.protocol.limits import MAX_JSON_DEPTH


@pytest.mark.parametrize(
    "value",
    [
        b"1.5e3",
        b"true",
        b'"a"',
        b'""',
        b'"\\"}\\\\"',
        b"{}",
        b'[1, {"a": "]"}]',
        b'{"\\u005d": [[]]}',
    ],
)
def test_ends(value):
    for follows in (b",", b" ", b"]", b"}", b"\n7"):
        data = value + follows
        assert JsonScanner().scan(data, 0) == len(value)
        assert JsonScanner().scan(b" " * 3 + data, 3) == len(value) + 3
        for cut in range(1, len(value)):
            scanner = JsonScanner()
            assert scanner.scan(data[:cut], 0) == -1
            assert scanner.scan(data[cut:], 0) == len(value) - cut
        scanner = JsonScanner()
        found = [scanner.scan(data[at : at + 1], 0) for at in range(len(data))]
        is_scalar = value[:1] not in b'"{['
        ended = len(value) if is_scalar else len(value) - 1
        assert found[:ended] == [-1] * ended
        assert found[ended] == (0 if is_scalar else 1)


def test_one_value_after_the_other():
    data = b'{"a": 1} [2]'
    scanner = JsonScanner()
    assert scanner.scan(data, 0) == 8
    assert scanner.scan(data, 9) == 12


def test_depth():
    assert (
        JsonScanner().scan(b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH, 0) == 2 * MAX_JSON_DEPTH
    )
    with pytest.raises(TooDeep, match=f"deeper than {MAX_JSON_DEPTH} levels"):
        JsonScanner().scan(b'[{"a":' * MAX_JSON_DEPTH, 0)
