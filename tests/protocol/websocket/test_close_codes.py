from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.parts import InternalStreamFailure, ModelStreamError
from partway.protocol.websocket import close_codes as closing
from partway.protocol.websocket.close_codes import (
    Close,
    clip,
    close_for,
    encode_close,
    error_of,
    is_legal,
    name_of,
)


def legal_by_the_rfc(code):
    """RFC 6455 §7.4.1 and §7.4.2 with IANA's later 1012 to 1014, spelt out."""
    return code in {
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014,
    } or 3000 <= code < 5000  # fmt: skip


@pytest.mark.clause("1.5-4")
def test_every_code_that_fits_two_bytes():
    wrong = [code for code in range(65536) if is_legal(code) is not legal_by_the_rfc(code)]
    assert wrong == []


@pytest.mark.clause("1.5-2")
def test_constants():
    assert {1000, 1001, 1005} == closing.NORMAL_CODES
    assert (closing.NORMAL, closing.GOING_AWAY, closing.PROTOCOL_ERROR) == (1000, 1001, 1002)
    assert (closing.UNSUPPORTED_DATA, closing.NO_STATUS, closing.ABNORMAL) == (1003, 1005, 1006)
    assert (closing.INVALID_DATA, closing.POLICY_VIOLATION, closing.TOO_BIG) == (1007, 1008, 1009)
    assert (closing.INTERNAL_ERROR, closing.TRY_AGAIN_LATER) == (1011, 1013)
    assert (closing.MODEL_FAILED, closing.GATEWAY_FAILED) == (4424, 4500)


@pytest.mark.parametrize("code", range(1000, 1015))
def test_every_code_of_the_first_range_that_may_be_reported_has_a_name(code):
    if code == 1004:  # reserved, its meaning never defined
        assert name_of(code) == "Unknown code"
    else:
        assert name_of(code) == closing.NAMES[code]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (999, "Unknown code"), (1016, "Unknown code"), (2999, "Unknown code"),
        (3000, "Registered code"), (3999, "Registered code"),
        (4000, "Private use code"), (4999, "Private use code"), (5000, "Unknown code"),
    ],
)  # fmt: skip
def test_names_of_ranges(code, name):
    assert name_of(code) == name


@pytest.mark.parametrize(
    ("close", "payload"),
    [
        (Close(), b""),
        (Close(1000), b"\x03\xe8"),
        (Close(1011, "boom"), b"\x03\xf3boom"),
        (Close(4999, "ü"), b"\x13\x87\xc3\xbc"),
        (Close(1000, "x" * 123), b"\x03\xe8" + b"x" * 123),
        (Close(1000, "x" * 124), b"\x03\xe8" + b"x" * 123),
        (Close(1000, "x" * 122 + "ü"), b"\x03\xe8" + b"x" * 122),
        (Close(1000, "\ud800"), b"\x03\xe8?"),
    ],
)
def test_encode_close(close, payload):
    assert encode_close(close) == payload


def test_encode_close_refuses_a_reason_without_a_code():
    with pytest.raises(ValueError, match="no reason"):
        encode_close(Close(None, "why"))


def test_every_legal_code_is_written_and_no_other():
    for code in range(-1, 65537):
        if legal_by_the_rfc(code):
            assert encode_close(Close(code)) == struct.pack("!H", code)
        else:
            with pytest.raises(ValueError, match="must not be sent"):
                encode_close(Close(code))


@pytest.mark.clause("3-2")
@given(st.text(), st.integers(0, 200))
def test_clip_keeps_the_longest_beginning_of_whole_code_points(text, size):
    clipped = clip(text, size)
    assert text.startswith(clipped)
    assert len(clipped.encode()) <= size
    if clipped != text:
        assert len((clipped + text[len(clipped)]).encode()) > size


@given(st.text(st.characters()))
def test_clip_takes_lone_surrogates(text):
    assert len(clip(text).encode()) <= 123


@pytest.mark.clause("1.5-1", "1.5-2")
@pytest.mark.parametrize(
    ("close", "code", "message"),
    [
        (Close(1000, "done"), "1000", "done"),
        (Close(1000), "1000", "Normal Closure"),
        (Close(1001), "1001", "Going Away"),
        (Close(1011), "1011", "Internal Error"),
        (Close(1007, "bad text"), "1007", "bad text"),
        (Close(4000), "4000", "Private use code"),
        (Close(3000), "3000", "Registered code"),
        (Close(), "1005", "No Status Rcvd"),
    ],
)
def test_a_close_as_the_error_that_a_client_sees(close, code, message):
    assert error_of(close) == ModelStreamError(code, message)


@pytest.mark.clause("3-2")
@pytest.mark.parametrize(
    ("error", "close"),
    [
        (ModelStreamError("1011", "boom"), Close(4424, "1011 boom")),
        (InternalStreamFailure("stalled"), Close(4500, "InternalStreamFailure stalled")),
        (ModelStreamError("1011", "x" * 200), Close(4424, "1011 " + "x" * 118)),
        (ModelStreamError("1011", "x" * 117 + "ü"), Close(4424, "1011 " + "x" * 117)),
        (InternalStreamFailure("ü" * 100), Close(4500, "InternalStreamFailure " + "ü" * 50)),
    ],
)
def test_an_error_as_the_close_of_a_raw_client(error, close):
    assert close_for(error) == close
    assert len(encode_close(close)) <= 125
