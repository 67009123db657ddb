"""What is made of heads in a response stream, each of which comes again and again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from multidict import CIMultiDict

from partway.gateway.operations import response_stream
from partway.gateway.requests.answers import AnswerHead
from partway.protocol.errors import InputValidationError


def test_the_headers_of_a_response_are_made_once_for_each_variant():
    head = AnswerHead(200, CIMultiDict({"content-type": "a/b", "X": "y"}), None, True, True)
    made = []
    for variant in ("one", "one", "two"):
        invoked = SimpleNamespace(head=head, lease=SimpleNamespace(variant=variant))
        made.append(response_stream._head(invoked))
        assert made[-1] == {
            "Content-Type": "application/vnd.amazon.eventstream",
            "x-Amzn-Invoked-Production-Variant": variant,
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox",
            "X-Amzn-SageMaker-Content-Type": "a/b",
        }
    assert made[0] is made[1]
    assert len(head.facts) == 1


def test_what_goes_along_is_made_once():
    headers = CIMultiDict({"Accept": "not/asked", "x-amzn-sagemaker-accept": "a/b", "X": "y"})
    asked = SimpleNamespace(headers=headers, facts={})
    found = response_stream._PASSED_ON.of(asked)
    assert found == {"Accept": "a/b"}
    assert response_stream._PASSED_ON.of(asked) is found


def test_it_begins_no_session():
    headers = CIMultiDict({"X-Amzn-SageMaker-Session-Id": "NEW_SESSION"})
    for _ in range(2):
        with pytest.raises(InputValidationError, match="must be a session's id"):
            response_stream._PASSED_ON.of(SimpleNamespace(headers=headers, facts={}))
