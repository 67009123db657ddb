"""partway.container.models.voice.wires.flux_listen: what clients of Flux send and get."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from partway.container.models.voice.engines.stub_hearing import StubHearing
from partway.container.models.voice.interfaces import Transcript
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import Query, serving
from tests.container.models.voice.sounds import silence, sounds, tone
from tests.container.models.voice.wires.failing_engines import HEARS_SECOND
from tests.container.models.voice.wires.held_message import HeldMessage

PATH = "v2/listen"
STUB = VoiceSettings(hears="stub", turns="stub")
EAGER = {"model": "flux-general-en", "eager_eot_threshold": "0.5"}


@asynccontextmanager
async def listening(query: Query = (), settings: VoiceSettings = STUB) -> AsyncIterator[Any]:
    """A client that has got ``Connected``."""
    async with serving(Voice(settings)) as served, served.stream(PATH, query) as client:
        assert json.loads(await client.recv())["type"] == "Connected"
        yield client


async def say(client: ClientConnection, kind: str, **members: Any) -> None:
    await client.send(json.dumps({"type": kind, **members}))


async def until(client: ClientConnection, event: str) -> dict[str, Any]:
    """The first event of a turn of this name; earlier ones are dropped."""
    while True:
        message = json.loads(await client.recv())
        if message.get("event") == event:
            return dict(message)


async def rest(client: ClientConnection) -> list[dict[str, Any]]:
    """The messages up to the end of the stream."""
    return [json.loads(message) async for message in client]


def ends(messages: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    return [
        (each["turn_index"], each["transcript"], each["trigger"])
        for each in messages
        if each.get("event") == "EndOfTurn"
    ]


async def test_each_byte_of_a_turn():
    query = {"model": "flux-general-multi", "language_hint": "de", "encoding": "linear16"}
    async with serving(Voice(STUB)) as served, served.stream(PATH, query) as client:
        await client.send(sounds(1.0, 0.8, 0.5).tobytes())
        messages = [await client.recv()]
        while "EndOfTurn" not in messages[-1]:
            messages.append(await client.recv())
        await say(client, "CloseStream")
        await client.wait_closed()
        assert (client.close_code, client.close_reason) == (1000, "")
    turn = '"turn_index":0,"audio_window_start":1.0,'
    assert messages[0] == '{"type":"Connected","request_id":"-","sequence_id":0}'
    assert messages[1] == (
        '{"type":"TurnInfo","request_id":"-","sequence_id":1,"event":"StartOfTurn",' + turn + ""
        '"audio_window_end":1.0,"transcript":"","words":[],"end_of_turn_confidence":0.0,'
        '"languages_hinted":["de"]}'
    )
    last = len(messages) - 1  # an update may have come before
    assert messages[last] == (
        f'{{"type":"TurnInfo","request_id":"-","sequence_id":{last},"event":"EndOfTurn",{turn}'
        '"audio_window_end":2.2,"transcript":"one two","words":['
        '{"word":"one","confidence":1.0,"start":1.0,"end":1.4},'
        '{"word":"two","confidence":1.0,"start":1.4,"end":1.8}],"end_of_turn_confidence":1.0,'
        '"trigger":"model","languages":["de"],"languages_hinted":["de"]}'
    )


async def test_a_likely_end_is_told_and_taken_back():
    async with listening(EAGER) as client:
        await client.send(sounds(0.5, 0.4, 0.2).tobytes())
        eager = await until(client, "EagerEndOfTurn")
        await client.send(tone(0.4).tobytes())
        resumed = await until(client, "TurnResumed")
        await client.send(silence(0.2).tobytes())
        again = await until(client, "EagerEndOfTurn")
        await client.send(silence(0.4).tobytes())
        end = json.loads(await client.recv())
    assert eager["end_of_turn_confidence"] == 0.5
    assert eager["transcript"] == resumed["transcript"] == "one"
    assert (end["event"], end["trigger"]) == ("EndOfTurn", "model")
    assert end["transcript"] == again["transcript"] != "one"
    assert {each["turn_index"] for each in (eager, resumed, again, end)} == {0}


async def test_texts_grow_while_somebody_speaks():
    async with listening({"model": "flux-general-en"}) as client:
        await client.send(tone(1.2).tobytes())
        update = await until(client, "Update")
        await say(client, "CloseStream")
        messages = await rest(client)
    assert update["transcript"] == "one two three"
    assert ends(messages) == [(0, "one two three", "manual")]


async def test_a_client_ends_turns_itself():
    query = {"eot_threshold": "1.0", "eot_timeout_ms": "3000"}
    async with listening(query) as client:
        await say(client, "ForceEndTurn")  # ends nothing
        await client.send(sounds(0.5, 0.4, 2.0, 0.4).tobytes())
        await say(client, "ForceEndTurn")
        await client.send(sounds(0.5, 0.4, 2.9).tobytes())
        await say(client, "CloseStream")
        assert ends(await rest(client)) == [
            (0, "one two three four five six seven", "manual"),
            (1, "one", "manual"),
        ]


async def test_silence_of_the_timeout_ends_any_turn():
    async with listening({"eot_threshold": "1.0", "eot_timeout_ms": "600"}) as client:
        await client.send(sounds(0.5, 0.4, 0.7).tobytes())
        end = await until(client, "EndOfTurn")
        assert (end["transcript"], end["trigger"]) == ("one", "timeout")
        await say(client, "Configure", thresholds={"eot_threshold": 0.7})
        await client.send(tone(0.4).tobytes())
        await until_kind(client, "ConfigureSuccess")
        await client.send(silence(0.5).tobytes())
        assert (await until(client, "EndOfTurn"))["trigger"] == "model"


async def test_configure_changes_what_it_names(monkeypatch):
    seen = []

    def hear(self: object, audio: object, options: Any) -> Transcript:
        seen.append((options.keyterms, options.language))
        return Transcript("x")

    async with listening([("keyterm", "Partway"), ("keyterm", "bidi"), ("tag", "a")]) as client:
        await say(client, "Configure", thresholds={"eot_threshold": 1, "eot_timeout_ms": 900})
        first = await client.recv()
        await say(client, "Configure", keyterms=["new"], language_hints=["fr"], numerals=True)
        second = json.loads(await client.recv())
        await client.send(sounds(0.1, 0.4, 0.7, 0.4, 0.9).tobytes())
        end = await until(client, "EndOfTurn")
        monkeypatch.setattr(StubHearing, "hear", hear)
        wishes = {"thresholds": {"eager_eot_threshold": 0.4}, "keyterms": "newer"}
        await say(client, "Configure", **wishes)
        await until_kind(client, "ConfigureSuccess")
        await client.send(sounds(0.1, 0.4, 0.2).tobytes())
        eager = await until(client, "EagerEndOfTurn")
    assert first == (
        '{"type":"ConfigureSuccess","request_id":"-","sequence_id":1,"thresholds":'
        '{"eot_threshold":1.0,"eot_timeout_ms":900},"keyterms":["Partway","bidi"]}'
    )
    assert (second["keyterms"], second["language_hints"]) == (["new"], ["fr"])
    assert second["thresholds"] == {"eot_threshold": 1.0, "eot_timeout_ms": 900}
    assert end["transcript"] == "one two three four"
    assert eager["languages_hinted"] == ["fr"]
    assert set(seen) == {(("newer",), "fr")}


async def test_events_are_sent_in_the_order_of_their_numbers(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "partway.container.voice")
    held = HeldMessage(monkeypatch, lambda message: "StartOfTurn" in str(message))
    async with listening() as client:
        await client.send(tone(0.4).tobytes())
        await held.waits.wait()
        await say(client, "Configure", unknown=True)
        await until_logged(caplog, "member=unknown")  # its answer is next
        held.may.set()
        numbers = [json.loads(await client.recv())["sequence_id"] for _ in range(2)]
    assert numbers == [1, 2]


async def until_logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(30):
        while text not in caplog.text:  # noqa: ASYNC110 (no event tells of a line)
            await asyncio.sleep(0.001)


async def until_kind(client: ClientConnection, kind: str) -> None:
    while json.loads(await client.recv())["type"] != kind:
        pass


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"keyterms": ["x" * 2001]}, "1 keyterms of 2001 characters were given; there may be"),
        ({"thresholds": 1}, "thresholds: 1 was given; it must be an object"),
        (
            {"thresholds": {"eot_threshold": 0.4}},
            "eot_threshold is 0.4; it must be a number from 0.5 to 1",
        ),
        ({"thresholds": {"eot_threshold": True}}, "eot_threshold is True; it must be a number"),
        ({"keyterms": [1]}, "keyterms: [1] was given; it must be an array of strings"),
        ({"keyterms": ["x"] * 101}, "101 keyterms of 101 characters were given; there may be"),
        ({"language_hints": ["x"] * 17}, "17 language hints of up to 1 characters were given"),
    ],
)
async def test_a_configure_that_is_refused_changes_nothing(members, says):
    wishes = {"thresholds": {"eot_timeout_ms": 700}, "keyterms": ["a"], "language_hints": ["de"]}
    async with listening() as client:
        await say(client, "Configure", **(wishes | members))
        failure = json.loads(await client.recv())
        await say(client, "Configure")
        after = json.loads(await client.recv())
    assert failure["type"] == "ConfigureFailure"
    assert failure["description"].startswith(says)
    of_terms = "CONFIGURE_KEYTERM_LIMIT_EXCEEDED"
    code = of_terms if "keyterms of" in says else "CONFIGURE_INVALID"
    assert failure["code"] == failure["error_code"] == code
    assert after["thresholds"] == {"eot_threshold": 0.7, "eot_timeout_ms": 5000}
    assert (after["keyterms"], "language_hints" in after) == ([], False)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"eot_threshold": "x"}, "eot_threshold is 'x'; it must be a number from 0.5 to 1"),
        ({"eot_threshold": "nan"}, "eot_threshold is 'nan'; it must be a number from 0.5 to 1"),
        ({"eager_eot_threshold": "0.95"}, "eager_eot_threshold is '0.95'; it must be a number"),
        ({"eot_timeout_ms": "60001"}, "eot_timeout_ms is '60001'; it must be a number from 500"),
        ({"encoding": "opus"}, "encoding: 'opus' was given; it must be one of linear16"),
        ([("keyterm", "x")] * 101, "101 keyterms of 101 characters were given"),
        ({"language_hint": "x" * 17}, "1 language hints of up to 17 characters were given"),
    ],
)
async def test_a_query_out_of_range_is_refused_before_the_stream_opens(query, says):
    with pytest.raises(InvalidStatus) as refused:
        async with listening(query):
            pass
    assert refused.value.response.status_code == 400
    assert refused.value.response.body.decode().startswith(says)


async def test_a_container_that_does_not_hear_names_the_setting():
    with pytest.raises(InvalidStatus) as refused:
        async with listening(settings=VoiceSettings()):
            pass
    assert refused.value.response.status_code == 501
    assert b"v2/listen needs an engine that hears" in refused.value.response.body


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("{", "the message is not a JSON object"),
        (
            '{"type":"Finalize"}',
            "type: 'Finalize' was given; it must be one of CloseStream, ForceEndTurn, Configure",
        ),
    ],
)
async def test_a_message_that_is_none_is_refused_and_the_stream_goes_on(message, says):
    async with listening() as client:
        await client.send(message)
        refused = json.loads(await client.recv())
        await client.send(tone(0.4).tobytes())
        await say(client, "CloseStream")
        assert ends(await rest(client)) == [(0, "one", "manual")]
    assert (refused["type"], refused["code"]) == ("Error", "UNPARSABLE_CLIENT_MESSAGE")
    assert refused["description"] == says


async def test_a_turn_that_is_not_heard_ends_all_the_same():
    async with listening(settings=VoiceSettings(hears=HEARS_SECOND, turns="stub")) as client:
        await client.send(tone(0.4).tobytes())
        await say(client, "ForceEndTurn")
        await until(client, "StartOfTurn")
        warning = json.loads(await client.recv())
        end = json.loads(await client.recv())
        await client.send(sounds(0.5, 0.4).tobytes())
        await say(client, "CloseStream")
        assert ends(await rest(client)) == [(1, "one", "manual")]
    assert warning == {
        "type": "Warning", "request_id": "-", "sequence_id": 2, "code": "HEARING_FAILED",
        "description": "the ear is full",
    }  # fmt: skip
    assert (end["event"], end["transcript"], end["words"]) == ("EndOfTurn", "", [])


async def test_audio_has_one_channel_whatever_the_query_says():
    async with listening({"channels": "2"}) as client:
        await client.send(tone(1.2).tobytes())
        await say(client, "CloseStream")
        assert ends(await rest(client)) == [(0, "one two three", "manual")]


async def test_what_is_ignored_is_named_in_the_log(caplog):
    query = {"numerals": "true", "redact": "numbers", "profanity_filter": "false"}
    with caplog.at_level(logging.INFO, "partway.container.voice"):
        async with listening(query) as client:
            for _ in range(2):
                await say(client, "Configure", numerals=True, **{"x" * 200: 1})
                await client.recv()
    assert "path=v2/listen names=" in caplog.text
    assert "numerals, redact" in caplog.text
    assert caplog.text.count("member=numerals") == 1
    assert f"member={'x' * 40}\n" in caplog.text


@pytest.mark.parametrize("seed", range(3))
async def test_events_come_in_the_order_of_the_state_machine(seed):
    """Deepgram's: https://developers.deepgram.com/docs/flux/state."""
    chance = random.Random(seed)
    lengths = [chance.choice((0.1, 0.2, 0.3, 0.5, 1.0)) for _ in range(40)]
    audio = sounds(*lengths).tobytes()
    async with listening(EAGER) as client:
        while audio:
            size = chance.randrange(2, 16_000)
            await client.send(audio[:size])
            audio = audio[size:]
            if not chance.randrange(20):
                await say(client, "ForceEndTurn")
        await say(client, "CloseStream")
        messages = await rest(client)
    letters = {"StartOfTurn": "S", "Update": "U", "EagerEndOfTurn": "L", "TurnResumed": "R"}
    order = "".join(letters.get(each["event"], "E") for each in messages)
    assert re.fullmatch(r"(S(U|LR)*L?E)+", order), order
    assert [each["sequence_id"] for each in messages] == list(range(1, len(messages) + 1))
    indices = [each["turn_index"] for each in messages]
    assert indices == [order[:at].count("E") for at in range(len(order))]
    for before, after in pairwise(messages):
        if (before["event"], after["event"]) == ("EagerEndOfTurn", "EndOfTurn"):
            assert before["transcript"] == after["transcript"] != ""
