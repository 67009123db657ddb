"""partway.gateway.containers.invocation_headers: AWS's patterns, read from botocore's model."""

from __future__ import annotations

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from partway.gateway.containers.invocation_headers import (
    INVOKE_HEADERS,
    SESSION,
    begun_session,
    closed_session,
    is_session,
    passed_on,
    session_in,
)
from partway.gateway.fleet.routing.session_affinity import NO_SESSION, StickySession
from partway.protocol.errors import InputValidationError

MODEL = botocore.session.get_session().get_service_model("sagemaker-runtime")
MEMBERS = MODEL.operation_model("InvokeEndpoint").input_shape.members
#: Without HTTP's own Content-Encoding, which the model does not have.
AWSS = {name: rule for name, rule in INVOKE_HEADERS.items() if name != "Content-Encoding"}


def test_the_headers_are_those_of_the_model():
    of_the_model = {
        shape.serialization["name"]: name
        for name, shape in MEMBERS.items()
        if shape.serialization.get("location") == "header"
    }
    assert {name: rule.member for name, rule in AWSS.items()} == of_the_model


@pytest.mark.parametrize("header", AWSS)
def test_the_longest_value_is_the_models(header):
    longest = MEMBERS[INVOKE_HEADERS[header].member].metadata["max"]
    assert passed_on(CIMultiDict({header: "a" * longest})) == {header: "a" * longest}
    with pytest.raises(InputValidationError, match=INVOKE_HEADERS[header].member):
        passed_on(CIMultiDict({header: "a" * (longest + 1)}))


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Content-Type", "caf\xe9"),
        ("X-Amzn-SageMaker-Custom-Attributes", "a\r\nb: c"),
        ("X-Amzn-SageMaker-Target-Model", " a"),
        ("X-Amzn-SageMaker-Target-Variant", "-a"),
        ("X-Amzn-SageMaker-Target-Container-Hostname", "a.b"),
        ("X-Amzn-SageMaker-Inference-Id", "a\tb"),
        ("X-Amzn-SageMaker-Session-Id", "a b"),
        ("X-Amzn-SageMaker-Session-Id", "NEW_SESSIONS"),
    ],
)
def test_what_is_refused(header, value):
    with pytest.raises(InputValidationError, match="must be") as error:
        passed_on(CIMultiDict({header: value}))
    assert header in error.value.message


@given(st.dictionaries(st.sampled_from(list(INVOKE_HEADERS)), st.text()))
def test_what_goes_along_is_one_line_of_ascii(headers):
    try:
        found = passed_on(CIMultiDict(headers))
    except InputValidationError:
        return
    assert all(
        value.isascii() and value.replace("\t", " ").isprintable() for value in found.values()
    )


def test_empty_counts_as_absent_and_others_stay_behind():
    headers = {"accept": "", "CONTENT-TYPE": "a/b", "Cookie": "c", "Authorization": "d"}
    assert passed_on(CIMultiDict(headers)) == {"Content-Type": "a/b"}


MARK = "0123456789"
EXPIRES = "Expires=1970-01-01T00:01:00Z"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"s-1; {EXPIRES}", f"s-1-i{MARK}; {EXPIRES}"),
        (f"s-1;{EXPIRES}", f"s-1-i{MARK};{EXPIRES}"),
        ("s-1", None),
        (f"s 1; {EXPIRES}", None),
        ("s; Expires=1970-02-31T00:01:00Z", None),
        (f"{'s' * 214}; {EXPIRES}", f"{'s' * 214}-i{MARK}; {EXPIRES}"),
        (f"{'s' * 215}; {EXPIRES}", None),
        ("", None),
    ],
)
def test_a_session_that_was_begun(value, expected):
    assert begun_session(value, MARK) == expected
    assert len(expected or "") <= 256


@pytest.mark.parametrize(
    ("value", "session", "expected"),
    [
        ("s", StickySession("s", MARK), f"s-i{MARK}"),
        ("s", StickySession("s"), "s"),  # the client made this id itself
        ("s", StickySession("other", MARK), f"s-i{MARK}"),
        ("s", NO_SESSION, f"s-i{MARK}"),
        ("no id", NO_SESSION, None),
        ("s" * 245, NO_SESSION, None),
        ("", NO_SESSION, None),
    ],
)
def test_a_session_that_was_closed(value, session, expected):
    assert closed_session(value, session, MARK) == expected


def test_the_container_gets_its_own_id():
    for text, session, own in (
        (f"s-i{MARK}", StickySession("s", MARK), "s"),
        ("s", StickySession("s"), "s"),
        ("NEW_SESSION", NO_SESSION, "NEW_SESSION"),
    ):
        headers = {SESSION: text}
        assert (session_in(headers), headers) == (session, {SESSION: own})
    assert session_in({}) == NO_SESSION


def test_an_id():
    assert is_session("a-1")
    assert not is_session("a_1")
    assert not is_session("a" * 257)
