"""Jobs of a folder's files, and models that do what a test says."""

from __future__ import annotations

import gzip
import inspect
import struct
from contextlib import aclosing

import google_crc32c
from multidict import CIMultiDict

from partway.gateway.batch.command_locations import places
from partway.gateway.batch.execution_parameters import settled
from partway.gateway.batch.job import TransformJob
from partway.gateway.batch.options import TransformOptions
from partway.gateway.batch.results import FileState, Progress
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.timing.clock import LoopClock


class SaidModel:
    """Answers each request by a function of its body, which may be a coroutine's; by itself echo.

    Attributes:
        asked: bodies, in the order in which they came.
        chunked: whether each came in chunks.
        at_once: how many were asked at a time, at most.
        waits: called by whoever finds nobody there.
        progress: of the job that asks it.
    """

    progress: Progress

    def __init__(self, answer=lambda body: body, said=b"", instances=1, headers=()):
        self.instances = instances
        self.asked, self.chunked = [], []
        self.at_once = self._under_way = 0
        self._answer, self._said, self._headers = answer, said, headers

    async def parameters(self):
        return self._said

    async def there(self):
        raise AssertionError("nobody waits")

    async def ask(self, body, take):
        self.chunked.append(not isinstance(body, bytes))
        if not isinstance(body, bytes):
            async with aclosing(body()) as pieces:
                body = b"".join([piece async for piece in pieces])
        self.asked.append(body)
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        try:
            answer = self._answer(body)
            if inspect.isawaitable(answer):
                answer = await answer
            return await take(Answered(answer, self._headers))
        finally:
            self._under_way -= 1


class Answered:
    """An answer that comes in pieces; an exception among them is raised in its place."""

    def __init__(self, answer, headers=()):
        self._head = AnswerHead(200, CIMultiDict(headers), None, chunked=True, keeps=True)
        if isinstance(answer, bytes):
            answer = [answer[:3], answer[3:]] if len(answer) > 3 else [answer]
        self._pieces = [each for each in answer if each]

    async def head(self):
        return self._head

    async def read(self):
        piece = self._pieces.pop(0) if self._pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece


class Transformed:
    """What has become of a job."""

    def __init__(self, folder, job, model):
        self.folder, self.progress, self.model = folder, job.progress, model

    @property
    def outputs(self):
        """All files in the folder of the output, hidden ones too."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    def state(self, name):
        (found,) = [each for each in self.progress.outcomes if each.name == name]
        return found.state

    def reason(self, name):
        (found,) = [each for each in self.progress.outcomes if each.name == name]
        assert found.state is FileState.FAILED
        return found.reason


async def transformed(folder, files, model=None, processing=None, clock=None, **given):
    """Transform files, by their names, from ``folder/in`` to ``folder/out``."""
    for name, data in files.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    options, clock = TransformOptions(**given), clock or LoopClock()
    model = model or SaidModel()
    source, target = str(folder / "in"), str(folder / "out")
    inputs, outputs = places(source, target, "", clock, manifest=False)
    job = TransformJob(options, inputs, outputs, clock, processing)
    model.progress = job.progress
    if await job.look():
        await job.run(model, settled(options, await model.parameters()))
    return Transformed(folder / "out", job, model)


def tf_frame(payload: bytes) -> bytes:
    def masked(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def packed(data: bytes) -> bytes:
    """Packed by gzip, as two members."""
    half = len(data) // 2
    return gzip.compress(data[:half], mtime=0) + gzip.compress(data[half:], mtime=0)
