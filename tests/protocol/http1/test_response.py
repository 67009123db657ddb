"""The head of a response of HTTP/1.1: its bytes."""

from __future__ import annotations

import pytest

from partway.protocol.http1.response import response_head

FRAMING = "Length: 1\r\n"
#: RFC 9110's own example.
NOW = 784111777.0
DATE = b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"


@pytest.mark.parametrize(
    ("version", "status", "keeps", "head"),
    [
        ("1.1", 200, True, b"HTTP/1.1 200 OK\r\nA: b\r\nLength: 1\r\n" + DATE + b"\r\n"),
        (
            "1.1",
            410,
            False,
            b"HTTP/1.1 410 Gone\r\nA: b\r\nLength: 1\r\n" + DATE + b"Connection: close\r\n\r\n",
        ),
        (
            "1.0",
            200,
            True,
            b"HTTP/1.0 200 OK\r\nA: b\r\nLength: 1\r\n" + DATE + b"Connection: keep-alive\r\n\r\n",
        ),
        ("1.0", 200, False, b"HTTP/1.0 200 OK\r\nA: b\r\nLength: 1\r\n" + DATE + b"\r\n"),
        ("1.1", 599, True, b"HTTP/1.1 599 \r\nA: b\r\nLength: 1\r\n" + DATE + b"\r\n"),
    ],
)
def test_a_head(version, status, keeps, head):
    found = response_head(version, status, {"A": "b"}, FRAMING, keeps=keeps, now=NOW)
    assert found == head


def test_an_upgrade_says_nothing_else_of_its_connection():
    head = response_head("1.1", 101, {"Connection": "Upgrade"}, keeps=False, now=NOW)
    assert head == b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n" + DATE + b"\r\n"


@pytest.mark.parametrize("value", ["a\r\nX: b", "a\nX: b", "a\rb"])
def test_a_value_that_is_more_than_a_value_is_not_sent(value):
    with pytest.raises(ValueError, match="one line"):
        response_head("1.1", 200, {"A": value}, keeps=True, now=NOW)


def test_characters_are_utf_8():
    assert "ö".encode() in response_head("1.1", 200, {"A": "ö"}, keeps=True, now=NOW)
