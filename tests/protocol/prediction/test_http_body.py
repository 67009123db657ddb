"""Bodies of any type within JSON."""

from __future__ import annotations

import json

import pytest

from partway.protocol.prediction.http_body import HttpBody, read_http_body, write_http_body


def test_a_request_is_unwrapped():
    body = b'{"httpBody": {"contentType": "a/b", "data": "AP8"}, "endpoint": "e"}'
    assert read_http_body(body) == HttpBody("a/b", b"\x00\xff")
    assert read_http_body(b"{}") == HttpBody("", b"")


def test_an_answer_is_wrapped():
    assert json.loads(write_http_body(HttpBody("a/b", b"\x00\xff"))) == {
        "contentType": "a/b",
        "data": "AP8=",
    }


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"x", "not JSON"),
        (b"[]", "must be"),
        (b'{"httpBody": 5}', "must be"),
        (b'{"httpBody": {"data": 5}}', "must be strings"),
        (b'{"httpBody": {"data": "A"}}', "must be base64"),
    ],
)
def test_what_is_none(body, why):
    with pytest.raises(ValueError, match=why):
        read_http_body(body)
