"""LiveKit's plugins for Deepgram and OpenAI: prints one JSON object of all that they got.

``livekit_client.py URL MODEL TOKEN KEY PCM``: the token is for Deepgram's plugin, the key for
OpenAI's. PCM is a file, mono at 16 kHz.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from livekit import rtc
from livekit.agents import stt
from livekit.agents.utils import http_context
from livekit.plugins import deepgram, openai
from openai.types.realtime.realtime_audio_input_turn_detection import ServerVad

URL, MODEL, TOKEN, KEY, PCM = sys.argv[1:]
RATE = 16_000
#: Bytes in 20 ms.
CHUNK = RATE // 50 * 2
AUDIO = Path(PCM).read_bytes()
BASE = f"{URL}/endpoints/{MODEL}/openai/v1"
STREAM = f"{URL}/endpoints/{MODEL}/stream/v1"
FLUX = f"{URL}/endpoints/{MODEL}/stream/v2"
TEXT = "Hello from a gateway of ours. It speaks."


def frames() -> list[rtc.AudioFrame]:
    return [
        rtc.AudioFrame(AUDIO[start : start + CHUNK], RATE, 1, CHUNK // 2)
        for start in range(0, len(AUDIO) - CHUNK + 1, CHUNK)
    ]


async def transcripts(hearing: stt.STT) -> list[list[str]]:
    """Return the events up to the end of speech, or the first final transcript after it."""
    met = []
    async with hearing.stream() as stream:
        for frame in frames():
            stream.push_frame(frame)
        async with asyncio.timeout(20):
            async for event in stream:
                text = event.alternatives[0].text if event.alternatives else ""
                if event.type is not stt.SpeechEventType.RECOGNITION_USAGE:
                    met.append([event.type.value, text])
                kinds = {kind for kind, _ in met}
                if {"end_of_speech", "final_transcript"} <= kinds:
                    return met
    return met


async def spoken(speaking: Any) -> dict[str, int]:
    """Return the length of a text's audio, whole and, where the plugin can, piece by piece."""
    whole = [event.frame async for event in speaking.synthesize(TEXT)]
    return {"rate": whole[0].sample_rate, "samples": sum(f.samples_per_channel for f in whole)}


async def spoken_in_pieces(speaking: Any) -> dict[str, int]:
    async with speaking.stream() as stream:
        stream.push_text(TEXT)
        stream.flush()
        stream.end_input()
        pieces = [event.frame async for event in stream]
    return {"rate": pieces[0].sample_rate, "samples": sum(f.samples_per_channel for f in pieces)}


async def converse() -> dict[str, Any]:
    """Hold a spoken turn with the Realtime model, and a typed one."""
    model = openai.realtime.RealtimeModel(
        base_url=BASE,
        api_key=KEY,
        model=MODEL,
        turn_detection=ServerVad(type="server_vad", silence_duration_ms=300),
    )
    session = model.session()
    told: list[str] = []
    generations: asyncio.Queue[Any] = asyncio.Queue()
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def transcribed(event: Any) -> None:
        if event.is_final and not heard.done():
            heard.set_result(event.transcript)

    session.on("openai_server_event_received", lambda event: told.append(event["type"]))
    session.on("generation_created", generations.put_nowait)
    session.on("input_audio_transcription_completed", transcribed)
    try:
        async with asyncio.timeout(30):
            await session.update_instructions("Answer briefly.")
            for frame in frames():
                session.push_audio(frame)
            answered = await read(await generations.get())
            transcript = await heard
            reply = session.generate_reply(instructions="Say hello.")
            asked = await read(await generations.get())
            await reply
    finally:
        await session.aclose()
        await model.aclose()
    return {"types": told, "heard": transcript, "answered": answered, "asked": asked}


async def read(generation: Any) -> dict[str, Any]:
    """Read an answer: its text, and how many samples of audio it has."""
    text, samples = "", 0
    async for message in generation.message_stream:

        async def audio(message: Any = message) -> int:
            return sum([frame.samples_per_channel async for frame in message.audio_stream])

        listening = asyncio.create_task(audio())
        text += "".join([piece async for piece in message.text_stream])
        samples += await listening
    return {"text": text, "samples": samples}


async def main() -> None:
    async with http_context.open():
        hears = deepgram.STT(base_url=f"{STREAM}/listen", api_key=TOKEN)
        speaks = deepgram.TTS(base_url=f"{STREAM}/speak", api_key=TOKEN, sample_rate=RATE)
        turns = deepgram.STTv2(base_url=f"{FLUX}/listen", api_key=TOKEN)
        answers = deepgram.TTSv2(base_url=f"{FLUX}/speak", api_key=TOKEN, sample_rate=RATE)
        common: dict[str, Any] = {"base_url": BASE, "api_key": KEY, "model": MODEL}
        live = openai.STT(**common, use_realtime=True)
        whole = openai.STT(**common)
        voice = openai.TTS(**common, response_format="pcm")
        told = {
            "deepgram_stt": await transcripts(hears),
            "deepgram_tts": await spoken_in_pieces(speaks),
            "flux_stt": await transcripts(turns),
            "flux_tts": await spoken_in_pieces(answers),
            "openai_stt": await transcripts(live),
            "openai_stt_whole": (await whole.recognize(frames())).alternatives[0].text,
            "openai_tts": await spoken(voice),
            "realtime": await converse(),
        }
        for plugin in (hears, speaks, turns, answers, live, whole, voice):
            await plugin.aclose()
    print(json.dumps(told))


asyncio.run(main())
