"""Tokens: only those that a list has answered are taken."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.apis.aws_json.page_tokens import position_of, token_of
from partway.gateway.apis.control.errors import ValidationException

ASKED = ["ListModels", {"NameContains": "é"}]
PLACE = [1.25, "echo"]


def test_a_token_says_where_a_list_goes_on():
    assert position_of(ASKED, token_of(ASKED, PLACE)) == PLACE


def test_another_list_does_not_take_it():
    token = token_of(ASKED, PLACE)
    for other in (["ListEndpoints", ASKED[1]], ["ListModels", {}]):
        with pytest.raises(ValidationException, match="The NextToken is not valid"):
            position_of(other, token)


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_changed_token_is_not_taken(place, bits):
    token = bytearray(token_of(ASKED, PLACE), "ascii")
    token[place % len(token)] ^= bits
    changed = token.decode("latin-1")
    try:
        position = position_of(ASKED, changed)
    except ValidationException:
        return
    assert position == PLACE  # the last character has bits that say nothing


@pytest.mark.parametrize(
    "token",
    [
        "", "a", "é", "=", "!!", "a" * 8192,
        *(
            base64.urlsafe_b64encode(text).decode()
            for text in (b"", b"1", b"[]", b'["a"]', b'[1,"a",2]', b"{}", b"null", b"\xff",
                         b'{"a":1,"b":2}', b"[" * 700, b'[1,"' + b"0" * 32 + b'"]')
        ),
    ],
)  # fmt: skip
def test_what_is_no_token_is_refused(token):
    with pytest.raises(ValidationException, match="The NextToken is not valid"):
        position_of(ASKED, token)
