"""The page with a microphone in a real Chromium, which hears a file. Run by ``make browser``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.browser_check import running_chromium
from tests.interop.dev_page_check import Tab, developing, opened
from tests.interop.voice_clients.sound import sound, write_wav

RATE = 48_000

STUBS = {f"PARTWAY_VOICE_{engine}": "stub" for engine in ("HEARS", "SPEAKS", "ANSWERS", "TURNS")}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of a ``partway dev voice`` on engines that answer at once; gives its URL."""
    with developing(tmp_path_factory.mktemp("project"), ["voice"], STUBS) as url:
        yield f"{url}voice"


def talking(seconds: list[float], file: Path) -> list[str]:
    """Return flags for a microphone that hears a file again and again.

    Args:
        seconds: of silence, a tone, silence, a tone and so on.
        file: where it is written.
    """
    write_wav(file, RATE, sound(RATE, 0, *seconds))
    return [
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={file}",
        "--autoplay-policy=no-user-gesture-required",
    ]


def microphone(page: str, directory: Path, seconds: list[float]) -> Iterator[Tab]:
    flags = talking(seconds, directory / "microphone.wav")
    with (
        running_chromium(directory, *flags) as devtools,
        opened(devtools, page, "document.querySelector('#talk') !== null") as tab,
    ):
        yield tab


@pytest.fixture
def tab(page: str, tmp_path: Path) -> Iterator[Tab]:
    """A user who says something, and goes on before the answer is over."""
    yield from microphone(page, tmp_path, [0.5, 1.2, 0.9, 1.2, 3.0])


@pytest.fixture
def patient(page: str, tmp_path: Path) -> Iterator[Tab]:
    """A user who waits for the answer's end."""
    yield from microphone(page, tmp_path, [0.5, 1.2, 8.0])


def captions(tab: Tab, who: str) -> list[str]:
    return tab.run(
        f"[...document.querySelectorAll('#captions .{who}')].map((line) => line.textContent)"
    )


def said(who: str, pattern: str) -> str:
    """Return an expression: whether a caption matches."""
    lines = f"[...document.querySelectorAll('#captions .{who}')]"
    return f"{lines}.some((line) => /{pattern}/.test(line.textContent))"


def test_a_conversation(patient: Tab) -> None:
    tab = patient
    assert tab.run("document.title") == "Talk to voice – partway dev"
    tab.click("talk")
    tab.until(said("user", "^Youone two three$"))
    tab.until(said("assistant", "one two three"))
    tab.until("!document.querySelector('#interrupt').disabled")
    tab.until("document.querySelector('#state').textContent === 'Listening.'")
    tab.click("stop")
    tab.until("document.querySelector('#state').textContent === 'The microphone is off.'")
    assert not any("interrupted" in text for text in captions(tab, "assistant"))
    assert captions(tab, "failed") == []
    assert tab.complaints == []


def test_an_answer_is_interrupted_by_speaking(tab: Tab) -> None:
    tab.click("talk")
    tab.until(said("assistant", "interrupted"))
    tab.until("document.querySelectorAll('#captions .user').length > 1")
    assert captions(tab, "failed") == []
    assert tab.complaints == []


def test_an_answer_is_interrupted_by_the_button(patient: Tab) -> None:
    tab = patient
    tab.click("talk")
    tab.until("!document.querySelector('#interrupt').disabled")
    tab.click("interrupt")
    tab.until(said("assistant", "^Answer, interrupted"))
    assert tab.complaints == []
