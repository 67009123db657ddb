"""What a file is in, by its first bytes and by its name."""

from __future__ import annotations

import numpy as np
import pytest

from partway.protocol.formats import RECORD_TYPES, Batch, encode
from partway.protocol.formats.guessing import LOOKED_AT, type_by_content, type_by_name


@pytest.mark.parametrize("media_type", RECORD_TYPES)
def test_what_we_have_written(media_type):
    body = encode(Batch(np.arange(2000.0).reshape(-1, 4)), media_type)
    assert type_by_content(body[:LOOKED_AT]) == media_type


@pytest.mark.parametrize(
    ("beginning", "media_type"),
    [
        (b'\xef\xbb\xbf {\r\n "configuration": {}', "application/json"),
        (b'{ "features": [1] }', "application/jsonlines"),
        (b'{"data": {"features": {"values": [1]}}}', "application/jsonlines"),
        (b"{\n", "application/json"),
        (b'{"inputs": [[1]]}', "application/json"),
        (b'{"columns": ["a"], "data": [[1]]}', "application/json"),
        (b" [[1, 2],\n[3, 4]]", "application/json"),
        (b"[1, 2]", "application/json"),
        (b"[1, 2]\r\n[3, 4]\r\n", "application/jsonlines"),
        (b"1 0:1", "text/libsvm"),
        (b"0:1.5 7:2\n", "text/libsvm"),
        (b"1\n2\n", "text/csv"),
        (b"# by scikit-learn\r\n#\n# from 0\n1 0:1", "text/libsvm"),
        (b"# a comment alone", None),
        (b"a,b\n1,2", "text/csv"),
        (bytes.fromhex("0a1e0a0676616c7565731214"), "application/x-recordio-protobuf"),
        (b"", None),
        (b" \n", None),
        (b"PK\x03\x04", None),
    ],
)
def test_what_others_write(beginning, media_type):
    assert type_by_content(beginning) == media_type


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.CSV", "text/csv"), ("a.b.jsonl", "application/jsonlines"),
        ("a.npy", "application/x-npy"),
        ("csv", None), ("a.npz", None), ("a", None),
    ],
)  # fmt: skip
def test_names(name, media_type):
    assert type_by_name(name) == media_type
