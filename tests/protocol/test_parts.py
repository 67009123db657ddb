from __future__ import annotations

import dataclasses

import pytest

from partway.protocol.parts import (
    CompletionState,
    DataType,
    InputEnd,
    InternalStreamFailure,
    ModelStreamError,
    PayloadPart,
)


@pytest.mark.clause("1.2-2")
def test_what_is_absent_means_binary_and_complete():
    part = PayloadPart(b"x")
    assert part == (b"x", DataType.BINARY, CompletionState.COMPLETE)
    assert part.payload == b"x"
    assert part.data_type is DataType.BINARY
    assert part.completion is CompletionState.COMPLETE


def test_names_are_those_of_the_service_model():
    assert [member.value for member in DataType] == ["UTF8", "BINARY"]
    assert [member.value for member in CompletionState] == ["PARTIAL", "COMPLETE"]


@pytest.mark.parametrize("event", [InputEnd(), ModelStreamError("1", "a"),
                                   InternalStreamFailure("a"), PayloadPart(b"")])  # fmt: skip
def test_events_are_values(event):
    """Equal by content, and nobody on a stream's way can change one."""
    again = event._replace() if isinstance(event, tuple) else dataclasses.replace(event)
    assert event == again
    assert hash(event) == hash(again)
    name = (event._fields if isinstance(event, tuple) else ("code", "message"))[0]
    with pytest.raises((AttributeError, TypeError)):
        setattr(event, name, "other")
