"""The tutorial "A voice assistant" as it is printed, on free ports, with engines that are stubs.

Run by ``make interop-openai OPENAI_PYTHON=…``. ``make test-voice`` checks real engines; here their
settings are only read.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import wave
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from partway.container.models.voice.engine_names import read_name
from partway.container.models.voice.settings import VoiceSettings
from tests.interop.aws_sdk import ServedGateway
from tests.interop.dev_page_check import developing
from tests.interop.served_api import (
    SHOWN,
    Ended,
    blocks,
    ended,
    free_port,
    interpreter,
    running,
)
from tests.test_docs import page

pytestmark = pytest.mark.timeout(180)

PAGE = "tutorial/voice.md"
#: The container's address on the page.
CONTAINER = "http://127.0.0.1:8080"


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough: the other processes matter."""
    return "asyncio"


@pytest.fixture
def python() -> str:
    return interpreter("OPENAI_PYTHON", "openai[realtime] and aiohttp", "interop-openai")


def command(beginning: str) -> str:
    """Return the page's only block that begins so."""
    (found,) = [block for block in blocks(PAGE, "sh") if block.startswith(beginning)]
    return found.replace("\\\n", " ")


def exported(block: str) -> dict[str, str]:
    """Return the variables that a block sets."""
    lines = [shlex.split(line) for line in block.splitlines() if line.startswith("export ")]
    return dict(word.split("=", 1) for _, *words in lines for word in words)


def shown(*beginnings: str) -> str:
    """Return the page's lines of output that begin so."""
    return "".join(re.findall(rf"^(?:{'|'.join(beginnings)}): .*\n", page(PAGE), re.MULTILINE))


@asynccontextmanager
async def served(folder: Path, *more: str) -> AsyncIterator[ServedGateway]:
    """Run the page's container and gateway, and write its programs.

    Args:
        folder: for files.
        more: words for the container's command.
    """
    words = shlex.split(command("partway-container serve"))
    gateway = shlex.split(command("partway serve"))
    assert gateway[2:] == ["--endpoint", f"voice={CONTAINER}"]
    port = free_port()
    program = Path(sys.executable).with_name(words[0])
    async with AsyncExitStack() as stack:
        container = running(sys.executable, program, port, *words[1:], "--port", str(port), *more)
        await stack.enter_async_context(container)
        endpoint = ("--endpoint", f"voice=http://127.0.0.1:{port}")
        running_gateway = ServedGateway.start(folder, "", None, *endpoint)
        served = await stack.enter_async_context(running_gateway)
        write_programs(folder, served.http)
        yield served


def write_programs(folder: Path, url: str) -> None:
    """Write the page's programs, for a gateway at a URL."""
    programs = blocks(PAGE, "python")
    for name, text in zip(("talk.py", "interrupt.py"), programs, strict=True):
        assert f"This is `{name}`" in page(PAGE)
        (folder / name).write_text(text.replace(SHOWN, url), "utf-8")


async def end_of(folder: Path, *words: str) -> Ended:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return await ended(*words, environment=environment, directory=folder)


async def output_of(folder: Path, *words: str) -> str:
    done = await end_of(folder, *words)
    assert done.status == 0, done.errors
    return done.output


