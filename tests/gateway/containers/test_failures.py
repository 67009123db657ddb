"""partway.gateway.containers.failures: the words by which clients know a container's failure."""

from __future__ import annotations

import pytest

from partway.gateway.containers.failures import in_the_clients_words, model_error, stopped, too_long


@pytest.mark.parametrize(
    ("status", "whose"), [(0, "server"), (302, "server"), (400, "client"), (499, "client")]
)
def test_awss_words(status, whose):
    error = model_error(status, "why")
    words = f'Received {whose} error ({status}) from primary with message "why"'
    assert error.message == error.for_operator == words
    assert error.members["OriginalStatusCode"] == status


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            too_long(2.0),
            (
                "Your invocation timed out while waiting for a response from container pre: "
                "request and answer took longer than 2 s (request_lifetime)"
            ),
        ),
        (stopped(), "the instance was stopped or lost before it had answered"),
    ],
)
def test_a_container_without_an_answer_has_the_status_0(error, words):
    known = in_the_clients_words(error, "pre")
    assert known.message == f'Received server error (0) from pre with message "{words}"'


def test_what_is_in_these_words_already_stays():
    error = model_error(500, "why")
    assert in_the_clients_words(error, "pre") is error
