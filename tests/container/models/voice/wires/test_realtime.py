"""The Realtime wire with stub engines: events and their order, interruptions, faults, limits."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import random
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import websockets

from partway.container.errors import Busy, ModelError
from partway.container.models.voice.engines.stub_hearing import StubHearing
from partway.container.models.voice.interfaces import HearingOptions, Samples, Transcript
from partway.container.models.voice.limits import MAX_UNHEARD_ITEMS
from partway.container.models.voice.model import Voice
from partway.container.models.voice.wires import realtime, realtime_turns
from partway.container.testing import serving
from tests.container.models.voice.sounds import tone
from tests.container.models.voice.wires.realtime_client import (
    GOING_AWAY,
    RATE,
    STUBS,
    Answering,
    RealtimeClient,
    audio_of,
    cut_sessions,
    kinds,
    session,
)
from tests.wire.peers import eventually

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

TRANSCRIBED = {"input": {"transcription": {"model": "any"}}}
MANUAL = {"input": {"turn_detection": None, "transcription": {"model": "any"}}}
#: So fast that a short answer is sent at once.
FAST = {"output": {"speed": 4.0}}
PHONE = {"input": {"format": {"type": "audio/pcmu"}}}
LONG = "This is a long answer that goes on and on, and has many more words than anybody hears."

SPOKEN = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
]
HEARD = [
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
    "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed",
]


def phoned(seconds: int) -> dict[str, object]:
    """A user's message with silence, as a telephone encodes it."""
    audio = base64.b64encode(b"\xff" * 8_000 * seconds).decode()
    content = [{"type": "input_audio", "audio": audio}]
    return {"type": "message", "role": "user", "content": content}


def _wrong(
    code: str, param: str | None, kind: str, **members: object
) -> tuple[str, str, str | None]:
    return json.dumps({"type": kind, **members}), code, param


#: Wrong events, with the code and the member that their refusals name.
WRONG = [
    ("{", "invalid_json", None),
    ("[]", "invalid_json", None),
    ("{}", "missing_required_parameter", "type"),
    (r'{"type":"nonsense","event_id":"\ud800"}', "invalid_value", "type"),
    ('{"type":"session.update","session":{"instructions":NaN}}', "invalid_json", None),
    _wrong("invalid_value", "type", "nonsense"),
    _wrong("invalid_value", "session", "session.update"),
    _wrong(
        *("invalid_value", "session.audio.input.format.type", "session.update"),
        session={"audio": {"input": {"format": {"type": "mp3"}}}},
    ),
    _wrong(
        *("invalid_value", "session.tools[0].type", "session.update"),
        session={"tools": [{"type": "mcp"}]},
    ),
    _wrong("invalid_value", "audio", "input_audio_buffer.append", audio="%"),
    _wrong("input_audio_buffer_commit_empty", None, "input_audio_buffer.commit"),
    _wrong(
        *("item_retrieve_invalid_item_id", "item_id", "conversation.item.retrieve"), item_id="x"
    ),
    _wrong(
        *("item_truncate_invalid_item_id", "item_id", "conversation.item.truncate"),
        item_id="x",
        audio_end_ms=1,
    ),
    _wrong(
        *("invalid_value", "item.role", "conversation.item.create"),
        item={"type": "message", "role": "robot"},
    ),
    _wrong(
        *("invalid_value", "item.call_id", "conversation.item.create"),
        item={"type": "function_call_output", "call_id": "x" * 513, "output": ""},
    ),
    _wrong(
        *("invalid_value", "session.audio.output.voice", "session.update"),
        session={"audio": {"output": {"voice": "x" * 513}}},
    ),
    _wrong(
        *("invalid_value", "response.metadata", "response.create"),
        response={"metadata": {str(at): "" for at in range(17)}},
    ),
    _wrong(
        *("invalid_value", "response.metadata.a", "response.create"),
        response={"metadata": {"a": "x" * 513}},
    ),
    _wrong(
        *("item_create_invalid_previous_item_id", "previous_item_id", "conversation.item.create"),
        previous_item_id="x",
        item={"type": "message", "role": "user", "content": []},
    ),
]


