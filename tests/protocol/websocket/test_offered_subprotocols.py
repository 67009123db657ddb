"""Subprotocols that clients offer, and the tokens among them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.websocket.offered_subprotocols import OfferedSubprotocols

KEY = "openai-insecure-api-key."


@pytest.mark.parametrize(
    ("values", "names", "tokens"),
    [
        ([], [], []),
        (["realtime"], ["realtime"], []),
        ([f"realtime, {KEY}abc, beta"], ["realtime", "beta"], ["abc"]),
        (["realtime", f"{KEY}a", f"{KEY}b"], ["realtime"], ["a", "b"]),
        ([KEY], [], [""]),
        (["token, abc"], ["token"], ["abc"]),
        (["bearer,abc,token"], ["bearer", "token"], ["abc"]),
        (["token", "token"], ["token"], ["token"]),
        (["token, bearer, token"], ["token", "token"], ["bearer"]),
        (["payloadpart.v1.raw, bearer, a.b.c"], ["payloadpart.v1.raw", "bearer"], ["a.b.c"]),
        (["token"], ["token"], []),
    ],
)
def test_tokens_are_told_from_names(values, names, tokens):
    assert OfferedSubprotocols.of(values) == (tuple(names), tuple(tokens))


@given(st.lists(st.sampled_from(["token", "bearer", "a", "b", f"{KEY}c"])))
def test_each_offer_is_a_name_or_a_token(offers):
    found = OfferedSubprotocols.of([", ".join(offers)] if offers else [])
    assert len(found.names) + len(found.tokens) == len(offers)
    assert f"{KEY}c" not in found.names
