"""Against what AWS has published: the signing process's example, the derived key, the test suite.

Their service is another; what is compared is the canonical form and the key.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partway.protocol.errors import IncompleteSignature
from partway.protocol.signatures.canonical_form import (
    EMPTY_SHA256,
    Credentials,
    Scope,
    canonical_queries,
    canonical_request,
    canonical_requests,
    derived_key,
    signature_of,
    timestamp_text,
)
from partway.protocol.signatures.signed_request import SignableRequest

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
AT = 1_440_938_160  # 20150830T123600Z


def test_the_derived_key():
    key = derived_key(SECRET, Scope("20150830", "us-east-1", "iam"))
    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"


def test_list_users():
    request = SignableRequest(
        "GET",
        "/",
        "Action=ListUsers&Version=2010-05-08",
        (
            ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8"),
            ("Host", "iam.amazonaws.com"),
            ("X-Amz-Date", "20150830T123600Z"),
        ),
    )
    scope = Scope("20150830", "us-east-1", "iam")
    (query,) = canonical_queries(request)
    names = ("content-type", "host", "x-amz-date")
    canonical = canonical_request(request, query, names, EMPTY_SHA256)
    signature = signature_of(SECRET, scope, AT, canonical)
    assert signature == "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"


@pytest.mark.clause("2.4-2")
@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ("", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
    ],
    ids=["get-vanilla", "get-vanilla-query-order-key-case"],
)
def test_suite(query, signature):
    headers = (("Host", "example.amazonaws.com"), ("X-Amz-Date", "20150830T123600Z"))
    request = SignableRequest("GET", "/", query, headers)
    canonical = canonical_queries(request)[0]
    assert canonical == (b"Param1=value1&Param2=value2" if query else b"")
    scope = Scope("20150830", "us-east-1", "service")
    text = canonical_request(request, canonical, ("host", "x-amz-date"), EMPTY_SHA256)
    assert signature_of(SECRET, scope, AT, text) == signature


@pytest.mark.clause("2.4-2")
def test_exact_bytes():
    request = SignableRequest(
        "POST",
        "/base/endpoints/my%2Dvoice/invocations-bidirectional-stream",
        "b=2&a=%c3%a9&b=1&flag",
        (
            (":authority", "gw:8443"),
            ("X-Amz-Date", "20150830T123600Z"),
            ("x-amzn-sagemaker-model-query-string", ""),
            ("x-amzn-sagemaker-custom-attributes", "  a   b\t c "),
            ("x-amzn-sagemaker-custom-attributes", "d"),
        ),
    )
    names = (
        "host",
        "x-amz-date",
        "x-amzn-sagemaker-custom-attributes",
        "x-amzn-sagemaker-model-query-string",
    )
    normalised, as_it_stands = canonical_queries(request)
    assert as_it_stands == b"a=%c3%a9&b=1&b=2&flag="
    assert canonical_request(request, normalised, names, "HASH") == (
        b"POST\n"
        b"/base/endpoints/my%252Dvoice/invocations-bidirectional-stream\n"
        b"a=%C3%A9&b=1&b=2&flag=\n"
        b"host:gw:8443\n"
        b"x-amz-date:20150830T123600Z\n"
        b"x-amzn-sagemaker-custom-attributes:a b c,d\n"
        b"x-amzn-sagemaker-model-query-string:\n"
        b"\n"
        b"host;x-amz-date;x-amzn-sagemaker-custom-attributes;x-amzn-sagemaker-model-query-string\n"
        b"HASH"
    )


@pytest.mark.clause("2.4-2")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a=x+y", "a=x%2By"),  # a plus or a space: readers differ
        ("a=x+y", "a=x%20y"),
        ("a=x%26b=1", "a=x&b=1"),
        ("a=%2561", "a=a"),
        ("a=b%3Dc&d=", "a=b&c=&d="),
        ("a=1&a=2", "a=2"),
    ],
)
def test_what_means_two_things_has_no_form_in_common(one, other):
    def forms(query: str) -> set[bytes]:
        return set(canonical_queries(SignableRequest("GET", "/", query, ())))

    assert not forms(one) & forms(other)


@pytest.mark.clause("2.4-3")
@pytest.mark.parametrize(
    ("there", "signed"), [("host", ":authority"), (":authority", "host"), ("Host", "host")]
)
def test_host_and_authority_stand_for_each_other(there, signed):
    request = SignableRequest("GET", "/", "", ((there, "gw:8443"),))
    assert [*request.signed_values(signed)] == ["gw:8443"]


@pytest.mark.clause("2.4-3")
def test_each_of_host_and_authority_is_itself_where_both_are_there():
    request = SignableRequest("GET", "/", "", ((":authority", "a"), ("host", "b")))
    assert [*request.signed_values("host")] == ["b"]
    assert [*request.signed_values(":authority")] == ["a"]


def test_headers_of_one_name():
    headers = (("A", "1"), ("b", "2"), ("a", "3"), ("C", ""))
    request = SignableRequest("GET", "/", "", headers)
    assert request.names == {"a", "b", "c"}
    assert [[*request.values(name)] for name in "abcd"] == [["1", "3"], ["2"], [""], []]
    assert [request.only(name) for name in "bcd"] == ["2", "", None]
    with pytest.raises(IncompleteSignature, match="more than one a header"):
        request.only("a")


#: What a head may hold: whitespace of ASCII's and of others, separators, bytes that are no text.
PIECES = st.sampled_from([*"aZ09-._~/%:;,|=+& \t\x0b\x0c\x1c\x85\xa0é\u3000\udcff", "  "])
TEXTS = st.lists(PIECES, max_size=6).map("".join)
NAMES = st.sampled_from(["host", ":authority", "x-amz-date", "Content-Type", "x", "%s", "a%"])


@pytest.mark.clause("2.4-2", "2.4-3")
@given(
    st.sampled_from(["", "", "b=2&a=%c3%a9"]),
    st.sampled_from(["/", "/endpoints/echo/invocations"]) | TEXTS,
    st.lists(st.tuples(NAMES, st.sampled_from(["gw:8443", "a b"]) | TEXTS), min_size=1, max_size=4),
    TEXTS,
)
@example("", "/p", [("host", "gw")], "HASH")
@example("", "/p", [("host", "a"), ("x", "")], "HASH")
@example("", "/p", [("host", "a"), ("x", "b "), ("x-amz-date", "c")], "HASH")
@example("", "/p", [("host", "a " * 4096)], "HASH")
@example("", "/p%", [("host", "gw")], "HASH")
@example("", "/%", [("host", "%s"), ("%s", "%d"), ("a%", "%")], "%(x)s")
def test_heads_that_need_no_work_read_as_those_that_do(query, path, headers, payload_hash):
    request = SignableRequest("POST", path, query, tuple(headers))
    names = tuple(sorted(request.names | ({"host"} if ":authority" in request.names else set())))
    assert canonical_requests(request, names, payload_hash) == tuple(
        canonical_request(request, each, names, payload_hash) for each in canonical_queries(request)
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "19700101T000000Z"), (AT, "20150830T123600Z"), (-59_011_459_200, "01000101T000000Z")],
)
def test_timestamps(seconds, text):
    assert timestamp_text(seconds) == text


def test_nothing_secret_is_shown():
    credentials = Credentials("AKIDEXAMPLE", "the-secret", "the-token")
    request = SignableRequest("GET", "/p", "access_token=the-token", (("authorization", "sig"),))
    assert repr(credentials) == "Credentials(access_key_id='AKIDEXAMPLE')"
    assert repr(request) == "SignableRequest(method='GET', path='/p')"