class TestTurns:
    async def test_a_spoken_turn_is_heard_and_answered(self) -> None:
        async with session() as client:
            await client.configure(type="realtime", audio=TRANSCRIBED | FAST)
            await client.say(0.8, 0.6)
            events = await client.until("response.done")
        started = ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"]
        assert kinds(events) == [*started, *HEARD, *SPOKEN]
        assert (events[0]["audio_start_ms"], events[1]["audio_end_ms"]) == (0, 800)
        assert len({event["event_id"] for event in events}) == len(events)
        assert {event["item_id"] for event in events[:3]} == {events[3]["item"]["id"]}
        assert events[6]["transcript"] == "one two"
        added = [event["item"] for event in events if event["type"].endswith("item.added")]
        unheard = [{"type": "input_audio", "transcript": None}]
        assert [item["content"] for item in added] == [unheard, [], []]
        response = events[-1]["response"]
        assert response["status"] == "completed"
        assert response["output"][0]["content"] == [
            {"type": "output_audio", "transcript": "You said: one two."}
        ]

    async def test_each_delta_names_its_place(self) -> None:
        async with session() as client:
            await client.configure(audio=FAST)
            await client.tell("hello")
            events = await client.until("response.done")
        response_id = events[2]["response"]["id"]
        deltas = [event for event in events if event["type"].endswith(".delta")]
        assert len(deltas) >= 2
        for delta in deltas:
            assert (delta["response_id"], delta["output_index"]) == (response_id, 0)
            assert (delta["item_id"], delta["content_index"]) == (events[3]["item"]["id"], 0)

    async def test_without_transcription_no_text_is_reported_but_the_answer_knows_it(self) -> None:
        async with session() as client:
            await client.configure(audio=FAST)
            await client.say(0.8, 0.6)
            events = await client.until("response.done")
        assert not [kind for kind in kinds(events) if "transcription" in kind]
        assert events[-1]["response"]["output"][0]["content"][0]["transcript"] == (
            "You said: one two."
        )

    async def test_the_client_ends_a_turn_and_asks_for_the_response(self) -> None:
        async with session() as client:
            await client.configure(audio=MANUAL | FAST)
            await client.say(0.8, 2.0, 0.4)
            await client.send("input_audio_buffer.commit")
            await client.send("response.create")
            events = await client.until("response.done")
        # The response begins before the text of the turn is known, and answers it all the same.
        assert set(HEARD + SPOKEN) == set(kinds(events))
        assert events[-1]["response"]["output"][0]["content"][0]["transcript"].startswith(
            "You said: one two three"
        )

    async def test_a_response_waits_for_the_text_of_the_turn(self) -> None:
        answers = Answering()
        async with session(answers=answers) as client:
            await client.configure(output_modalities=["text"], audio=MANUAL)
            await client.say(0.8)
            await client.send("input_audio_buffer.commit")
            await client.send("response.create")
            await client.until("response.done")
        assert answers.asked == [[{"role": "user", "content": "one two"}]]

    async def test_cleared_audio_is_forgotten(self) -> None:
        async with session() as client:
            await client.configure(audio=MANUAL)
            await client.say(0.8)
            await client.send("input_audio_buffer.clear")
            await client.send("input_audio_buffer.commit", event_id="mine")
            await client.until("input_audio_buffer.cleared")
            error = await client.refused()
        assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "mine")

    async def test_a_turn_without_words_is_not_answered(self) -> None:
        class Deaf(StubHearing):
            def hear(self, audio: Samples, options: HearingOptions) -> Transcript:
                return Transcript("")

        voice = Voice(STUBS)
        async with serving(voice) as served:
            voice.engines.hearing._pool.engine.__class__ = Deaf  # type: ignore[union-attr]
            async with served.stream("v1/realtime") as socket:
                client = RealtimeClient(socket)
                await client.configure(audio=TRANSCRIBED)
                await client.say(0.4, 0.6)
                await client.until("conversation.item.input_audio_transcription.completed")
                assert kinds(await client.retrieve_nothing()) == ["error"]

    async def test_telephone_audio(self) -> None:
        phone = {"type": "audio/pcmu"}
        async with session() as client:
            await client.configure(
                audio={"input": {"format": phone}, "output": {"format": phone, "speed": 4.0}}
            )
            loud = bytes([0x00, 0x80] * 3200)  # 0.8 s of the loudest samples
            for audio in (loud, b"\xff" * 4800):
                await client.send(
                    "input_audio_buffer.append", audio=base64.b64encode(audio).decode()
                )
            events = await client.until("response.done")
        seconds = len(audio_of(events)) / 8_000
        # 15 characters and 4 pauses of 0.06 s, four times as fast.
        assert seconds == pytest.approx(0.285, abs=0.01)

    async def test_a_change_of_settings_keeps_the_turn_before_it(self) -> None:
        async with session() as client:
            await client.configure(output_modalities=["text"], audio=TRANSCRIBED)
            await client.say(0.8, 0.6)
            await client.send("session.update", session={"audio": MANUAL})
            events = await client.until("session.updated")
        assert "conversation.item.input_audio_transcription.completed" in kinds(events)


