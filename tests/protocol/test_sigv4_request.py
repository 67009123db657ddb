"""A request's head as a signature covers it, and requests that are like another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.errors import ApiError
from partway.protocol.sigv4 import Claim, Credentials, Scope, check_claim
from partway.protocol.sigv4_canonical import canonical_requests
from partway.protocol.sigv4_request import Alike, SignableRequest

ANEW = frozenset({"x-amz-date", "authorization", "x-amz-content-sha256", "content-length"})
KEY = Credentials("AKID", "secret")
AT = 1_440_938_160  # 20150830T123600Z

NAMES = [
    "host",
    "x-amz-date",
    "authorization",
    "content-length",
    "content-type",
    "x-amz-more",
    "a%s",
]
_values = st.sampled_from(
    ["1", "20150830T123600Z", "two words", "100%", "%s", "a  b", " c", "", "\udcff"]
)
_paths = st.sampled_from(["/", "/endpoints/a/invocations", "/a%20b", "//", "/ä"])
_heads = st.lists(st.sampled_from(NAMES), unique=True).flatmap(
    lambda names: st.tuples(st.just(names), st.tuples(*(_values for _ in names)))
)
_signed = st.lists(st.sampled_from([*NAMES, ":authority"]), unique=True).map(sorted).map(tuple)


def claimed(request, signed_headers):
    """What is found out about a claim."""
    scope = Scope("20150830", "eu-west-1")
    claim = Claim("AKID", scope, signed_headers, "0" * 64, AT, None, None)
    try:
        check_claim(request, claim, KEY, region="eu-west-1", now=AT)
    except ApiError as error:
        return str(error)
    return None


@given(_heads, st.lists(st.tuples(_paths, _signed, st.integers(0, 2**32)), max_size=4))
def test_what_is_known_of_requests_that_are_alike_is_what_each_says(head, others):
    names, values = head
    headers = tuple(zip(names, values, strict=True))
    first = SignableRequest("POST", "/first", "", headers, Alike(ANEW))
    choices = ["1", "2", "a  b", "%d", ""]
    for path, signed_headers, drawn in others:
        anew = {
            name: choices[(drawn >> number) % len(choices)]
            for number, name in enumerate(names)
            if name in ANEW and (drawn >> (16 + number)) & 1
        }
        request = first.like_this(path, anew)
        whole = tuple((name, anew.get(name, value)) for name, value in headers)
        same = SignableRequest("POST", path, "", whole)
        assert request == same
        assert hash(request) == hash(same)
        assert claimed(request, signed_headers) == claimed(same, signed_headers)
        assert canonical_requests(request, signed_headers, "hash") == canonical_requests(
            same, signed_headers, "hash"
        )


def test_the_canonical_form_of_those_that_are_alike_is_made_once():
    headers = (("Host", "a"), ("X-Amz-Date", "1"), ("Content-Type", "b"))
    first = SignableRequest("POST", "/", "", headers, Alike(ANEW))
    signed = ("content-type", "host", "x-amz-date")
    canonical_requests(first, signed, "hash")
    form = first.alike.form
    assert form.anew == ("x-amz-date",)
    other = first.like_this("/b", {"x-amz-date": "2"})
    (text,) = canonical_requests(other, signed, "other")
    names = b"content-type;host;x-amz-date"
    assert text == b"POST\n/b\n\ncontent-type:b\nhost:a\nx-amz-date:2\n\n%b\nother" % names
    assert first.alike.form is form
    canonical_requests(other, signed[1:], "other")
    assert first.alike.form.signed_headers == signed[1:]


@pytest.mark.parametrize("anew", [Alike(ANEW), None])
def test_a_request_but_for_what_is_given(anew):
    request = SignableRequest("GET", "/p", "a=b", (("host", "a"),), anew)
    assert request.but() == request
    for changed in (
        request.but(method="POST"),
        request.but(path="/q"),
        request.but(query=""),
        request.but(headers=()),
    ):
        assert changed != request
        assert changed.alike is None
    assert request != "GET"
