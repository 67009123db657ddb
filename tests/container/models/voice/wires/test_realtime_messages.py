"""partway.container.models.voice.wires.realtime_messages: what is refused, and what is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from partway.container.models.voice.limits import MAX_NAME
from partway.container.models.voice.wires.realtime_faults import RealtimeFault
from partway.container.models.voice.wires.realtime_messages import ItemCreate, Message, event_of


def parsed(kind: str, **members: Any) -> Message:
    return event_of(json.dumps({"type": kind, **members})).parse()


def created(**members: Any) -> ItemCreate:
    message = {"type": "message", "role": "user", "content": []}
    found = parsed("conversation.item.create", item={**message, **members})
    assert isinstance(found, ItemCreate)
    return found


def test_an_id_is_kept_whole_or_refused():
    assert created(id="x" * MAX_NAME).item.id == "x" * MAX_NAME
    with pytest.raises(RealtimeFault, match="has 513 characters; it must have at most 512"):
        created(id="x" * (MAX_NAME + 1))


def test_a_long_id_of_the_item_before_is_refused_without_an_echo():
    item = {"type": "message", "role": "user", "content": []}
    with pytest.raises(RealtimeFault, match="previous_item_id has 4000 characters") as refused:
        parsed("conversation.item.create", previous_item_id="x" * 4_000, item=item)
    assert len(refused.value.message) < 200


@pytest.mark.parametrize("members", [{}, {"audio": None}, {"data": "AAAA"}])
def test_audio_that_is_missing_is_refused(members):
    with pytest.raises(RealtimeFault, match="audio is missing; it must be base64 of audio"):
        parsed("input_audio_buffer.append", **members)
