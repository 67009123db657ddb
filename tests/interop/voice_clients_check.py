"""Voice clients, unmodified, against ``partway serve`` and ``voice`` on stub engines.

Run by ``make interop-voice``. The gateway has TLS and ``--auth sigv4``. Its host name is
SageMaker's own, since some of the clients connect to no other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import serving
from tests.interop.aws_sdk import KEY, REGION, ServedGateway
from tests.interop.js_sdk import installed
from tests.interop.pipecat_bot import ADDRESS, HOST, PORT, hosts_file, with_hosts
from tests.interop.served_api import ended, interpreter
from tests.interop.voice_clients.sound import WORDS, Spoken, seconds_of, spoken
from tests.interop.voice_clients.voice_gateway import (
    BASE,
    FLAGS,
    PIPECAT,
    PRINCIPALS,
    STREAMS,
    TOKEN,
    URL,
    VOICE,
    api_key,
    environment,
)

pytestmark = pytest.mark.timeout(180)

PROGRAMS = Path(__file__).with_name("voice_clients")

#: Texts that the programs have spoken.
TEXT = "Hello from a gateway of ours."
LONGER = f"{TEXT} It speaks."

Run = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: the other processes matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> Spoken:
    return spoken(tmp_path_factory.mktemp("audio"))


@pytest.fixture(scope="module")
async def gateway(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServedGateway]:
    directory = tmp_path_factory.mktemp("gateway")
    engines = VoiceSettings(hears="stub", speaks="stub", answers="stub", turns="stub")
    async with serving(Voice(engines)) as served:
        config = (
            f'host = "{ADDRESS}"\n\n[endpoints.voice]\nurl = "{served.url}"\nnormal_close = "end"\n'
        )
        async with ServedGateway.start(directory, config, PRINCIPALS, *FLAGS) as gateway:
            yield gateway
    log = gateway.log.read_text("utf-8")
    for unwanted in ("Traceback", "ERROR", KEY.secret_access_key, TOKEN):
        assert unwanted not in log, log


@pytest.fixture
def run(gateway: ServedGateway, tmp_path: Path) -> Run:
    """Runs a client's program to its end; returns the object that it prints last."""
    variables = environment(gateway, tmp_path)
    hosts = with_hosts(hosts_file(tmp_path, ADDRESS))

    async def to_its_end(*words: str | Path) -> Any:
        done = await ended(*hosts, *map(str, words), environment=variables, directory=tmp_path)
        assert done.status == 0, done.errors + done.output
        return json.loads(done.output.splitlines()[-1])

    return to_its_end


@pytest.fixture(scope="module")
def python() -> str:
    return interpreter(*VOICE, "interop-voice")


@pytest.fixture(scope="module")
def pipecat() -> str:
    return interpreter(*PIPECAT, "interop-voice")


# --- Deepgram's SDK ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sagemaker", "websocket"])
@pytest.mark.clause("2.5-6", "3-6")
async def test_deepgrams_sdk(run: Run, python: str, audio: Spoken, way: str) -> None:
    places = {
        "sagemaker": ("voice", REGION),
        "websocket": (STREAMS, TOKEN),
    }
    program = PROGRAMS / "deepgram_client.py"
    got = await run(python, program, way, *places[way], audio.pcm16)
    listened, spoke = got["listen"], got["speak"]
    assert listened["errors"] == spoke["errors"] == []
    assert listened["finals"] == [[WORDS, True, False], ["one two", True, True]]
    assert [word for word, *_ in listened["words"]] == WORDS.split()
    assert all(is_ordered for *_, is_ordered in listened["words"])
    types = listened["types"]
    assert types.index("SpeechStarted") < types.index("Results")
    assert types[-1] == "Metadata"
    assert listened["request_ids"] == 1
    texts = [each for each in spoke["met"] if isinstance(each, str)]
    assert texts == ["Metadata", "Flushed", "Flushed"]
    lengths = [each / 2 / 16_000 for each in spoke["met"] if isinstance(each, int)]
    assert lengths == pytest.approx([seconds_of(LONGER), seconds_of("Again.")], rel=0.01)
    turns, answers = got["turns"], got["answers"]
    assert turns["errors"] == answers["errors"] == []
    assert (turns["first"], turns["events"][0]) == ("Connected", "StartOfTurn")
    assert turns["ends"] == [[WORDS, "model"]]
    assert answers["types"] == [
        *("Connected", "SpeechStarted", "SpeechMetadata", "Flushed"),
        *("SpeechInterrupted", "SessionMetadata"),
    ]
    assert answers["audio"] / 2 / 16_000 == pytest.approx(seconds_of(LONGER), rel=0.01)


# --- OpenAI's clients ----------------------------------------------------------------------------


