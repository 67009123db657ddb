"""The tutorial "A voice assistant" as it is printed, on free ports, with engines that are stubs.

Run by ``make interop-openai OPENAI_PYTHON=…``. ``make test-voice`` checks real engines; here their
settings are only read.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import wave
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from partway.container.models.voice.engine_names import read_name
from partway.container.models.voice.settings import VoiceSettings
from tests.interop.aws_sdk import ServedGateway
from tests.interop.dev_page_check import developing
from tests.interop.served_api import SHOWN, blocks, ended, free_port, interpreter, running
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
        programs = blocks(PAGE, "python")
        for name, text in zip(("talk.py", "interrupt.py"), programs, strict=True):
            assert f"This is `{name}`" in page(PAGE)
            (folder / name).write_text(text.replace(SHOWN, served.http), "utf-8")
        yield served


async def output_of(folder: Path, *words: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = await ended(*words, environment=environment, directory=folder)
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
    assert kept.startswith("kept: You")


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


def test_the_microphone(tmp_path: Path) -> None:
    stubs = exported(command("export PARTWAY_VOICE_HEARS=stub"))
    with developing(tmp_path, "voice", stubs) as url, urlopen(f"{url}voice") as found:
        assert found.status == 200
        assert f"{SHOWN}/voice" in page(PAGE)


def test_real_engines_have_names_that_are_read(tmp_path: Path) -> None:
    found = {}
    for block in blocks(PAGE, "sh"):
        found |= exported(block)
    settings = VoiceSettings.from_environment(found)
    for name in ("hears", "answers", "speaks"):
        read_name(name, getattr(settings, name), tmp_path)
