"""The paths of a part and of a request: our modules that hold them, as the architecture page says.

A part passes within one turn of the loop, in callbacks. A request is answered by a task.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from types import FrameType

import pytest

from tests.conftest import ROOT
from tests.flow_diagrams import flow_chart, shown_chart
from tests.frame_factory import BINARY, frame
from tests.gateway.containers.containers import ScriptedContainer
from tests.wire.event_messages import part_event
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import bidirectional_request
from tests.wire.peers import ENDPOINT, RunningGateway, soon

PAGE = ROOT / "docs" / "discussion" / "architecture.md"
OURS = ("gateway", "protocol")
#: Longer than any head, so that its length tells it from all other bytes.
PAYLOAD = bytes(640)

#: The same for an answer, and longer than the request that is held meanwhile.
ANSWER = bytes(4 * len(PAYLOAD))

#: The most modules that a part, and a request, may pass on its way to the container.
MOST_TO_CONTAINER = 8
MOST_OF_REQUEST = 10


class Path:
    """The modules that run while a connection's ``data_received`` takes in a read.

    Args:
        least: the length from which on bytes or text are the payload.
        tasks: whether all that runs in tasks and callbacks counts too.

    Attributes:
        modules: those that hold the payload, in the order in which each first does. A module holds
            it where a function of its own is given it or returns it.
        beside: the others.
    """

    def __init__(self, least: int = len(PAYLOAD), *, tasks: bool = False) -> None:
        self.modules: list[str] = []
        self._least = least
        self._tasks = tasks
        self._called: set[str] = set()
        self._depth = 0  # of calls, from data_received on: timers and tasks run too meanwhile

    @property
    def beside(self) -> set[str]:
        return self._called - {*self.modules}

    def profile(self, python: FrameType, event: str, value: object) -> None:
        """Take in a call or a return, as :func:`sys.setprofile` has them."""
        if event not in ("call", "return"):
            return
        name = module_of(python.f_code.co_filename)
        is_read = name is not None and python.f_code.co_name == "data_received"
        if not (self._depth or self._tasks or is_read):
            return
        self._depth += 1 if event == "call" else -1
        if name is None:
            return
        self._called.add(name)
        values = python.f_locals.values() if event == "call" else (value,)
        if name not in self.modules and any(holds(each, self._least) for each in values):
            self.modules.append(name)


def holds(value: object, least: int) -> bool:
    """Whether a value is as long as the payload, as nothing else is, or has such an item.

    Masks change a payload's bytes, and never its length. A head becomes text.
    """
    if isinstance(value, bytes | bytearray | memoryview | str):
        return len(value) >= least
    return isinstance(value, tuple | list) and any(holds(each, least) for each in value)


def module_of(file: str) -> str | None:
    """Of a source of ours its path in the repository, as the page names it."""
    for folder in OURS:
        _, found, rest = file.rpartition(f"/partway/{folder}/")
        if found:
            return f"{folder}/{rest}"
    return None


@contextmanager
def watched(path: Path | None = None) -> Iterator[Path]:
    """The path of what comes meanwhile; of a part, unless it is given."""
    path = path or Path()
    sys.setprofile(path.profile)
    try:
        yield path
    finally:
        sys.setprofile(None)


def listed(heading: str) -> list[str]:
    """The modules that begin the rows of the page's list under a heading, in their order."""
    text = PAGE.read_text("utf-8")
    section = text.partition(f"\n#### {heading}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^(?:\d+\.|-) `([\w/]+\.py)`", section, re.MULTILINE)
    assert rows, f"no list under {heading!r}"
    return rows


@pytest.fixture
async def stream(gateway_for):
    """A stream on which one part has gone each way: what is made at its beginning is made."""
    gateway: RunningGateway = await gateway_for()
    client = await RawHttp2Client.connect(gateway.port)
    client.start_reading()
    gateway.clients.append(client)
    stream = client.request(bidirectional_request())
    model = await gateway.container.stream()
    assert (await stream.head())[0] == 200
    stream.send(part_event(b"first"))
    await model.frame()
    model.send(frame(BINARY, b"first"))
    await stream.event()
    return stream, model


async def test_from_http2_to_a_frame(stream):
    client, model = stream
    with watched() as path:
        client.send(part_event(PAYLOAD))
        assert (await model.frame()).payload == PAYLOAD
    assert path.modules == listed("From HTTP/2 to the container")
    assert path.beside <= {*listed("Beside the path")}
    assert len(path.modules) <= MOST_TO_CONTAINER


async def test_from_a_frame_to_http2(stream):
    client, model = stream
    with watched() as path:
        model.send(frame(BINARY, PAYLOAD))
        assert (await client.event()).payload == PAYLOAD
    assert path.modules == listed("From the container to HTTP/2")
    assert path.beside <= {*listed("Beside the path")}


def boxes(heading: str) -> list[str]:
    """The modules of a list as boxes of a chart: neighbours of one folder have one box."""
    grouped = groupby((path.rpartition("/") for path in listed(heading)), lambda path: path[0])
    return [f"{room}<br>{', '.join(path[2] for path in paths)}" for room, paths in grouped]


def test_the_page_shows_a_parts_path():
    there = ["client", *boxes("From HTTP/2 to the container"), "container"]
    back = ["container", *boxes("From the container to HTTP/2"), "client"]
    made = flow_chart([there, back])
    assert shown_chart(PAGE.read_text("utf-8"), "the lists below") == made


# --- A request -----------------------------------------------------------------------------------

#: Its head is as long as its body, and so is the head that the container gets.
REQUEST = (
    f"POST /endpoints/{ENDPOINT}/invocations HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\n"
    f"X-Amzn-SageMaker-Custom-Attributes: {'a' * len(PAYLOAD)}\r\n"
    f"Content-Length: {len(PAYLOAD)}\r\n\r\n"
).encode() + PAYLOAD


class Asked:
    """A client and a container, each with a connection to the gateway on which a request went."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        self.answers = asyncio.Event()

    async def script(self, call) -> None:
        while True:
            await call.request()
            self.heard.set()
            await self.answers.wait()
            call.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ANSWER), ANSWER)

    async def send(self) -> None:
        """Send a request; returns when the container has it."""
        self.heard.clear()
        self.answers.clear()
        self.client.send(REQUEST)
        await soon(self.heard.wait(), "a request")

    async def answer(self) -> None:
        """Have the container answer; returns when the client has it."""
        self.answers.set()
        assert (await self.client.response()).body == ANSWER


@pytest.fixture
async def asked(gateway_for):
    asked = Asked()
    async with ScriptedContainer(asked.script) as container:
        gateway: RunningGateway = await gateway_for(container_port=container.port)
        asked.client = await gateway.connect()
        await asked.send()
        await asked.answer()
        yield asked


async def test_from_a_client_of_http1_to_the_container(asked):
    with watched(Path(tasks=True)) as path:
        await asked.send()
    assert path.modules == listed("A request's way in")
    assert path.beside <= {*listed("Beside a request's ways")}
    assert len(path.modules) <= MOST_OF_REQUEST
    await asked.answer()


async def test_from_the_container_to_a_client_of_http1(asked):
    await asked.send()
    with watched(Path(len(ANSWER), tasks=True)) as path:
        await asked.answer()
    assert path.modules == listed("A request's way back")
    assert path.beside <= {*listed("Beside a request's ways")}