class TestInterruptions:
    async def test_speech_ends_the_response_and_history_has_what_was_heard(self) -> None:
        answers = Answering(LONG)
        async with session(answers=answers) as client:
            await client.configure(audio=TRANSCRIBED)
            await client.tell("hello")
            before = await client.until("response.output_audio.delta")
            began = time.monotonic()
            await client.say(0.4)
            before += await client.until("input_audio_buffer.speech_started")
            ahead = len(audio_of(before)) / 2 / RATE - (time.monotonic() - began)
            events = await client.until("response.done")
            assert "response.output_audio.delta" not in kinds(events)
            await eventually(lambda: answers.closed == 1)
            item = await client.retrieve(events[-1]["response"]["output"][0]["id"])
            await client.say(0.0, 0.6)
            await client.until("response.created")
            await client.until("response.output_audio.delta")
        assert ahead <= 0.5 + 0.1
        response = events[-1]["response"]
        assert response["status"] == "cancelled"
        assert response["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        assert item["status"] == "incomplete"
        heard = item["content"][0]["transcript"]
        assert LONG.startswith(heard)
        # The stub speaks a letter in 0.06 s: no word is kept whose audio was not sent.
        assert len(heard.replace(" ", "")) * 0.06 <= len(audio_of(before)) / 2 / RATE
        messages = answers.asked[1]
        assert messages[0] == {"role": "user", "content": "hello"} if heard else True
        assert [each["content"] for each in messages if each["role"] == "assistant"] == (
            [heard] if heard else []
        )

    async def test_the_client_says_what_was_heard(self) -> None:
        answers = Answering("One two three four.")
        async with session(answers=answers) as client:
            await client.configure(audio=FAST)
            await client.tell("hello")
            item_id = (await client.until("response.done"))[-1]["response"]["output"][0]["id"]
            whole = len(audio_of(client.events)) * 1000 // 2 // RATE
            await client.send(
                "conversation.item.truncate",
                item_id=item_id,
                content_index=0,
                audio_end_ms=whole // 2,
            )
            truncated = (await client.until("conversation.item.truncated"))[-1]
            await client.send(
                "conversation.item.truncate", item_id=item_id, audio_end_ms=whole + 1000
            )
            error = await client.refused()
            await client.tell("and?")
            await client.until("response.done")
        assert truncated["audio_end_ms"] == whole // 2
        assert error["param"] == "audio_end_ms"
        assert {"role": "assistant", "content": "One two"} in answers.asked[1]

    async def test_the_client_cancels(self) -> None:
        answers = Answering(LONG)
        async with session(answers=answers) as client:
            await client.tell("hello")
            await client.until("response.output_audio.delta")
            await client.send("response.cancel")
            events = await client.until("response.done")
            await client.send("response.cancel", event_id="again")
            error = await client.refused()
            await client.tell("more", output_modalities=["text"])
            after = await client.until("response.done")
        assert events[-1]["response"]["status_details"]["reason"] == "client_cancelled"
        assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "again")
        assert after[-1]["response"]["status"] == "completed"

    async def test_a_session_may_forbid_interruptions(self) -> None:
        answers = Answering("One two three four five.")
        turns = {"type": "server_vad", "interrupt_response": False}
        async with session(answers=answers) as client:
            await client.configure(audio={"input": {"turn_detection": turns}})
            await client.tell("hello")
            await client.until("response.output_audio.delta")
            await client.say(0.4, 0.6)
            first = await client.until("response.done")
            second = await client.until("response.done")
        assert "input_audio_buffer.committed" in kinds(first)
        assert first[-1]["response"]["status"] == second[-1]["response"]["status"] == "completed"
        assert answers.asked[1][-1] == {"role": "user", "content": "one"}

    @pytest.mark.parametrize("words", [1, 3])
    async def test_a_few_words_do_not_interrupt(self, words: int) -> None:
        turns = {"type": "server_vad", "interrupt_min_words": 3}
        async with session(answers=Answering(LONG)) as client:
            await client.configure(audio={"input": {"turn_detection": turns}})
            await client.tell("hello")
            await client.until("response.output_audio.delta")
            await client.say(0.4 * words, 0.6)
            events = await client.until("conversation.item.done")
            if words < 3:
                assert not [kind for kind in kinds(events) if "speech" in kind]
                await client.send("response.cancel")
            events = await client.until("response.done")
        reason = events[-1]["response"]["status_details"]["reason"]
        assert reason == ("turn_detected" if words >= 3 else "client_cancelled")

    async def test_there_is_one_response_at_a_time(self) -> None:
        async with session(answers=Answering(LONG)) as client:
            await client.tell("hello")
            await client.until("response.output_audio.delta")
            await client.send("response.create", event_id="second")
            events = await client.until("error")
        error = events[-1]["error"]
        assert error["code"] == "conversation_already_has_active_response"
        assert error["event_id"] == "second"

    async def test_cuts_at_random_moments_leave_nothing_behind(self) -> None:
        answers = Answering(LONG)
        voice = Voice(STUBS)
        async with serving(voice) as served:
            voice.engines = replace(voice.engines, answers=answers)
            await cut_sessions(served, random.Random(7), 25)
            await eventually(lambda: answers.closed == len(answers.asked))
            async with served.stream("v1/realtime") as socket:
                client = RealtimeClient(socket)
                await client.configure(output_modalities=["text"])
                await client.tell("hello")
                done = (await client.until("response.done"))[-1]["response"]
        assert done["status"] == "completed"

    async def test_a_client_that_ends_its_input_gets_its_answer(self) -> None:
        async with session() as client:
            await client.configure(output_modalities=["text"], audio=TRANSCRIBED)
            await client.say(0.8)
            closing = asyncio.create_task(client.socket.close())
            events = await client.until("response.done")
            await closing
        assert kinds(events)[-1] == "response.done"
        assert events[-1]["response"]["output"][0]["content"][0]["text"] == "You said: one two."


