"""The transformation of one file: read, split, asked in requests, and assembled in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

from partway.gateway.batch.answer_types import Processing
from partway.gateway.batch.execution_parameters import RequestPlan
from partway.gateway.batch.input_output import InputPlace, OutputFile, TransformInput
from partway.gateway.batch.limits import UNLIMITED_RECORD_BYTES, WRITE_BYTES
from partway.gateway.batch.memory_window import Window, WindowPlace
from partway.gateway.batch.model import AskFailed, ModelAnswer, ModelGone, RequestBody
from partway.gateway.batch.options import TransformOptions
from partway.gateway.batch.record_requests import Requests, check_uncoded
from partway.gateway.batch.results import Progress
from partway.gateway.batch.unpacking import unpacked
from partway.gateway.storage.places.place import StorageFailed
from partway.protocol.formats.faults import MediaFault
from partway.protocol.records import RecordBatch, assembled, splitter

#: A body in flight, in the order of the file: its answer, and its place in the memory window.
_Asked: TypeAlias = tuple["asyncio.Task[bytes]", WindowPlace, int]


class FileFailed(Exception):
    """A file has no output; the message gives the reason, the record and the container's words."""


class FileWork:
    """The objects that a job's files share.

    Args:
        processing: filters and joins; None to pass records on unchanged.
        at_once: the number of requests at a time, over all instances.
    """

    def __init__(
        self,
        options: TransformOptions,
        plan: RequestPlan,
        inputs: InputPlace,
        requests: Requests,
        processing: Processing | None,
        progress: Progress,
        at_once: int,
    ) -> None:
        self.options = options
        self.plan = plan
        self.inputs = inputs
        self.requests = requests
        self.processing = processing
        self.progress = progress
        self.window = Window(at_once)
        self.turns = asyncio.Semaphore(at_once)

    @property
    def streams(self) -> bool:
        """Whether a file is one request whose body is streamed."""
        several = self.options.split_type == "None" or self.plan.strategy == "MultiRecord"
        return self.plan.unlimited and several and self.processing is None


