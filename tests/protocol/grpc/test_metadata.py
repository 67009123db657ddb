from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.errors import InputValidationError
from partway.protocol.grpc.metadata import Code, is_grpc, status, timeout_of
from partway.protocol.limits import GRPC_STATUS_BYTES


@pytest.mark.parametrize(
    ("media", "whether"),
    [
        ("application/grpc", True),
        ("application/grpc+proto", True),
        ("Application/gRPC; charset=utf-8", True),
        ("application/grpc+json", False),
        ("application/grpc-web", False),
        ("application/json", False),
        ("", False),
    ],
)
def test_media_types(media, whether):
    assert is_grpc(media) is whether


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", None),
        ("0n", 0),
        ("2H", 7200),
        ("3M", 180),
        ("99999999S", 99_999_999),
        ("5m", 0.005),
        ("7u", 7e-6),
        ("20000000n", 0.02),
    ],
)
def test_timeouts(text, seconds):
    assert timeout_of(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("text", ["5", "S", "-1S", "1.5S", "100000000S", "1h", "1S ", "١S", " "])
def test_what_is_no_timeout(text):
    with pytest.raises(InputValidationError, match="eight digits and one of H, M, S, m, u, n"):
        timeout_of(text)


def test_a_status_is_a_number_and_words():
    assert status(Code.OK) == {"grpc-status": "0"}
    assert status(Code.NOT_FOUND, "no é\n100%~") == {
        "grpc-status": "5",
        "grpc-message": "no %C3%A9%0A100%25~",
    }


@given(st.text())
def test_any_words_arrive(words):
    said = status(Code.UNKNOWN, words).get("grpc-message", "")
    assert all(" " <= each <= "~" for each in said)
    assert unquote(said) == words.encode("utf-8", "replace").decode()


@given(st.sampled_from("a%é€\U0001f600"))
def test_words_are_cut_between_characters(character):
    said = status(Code.UNKNOWN, character * GRPC_STATUS_BYTES)["grpc-message"]
    assert GRPC_STATUS_BYTES - 12 < len(said) <= GRPC_STATUS_BYTES
    assert set(unquote(said)) == {character}
