"""A job's outputs: gathered on this machine, and published whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial

from partway.gateway.batch.finished_files import FinishedFiles
from partway.gateway.batch.input_output import OutputFile, OutputPlace, output_name
from partway.gateway.batch.limits import MAX_FILES
from partway.gateway.batch.output_spool import GatheredFile, Gathering
from partway.gateway.storage.places.place import FilePlace


class GatheredOutputs:
    """A folder of a place; each output is gathered elsewhere and stored there whole.

    Args:
        key: the folder's key, with or without ``/`` at the end.
        content_type: the type of the output; empty if unknown.
    """

    def __init__(self, place: FilePlace, key: str, content_type: str, gathering: Gathering) -> None:
        self._place = place
        self._prefix = f"{key.rstrip('/')}/" if key.rstrip("/") else ""
        self._content_type = content_type
        self._gathering = gathering

    async def present(self, names: Collection[str]) -> set[str]:
        # The folder may hold outputs of other inputs too.
        listing = await self._place.listing(self._prefix, 2 * MAX_FILES)
        there = {each.name for each in listing}
        return {name for name in names if output_name(name) in there}

    @asynccontextmanager
    async def output(self, name: str) -> AsyncIterator[OutputFile]:
        async with self._gathering.file() as gathered:
            key = self._prefix + output_name(name)
            yield _GatheredOutput(self._place, key, self._content_type, gathered)


class _GatheredOutput:
    def __init__(
        self, place: FilePlace, key: str, content_type: str, gathered: GatheredFile
    ) -> None:
        self.write = gathered.write
        self.restart = gathered.restart
        self._place = place
        self._key = key
        self._content_type = content_type
        self._gathered = gathered

    async def finish(self) -> None:
        size = self._gathered.size
        content = self._gathered.whole() if size else b""
        await self._place.put(self._key, content, size, self._content_type)


class UnfinishedOutputs:
    """The outputs of a place, where outputs that the job has finished earlier are left alone."""

    def __init__(self, outputs: OutputPlace, finished: FinishedFiles) -> None:
        self._outputs = outputs
        self._finished = finished

    async def present(self, names: Collection[str]) -> set[str]:
        return self._finished.names.intersection(names)

    @asynccontextmanager
    async def output(self, name: str) -> AsyncIterator[OutputFile]:
        async with self._outputs.output(name) as output:
            yield _Noted(output, partial(self._finished.add, name))


class _Noted:
    def __init__(self, output: OutputFile, note: Callable[[], Awaitable[None]]) -> None:
        self.write = output.write
        self.restart = output.restart
        self._output = output
        self._note = note

    async def finish(self) -> None:
        await self._output.finish()
        await self._note()
