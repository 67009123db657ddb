"""The page of partway dev in a real Chromium. Run by ``make browser``."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
import websockets.sync.client

from tests.interop.browser_check import chromium

__all__ = ["chromium"]

#: Nothing here takes this long, in seconds.
PATIENCE = 20

MODEL = """
from partway.container import Model, ModelError, Stream


class Chat(Model):
    async def stream(self, stream: Stream) -> None:
        async for message in stream.messages():
            if message == "fail":
                raise ModelError("as <b>asked</b>", code=4242)
            if isinstance(message, bytes):
                await stream.send(message[:4])
                continue
            async with stream.message(text=True) as out:
                await out.send("you said: ")
                await out.send(message)
"""


@contextmanager
def developing(
    project: Path, words: Sequence[str], environment: Mapping[str, str]
) -> Iterator[str]:
    """Run ``partway dev`` in a folder; yield the URL of its page.

    Args:
        words: the model, and options.
        environment: further variables.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "partway.gateway.cli.main", "dev", *words, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=project,
        env=os.environ | environment,
    )
    assert process.stdout is not None
    try:
        shown = list(itertools.takewhile(lambda line: line != "ready\n", process.stdout))
        yield shown[0].split()[1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of a ``partway dev`` with that model; gives its URL."""
    project = tmp_path_factory.mktemp("project")
    (project / "model.py").write_text(MODEL)
    with developing(project, ["model:Chat"], {}) as url:
        yield url


class Tab:
    """One tab, by its DevTools; a page's complaints on its console are kept.

    Args:
        socket: to its DevTools.
    """

    def __init__(self, socket: websockets.sync.client.ClientConnection) -> None:
        self.complaints: list[Any] = []
        self._socket = socket
        self._ids = itertools.count(1)
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> Any:
        """One question to the browser, and its answer."""
        id = next(self._ids)
        self._socket.send(json.dumps({"id": id, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE))
            if message.get("id") == id:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def run(self, script: str) -> Any:
        """What an expression of the page comes to."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression of the page is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < deadline, (script, self.run("document.body.innerText"))

    def click(self, id: str) -> None:
        self.run(f"document.getElementById({id!r}).click()")

    def fill(self, id: str, value: str) -> None:
        self.run(f"document.getElementById({id!r}).value = {json.dumps(value)}")

    def rows(self) -> list[list[str]]:
        """The table of parts, without times."""
        return self.run(
            "[...document.querySelectorAll('#parts tr')]"
            ".map((row) => [...row.cells].slice(1).map((cell) => cell.textContent))"
        )

    def _note(self, message: dict[str, Any]) -> None:
        match message:
            case {"method": "Runtime.exceptionThrown", "params": params}:
                self.complaints.append(params)
            case {"method": "Runtime.consoleAPICalled", "params": {"type": "error"} as params}:
                self.complaints.append(params)
            case {"method": "Log.entryAdded", "params": {"entry": {"level": "error"} as entry}}:
                self.complaints.append(entry)


@contextmanager
def opened(chromium: str, page: str, ready: str) -> Iterator[Tab]:
    """Open a page in a tab of its own; an expression is true once it is ready."""
    request = Request(f"http://{chromium}/json/new?{quote('about:blank')}", method="PUT")
    with urlopen(request, timeout=PATIENCE) as response:
        address = json.load(response)["webSocketDebuggerUrl"]
    with websockets.sync.client.connect(address, max_size=None) as socket:
        tab = Tab(socket)
        tab.ask("Page.navigate", url=page)
        tab.until(f"document.readyState === 'complete' && {ready}")
        yield tab


@pytest.fixture
def tab(chromium: str, page: str) -> Iterator[Tab]:
    with opened(chromium, page, "document.querySelector('#send') !== null") as tab:
        yield tab


@pytest.mark.clause("3-1")
def test_a_conversation(tab: Tab) -> None:
    assert tab.run("document.title") == "model:Chat – partway dev"
    tab.fill("text", "Hi 🌍")
    tab.click("send")
    tab.until("document.querySelectorAll('#parts tr').length === 4")
    assert tab.rows() == [
        ["the stream is open"],
        ["↑ sent", "UTF8", "COMPLETE", "7", "Hi 🌍"],
        ["↓ received", "UTF8", "PARTIAL", "10", "you said: "],
        ["↓ received", "UTF8", "COMPLETE", "7", "Hi 🌍"],
    ]
    assert tab.run("document.querySelector('#reply').textContent") == "you said: Hi 🌍"
    tab.click("end")
    tab.until("document.querySelectorAll('#parts tr').length === 6")
    assert tab.rows()[4:] == [["the input has ended"], ["closed with 1000"]]
    assert tab.run("document.querySelector('#end').disabled")
    assert tab.complaints == []


def test_fragments(tab: Tab) -> None:
    tab.fill("as", "fragments")
    tab.fill("text", "two words")
    tab.click("send")
    tab.until("document.querySelectorAll('#parts tr').length === 5")
    assert [row[1:] for row in tab.rows()[1:3]] == [
        ["UTF8", "PARTIAL", "4", "two "],
        ["UTF8", "COMPLETE", "5", "words"],
    ]
    assert tab.run("document.querySelector('#reply').textContent") == "you said: two words"
    assert tab.complaints == []


def test_a_file(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "sound.raw"
    file.write_bytes(bytes(range(256)) * 300)
    tab.fill("as", "fragments")
    root = tab.ask("DOM.getDocument")["root"]["nodeId"]
    chosen = tab.ask("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    tab.ask("DOM.setFileInputFiles", files=[os.fspath(file)], nodeId=chosen)
    tab.click("send-file")
    tab.until("document.querySelectorAll('#parts tr').length === 4")
    assert [row[1:4] for row in tab.rows()[1:]] == [
        ["BINARY", "PARTIAL", "65,536"],
        ["BINARY", "COMPLETE", "11,264"],
        ["BINARY", "COMPLETE", "4"],
    ]
    assert tab.rows()[3][4] == "00 01 02 03"
    assert tab.complaints == []


def test_a_models_error_is_shown_as_text(tab: Tab) -> None:
    tab.fill("text", "fail")
    tab.click("send")
    tab.until("document.querySelectorAll('#parts tr').length === 4")
    assert tab.rows()[2:] == [
        ["ModelStreamError 4242: as <b>asked</b>"],
        ["closed with 4424, by the model"],
    ]
    assert tab.run("document.querySelector('#parts b')") is None
    tab.fill("text", "again")  # a new stream opens by itself
    tab.click("send")
    tab.until("document.querySelector('#reply').textContent === 'you said: again'")
    assert tab.complaints == []


def test_why_no_stream_was_opened(tab: Tab) -> None:
    tab.fill("path", "v1/nothing")
    tab.click("open")
    tab.until("document.querySelectorAll('#parts tr').length === 1")
    ((said,),) = tab.rows()
    assert said.startswith("no stream: 424 ModelError: ")
    assert "the container answered 4" in said
