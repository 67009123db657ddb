"""partway.container.models.voice.wires.default_path: the first message chooses."""

from __future__ import annotations

import pytest

from tests.container.models.voice.wires.json_client import client

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


async def test_a_session_is_created_before_the_client_sends_anything():
    async with client() as stream:
        created = await stream.next()
        assert created["type"] == "session.created"
        assert created["id"].startswith("sess-")  # vLLM's members
        assert created["created"] > 0
        assert created["session"]["type"] == "realtime"  # OpenAI's


@pytest.mark.parametrize(
    ("kind", "members", "answer"),
    [
        ("transcription_session.update", {"session": {}}, "transcription_session.updated"),
        ("synthesize_session.update", {"session": {}}, "conversation.created"),
        ("input_audio_buffer.commit", {"final": True}, "transcription.done"),
        ("session.update", {"session": {"type": "realtime"}}, "session.updated"),
        ("response.create", {"response": {"output_modalities": ["text"]}}, "response.created"),
    ],
)
async def test_the_first_message_chooses_the_dialect(kind, members, answer):
    async with client() as stream:
        await stream.until("session.created")
        await stream.send(kind, **members)
        assert (await stream.next())["type"] == answer


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("hello", "JSON object"),
        (b"\x00\x01\x02", "JSON object"),
        ("[]", "JSON object"),
        ("{}", "type is missing"),
        ('{"type":"Speak","text":"hi"}', "'Speak'"),
    ],
)
async def test_a_refused_first_message_leaves_the_choice_to_the_next(message, named):
    async with client() as stream:
        await stream.until("session.created")
        await stream.connection.send(message)
        refused = await stream.next()
        assert refused["type"] == "error"
        assert named in refused["error"]["message"]
        await stream.send("transcription_session.update", session={})
        assert (await stream.next())["type"] == "transcription_session.updated"


@pytest.mark.parametrize(
    ("kind", "members", "named"),
    [
        ("input_text.append", {}, "text is missing"),
        ("input_text.append", {"text": "a" * 40_000}, "40000 characters"),
        ("input_audio_buffer.commit", {"final": "yes"}, "final is 'yes'"),
    ],
)
async def test_a_refused_first_message_of_a_dialect_is_told_by_it(kind, members, named):
    async with client() as stream:
        await stream.until("session.created")
        await stream.send(kind, **members)
        refused = (await stream.until("error"))[-1]
        assert named in str(refused["error"])
        done = "input_text.commit" if kind.startswith("input_text") else kind
        await stream.send(done, final=True)
        assert (await stream.next())["type"] in ("input_text.committed", "transcription.done")


async def test_a_message_may_be_binary():
    async with client() as stream:
        await stream.until("session.created")
        await stream.connection.send(b'{"type":"transcription_session.update","session":{}}')
        assert (await stream.next())["type"] == "transcription_session.updated"


@pytest.mark.parametrize(
    ("missing", "kind", "variable"),
    [
        ("hears", "transcription_session.update", "PARTWAY_VOICE_HEARS"),
        ("hears", "input_audio_buffer.commit", "PARTWAY_VOICE_HEARS"),
        ("speaks", "synthesize_session.update", "PARTWAY_VOICE_SPEAKS"),
    ],
)
async def test_an_engine_that_is_missing_is_named(missing, kind, variable):
    async with client(**{missing: ""}) as stream:
        await stream.until("session.created")
        await stream.send(kind)
        assert await stream.rest() == []
        assert stream.connection.close_code == 1011
        assert variable in stream.connection.close_reason


@pytest.mark.parametrize("missing", ["hears", "speaks"])
async def test_a_conversation_needs_the_engines_that_it_needs_on_its_own_path(missing):
    async with client(**{missing: ""}) as stream:
        await stream.until("session.created")
        await stream.send("response.create", response={"output_modalities": ["text"]})
        assert (await stream.until("response.done"))[-1]["response"]["status"] == "completed"


async def test_a_session_that_only_transcribes_needs_no_engine_that_answers():
    async with client(answers="") as stream:
        await stream.until("session.created")
        await stream.send("session.update", session={"type": "transcription"})
        assert (await stream.next())["type"] == "session.updated"
