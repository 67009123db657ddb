"""partway.gateway.fleet.output.pipe, on both loops: the test writes in a program's place."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from partway.gateway.fleet.output.pipe import OutputPipe
from tests.gateway.fleet.waiting import Output, eventually, soon


class Reader(Output):
    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.Event()
        self.pipe = OutputPipe(lambda pipe, data: self.take(data), self.ended.set)
        self.pipe.resume_reading()


@pytest.fixture
async def reader(anyio_backend: object, no_leaks: None) -> AsyncIterator[Reader]:
    reader = Reader()
    yield reader
    reader.pipe.close()


async def test_the_last_holder_ends_it(reader):
    second = os.open(f"/dev/fd/{reader.pipe.program_end}", os.O_WRONLY)
    reader.pipe.handed_over()
    os.write(second, b"by path\n")
    assert await reader.first_line() == b"by path"
    assert not reader.ended.is_set()
    os.close(second)
    await soon(reader.ended.wait())


async def test_a_pause_holds_what_comes(reader):
    reader.pipe.pause_reading()
    os.write(reader.pipe.program_end, b"a line\n")
    marker = Reader()
    os.write(marker.pipe.program_end, b"looked\n")
    await marker.first_line()  # the loop has looked at its descriptors meanwhile
    marker.pipe.handed_over()
    marker.pipe.close()
    assert reader.data == b""
    reader.pipe.resume_reading()
    assert await reader.first_line() == b"a line"
    reader.pipe.handed_over()


async def test_closed_it_reads_no_more_and_says_so_once(reader):
    ends = []
    pipe = OutputPipe(lambda *_: pytest.fail("it is closed"), lambda: ends.append(True))
    os.write(pipe.program_end, b"unread")
    pipe.close()
    pipe.close()
    pipe.resume_reading()
    pipe.pause_reading()
    with pytest.raises(BrokenPipeError):
        os.write(pipe.program_end, b"more")
    pipe.handed_over()
    assert ends == [True]
    reader.pipe.handed_over()
    await eventually(reader.ended.is_set)
