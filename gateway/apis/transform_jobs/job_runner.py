"""The runner of the API's transform jobs, which runs stored jobs and records their outcomes."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from partway.gateway.apis.control.limits import MAX_JOBS_UNDER_WAY, STORE_RETRY_INTERVAL
from partway.gateway.apis.control.planner import Planning
from partway.gateway.apis.control.resources import Kind, Resource, Resources
from partway.gateway.apis.transform_jobs.job_records import (
    UNDER_WAY,
    JobStatus,
    TransformRecord,
    options_of,
    plan_of,
)
from partway.gateway.batch.data_processing import DataProcessing, processing_of
from partway.gateway.batch.execution_parameters import settled
from partway.gateway.batch.finished_files import FinishedFiles
from partway.gateway.batch.job import TransformJob
from partway.gateway.batch.job_locations import CallersPlaces
from partway.gateway.batch.launched_instances import FleetModel
from partway.gateway.batch.model import ModelGone
from partway.gateway.batch.options import OptionsError, TransformOptions
from partway.gateway.batch.outputs import UnfinishedOutputs
from partway.gateway.batch.results import Progress
from partway.gateway.fleet.fleet import FleetStopping
from partway.gateway.fleet.instance_context import Means
from partway.gateway.fleet.output.log_names import OF_JOBS
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.limits import SHARE_OF_ONE
from partway.gateway.quota import Quota, QuotaLimits
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.storage.store.store import StoreError
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import before, pause
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError

log = logging.getLogger("partway.transform")

KIND: Final[Kind] = "transform-job"

#: Failed files that a job's reason names.
_NAMED: Final = 5

#: Reason for callers when the operator's model cannot be started.
_FOR_OPERATOR: Final = (
    "The gateway's operator deployed this model, and its instances cannot start; the gateway's "
    "log says why."
)


class TransformKeeper:
    """Runs a limited number of jobs at a time, in the order of their creation.

    A job runs from its record alone. The next gateway continues a killed gateway's jobs, without
    the files that are finished.

    Attributes:
        under_way: the quota of waiting and running jobs, of which one principal may have half.

    Args:
        may: whether a principal (first) has permission now for an action (second) on an ARN
            (third).
        folder: the folder of the lists of finished files; None to keep no lists.
        at_once: the number of jobs that run at a time.
        inclusive_slices: whether slices of filters include their ends.
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        resources: Resources,
        planning: Planning,
        means: Means,
        places: CallersPlaces,
        may: Callable[[str, str, str], bool],
        folder: Path | None,
        at_once: int,
        inclusive_slices: bool,
        clock: Clock,
        wall_clock: Callable[[], float],
    ) -> None:
        of_one = max(1, MAX_JOBS_UNDER_WAY // SHARE_OF_ONE)
        self.under_way = Quota(QuotaLimits(MAX_JOBS_UNDER_WAY, of_one))
        self._resources = resources
        self._planning = planning
        # Jobs' output belongs to other log groups, and their starts count for no endpoint.
        self._means = dataclasses.replace(
            means,
            output=lambda instance, job: means.output(instance, OF_JOBS + job),
            around=dataclasses.replace(means.around, launched=lambda *_: None),
        )
        self._places = places
        self._may = may
        self._folder = folder
        self._clock = clock
        self._wall_clock = wall_clock
        self._inclusive_slices = inclusive_slices
        self._turns = asyncio.Semaphore(at_once)
        self._stops: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._models: dict[str, FleetModel] = {}
        #: Records that the store has not accepted yet.
        self._latest: dict[str, TransformRecord] = {}
        self._hastened = False
        self._is_closing = False

    # --- Lookups ---------------------------------------------------------------------------------

    def record_of(self, job: Resource) -> TransformRecord:
        """Return the current record of a job, which may not be stored yet."""
        return self._latest.get(job.name) or TransformRecord.of(job)

    def describe(self) -> tuple[EndpointStatus, ...]:
        """Return the status of running jobs' instances, with each job in an endpoint's form."""
        return tuple(
            dataclasses.replace(status, name=OF_JOBS + status.name)
            for model in self._models.values()
            for status in model.fleet.describe()
        )

    def processing_of(self, options: TransformOptions) -> DataProcessing | None:
        """Return the processing of a job's records; None if the job asks for none.

        Raises:
            OptionsError: the processing is not possible; the error names the member.
        """
        return processing_of(options, slices_include_end=self._inclusive_slices)

    # --- Life of a job ---------------------------------------------------------------------------

    def start(self) -> None:
        left = [each for each in self._resources.all(KIND) if self._is_under_way(each)]
        for each in sorted(left, key=lambda job: (job.created, job.name)):
            self.begin(each)
        if left:
            log.info(LogLine("transform jobs continue", jobs=len(left)))
        if self._folder is not None:
            try:
                self._remove_all_but({self._file(each.name) for each in left})
            except OSError as error:  # the next gateway removes them
                line = "leftover files of transform jobs could not be removed"
                log.warning(LogLine(line, folder=str(self._folder), reason=error.strerror))

    def begin(self, job: Resource) -> None:
        """Begin a stored job; return at once."""
        name = job.name
        stop = self._stops[name] = asyncio.Event()
        if TransformRecord.of(job).status is JobStatus.STOPPING:
            stop.set()
        task = asyncio.create_task(self._live(name, stop), name=f"transform job {name}")
        self._tasks[name] = task
        sender = TransformRecord.of(job).sender
        self.under_way.count(1, sender)
        task.add_done_callback(lambda _: self._forget(name, sender))

    def check_takes_jobs(self) -> None:
        """Raise FleetStopping while the gateway stops."""
        if self._is_closing:
            raise FleetStopping("the gateway is stopping, and takes no new jobs")

    def take_no_jobs(self) -> None:
        """Refuse jobs from now on, since the gateway stops."""
        self._is_closing = True

    def stop(self, name: str) -> None:
        """Stop a job whose stop is stored; return at once."""
        if name in self._stops:
            self._stops[name].set()

    def hasten(self) -> None:
        """Cut the end of running jobs short, after a second signal."""
        self._hastened = True
        for each in self._models.values():
            each.fleet.hasten()

    async def aclose(self) -> None:
        """Stop running jobs, which the next gateway continues; return when no instance is left."""
        tasks = set(self._tasks.values())
        for each in tasks:
            each.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _is_under_way(self, job: Resource) -> bool:
        return TransformRecord.of(job).status in UNDER_WAY

    def _forget(self, name: str, sender: str) -> None:
        self.under_way.give_back(1, sender)
        self._tasks.pop(name, None)
        self._stops.pop(name, None)

    async def _live(self, name: str, stop: asyncio.Event) -> None:
        finished = FinishedFiles(None if self._folder is None else self._file(name))
        try:
            came_to = await before(stop, self._in_turn(name, finished))
        except Exception:  # an unexpected exception ends only one job
            log.exception(LogLine("a transform job failed unexpectedly", job=name))
            came_to = JobStatus.FAILED, "The gateway failed; its log has the reason."
        status, reason = came_to or (JobStatus.STOPPED, "")
        line = LogLine("transform job ended", job=name, status=str(status), reason=reason or None)
        log.log(logging.WARNING if status is JobStatus.FAILED else logging.INFO, line)
        job = self._resources.find(KIND, name)
        assert job is not None, "nobody removes one that is under way"
        await self._write(name, self.record_of(job).over(status, self._now(), reason))
        await finished.forget()

    async def _in_turn(self, name: str, finished: FinishedFiles) -> tuple[JobStatus, str]:
        async with self._turns:
            job = self._resources.find(KIND, name)
            assert job is not None, "it is under way"
            log.info(LogLine("transform job begins", job=name, model=job.members["ModelName"]))
            if self.record_of(job).started is None:
                record = dataclasses.replace(self.record_of(job), started=self._now())
                await self._write(name, record)
            await finished.read()
            return await self._transformed(job, finished)

    async def _transformed(self, job: Resource, finished: FinishedFiles) -> tuple[JobStatus, str]:
        members, record = job.members, TransformRecord.of(job)
        given, put = members["TransformInput"], members["TransformOutput"]
        source = given["DataSource"]["S3DataSource"]
        try:
            options = options_of(members)
            inputs = self._places.inputs(
                source["S3Uri"],
                lambda *asked: self._may(record.sender, *asked),
                manifest=source["S3DataType"] == "ManifestFile",
            )
            outputs = self._places.outputs(put["S3OutputPath"], options.accept, record.sender)
            work = TransformJob(
                options,
                inputs,
                UnfinishedOutputs(outputs, finished),
                self._clock,
                self.processing_of(options),
            )
            if await work.look():
                plan = plan_of(members, record)
                endpoint = await self._planning.endpoint_of(job.name, plan)
                (variant,) = endpoint.variants
                async with FleetModel(
                    variant, options, self._means, self._clock, job.name
                ) as model:
                    self._models[job.name] = model
                    if self._hastened:
                        self.hasten()
                    await model.started()
                    await work.run(model, settled(options, await model.parameters()))
        except ModelGone as error:
            return JobStatus.FAILED, _FOR_OPERATOR if record.of_operator else f"{error}"
        except (StorageFailed, OptionsError) as error:
            return JobStatus.FAILED, str(error)
        except ApiError as error:
            return JobStatus.FAILED, error.message
        finally:
            self._models.pop(job.name, None)
        return _end_of(work.progress)

    # --- Records ---------------------------------------------------------------------------------

    async def _write(self, name: str, record: TransformRecord) -> None:
        """Store the record of a job, and retry while the store refuses."""
        self._latest[name] = record
        while True:
            try:
                async with self._resources.changing():
                    job = self._resources.find(KIND, name)
                    assert job is not None, "nobody removes one that is under way"
                    if TransformRecord.of(job).status is JobStatus.STOPPING and not record.ended:
                        record = dataclasses.replace(record, status=JobStatus.STOPPING)
                    await self._resources.put(record.in_place_of(job, self._now()))
            except StoreError as error:
                line = "a transform job's state cannot be stored; trying again"
                log.warning(LogLine(line, job=name, reason=str(error)))
                await pause(self._clock, STORE_RETRY_INTERVAL)
            else:
                self._latest.pop(name, None)
                return

    def _file(self, name: str) -> Path:
        assert self._folder is not None, "else nothing is kept"
        return self._folder / f"{name.lower()}.finished"

    def _remove_all_but(self, wanted: set[Path]) -> None:
        assert self._folder is not None, "else nothing is kept"
        for each in self._folder.iterdir():
            if each not in wanted:
                each.unlink(missing_ok=True)

    def _now(self) -> float:
        return round(self._wall_clock(), 3)  # AWS's times are milliseconds too


def _end_of(progress: Progress) -> tuple[JobStatus, str]:
    """Return the outcome of a job from its files, with the first failures."""
    failures = progress.failures
    if not failures:
        return JobStatus.COMPLETED, ""
    named = "; ".join(f"{each.name}: {each.reason}" for each in failures[:_NAMED])
    more = f"; and {len(failures) - _NAMED} more" if len(failures) > _NAMED else ""
    files = "file" if progress.files == 1 else "files"
    return JobStatus.FAILED, f"{len(failures)} of {progress.files} {files} failed: {named}{more}"
