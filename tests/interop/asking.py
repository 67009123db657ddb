"""Clients that ask, end their input, and read until the end, as the README does.

One question is a :class:`Case`, what came of it an :class:`Outcome`. What is measured is the time
from the arrival of the last part to the clean end, in the client.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import quote
from urllib.request import Request, urlopen

import websockets.sync.client

from partway import ClientStream, connect
from tests.interop.answering import Question
from tests.interop.aws_sdk import ROOT, SdkClient, SdkStream

#: No answer's next part, nor its end, takes this long, in seconds: the longest silence is 20.
PATIENCE = 50.0

#: No round of a browser's questions takes this long: the longest answer is over after 60 s.
ROUND = 120.0

#: Streams that one client opens at a time at one container: a listener's backlog is 100 at some.
OPENING_AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One question to one container.

    Attributes:
        container: its endpoint's name.
        question: what it is asked.
        ends_after: how many parts have come when the client ends its input.
    """

    container: str
    question: Question
    ends_after: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client was told.

    Attributes:
        case: what it had asked.
        parts: what it got.
        end: seconds from the last part to the end.
        error: how the stream ended; empty for a clean end.
    """

    case: Case
    parts: list[str]
    end: float
    error: str = ""

    @property
    def whole(self) -> bool:
        """Whether that was the answer, all of it, and a clean end."""
        return self.parts == self.case.question.answer() and not self.error


class Talk(Protocol):
    async def say(self, text: str) -> None: ...

    async def end_input(self) -> None:
        """Send no more."""

    async def hear(self) -> str | None:
        """The next part, or None at the clean end."""


Opener = Callable[[str], AbstractAsyncContextManager[Talk]]


async def ask_all(opener: Opener, cases: Sequence[Case]) -> list[Outcome]:
    """Ask all at once.

    Args:
        opener: opens a stream to the container of a name.
        cases: the questions.
    """
    opening = {case.container: asyncio.Semaphore(OPENING_AT_ONCE) for case in cases}
    return await asyncio.gather(*(_ask(opener, case, opening[case.container]) for case in cases))


async def _ask(opener: Opener, case: Case, opening: asyncio.Semaphore) -> Outcome:
    parts: list[str] = []
    last = time.monotonic()
    try:
        async with AsyncExitStack() as leaving:
            async with opening:
                talk = await leaving.enter_async_context(opener(case.container))
            await talk.say(case.question.text())
            if case.ends_after == 0:
                await talk.end_input()
            while (part := await asyncio.wait_for(talk.hear(), PATIENCE)) is not None:
                last = time.monotonic()
                parts.append(part)
                if len(parts) == case.ends_after:
                    await talk.end_input()
            ended = time.monotonic()
    except Exception as error:  # whatever it is, it is the outcome
        return Outcome(case, parts, time.monotonic() - last, f"{type(error).__name__}: {error}")
    return Outcome(case, parts, ended - last)


# --- The Python client ---------------------------------------------------------------------------


class ClientTalk:
    def __init__(self, stream: ClientStream) -> None:
        self._stream = stream
        self.say = stream.send_text
        self.end_input = stream.end_input

    async def hear(self) -> str | None:
        part = await self._stream.receive()
        return None if part is None else part.payload.decode()


def python_client(url: str, transport: Literal["websocket", "http2"]) -> Opener:
    """``partway.connect``, over one of its transports."""

    @asynccontextmanager
    async def opener(container: str) -> AsyncIterator[Talk]:
        async with connect(url, container, transport=transport) as stream:
            yield ClientTalk(stream)

    return opener


# --- AWS's SDK for Python ------------------------------------------------------------------------


class SdkTalk:
    """A stream of AWS's SDK."""

    def __init__(self, stream: SdkStream) -> None:
        self._stream = stream

    async def say(self, text: str) -> None:
        await self._stream.send(text.encode(), "UTF8", "COMPLETE")

    async def end_input(self) -> None:
        await self._stream.end_input(PATIENCE)

    async def hear(self) -> str | None:
        part = await self._stream.receive(PATIENCE)
        return None if part is None else part.payload.decode()