class FileTransform:
    def __init__(self, file: TransformInput, work: FileWork) -> None:
        self.records = 0  # in the output
        self._file = file
        self._work = work
        self._split = work.options.split_type
        self._assemble = work.options.assemble_with
        self._read = 0  # bytes, as stored
        self._unpacked = 0  # bytes after decompression
        self._answered = 0  # decompressed bytes whose records are answered
        self._sent = False
        self._counted_records = 0  # in the progress
        self._counted_bytes = 0  # in the progress, as stored bytes

    async def into(self, output: OutputFile) -> None:
        """Write the whole output and publish it.

        Raises:
            FileFailed: the file has no output.
            ModelGone: the model is gone.
        """
        progress, whole = self._work.progress, False
        try:
            if self._work.streams:
                await self._streamed(output)
            else:
                await self._cut(output)
            await output.finish()
            whole = True
        except (StorageFailed, MediaFault) as error:
            raise FileFailed(str(error)) from error
        finally:
            self._count_bytes(self._file.size)
            if not whole:
                progress.records -= self._counted_records

    # --- Bodies of whole records ------------------------------------------------------------------

    async def _cut(self, output: OutputFile) -> None:
        asked: asyncio.Queue[_Asked | None] = asyncio.Queue()
        places: set[WindowPlace] = set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._written(output, asked, places))
                async with aclosing(self._batches()) as batches:
                    async for batch in batches:
                        place = await self._work.window.take(len(batch.data))
                        places.add(place)
                        records = batch.records
                        task = group.create_task(self._answer(batch, place))
                        asked.put_nowait((task, place, records))
                        del batch  # its task holds the batch as long as it needs it
                asked.put_nowait(None)
        except BaseExceptionGroup as failed:
            raise _first(failed) from None
        finally:
            for place in places:
                place.free()

    async def _batches(self) -> AsyncGenerator[RecordBatch, None]:
        plan = self._work.plan
        cutting = splitter(self._split, plan.most_bytes, plan.strategy)
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                self._unpacked += len(piece)
                for batch in cutting.feed(piece):
                    yield batch
        for batch in cutting.finish():
            yield batch

    async def _answer(self, batch: RecordBatch, place: WindowPlace) -> bytes:
        """Return one body's answer, in the format of the output."""
        work = self._work
        async with work.turns:
            try:
                if work.processing is None:
                    answer = (await work.requests.whole(self._body(batch.data))).body
                else:
                    body = await asyncio.to_thread(work.processing.asked, batch)
                    whole = await work.requests.whole(self._body(body))
                    answer = await asyncio.to_thread(work.processing.answered, batch, whole)
            except AskFailed as error:
                raise FileFailed(f"{batch.place(self._split)}: {error}") from None
        self._answered += len(batch.data)
        self._count_records(batch.records)
        self._count_bytes(self._read * self._answered // max(1, self._unpacked))
        answer = assembled(answer, self._assemble)
        place.holds(len(answer))
        return answer

    async def _written(
        self,
        output: OutputFile,
        asked: asyncio.Queue[_Asked | None],
        places: set[WindowPlace],
    ) -> None:
        """Write answers in the order of the file; small answers are written together."""
        held = bytearray()
        while (one := await asked.get()) is not None:
            task, place, records = one
            answer = await task
            del one, task
            if len(answer) < WRITE_BYTES:
                held += answer
            else:
                if held:
                    await output.write(bytes(held))
                    held.clear()
                await output.write(answer)
            del answer
            place.free()
            places.discard(place)
            self.records += records
            if len(held) >= WRITE_BYTES:
                await output.write(bytes(held))
                held.clear()
        if held:
            await output.write(bytes(held))

    def _body(self, data: bytes) -> RequestBody:
        """Return the body of whole records; it is chunked where bodies have no limit."""
        return (lambda: _one_piece(data)) if self._work.plan.unlimited else data

    def _count_records(self, answered: int) -> None:
        self._work.progress.records += answered
        self._counted_records += answered

    def _count_bytes(self, done: int) -> None:
        """Add the answered bytes to the progress, as stored bytes."""
        self._work.progress.bytes_done += done - self._counted_bytes
        self._counted_bytes = done

    # --- One streamed body ------------------------------------------------------------------------

    async def _streamed(self, output: OutputFile) -> None:
        async with aclosing(self._pieces()) as pieces:
            if await anext(pieces, None) is None:
                return  # an empty file needs no request

        async def take(answer: ModelAnswer) -> None:
            check_uncoded(await answer.head())
            await output.restart()
            held, last = bytearray(), b""
            while data := await answer.read():
                held += data  # small chunks are written together
                last = data
                if len(held) >= WRITE_BYTES:
                    await output.write(bytes(held))
                    held.clear()
            if not self._sent:
                raise AskFailed("the container ended its answer before it had read the whole body")
            held += assembled(last, self._assemble)[len(last) :]
            if held:
                await output.write(bytes(held))

        try:
            await self._work.requests.answered(self._as_it_comes, take)
        except AskFailed as error:
            raise FileFailed(f"the whole file: {error}") from None
        self._count_records(self.records)

    async def _as_it_comes(self) -> AsyncGenerator[bytes, None]:
        """Yield the file's bytes, check their frames on the way, and count the records."""
        self.records, self._sent = 0, False
        unframed = self._split in ("None", "Line")
        cutting = splitter(self._split, UNLIMITED_RECORD_BYTES, "MultiRecord")
        last = b""
        async with aclosing(self._pieces()) as pieces:
            async for last in pieces:
                if unframed:
                    self.records += last.count(b"\n")
                    yield last
                    continue
                for batch in (*cutting.feed(last), *cutting.ready()):
                    self.records += batch.records
                    yield batch.data
        for batch in cutting.finish():
            self.records += batch.records
            yield batch.data
        if self._split == "None":
            self.records = 1
        elif unframed and not last.endswith(b"\n"):
            self.records += 1
        self._sent = True

    # --- The file ---------------------------------------------------------------------------------

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._as_it_lies()) as packed:
            if self._work.options.compression_type == "Gzip":
                async with aclosing(unpacked(packed)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            async for piece in packed:
                yield piece

    async def _as_it_lies(self) -> AsyncGenerator[bytes, None]:
        self._read = 0  # a retried request reads the file again
        async with aclosing(self._work.inputs.pieces(self._file)) as pieces:
            async for piece in pieces:
                self._read += len(piece)
                if self._work.streams:
                    self._count_bytes(self._read)  # its only answer comes at the end
                yield piece


async def _one_piece(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


def _first(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group; an unexpected exception comes before all others."""
    found = [
        _first(each) if isinstance(each, BaseExceptionGroup) else each for each in failed.exceptions
    ]
    expected = (FileFailed, StorageFailed, MediaFault, ModelGone)
    return next((each for each in found if not isinstance(each, expected)), found[0])
