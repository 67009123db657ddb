"""The events that a Realtime server sends, as JSON without spaces.

https://platform.openai.com/docs/api-reference/realtime-server-events
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from partway.container.models.openai_events import json_text
from partway.container.models.voice.conversation import Item, Part, new_id
from partway.container.models.voice.wires.realtime_faults import RealtimeFault


def event(kind: str, **members: object) -> str:
    """Return an event with a new ``event_id``."""
    return json_text({"type": kind, "event_id": new_id("event"), **members})


def error_event(fault: RealtimeFault, client_event_id: str) -> str:
    """Return the answer to a client's event that cannot be obeyed.

    Args:
        fault: what is wrong.
        client_event_id: the client's ``event_id``; empty if it gave none.
    """
    error = {
        "type": "invalid_request_error",
        "code": fault.code,
        "message": fault.message,
        "param": fault.param or None,
        "event_id": client_event_id or None,
    }
    return event("error", error=error)


# --- The input ------------------------------------------------------------------------------------


def speech_started(item_id: str, audio_start_ms: int) -> str:
    return event(
        "input_audio_buffer.speech_started", audio_start_ms=audio_start_ms, item_id=item_id
    )


def speech_stopped(item_id: str, audio_end_ms: int) -> str:
    return event("input_audio_buffer.speech_stopped", audio_end_ms=audio_end_ms, item_id=item_id)


def committed(item_id: str, previous: str | None) -> str:
    return event("input_audio_buffer.committed", previous_item_id=previous, item_id=item_id)


def transcription_delta(item_id: str, delta: str) -> str:
    return event(
        "conversation.item.input_audio_transcription.delta",
        item_id=item_id,
        content_index=0,
        delta=delta,
    )


def transcription_completed(item_id: str, transcript: str, seconds: float) -> str:
    return event(
        "conversation.item.input_audio_transcription.completed",
        item_id=item_id,
        content_index=0,
        transcript=transcript,
        usage={"type": "duration", "seconds": round(seconds, 3)},
    )


def transcription_failed(item_id: str, reason: str) -> str:
    return event(
        "conversation.item.input_audio_transcription.failed",
        item_id=item_id,
        content_index=0,
        error={"type": "server_error", "code": "transcription_failed", "message": reason},
    )


# --- Items ----------------------------------------------------------------------------------------


def item_added(item: Item, previous: str | None) -> str:
    return event("conversation.item.added", previous_item_id=previous, item=shown_item(item))


def item_done(item: Item, previous: str | None) -> str:
    return event("conversation.item.done", previous_item_id=previous, item=shown_item(item))


def new_message(part: str) -> Item:
    """Make the message of a response.

    Args:
        part: ``output_audio`` or ``output_text``.
    """
    return Item(new_id("item"), role="assistant", status="in_progress", content=[Part(part)])


def shown_item(item: Item) -> dict[str, Any]:
    """Return an item as events show it, without its audio."""
    shown: dict[str, Any] = {
        "id": item.id,
        "object": "realtime.item",
        "type": item.kind,
        "status": item.status,
    }
    if item.kind == "message":
        is_new = item.status == "in_progress" and not item.text  # its part is added later
        parts = [] if is_new else [_shown_part(item, part) for part in item.content]
        return shown | {"role": item.role, "content": parts}
    if item.kind == "function_call":
        return shown | {"call_id": item.call_id, "name": item.name, "arguments": item.arguments}
    return shown | {"call_id": item.call_id, "output": item.output}


def _shown_part(item: Item, part: Part) -> dict[str, Any]:
    is_unheard = item.hearing is not None and not item.hearing.is_set()
    if is_unheard and part.kind == "input_audio" and not part.text:
        return {"type": part.kind, "transcript": None}
    if part.kind in ("input_audio", "output_audio"):
        return {"type": part.kind, "transcript": part.text}
    if part.kind == "input_image":
        detail = {"detail": part.detail} if part.detail else {}
        return {"type": part.kind, "image_url": part.image_url, **detail}
    return {"type": part.kind, "text": part.text}


# --- Responses ------------------------------------------------------------------------------------


class ResponsePlace:
    """The place of an output item, which its events repeat.

    Args:
        response_id: of its response.
        item: the output item.
        output_index: of the item in its response.
        previous: the id of the item before it in the conversation; None for none.
    """

    def __init__(
        self, response_id: str, item: Item, output_index: int, previous: str | None
    ) -> None:
        self.item = item
        self.previous = previous
        self._of_item = {"response_id": response_id, "output_index": output_index}
        self._of_delta = {**self._of_item, "item_id": item.id}
        self._of_part = {**self._of_delta, "content_index": 0}

    def item_added(self) -> str:
        return event("response.output_item.added", **self._of_item, item=shown_item(self.item))

    def item_done(self) -> str:
        return event("response.output_item.done", **self._of_item, item=shown_item(self.item))

    def part_added(self) -> str:
        return event("response.content_part.added", **self._of_part, part=self._part(""))

    def part_done(self) -> str:
        return event("response.content_part.done", **self._of_part, part=self._part(self.item.text))

    def text_delta(self, delta: str) -> str:
        return event("response.output_text.delta", **self._of_part, delta=delta)

    def text_done(self) -> str:
        return event("response.output_text.done", **self._of_part, text=self.item.text)

    def transcript_delta(self, delta: str) -> str:
        return event("response.output_audio_transcript.delta", **self._of_part, delta=delta)

    def transcript_done(self) -> str:
        return event(
            "response.output_audio_transcript.done", **self._of_part, transcript=self.item.text
        )

    def audio_delta(self, audio: bytes) -> str:
        delta = base64.b64encode(audio).decode("ascii")
        return event("response.output_audio.delta", **self._of_part, delta=delta)

    def audio_done(self) -> str:
        return event("response.output_audio.done", **self._of_part)

    def arguments_delta(self, delta: str) -> str:
        return event(
            "response.function_call_arguments.delta",
            **self._of_delta,
            call_id=self.item.call_id,
            delta=delta,
        )

    def arguments_done(self) -> str:
        return event(
            "response.function_call_arguments.done",
            **self._of_delta,
            call_id=self.item.call_id,
            name=self.item.name,
            arguments=self.item.arguments,
        )

    def _part(self, text: str) -> dict[str, str]:
        if self.item.content and self.item.content[0].kind == "output_text":
            return {"type": "text", "text": text}
        return {"type": "audio", "transcript": text}


def shown_response(
    response_id: str,
    status: str,
    output: Sequence[Item],
    details: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a response as its first and last event show it.

    Args:
        response_id: the response's id.
        status: ``in_progress``, ``completed``, ``cancelled``, ``incomplete`` or ``failed``.
        output: the items that it has made.
        details: of the status; None for none.
        settings: further members, the same in each event of one response.
    """
    return {
        "id": response_id,
        "object": "realtime.response",
        "status": status,
        "status_details": details,
        "output": [shown_item(item) for item in output],
        **settings,
        "usage": None,
    }
