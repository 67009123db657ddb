"""The path of a part: each of our modules that holds its bytes, as the architecture page says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from tests.conftest import ROOT
from tests.frame_factory import BINARY, frame
from tests.wire.event_messages import part_event
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import bidirectional_request
from tests.wire.peers import RunningGateway

PAGE = ROOT / "docs" / "discussion" / "architecture.md"
OURS = ("gateway", "protocol")
#: Longer than any head, so that its length tells it from all other bytes.
PAYLOAD = bytes(640)

#: The most modules that a part may pass on its way to the container.
MOST_TO_CONTAINER = 8


class Path:
    """The modules that run while a connection's ``data_received`` takes in a read.

    Attributes:
        modules: those that hold the payload, in the order in which each first does. A module holds
            it where a function of its own is given it or returns it.
        beside: the others.
    """

    def __init__(self) -> None:
        self.modules: list[str] = []
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
        if not self._depth and (name is None or python.f_code.co_name != "data_received"):
            return
        self._depth += 1 if event == "call" else -1
        if name is None:
            return
        self._called.add(name)
        values = python.f_locals.values() if event == "call" else (value,)
        if name not in self.modules and any(holds(each) for each in values):
            self.modules.append(name)


def holds(value: object) -> bool:
    """Whether a value is as long as the payload, as nothing else is, or has such an item.

    Masks change a payload's bytes, and never its length.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return len(value) >= len(PAYLOAD)
    return isinstance(value, tuple | list) and any(holds(each) for each in value)


def module_of(file: str) -> str | None:
    """Of a source of ours its path in the repository, as the page names it."""
    for folder in OURS:
        _, found, rest = file.rpartition(f"/partway/{folder}/")
        if found:
            return f"{folder}/{rest}"
    return None


@contextmanager
def watched() -> Iterator[Path]:
    """The path of a part that comes meanwhile."""
    path = Path()
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
