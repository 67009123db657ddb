"""partway.gateway.workers.messages: a table comes out as it went in, also with more members."""

from __future__ import annotations

from pathlib import Path

import msgpack
import msgspec
import pytest

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.platform_interface import Surface
from partway.gateway.fleet.prediction import PredictionPolicy, SignatureTable, TensorTable
from partway.gateway.fleet.routing.router import RoutedInstance, RoutedVariant
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.tls.trust import Trust
from partway.gateway.workers.messages import (
    TO_CLIENT,
    TO_OPERATION,
    TO_PARENT,
    TO_WORKER,
    AnswerBegin,
    Applied,
    Drain,
    ForwardedHead,
    Table,
    encoded,
)

POLICY = StreamPolicy(input_end="drain", lifetime=12.5, max_part=7)
INNER = Place(
    "e", Address("::1", 2), POLICY, "A", Trust(), True, "one", surface=Surface("/h", "/r")
)
PLACE = Place("e", Address("h", 1), POLICY, "A", Trust(Path("/ca")), containers=(INNER,))
TABLE = Table(
    3,
    "e",
    (
        RoutedVariant("A", 0.5, (RoutedInstance("e-A-1", PLACE),)),
        RoutedVariant("B", 1.0, (), "it starts"),
    ),
    PredictionPolicy("/p", signature=SignatureTable({"a": TensorTable("float32", (2, -1))})),
)


@pytest.mark.parametrize("message", [TABLE, Table(4, "gone", None, PredictionPolicy()), Drain()])
def test_a_worker_gets_what_was_sent(message):
    found = TO_WORKER.decode(encoded(message))
    assert found == message
    if message is TABLE:
        (instance,) = found.variants[0].instances
        assert (instance.mark, instance.place.url) == (
            TABLE.variants[0].instances[0].mark,
            PLACE.url,
        )


def test_requests_and_answers_come_as_they_went():
    head = ForwardedHead(
        "POST", b"/%C3%A4", b"a=b", ((b"A", b"1"), (b"a", b"\xe9")), "2", "p", True, "id"
    )
    assert TO_OPERATION.decode(encoded(head)) == head
    begin = AnswerBegin(200, {"a": b"\xe9"}, b"\x00", is_recognised=True)
    assert TO_CLIENT.decode(encoded(begin)) == begin


def test_members_of_a_later_version_are_ignored():
    later = msgpack.packb({"type": "applied", "number": 5, "further": [1]})
    assert TO_PARENT.decode(later) == Applied(5)


@pytest.mark.parametrize("data", [b"", b"\xc1", msgpack.packb({"type": "shout"}), encoded(Drain())])
def test_anything_else_is_no_message(data):
    with pytest.raises(msgspec.MsgspecError):
        TO_PARENT.decode(data)