async def test_openais_client(run: Run, python: str, audio: Spoken) -> None:
    program = PROGRAMS / "openai_client.py"
    got = await run(python, program, BASE, "voice", api_key(), audio.wav24, audio.pcm24)
    files, talk, transcribed = got["audio"], got["converse"], got["transcribe"]
    assert files["json"] == files["text"].strip() == WORDS
    assert files["words"] == WORDS.split()
    assert files["segments"] >= 1
    assert " --> " in files["srt"]
    assert files["stream"][-1] == ["transcript.text.done", WORDS]
    seconds = files["speech"] / 2 / 24_000
    assert seconds == pytest.approx(seconds_of("Hello there. And more."), rel=0.01)
    assert "input" in files["refused"]
    assert talk["heard"] == [WORDS, WORDS]
    assert (talk["interrupted"], talk["answered"]) == ("cancelled", "completed")
    assert talk["audio"] > 0
    assert talk["text"] == "You said: hi."
    assert "nonsense" in talk["error"]
    types = talk["types"]
    for earlier, later in (
        ("session.created", "session.updated"),
        ("input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"),
        ("input_audio_buffer.speech_stopped", "input_audio_buffer.committed"),
        ("input_audio_buffer.committed", "response.created"),
        ("response.created", "response.output_item.added"),
        ("response.output_item.added", "response.output_audio.delta"),
        ("response.output_audio.delta", "response.done"),
    ):
        assert types.index(earlier) < types.index(later)
    assert transcribed["heard"] == WORDS
    assert "response.created" not in transcribed["types"]


async def test_openais_agents(run: Run, audio: Spoken) -> None:
    node = shutil.which("node")
    assert node, "this check needs node 20 or newer: apt-get install nodejs npm"
    programs = installed(PROGRAMS / "js")
    url = f"wss://{HOST}:{PORT}/endpoints/voice/openai/v1/realtime?model=voice"
    got = await run(node, programs / "agents.mjs", url, api_key(), audio.pcm24)
    assert got["errors"] == []
    assert got["interrupted"] >= 1
    assert got["audio"] > 0
    said = [text for role, texts in got["history"] if role == "user" for text in texts]
    assert said == [WORDS, WORDS, "hi"]


# --- LiveKit's plugins ---------------------------------------------------------------------------


async def test_livekits_plugins(run: Run, python: str, audio: Spoken) -> None:
    program = PROGRAMS / "livekit_client.py"
    got = await run(python, program, URL, "voice", TOKEN, api_key(), audio.pcm16)
    for name in ("deepgram_stt", "flux_stt", "openai_stt"):
        finals = [text for kind, text in got[name] if kind == "final_transcript"]
        assert finals == [WORDS], name
        assert "start_of_speech" in {kind for kind, _ in got[name]}, name
    assert got["openai_stt_whole"] == WORDS
    for name, rate in (("deepgram_tts", 16_000), ("flux_tts", 16_000), ("openai_tts", 24_000)):
        assert got[name]["rate"] == rate, name
        assert got[name]["samples"] / rate == pytest.approx(seconds_of(LONGER), rel=0.01), name
    talk = got["realtime"]
    assert talk["heard"] == WORDS
    for answer in (talk["answered"], talk["asked"]):
        assert answer["samples"] / 24_000 == pytest.approx(seconds_of(answer["text"]), rel=0.01)
    assert talk["answered"]["text"] == f"You said: {WORDS}."
    assert "error" not in talk["types"]


# --- Clients of vLLM and of NVIDIA, and pipecat --------------------------------------------------


@pytest.mark.clause("2.5-1", "2.5-6")
async def test_a_client_from_the_sample_of_vllm(run: Run, python: str, audio: Spoken) -> None:
    got = await run(python, PROGRAMS / "vllm_client.py", "voice", REGION, audio.pcm16)
    met = got["met"]
    assert [each["type"] for each in met] == [
        "session.created",
        "transcription.delta",
        "transcription.done",
    ]
    assert met[0]["id"]
    assert met[1]["delta"] == met[2]["text"] == WORDS


async def test_a_client_from_the_samples_of_vllm_omni(run: Run, python: str) -> None:
    got = await run(python, PROGRAMS / "vllm_omni_client.py", "voice", REGION, LONGER)
    start, *audio, done, ended = got["streamed"]
    assert (start["type"], start["sample_rate"]) == ("audio.start", 24_000)
    assert sum(audio) == done["total_bytes"]
    assert sum(audio) / 2 / 24_000 == pytest.approx(seconds_of(LONGER), rel=0.01)
    assert ended == {"type": "session.done", "utterance_index": 0, "total_sentences": 1}
    created, start, file, done, ended = got["files"]
    assert created["type"] == "session.created"
    assert (start["type"], start["format"]) == ("audio.start", "wav")
    assert file == done["total_bytes"] == sum(audio) + 44
    assert ended["type"] == "session.done"


async def test_pipecats_services(run: Run, pipecat: str, audio: Spoken) -> None:
    program = PROGRAMS / "pipecat_client.py"
    url = f"wss://{HOST}:{PORT}/endpoints/voice/openai/v1/realtime"
    got = await run(pipecat, program, "voice", REGION, url, api_key(), audio.pcm16, audio.pcm24)
    for name in ("deepgram_stt", "flux_stt", "nvidia_stt"):
        assert got[name]["errors"] == [], name
        finals = [text for kind, text in got[name]["met"] if kind == "TranscriptionFrame"]
        assert finals == [WORDS], name
    for name in ("deepgram_tts", "flux_tts", "nvidia_tts"):
        assert got[name]["errors"] == [], name
        assert got[name]["audio"] / 2 / 16_000 == pytest.approx(seconds_of(TEXT), rel=0.01), name
    talk = got["realtime"]
    assert talk["errors"] == []
    assert "InterruptionFrame" in [kind for kind, _ in talk["met"]]
    assert talk["audio"] > 0
    said = [message["content"] for message in talk["context"] if message["role"] == "user"]
    assert said == ["Say hello.", WORDS]