def aws_sdk(client: SdkClient) -> Opener:
    """One of the SDK's clients; its streams share its connections."""

    @asynccontextmanager
    async def opener(container: str) -> AsyncIterator[Talk]:
        stream = await client.begin(container)
        await stream.head(PATIENCE)
        yield SdkTalk(stream)
        await stream.close(PATIENCE)

    return opener


# --- partway invoke ------------------------------------------------------------------------------


class InvokeTalk:
    """A ``partway invoke``: a line of its standard input is a message."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout
        self._errors = process.stderr

    async def say(self, text: str) -> None:
        self._input.write(text.encode() + b"\n")
        await self._input.drain()

    async def end_input(self) -> None:
        self._input.close()

    async def hear(self) -> str | None:
        if line := await self._output.readline():
            return line.decode().removesuffix("\n")
        said = (await self._errors.read()).decode()
        if status := await self._process.wait():
            raise ChildProcessError(f"status {status}: {said}")
        return None


def invoke(url: str) -> Opener:
    """The command, a process for each stream."""

    @asynccontextmanager
    async def opener(container: str) -> AsyncIterator[Talk]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "partway.gateway.cli.main", "invoke", container, "--gateway", url),
            stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=ROOT,
        )  # fmt: skip
        try:
            yield InvokeTalk(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    return opener


# --- A browser -----------------------------------------------------------------------------------

#: Asks all at once, as docs/examples/browser.html asks one.
_ASK = """
((gateway, cases) => {
  const ask = ([container, question, endsAfter]) => new Promise((resolve) => {
    const path = `/endpoints/${container}/invocations-bidirectional-stream`;
    const stream = new WebSocket(gateway + path, "payloadpart.v1.json");
    const parts = [], errors = [];
    let last = performance.now();
    const send = (event) => stream.send(JSON.stringify(event));
    const end = () => send({ InputEnd: {} });
    stream.onopen = () => {
      const part = { Bytes: btoa(question), DataType: "UTF8", CompletionState: "COMPLETE" };
      send({ PayloadPart: part });
      if (endsAfter === 0) end();
    };
    stream.onmessage = ({ data }) => {
      const part = JSON.parse(data).PayloadPart;
      if (!part) return errors.push(data);
      last = performance.now();
      if (parts.push(atob(part.Bytes)) === endsAfter) end();
    };
    stream.onclose = ({ code, reason }) => {
      if (code !== 1000) errors.push(`closed ${code} ${reason}`);
      resolve([parts, (performance.now() - last) / 1000, errors.join(" ")]);
    };
  });
  return Promise.all(cases.map(ask));
})
"""


def ask_in_browser(devtools: str, page: str, gateway: str, cases: Sequence[Case]) -> list[Outcome]:
    """Ask all at once, from one page.

    Args:
        devtools: the browser's address for its developers' tools.
        page: what to open; its origin is allowed at the gateway.
        gateway: the gateway's URL.
        cases: the questions.
    """
    request = Request(f"http://{devtools}/json/new?{quote(page, safe='')}", method="PUT")
    with urlopen(request, timeout=20) as response:
        tab = json.load(response)["webSocketDebuggerUrl"]
    with websockets.sync.client.connect(tab, max_size=None, ping_interval=None) as socket:
        give_up = time.monotonic() + 20
        while _evaluate(socket, "document.readyState + location.href", 20) != f"complete{page}":
            assert time.monotonic() < give_up, f"{page} was not opened in 20 s"
        asked = [(case.container, case.question.text(), case.ends_after) for case in cases]
        arguments = f"({json.dumps(gateway.replace('http', 'ws', 1))}, {json.dumps(asked)})"
        told = _evaluate(socket, _ASK.strip() + arguments, ROUND)
    return [Outcome(case, *outcome) for case, outcome in zip(cases, told, strict=True)]


def _evaluate(socket: websockets.sync.client.ClientConnection, code: str, patience: float) -> Any:
    """The value of an expression in the page; None where the page was just replaced."""
    asked = {"expression": code, "awaitPromise": True, "returnByValue": True}
    socket.send(json.dumps({"id": 1, "method": "Runtime.evaluate", "params": asked}))
    return (
        json.loads(socket.recv(timeout=patience)).get("result", {}).get("result", {}).get("value")
    )
