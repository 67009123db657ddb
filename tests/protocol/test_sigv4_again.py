"""A signer who signs again: what is theirs, when, and whether it is right."""

from __future__ import annotations

import pytest

from partway.protocol.sigv4 import Credentials, SignableRequest, read_claim, sign_request
from partway.protocol.sigv4_again import signer_again
from partway.protocol.sigv4_request import Alike

KEY = Credentials("AKID", "secret", "token")
AT = 1_440_938_160  # 20150830T123600Z
HASH, OTHER = "0" * 64, "1" * 64
ANEW = Alike(frozenset({"x-amz-date", "authorization"}))


def signed(at=AT, key=KEY, payload_hash=HASH, path="/p"):
    """A request as it is on the wire."""
    request = SignableRequest("POST", path, "", (("host", "gw"),))
    added = sign_request(request, key, region="r", payload_hash=payload_hash, now=at).headers
    return SignableRequest("POST", path, "", (*request.headers, *added), ANEW)


@pytest.fixture
def again():
    first = signed()
    return signer_again(first, read_claim(first), KEY)


@pytest.mark.clause("2.4-5")
@pytest.mark.parametrize(
    ("at", "now", "is_theirs"),
    [
        (AT, AT, True),
        (AT + 1, AT, True),
        (AT, AT + 300, True),
        (AT, AT + 301, False),
        (AT + 300, AT, True),
        (AT + 301, AT, False),
        (AT + 43_200, AT + 43_200, False),
    ],
    ids=["now", "a second later", "old", "too old", "early", "too early", "the next day"],
)
def test_what_is_signed_here_and_now(again, at, now, is_theirs):
    request = signed(at)
    signature = again.signature(request, now)
    assert (signature is not None) is is_theirs
    if signature is not None:
        assert signature == read_claim(request).signature
        assert again.is_right(request, signature, HASH)


@pytest.mark.clause("2.4-3", "2.4-6")
def test_a_signature_is_right_for_what_was_signed_alone(again):
    request = signed()
    signature = again.signature(request, AT)
    assert not again.is_right(request, signature, OTHER)
    assert not again.is_right(request.but(path="/q"), signature, HASH)
    assert not again.is_right(
        request.but(headers=(("host", "other"), *request.headers[1:])), signature, HASH
    )
    for wrong in ("", signature[:-1], f"{signature}0", signature.upper(), "\xe9" * 64):
        assert not again.is_right(request, wrong, HASH)


@pytest.mark.parametrize(
    "other",
    [
        signed(key=Credentials("AKID2", "secret", "token")),
        SignableRequest("POST", "/p", "", (("host", "gw"),)),
        signed().but(headers=signed().headers[:1]),
        signed().but(headers=(*signed().headers[:1], ("x-amz-date", "now"), *signed().headers[2:])),
    ],
    ids=["another key", "unsigned", "no date", "a date that is none"],
)
def test_who_is_somebody_else_is_nobody_here(again, other):
    assert again.signature(other, AT) is None


def test_a_date_that_was_refused_changes_nothing(again):
    assert again.signature(signed(AT + 43_200), AT) is None
    request = signed()
    assert again.is_right(request, again.signature(request, AT), HASH)


@pytest.mark.parametrize("how", ["query", "order"])
def test_who_signs_in_another_way_is_not_remembered(how):
    request = signed()
    claim = read_claim(request)
    if how == "query":
        request = request.but(query="a=b")
    else:
        text = dict(request.headers)["authorization"]
        said, _, signature = text.removeprefix("AWS4-HMAC-SHA256 ").rpartition(", ")
        headers = (
            *request.headers[:-1],
            ("authorization", f"AWS4-HMAC-SHA256 {signature}, {said}"),
        )
        request = request.but(headers=headers)
        assert read_claim(request) == claim
    assert signer_again(request, claim, KEY) is None
