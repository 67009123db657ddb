"""A request's head as a signature covers it."""

from __future__ import annotations

from partway.protocol.signatures.signed_request import SignableRequest


def test_a_request_but_for_what_is_given():
    request = SignableRequest("GET", "/p", "a=b", (("host", "a"),))
    assert request.but() == request
    for changed in (
        request.but(method="POST"),
        request.but(path="/q"),
        request.but(query=""),
        request.but(headers=()),
    ):
        assert changed != request
    assert request != "GET"