class TestAnswers:
    async def test_in_writing(self) -> None:
        async with session() as client:
            await client.configure(output_modalities=["text"])
            await client.tell("hello")
            events = await client.until("response.done")
        assert kinds(events)[2:] == [
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            *["response.output_text.delta"] * 4,
            "response.output_text.done",
            "response.content_part.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
        ]
        assert events[-2]["item"]["content"] == [
            {"type": "output_text", "text": "You said: hello."}
        ]

    async def test_a_function_is_called_and_its_output_answered(self) -> None:
        tool = {"type": "function", "name": "time", "parameters": {"type": "object"}}
        async with session() as client:
            await client.configure(output_modalities=["text"], tools=[tool], tool_choice="required")
            await client.tell("what time is it?")
            events = await client.until("response.done")
            call = events[-1]["response"]["output"][0]
            output = {"type": "function_call_output", "call_id": call["call_id"], "output": "ten"}
            await client.send("conversation.item.create", item=output)
            await client.send("response.create")
            answer = (await client.until("response.done"))[-1]["response"]["output"][0]
        assert kinds(events)[2:] == [
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
        ]
        assert (call["name"], call["arguments"], call["status"]) == ("time", "{}", "completed")
        assert answer["content"][0]["text"] == "The tool said: ten."

    async def test_the_wishes_of_a_response_reach_the_engine(self) -> None:
        answers = Answering()
        tool = {"type": "function", "name": "time", "description": "now", "parameters": {"a": 1}}
        async with session(answers=answers) as client:
            await client.configure(output_modalities=["text"], instructions="Be kind.")
            await client.tell(
                "hello",
                instructions="Be brief.",
                tools=[tool],
                tool_choice={"type": "function", "name": "time"},
                max_output_tokens=7,
                metadata={"mine": "x"},
            )
            created, *_, done = (await client.until("response.done"))[2:]
        assert created["response"]["metadata"] == done["response"]["metadata"] == {"mine": "x"}
        assert answers.asked == [
            [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
        ]
        function = {key: tool[key] for key in ("name", "description", "parameters")}
        assert answers.options == [
            {
                "tools": [{"type": "function", "function": function}],
                "tool_choice": {"type": "function", "function": {"name": "time"}},
                "max_tokens": 7,
            }
        ]

    async def test_a_response_apart_leaves_the_conversation_alone(self) -> None:
        answers = Answering()
        async with session(answers=answers) as client:
            await client.configure(output_modalities=["text"])
            await client.tell("hello")
            await client.until("response.done")
            item = {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "sum up"}],
            }
            await client.send("response.create", response={"conversation": "none", "input": [item]})
            events = await client.until("response.done")
            await client.tell("go on")
            await client.until("response.done")
        assert "conversation.item.added" not in kinds(events)
        assert answers.asked[1] == [{"role": "user", "content": "sum up"}]
        assert [each["content"] for each in answers.asked[2]] == ["hello", "Yes. ", "go on"]

    async def test_an_answer_that_is_too_long_is_incomplete(self) -> None:
        async with session() as client:
            await client.configure(output_modalities=["text"], max_output_tokens=2)
            await client.tell("hello")
            response = (await client.until("response.done"))[-1]["response"]
        assert response["status"] == "incomplete"
        assert response["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}

    async def test_a_message_with_audio_is_heard(self) -> None:
        answers = Answering()
        audio = base64.b64encode(tone(0.8, RATE).tobytes()).decode()
        content = [
            {"type": "input_text", "text": "I said:"},
            {"type": "input_audio", "transcript": "well"},
            {"type": "input_audio", "audio": audio},
        ]
        async with session(answers=answers) as client:
            await client.configure(output_modalities=["text"])
            item = {"type": "message", "role": "user", "content": content}
            await client.send("conversation.item.create", item=item)
            added = (await client.until("conversation.item.added"))[-1]["item"]
            await client.send("response.create")
            await client.until("response.done")
        assert added["content"] == [
            {"type": "input_text", "text": "I said:"},
            {"type": "input_audio", "transcript": "well"},
            {"type": "input_audio", "transcript": None},
        ]
        assert answers.asked == [[{"role": "user", "content": "I said: well one two"}]]

    async def test_items_with_audio_are_heard_one_at_a_time_in_pieces(self) -> None:
        class Ear:
            is_idle = True
            at_once = most_at_once = 0

            def __init__(self) -> None:
                self.seconds: list[float] = []

            async def transcribe(self, audio: Samples, options: HearingOptions) -> Transcript:
                self.seconds.append(len(audio) / 16_000)
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                await asyncio.sleep(0)
                self.at_once -= 1
                return Transcript("word")

        ear, answers = Ear(), Answering()
        async with session(answers=answers, hearing=ear) as client:
            await client.configure(output_modalities=["text"], audio=PHONE)
            for seconds in (70, 1, 1, 1, 1, 1, 1):
                await client.send("conversation.item.create", item=phoned(seconds))
            await client.send("response.create")
            await client.until("response.done")
        assert ear.most_at_once == 1
        assert ear.seconds == pytest.approx([30, 30, 10, 1, 1, 1, 1, 1, 1], abs=0.1)
        assert answers.asked[0][0]["content"].split() == ["word"] * 9

    async def test_items_are_heard_with_the_wishes_of_the_session(self) -> None:
        class Ear:
            is_idle = True

            def __init__(self) -> None:
                self.wishes: list[HearingOptions] = []

            async def transcribe(self, audio: Samples, options: HearingOptions) -> Transcript:
                self.wishes.append(options)
                return Transcript("word")

        ear = Ear()
        transcription = {"language": "fr", "prompt": "Partway, Piper"}
        async with session(hearing=ear) as client:
            await client.configure(
                output_modalities=["text"],
                audio={"input": {**PHONE["input"], "transcription": transcription}},
            )
            await client.send("conversation.item.create", item=phoned(1))
            await client.send("response.create")
            await client.until("response.done")
        assert ear.wishes == [HearingOptions(language="fr", prompt="Partway, Piper")]

    async def test_the_input_waits_while_too_many_items_wait_for_their_text(self) -> None:
        class Ear:
            is_idle = True
            may_hear = asyncio.Event()

            async def transcribe(self, audio: Samples, options: HearingOptions) -> Transcript:
                await self.may_hear.wait()
                return Transcript("word")

        ear = Ear()
        async with session(hearing=ear) as client:
            await client.configure(output_modalities=["text"], audio=PHONE)
            for _ in range(MAX_UNHEARD_ITEMS):
                await client.send("conversation.item.create", item=phoned(1))
                await client.until("conversation.item.done")
            await client.send("conversation.item.create", item=phoned(1))
            waiting = asyncio.create_task(client.next())
            done, _ = await asyncio.wait({waiting}, timeout=0.1)
            assert not done
            ear.may_hear.set()
            assert (await waiting)["type"] == "conversation.item.added"

    async def test_an_item_with_too_much_audio_is_refused(self) -> None:
        async with session() as client:
            await client.configure(audio=PHONE)
            await client.send("conversation.item.create", item=phoned(301))
            error = await client.refused()
            assert kinds(await client.retrieve_nothing()) == ["error"]
        assert error["message"].startswith("item.content has 301 s of audio; it must have at most")


class TestFaults:
    async def test_an_engine_that_fails_ends_the_response_by_name(self) -> None:
        answers = Answering("Well,", ModelError("the upstream is ill"))
        async with session(answers=answers) as client:
            await client.configure(audio=FAST)
            await client.tell("hello")
            failed = (await client.until("response.done"))[-1]["response"]
            answers.failure = None
            await client.tell("hello again")
            after = (await client.until("response.done"))[-1]["response"]
        assert failed["status"] == "failed"
        assert failed["status_details"]["error"]["message"] == "the upstream is ill"
        assert after["status"] == "completed"

    async def test_a_container_without_answers_says_so(self) -> None:
        async with session(answers=None) as client:
            await client.tell("hello")
            response = (await client.until("response.done"))[-1]["response"]
        assert "PARTWAY_VOICE_ANSWERS" in response["status_details"]["error"]["message"]

    async def test_a_busy_voice_is_named(self) -> None:
        class Full:
            rate, voices = RATE, ()

            async def speak(self, text: str, options: object) -> Any:
                raise Busy("the speaking engine is busy: 64 jobs wait")
                yield

        async with session(speaking=Full()) as client:
            await client.tell("hello")
            response = (await client.until("response.done"))[-1]["response"]
        assert "speaking engine is busy" in response["status_details"]["error"]["message"]

    async def test_a_turn_that_cannot_be_heard_is_named(self) -> None:
        class Ill:
            is_idle = True

            async def transcribe(self, audio: Samples, options: HearingOptions) -> Transcript:
                raise Busy("the hearing engine is busy: 64 jobs wait")

        async with session(hearing=Ill()) as client:
            await client.configure(audio=TRANSCRIBED)
            await client.say(0.8, 0.6)
            events = await client.until("response.done")
            await client.tell("typed instead", output_modalities=["text"])
            after = (await client.until("response.done"))[-1]["response"]
        failed = next(each for each in events if each["type"].endswith("transcription.failed"))
        assert "hearing engine is busy" in failed["error"]["message"]
        assert (
            "hearing engine is busy"
            in (events[-1]["response"]["status_details"]["error"]["message"])
        )
        assert after["status"] == "completed"

    @pytest.mark.parametrize("event", WRONG, ids=lambda wrong: wrong[1])
    async def test_a_wrong_event_is_refused_by_name(
        self, event: tuple[str, str, str | None]
    ) -> None:
        text, code, param = event
        async with session() as client:
            await client.socket.send(text)
            error = await client.refused()
            await client.tell("hello", output_modalities=["text"])
            done = (await client.until("response.done"))[-1]["response"]
        assert (error["code"], error["param"]) == (code, param)
        assert error["message"]
        assert done["status"] == "completed"

    async def test_an_id_is_taken_once(self) -> None:
        item = {"id": "mine", "type": "message", "role": "user", "content": []}
        async with session() as client:
            await client.send("conversation.item.create", item=item)
            await client.until("conversation.item.done")
            await client.send("conversation.item.create", item=item)
            assert (await client.refused())["code"] == "item_create_duplicate_item_id"
            await client.send("conversation.item.delete", item_id="mine")
            await client.until("conversation.item.deleted")

    async def test_a_path_without_its_engine_is_refused_before_it_opens(self) -> None:
        async with serving(Voice(STUBS.model_copy(update={"hears": "", "answers": ""}))) as served:
            with pytest.raises(websockets.InvalidStatus) as refusal:
                await served.stream("v1/realtime")
        assert refusal.value.response.status_code == 501
        assert b"PARTWAY_VOICE_" in refusal.value.response.body


class TestEnd:
    async def test_a_long_answer_is_cut_after_the_input_has_ended(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(realtime, "ANSWER_AFTER_INPUT", 0.05)
        async with (
            serving(Voice(STUBS)) as served,
            served.stream("v1/realtime") as socket,
        ):
            client = RealtimeClient(socket)
            await client.tell(" ".join([LONG] * 10))  # a minute of speech
            await client.until("response.output_audio.delta")
            await socket.close(1000)
            assert socket.close_code == 1000  # the server has answered before the client gave up


class TestMemory:
    @pytest.fixture
    def alive(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
        """Names the objects that are there, of those that sessions make; no collector runs."""
        kept: list[weakref.ref[object]] = []

        class WatchedTurns(realtime.UserTurns):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                kept.append(weakref.ref(self.handler))

        class WatchedResponse(realtime.Response):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                kept.append(weakref.ref(self))

        class WatchedListener(realtime_turns.SpeechListener):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                kept.append(weakref.ref(self))

        monkeypatch.setattr(realtime, "UserTurns", WatchedTurns)
        monkeypatch.setattr(realtime, "Response", WatchedResponse)
        monkeypatch.setattr(realtime_turns, "SpeechListener", WatchedListener)

        def alive() -> list[str]:
            return sorted(type(found).__name__ for each in kept if (found := each()) is not None)

        gc.collect()
        gc.disable()
        try:
            yield alive
        finally:
            gc.enable()

    async def test_an_ended_session_is_freed_without_the_collector(
        self, alive: Callable[[], list[str]]
    ) -> None:
        async with serving(Voice(STUBS)) as served:
            async with served.stream("v1/realtime") as socket:
                client = RealtimeClient(socket)
                await client.configure(audio=TRANSCRIBED | FAST)
                await client.say(0.8, 0.6)
                await client.until("response.done")
                await client.tell("hello", audio=FAST)
                await client.until("response.output_audio.delta")
                assert "RealtimeStream" in alive()
                await socket.close(1000)
            await eventually(lambda: not alive())

    async def test_a_cancelled_session_and_response_are_freed_without_the_collector(
        self, alive: Callable[[], list[str]]
    ) -> None:
        async with serving(Voice(STUBS)) as served:
            async with served.stream("v1/realtime") as socket:
                client = RealtimeClient(socket)
                await client.configure(audio=TRANSCRIBED)
                await client.tell(LONG)
                await client.until("response.output_audio.delta")
                await client.send("response.cancel")
                await client.until("response.done")
                await eventually(lambda: alive() == ["RealtimeStream", "WatchedListener"])
                await socket.close(GOING_AWAY)
            await eventually(lambda: not alive())


class TestTranscription:
    async def test_a_session_without_responses(self) -> None:
        async with session(intent="transcription") as client:
            created = client.events[0]["session"]
            assert (created["type"], created["object"]) == (
                "transcription",
                "realtime.transcription_session",
            )
            await client.say(0.8, 0.6)
            events = await client.until("conversation.item.input_audio_transcription.completed")
            await client.send("response.create")
            error = await client.refused()
        assert kinds(events)[2:] == HEARD
        assert events[-1]["usage"]["type"] == "duration"
        assert 0.8 <= events[-1]["usage"]["seconds"] <= 1.4  # with silence around it
        assert error["code"] == "invalid_session_type"

    async def test_two_sessions_do_not_disturb_each_other(self) -> None:
        voice = Voice(STUBS)
        async with (
            serving(voice) as served,
            served.stream("v1/realtime") as one,
            served.stream("v1/realtime") as other,
        ):
            clients = [RealtimeClient(one), RealtimeClient(other)]
            for client in clients:
                await client.configure(output_modalities=["text"])
            await clients[0].socket.send("nonsense")
            for client in clients:
                await client.tell("hello")
            done = await asyncio.gather(*(each.until("response.done") for each in clients))
        assert all(events[-1]["response"]["status"] == "completed" for events in done)
