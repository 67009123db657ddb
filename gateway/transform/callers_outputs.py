"""Where jobs of the API put their output: below a folder of results, by no link, and each once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from partway.gateway.asynchronous.limits import PUT_BYTES_PER_SECOND
from partway.gateway.storage.places import local_place
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.transform.finished_files import FinishedFiles
from partway.gateway.transform.gathering import GatheredFile, Gathering
from partway.gateway.transform.limits import FILE_TIMEOUT
from partway.gateway.transform.local_storage import FileThreads
from partway.gateway.transform.storage import (
    OutputFile,
    OutputPlace,
    StorageFailed,
    output_name,
)


class CallersLocalOutputs:
    """A folder below a root of results; an output is gathered elsewhere and put there whole.

    Args:
        location: which.
        results: below which it must be.
        threads: by which it is put there.
        gathering: where it is gathered.
    """

    def __init__(
        self, location: str, results: LocalRoots, threads: FileThreads, gathering: Gathering
    ) -> None:
        self._location = location.rstrip("/")
        self._results = results
        self._threads = threads
        self._gathering = gathering

    async def present(self, names: Collection[str]) -> set[str]:
        """None: a job of the API's writes anew what others have written."""
        return set()

    @asynccontextmanager
    async def output(self, name: str) -> AsyncIterator[OutputFile]:
        """One output; see :class:`~.storage.OutputPlace`."""
        async with self._gathering.file() as gathered:
            yield _LocalOutput(
                gathered, f"{self._location}/{output_name(name)}", self._results, self._threads
            )


class _LocalOutput:
    """An output on its way to a folder of results.

    Args:
        gathered: where it is gathered.
        location: where it belongs.
        results: below which that must be.
        threads: by which it is put there.
    """

    def __init__(
        self, gathered: GatheredFile, location: str, results: LocalRoots, threads: FileThreads
    ) -> None:
        self.write = gathered.write
        self.restart = gathered.restart
        self._gathered = gathered
        self._location = location
        self._results = results
        self._threads = threads

    async def finish(self) -> None:
        """Have it appear; see :class:`~.storage.OutputFile`."""
        gathered = self._gathered
        work = partial(local_place.put, self._results, self._location, gathered.blocks())
        seconds = FILE_TIMEOUT + gathered.size / PUT_BYTES_PER_SECOND
        try:
            await self._threads.run(Path(self._location), work, seconds)
        except ValueError as error:
            raise StorageFailed(str(error)) from None


class UnfinishedOutputs:
    """The outputs of a place, of which those that the job has finished before are left alone.

    Args:
        outputs: the place.
        finished: the files of those.
    """

    def __init__(self, outputs: OutputPlace, finished: FinishedFiles) -> None:
        self._outputs = outputs
        self._finished = finished

    async def present(self, names: Collection[str]) -> set[str]:
        """Which outputs the job has finished before."""
        return self._finished.names.intersection(names)

    @asynccontextmanager
    async def output(self, name: str) -> AsyncIterator[OutputFile]:
        """One output; see :class:`~.storage.OutputPlace`."""
        async with self._outputs.output(name) as output:
            yield _Noted(output, partial(self._finished.add, name))


class _Noted:
    """An output whose end is noted.

    Args:
        output: which.
        note: notes that it is finished.
    """

    def __init__(self, output: OutputFile, note: Callable[[], Awaitable[None]]) -> None:
        self.write = output.write
        self.restart = output.restart
        self._output = output
        self._note = note

    async def finish(self) -> None:
        """Have it appear; see :class:`~.storage.OutputFile`."""
        await self._output.finish()
        await self._note()