async def test_the_steps(python: str, tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        await output_of(tmp_path, "sh", "-c", command("curl").replace(SHOWN, gateway.http))
        assert await output_of(tmp_path, python, "talk.py") == shown("user", "assistant")
        with wave.open(str(tmp_path / "answer.wav")) as answer:
            assert answer.getnframes() / answer.getframerate() > 1
        kept, *statuses = (await output_of(tmp_path, python, "interrupt.py")).splitlines()
    assert statuses == shown("response").splitlines()
    said = shown("assistant").strip().removeprefix("assistant: ")
    assert said.startswith(kept.removeprefix("kept: "))
    # On a busy machine the interruption is late, and more words are kept.
    assert kept.startswith(shown("kept").strip())


@dataclass(frozen=True)
class Fault:
    """A question that cannot be answered, and the words of ``talk.py`` about it."""

    told: str
    rate: int = 16_000
    channels: int = 1
    width: int = 2
    peak: int = 8_000

    def write(self, path: Path) -> None:
        """Write a question: a second of a square wave, after a tenth of silence."""
        period = [value.to_bytes(2, "little", signed=True) for value in (0, self.peak)]
        tone = b"".join(each * 40 for each in period)
        with wave.open(str(path), "wb") as question:
            question.setparams((self.channels, self.width, self.rate, 0, "NONE", ""))
            question.writeframes(bytes(self.rate // 10 * 2) + tone * (self.rate // 80))


async def test_each_fault_is_told(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = "it must be a whole number from 8000 to 48000"
    faults = (
        Fault("question.wav must be mono with 16 bits", channels=2),
        Fault("question.wav must be mono with 16 bits", width=1),
        Fault(rates, rate=4_000),
        Fault(rates, rate=96_000),
        Fault("error: no words were heard in question.wav", peak=-8_000),
        Fault("failed: "),
    )
    monkeypatch.setenv("PARTWAY_CHAT_UPSTREAM", f"http://127.0.0.1:{free_port()}")  # of no server
    # Sound below zero is speech by its energy, but the stub hears no words in it.
    async with served(tmp_path, "--set", "answers=chat", "--set", "turns=energy"):
        for fault in faults:
            fault.write(tmp_path / "question.wav")
            await fails(tmp_path, fault, python, "talk.py")
        await fails(tmp_path, faults[-1], python, "interrupt.py")


async def fails(folder: Path, fault: Fault, *words: str) -> None:
    """Check that a program ends at once, by one line about the fault."""
    done = await end_of(folder, *words)
    assert done.status == 1, (fault, done)
    (line,) = done.errors.splitlines()
    assert fault.told in line


async def test_real_answers(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tmp_path / "engine.py"
    port = free_port()
    settings = exported(command("export PARTWAY_VOICE_ANSWERS=chat"))
    assert settings.pop("PARTWAY_VOICE_ANSWERS") == "chat"
    for name, value in settings.items():
        monkeypatch.setenv(name, value.replace("8000", str(port)))
    engine.write_text(blocks("tutorial/chat.md", "python")[0].replace("8000", str(port)), "utf-8")
    async with (
        running(python, engine, port),
        served(tmp_path, "--set", "answers=chat") as gateway,
    ):
        await output_of(tmp_path, "sh", "-c", command("curl").replace(SHOWN, gateway.http))
        *_, answer = (await output_of(tmp_path, python, "talk.py")).splitlines()
    assert answer == "assistant: Turn 1: you said one two three four"


def test_the_microphone_and_a_program(python: str, tmp_path: Path) -> None:
    stubs = exported(command("export PARTWAY_VOICE_HEARS=stub"))
    *_, line = command("export PARTWAY_VOICE_HEARS=stub").splitlines()
    program, dev, *words = shlex.split(line)
    assert (program, dev) == ("partway", "dev")
    with developing(tmp_path, words, stubs) as url, urlopen(f"{url}voice") as found:
        assert found.status == 200
        assert f"{SHOWN}/voice" in page(PAGE)
        write_programs(tmp_path, url.rstrip("/"))
        Fault("").write(tmp_path / "question.wav")
        done = subprocess.run(
            [python, "talk.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
    assert done.stdout.startswith("user: one two"), done
    assert "assistant: You said: one two" in done.stdout


def test_real_engines_have_names_that_are_read(tmp_path: Path) -> None:
    found = {}
    for block in blocks(PAGE, "sh"):
        found |= exported(block)
    settings = VoiceSettings.from_environment(found)
    for name in ("hears", "answers", "speaks"):
        read_name(name, getattr(settings, name), tmp_path)
