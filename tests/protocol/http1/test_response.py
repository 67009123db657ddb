"""The head of a response of HTTP/1.1: its bytes."""

from __future__ import annotations

import pytest

from partway.protocol.http1 import response
from partway.protocol.http1.response import response_head

FRAMING = "Length: 1\r\n"


@pytest.fixture(autouse=True)
def at_noon(monkeypatch):
    monkeypatch.setattr(response, "http_date", lambda: "NOW")


@pytest.mark.parametrize(
    ("version", "status", "keeps", "head"),
    [
        ("1.1", 200, True, b"HTTP/1.1 200 OK\r\nA: b\r\nLength: 1\r\nDate: NOW\r\n\r\n"),
        (
            "1.1",
            410,
            False,
            b"HTTP/1.1 410 Gone\r\nA: b\r\nLength: 1\r\nDate: NOW\r\nConnection: close\r\n\r\n",
        ),
        (
            "1.0",
            200,
            True,
            b"HTTP/1.0 200 OK\r\nA: b\r\nLength: 1\r\nDate: NOW\r\nConnection: keep-alive\r\n\r\n",
        ),
        ("1.0", 200, False, b"HTTP/1.0 200 OK\r\nA: b\r\nLength: 1\r\nDate: NOW\r\n\r\n"),
        ("1.1", 599, True, b"HTTP/1.1 599 \r\nA: b\r\nLength: 1\r\nDate: NOW\r\n\r\n"),
    ],
)
def test_a_head(version, status, keeps, head):
    found = response_head(version, status, {"A": "b"}, FRAMING, keeps=keeps)
    assert found == head


def test_an_upgrade_says_nothing_else_of_its_connection():
    head = response_head("1.1", 101, {"Connection": "Upgrade"}, keeps=False)
    assert head == b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nDate: NOW\r\n\r\n"


@pytest.mark.parametrize("value", ["a\r\nX: b", "a\nX: b", "a\rb"])
def test_a_value_that_is_more_than_a_value_is_not_sent(value):
    with pytest.raises(ValueError, match="one line"):
        response_head("1.1", 200, {"A": value}, keeps=True)


def test_characters_are_utf_8():
    assert "ö".encode() in response_head("1.1", 200, {"A": "ö"}, keeps=True)
