from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.http2.preface import HTTP2_PREFACE, FirstBytes, opening_of


@pytest.mark.parametrize("size", range(24))
def test_a_beginning_of_the_preface_decides_nothing(size):
    assert opening_of(HTTP2_PREFACE[:size]) is FirstBytes.UNDECIDED


@pytest.mark.parametrize("behind", [b"", b"\x00", b"PRI * HTTP/2.0\r\n"])
def test_the_whole_preface_is_http2(behind):
    assert len(HTTP2_PREFACE) == 24
    assert opening_of(HTTP2_PREFACE + behind) is FirstBytes.HTTP2


@pytest.mark.parametrize("at", range(24))
def test_one_wrong_byte_anywhere_is_left_to_http1(at):
    wrong = HTTP2_PREFACE[:at] + bytes([HTTP2_PREFACE[at] ^ 0x20])
    assert opening_of(wrong) is FirstBytes.HTTP1
    assert opening_of(wrong + HTTP2_PREFACE[at + 1 :]) is FirstBytes.HTTP1


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        (b"", FirstBytes.UNDECIDED),
        (b"P", FirstBytes.UNDECIDED),
        (b"PR", FirstBytes.UNDECIDED),
        (b"PU", FirstBytes.HTTP1),
        (b"POST / HTTP/1.1\r\n", FirstBytes.HTTP1),
        (b"PRI / HTTP/1.1\r\n", FirstBytes.HTTP1),
        (b"GET / HTTP/1.1\r\n", FirstBytes.HTTP1),
        (b"\x16\x03\x01", FirstBytes.HTTP1),
        (b"\n", FirstBytes.HTTP1),
    ],
)
def test_methods_and_garbage(received, expected):
    assert opening_of(received) is expected


@given(st.binary())
def test_a_decision_stands_whatever_follows(received):
    for size in range(len(received) + 1):
        decided = opening_of(received[:size])
        if decided is not FirstBytes.UNDECIDED:
            assert opening_of(received) is decided
            return
    assert len(received) < 24
