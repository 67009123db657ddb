"""A transform job; each of its files is transformed, or fails, independently."""

from __future__ import annotations

import asyncio
from collections import deque

from partway.gateway.batch.answer_types import Processing
from partway.gateway.batch.execution_parameters import RequestPlan
from partway.gateway.batch.file_transform import FileFailed, FileTransform, FileWork
from partway.gateway.batch.input_output import InputPlace, OutputPlace, TransformInput
from partway.gateway.batch.limits import FILES_AT_ONCE, FILES_PER_TURN
from partway.gateway.batch.model import ModelGone, TransformModel
from partway.gateway.batch.options import TransformOptions
from partway.gateway.batch.record_requests import Requests
from partway.gateway.batch.results import FileOutcome, FileState, Progress
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import in_turns


class TransformJob:
    """Transforms the files that have no output yet: looks them up first, then asks the model.

    Args:
        processing: filters and joins; None to pass records on unchanged.
    """

    def __init__(
        self,
        options: TransformOptions,
        inputs: InputPlace,
        outputs: OutputPlace,
        clock: Clock,
        processing: Processing | None = None,
    ) -> None:
        self.progress = Progress()
        self._options = options
        self._inputs = inputs
        self._outputs = outputs
        self._clock = clock
        self._processing = processing
        self._left: deque[TransformInput] = deque()

    async def look(self) -> int:
        """Look up the files to transform; a file that has its output already is skipped.

        Returns:
            The number of files to transform.

        Raises:
            StorageFailed: input or output cannot be looked up.
        """
        files = await self._inputs.files()
        present = await self._outputs.present([each.name for each in files])
        self.progress.files = len(files)
        async for each in in_turns(files, FILES_PER_TURN):
            if each.name in present:
                self.progress.over(FileOutcome(each.name, FileState.SKIPPED))
            else:
                self._left.append(each)
                self.progress.bytes += each.size
        return len(self._left)

    async def run(self, model: TransformModel, plan: RequestPlan) -> None:
        """Transform the files; the progress takes the outcome of each."""
        at_once = plan.concurrent * model.instances
        work = FileWork(
            self._options,
            plan,
            self._inputs,
            Requests(model, self._options, self._clock),
            self._processing,
            self.progress,
            at_once,
        )
        workers = min(at_once, FILES_AT_ONCE, len(self._left))
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._some(work))

    async def _some(self, work: FileWork) -> None:
        while self._left:
            file = self._left.popleft()
            self.progress.over(await self._one(file, work))

    async def _one(self, file: TransformInput, work: FileWork) -> FileOutcome:
        transform = FileTransform(file, work)
        try:
            async with self._outputs.output(file.name) as output:
                await transform.into(output)
        except (FileFailed, StorageFailed) as error:
            return FileOutcome(file.name, FileState.FAILED, str(error))
        except ModelGone as error:
            while self._left:
                left = self._left.popleft()
                self.progress.over(FileOutcome(left.name, FileState.NOT_BEGUN, str(error)))
            return FileOutcome(file.name, FileState.FAILED, str(error))
        return FileOutcome(file.name, FileState.DONE, records=transform.records)
