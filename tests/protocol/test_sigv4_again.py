"""A signer who signs again: what is theirs, when, and whether it is right."""

from __future__ import annotations

import pytest

from partway.protocol.sigv4 import Credentials, SignableRequest, read_claim, sign_request
from partway.protocol.sigv4_again import SIGNATURE, signer_again

KEY = Credentials("AKID", "secret", "token")
AT = 1_440_938_160  # 20150830T123600Z
PATH, SIGNED_PATH = "/%b%20\xe9", b"/%25b%2520%C3%A9"
HASH, OTHER = "0" * 64, "1" * 64


def signed(at=AT, key=KEY, payload_hash=HASH, path=PATH, **more):
    """A request as it is on the wire."""
    headers = (("Host", "100%  gw"), ("x-amz-id", more.get("id", "1")), ("X-Amz-More", "%b"))
    request = SignableRequest("POST", path, more.get("query", ""), headers)
    added = sign_request(request, key, region="r", payload_hash=payload_hash, now=at).headers
    return request.but(headers=(*request.headers, *added))


def anew(request):
    """What it says anew."""
    values = {name.lower(): value.encode() for name, value in request.headers}
    signature = values["authorization"].rpartition(b"=")[2]
    return {
        "x-amz-date": values["x-amz-date"],
        "x-amz-id": values["x-amz-id"],
        SIGNATURE: signature,
    }


def again_of(request, said=None):
    return signer_again(request, read_claim(request), KEY, anew(request) if said is None else said)


@pytest.fixture
def again():
    return again_of(signed())


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
    said = anew(signed(at, id="another"))
    assert again.is_current(said, now) is is_theirs
    if is_theirs:
        assert again.is_right(SIGNED_PATH, said, HASH)


@pytest.mark.clause("2.4-3", "2.4-6")
def test_a_signature_is_right_for_what_was_signed_alone(again):
    said = anew(signed())
    assert again.is_current(said, AT)
    assert again.is_right(SIGNED_PATH, said, HASH)
    assert not again.is_right(SIGNED_PATH, said, OTHER)
    assert not again.is_right(SIGNED_PATH, {**said, "x-amz-id": b"2"}, HASH)
    assert not again.is_right(b"/q", said, HASH)
    assert again.is_right(b"/q", anew(signed(path="/q")), HASH)
    assert not again.is_right(
        SIGNED_PATH, anew(signed(key=Credentials("AKID", "other", "token"))), HASH
    )
    signature = said[SIGNATURE]
    for wrong in (b"", signature[:-1], signature + b"0", signature.upper(), b"\xe9" * 64):
        assert not again.is_right(SIGNED_PATH, {**said, SIGNATURE: wrong}, HASH)


@pytest.mark.parametrize("date", [b"now", b"", b"\xff", b"20150830T123600Z ", b"20150830T126000Z"])
def test_a_date_that_is_none(again, date):
    assert not again.is_current({**anew(signed()), "x-amz-date": date}, AT)


def test_a_date_that_was_refused_changes_nothing(again):
    assert not again.is_current(anew(signed(AT + 43_200)), AT)
    said = anew(signed())
    assert again.is_current(said, AT)
    assert again.is_right(SIGNED_PATH, said, HASH)


def test_who_signs_in_another_way_is_not_remembered():
    request = signed()
    assert again_of(request.but(query="a=b")) is None
    said = anew(request)
    assert again_of(request, {}) is None
    assert again_of(request, {**said, SIGNATURE: b"0" * 64}) is None
    assert again_of(request, {SIGNATURE: said[SIGNATURE]}) is None
    assert again_of(request, {**said, "x-amz-more": b"1"}) is not None
    twice = request.but(headers=(*request.headers, ("X-Amz-Id", "2")))
    assert again_of(twice) is None
    place = request.but(headers=(*request.headers[:2], ("X-Amz-More", "\0"), *request.headers[3:]))
    assert again_of(place) is None


def test_an_authorization_that_signs_itself_is_not_remembered():
    request = signed()
    claim = read_claim(request)
    claim.signed_headers = ("authorization", *claim.signed_headers)
    assert signer_again(request, claim, KEY, anew(request)) is None
