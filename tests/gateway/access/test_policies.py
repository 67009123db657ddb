"""IAM's actions and resources, and the wildcards in them."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from partway.gateway.access.policies import Policy, is_action, is_resource

ARN = "arn:aws:sagemaker:us-east-1:000000000000:endpoint/"
INVOKE = "sagemaker:InvokeEndpoint"


def fits(pattern: str, text: str) -> bool:
    """A slow oracle: each way to read the pattern's first character."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return fits(pattern[1:], text) or bool(text and fits(pattern, text[1:]))
    return bool(text) and pattern[0] in ("?", text[0]) and fits(pattern[1:], text[1:])


@settings(deadline=None)
@given(
    st.lists(st.text("ab*?.\n", min_size=1, max_size=8), min_size=1, max_size=3),
    st.text("ab.\n", max_size=10),
)
@example(["a*b*b"], "ab")
@example(["ab*ba"], "aba")
@example(["*?a*a"], "baa")
@example(["a|b"], "a")
def test_wildcards(patterns, text):
    expected = any(fits(pattern, text) for pattern in patterns)
    assert Policy(("*",), tuple(patterns)).allows("x", text) is expected
    assert Policy(tuple(patterns), ("*",)).allows(text, "x") is expected


@pytest.mark.parametrize("size", [8, 512, 513, 4096])
def test_what_was_decided_before_is_decided_again(size):
    """Resources of any length, be they remembered or too long for it."""
    policy = Policy((INVOKE,), (f"{ARN}*b",))
    own, others = (f"{ARN}{'a' * size}{last}" for last in "bc")
    asked = [(INVOKE, own), (INVOKE, others), ("sagemaker:DeleteEndpoint", own)]
    assert [policy.allows(*each) for each in asked * 2] == [True, False, False] * 2


@settings(deadline=None)
@given(st.text("Aab*?[](){}|\\^$+-", min_size=1, max_size=6), st.text("Aab[]|\\^$", max_size=6))
def test_nothing_but_the_two_wildcards_is_special(pattern, text):
    assert Policy(("*",), (pattern,)).allows("x", text) is fits(pattern, text)
    case_is_nothing = fits(pattern.lower(), text.lower())
    assert Policy((pattern,), ("*",)).allows(text, "x") is case_is_nothing


@pytest.mark.parametrize(
    "pattern", ["a*" * 250 + "b", "*" * 511 + "b", "*" + "a?" * 250 + "*b", "*?" * 250 + "b"]
)
def test_a_pattern_of_many_wildcards_takes_no_time(pattern):
    """Were other places tried for what lies between two of them, it would take years."""
    policy = Policy(("*",), (pattern,) * 128)
    assert not policy.allows("x", "a" * 8000)
    assert policy.allows("x", "a" * 8000 + "b")


@pytest.mark.parametrize(
    ("actions", "action", "allowed"),
    [
        ((INVOKE,), INVOKE, True),
        ((INVOKE,), "SAGEMAKER:invokeendpoint", True),
        (("SageMaker:invoke*",), INVOKE, True),
        ((INVOKE,), INVOKE + "Async", False),
        (("sagemaker:*",), "logs:GetLogEvents", False),
        (("sagemaker:Create?odel",), "sagemaker:CreateModel", True),
        (("sagemaker:Create?odel",), "sagemaker:Createodel", False),
        (("sagemaker:Describe*", "logs:*"), "logs:GetLogEvents", True),
        (("*",), "anything:AtAll", True),
        (("logs:*",), "log\N{LATIN SMALL LETTER LONG S}:GetLogEvents", False),
    ],
)
def test_actions(actions, action, allowed):
    assert Policy(actions).allows(action, "*") is allowed


@pytest.mark.parametrize(
    ("resource", "arn", "allowed"),
    [
        ("arn:aws:sagemaker:*:*:endpoint/chat-*", ARN + "chat-de", True),
        ("arn:aws:sagemaker:*:*:endpoint/chat-*", ARN + "echo", False),
        ("arn:aws:sagemaker:*:*:endpoint/chat-*", "*", False),
        (ARN + "echo", ARN + "Echo", False),
        ("arn:aws:sagemaker:*:111111111111:endpoint/*", ARN + "echo", False),
        ("*", "*", True),
    ],
)
def test_resources(resource, arn, allowed):
    assert Policy((INVOKE,), (resource,)).allows(INVOKE, arn) is allowed


@pytest.mark.parametrize(
    ("pattern", "good"),
    [
        ("*", True), ("sagemaker:*", True), ("sagemaker:Invoke?ndpoint*", True), ("LOGS:x", True),
        ("", False), ("InvokeEndpoint", False), ("sage*:x", False), ("sagemaker:", False),
        ("sagemaker:Invoke Endpoint", False), ("sagemaker:x\n", False), ("a:" + "x" * 129, False),
    ],
)  # fmt: skip
def test_what_an_action_is(pattern, good):
    assert is_action(pattern) is good


@pytest.mark.parametrize(
    ("pattern", "good"),
    [
        ("*", True), ("arn:aws:sagemaker:*:*:endpoint/chat-*", True), ("arn:*:*:*:*:*", True),
        ("arn:aws:logs:*:*:log-group:/aws/sagemaker/Endpoints/Echo:log-stream:*", True),
        ("arn:aws:s3:::bucket/Key", True),
        ("", False), ("**", False), ("echo", False), ("arn:aws:sagemaker:endpoint/x", False),
        ("arn:aws:sagemaker:*", False), (ARN, True), (ARN + "x y", False), (ARN + "x\n", False),
        (ARN + "x" * 512, False), (ARN + "Echo", False),
        (ARN + "\N{KELVIN SIGN}", False), ("arn:aws:SageMaker:*:*:model/Echo", False),
        ("arn:aws:SageMaker:*:*:model/*", False),
    ],
)  # fmt: skip
def test_what_a_resource_is(pattern, good):
    assert is_resource(pattern) is good
