"""What an answer's head says of a body that the container has read itself."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from partway.gateway.requests.answers import AnswerHead
from partway.gateway.requests.bodies_read import FOUND
from partway.protocol.unread_bodies import REFUSED, instances_headers


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (instances_headers(7, keeps=True), 7),
        (instances_headers(REFUSED, keeps=False), 0),
        ({"X-Partway-Instances": "7; rules=1"}, None),
        ({}, None),
    ],
)
def test_it_is_known_of_each_answer_with_the_same_head(headers, found):
    head = AnswerHead(200, CIMultiDict(headers), 2, chunked=False, keeps=True)
    assert FOUND.of(head) == FOUND.of(head) == found
