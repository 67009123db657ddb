"""The judges see what a server does wrong."""

from __future__ import annotations

import pytest

from tests.container.rfc6455.judges import judge
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, TEXT, close, frame


@pytest.fixture(autouse=True)
def _no_leaks() -> None:
    """There is no server here."""


@pytest.mark.parametrize(
    "received",
    [
        frame(TEXT, b"x", mask=KEY),
        frame(TEXT, b"x", rsv=4),
        frame(TEXT, b"x", rsv=1),
        frame(TEXT, b"x", length_form=16),
        frame(BINARY, bytes(200), length_form=64),
        frame(PONG, b"x", length_form=16),
        frame(PONG, bytes(126)),
        frame(PONG, b"x", fin=False),
        frame(3, b"x"),
        frame(15),
        frame(TEXT, b"\xff"),
        frame(TEXT, b"\xe2\x82"),
        frame(CONTINUATION, b"x"),
        frame(TEXT, b"x", fin=False) + frame(TEXT, b"x"),
        frame(TEXT, b"x", fin=False) + frame(CONTINUATION, b"\xff"),
        close(1005),
        close(1016),
        close(999),
        close(1000, b"\xff"),
        frame(CLOSE, b"\x03"),
        close(1000) + close(1000),
        close(1000) + frame(PONG),
        frame(TEXT, b"half")[:-1],
        b"\x81",
    ],
)
def test_what_is_wrong(received: bytes) -> None:
    with pytest.raises((AssertionError, ValueError)):
        judge(frame(BINARY, b"before") + received)


def test_what_is_right() -> None:
    frames = [
        frame(TEXT, "ü".encode()[:1], fin=False),
        frame(PONG, b"pong"),
        frame(CONTINUATION, "ü".encode()[1:]),
        frame(PING),
        frame(BINARY, bytes(70_000)),
        close(4999, "über".encode()),
    ]
    verdict = judge(b"".join(frames))
    assert verdict.data == [
        (TEXT, b"\xc3", False),
        (CONTINUATION, b"\xbc", True),
        (BINARY, bytes(70_000), True),
    ]
    assert verdict.pongs == [b"pong"]
    assert verdict.close == (4999, "über")


@pytest.mark.parametrize("code", [1000, 1014, 3000, None])
def test_what_two_of_them_are_forgiven(code: int | None) -> None:
    begun = frame(TEXT, b"begun", fin=False)
    assert judge(close(code)).close == (code, "")
    assert judge(begun + close(code)).data == [(TEXT, b"begun", False)]
