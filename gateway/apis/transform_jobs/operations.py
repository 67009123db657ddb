"""The API's operations on transform jobs: CreateTransformJob and its neighbours (clause 5)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.aws_json.protocol import Answer, ControlOperation
from partway.gateway.apis.control.async_rules import AsyncRules
from partway.gateway.apis.control.catalogue import Catalogue
from partway.gateway.apis.control.endpoint_plans import Members
from partway.gateway.apis.control.errors import (
    ResourceInUse,
    ResourceLimitExceeded,
    ValidationException,
)
from partway.gateway.apis.control.launch_quota import ContainerRoom
from partway.gateway.apis.control.limits import MAX_RESOURCE_BYTES, MAX_RESOURCES
from partway.gateway.apis.control.listing import Listed, page_of
from partway.gateway.apis.control.model_data_permission import ModelDataLeave
from partway.gateway.apis.control.named_locations import checked_place
from partway.gateway.apis.control.operator_models import is_of_operator
from partway.gateway.apis.control.planner import Planning
from partway.gateway.apis.control.resources import Resource, Resources, maker_of
from partway.gateway.apis.control.tags import new_tags
from partway.gateway.apis.transform_jobs.job_records import (
    UNDER_WAY,
    JobStatus,
    TransformRecord,
    described,
    options_of,
    plan_of,
    summary_of,
)
from partway.gateway.apis.transform_jobs.job_runner import KIND, TransformKeeper
from partway.gateway.batch.options import OptionsError
from partway.gateway.quota import NOBODY, QuotaFull
from partway.gateway.storage.places.locations import checked_arn, is_local

#: The supported kinds of input (``S3DataType``).
_READ: Final = ("S3Prefix", "ManifestFile")


class TransformOperations:
    """The operations on transform jobs.

    Args:
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        resources: Resources,
        catalogue: Catalogue,
        keeper: TransformKeeper,
        planning: Planning,
        room: ContainerRoom,
        rules: AsyncRules,
        leave: ModelDataLeave,
        wall_clock: Callable[[], float],
    ) -> None:
        self._resources = resources
        self._catalogue = catalogue
        self._keeper = keeper
        self._planning = planning
        self._room = room
        self._rules = rules
        self._leave = leave
        self._wall_clock = wall_clock

    @property
    def operations(self) -> Mapping[str, ControlOperation]:
        return {
            "CreateTransformJob": self.create,
            "DescribeTransformJob": self.describe,
            "ListTransformJobs": self.list,
            "StopTransformJob": self.stop,
        }

    async def create(self, members: Members, identity: Identity, _: str) -> Answer:
        """Make a job, which begins when its turn comes."""
        name = members["TransformJobName"]
        arn = self._catalogue.allowed(identity, "CreateTransformJob", KIND, name)
        tags = new_tags(members, identity, arn)
        self._check_can_be_made(name, identity)
        self._check(members, identity)
        asked_for = {key: value for key, value in members.items() if key != "Tags"}
        model = self._catalogue.existing_model(identity, members["ModelName"])
        record = TransformRecord(
            JobStatus.IN_PROGRESS,
            identity.principal or "",
            model.members,
            model.kept if is_of_operator(model.kept) else {},
            maker_of(model.kept),
        )
        await self._check_model(name, members, record)
        async with self._catalogue.changing():
            self._keeper.check_takes_jobs()
            self._check_can_be_made(name, identity)
            self._room.check_job(members, record)
            await self._make_room()
            now = self._now()
            job = record.in_place_of(Resource(KIND, name, now, now, asked_for, tags), now)
            size = len(json.dumps([job.members, tags, job.kept]))
            if size > MAX_RESOURCE_BYTES:
                raise ValidationException(
                    f"The transform job has {size} bytes with its model; it must have at most "
                    f"{MAX_RESOURCE_BYTES}."
                )
            await self._resources.put(job)
            self._keeper.begin(job)
        return {"TransformJobArn": arn}

    async def describe(self, members: Members, identity: Identity, _: str) -> Answer:
        name = members["TransformJobName"]
        arn = self._catalogue.allowed(identity, "DescribeTransformJob", KIND, name)
        job = self._existing(name)
        return described(job, self._keeper.record_of(job), arn)

    async def list(self, members: Members, identity: Identity, _: str) -> Answer:
        identity.check("sagemaker:ListTransformJobs", "*")
        listed = []
        for job in self._resources.all(KIND):
            record = self._keeper.record_of(job)
            summary = summary_of(job, record, self._catalogue.arn(KIND, job.name))
            times = job.created, job.modified
            listed.append(Listed(job.name, *times, summary, str(record.status)))
        return page_of("ListTransformJobs", "TransformJobSummaries", listed, members)

    async def stop(self, members: Members, identity: Identity, _: str) -> Answer:
        """Stop a job; its finished outputs stay."""
        name = members["TransformJobName"]
        self._catalogue.allowed(identity, "StopTransformJob", KIND, name)
        async with self._catalogue.changing():
            job = self._existing(name)
            status = self._keeper.record_of(job).status
            if status not in UNDER_WAY:
                raise ValidationException(
                    f"The request was rejected because the transform job is in status {status}."
                )
            if status is not JobStatus.STOPPING:
                record = dataclasses.replace(TransformRecord.of(job), status=JobStatus.STOPPING)
                await self._resources.put(record.in_place_of(job, self._now()))
                self._keeper.stop(job.name)
        return None

    # --- Checks ----------------------------------------------------------------------------------

    def _existing(self, name: str) -> Resource:
        job = self._resources.find(KIND, name)
        if job is None:
            raise ValidationException(f"Could not find requested job with name: {name}")
        return job

    def _check_can_be_made(self, name: str, identity: Identity) -> None:
        """Refuse a second job of a name, and a job beyond the limit of all or of the caller.

        Raises:
            ResourceInUse: the name is taken.
            ResourceLimitExceeded: a limit of waiting and running jobs is reached.
        """
        if self._resources.find(KIND, name) is not None:
            raise ResourceInUse(
                "Job name must be unique within an AWS account and region, and a job with this "
                f"name already exists ({self._catalogue.arn(KIND, name)})"
            )
        try:
            self._keeper.under_way.check(1, identity.principal or NOBODY)
        except QuotaFull as full:
            of_one, whose = "", "these jobs"
            if full.owner != NOBODY:
                of_one, whose = " of one principal", "your jobs"
            raise ResourceLimitExceeded(
                f"The service limit 'Number of transform jobs under way{of_one}' is "
                f"{full.most}, with current utilization of {full.most} and a request delta of "
                f"1; wait for one of {whose} to end, or stop one."
            ) from None

    async def _make_room(self) -> None:
        """Remove the oldest ended job, if the limit of stored jobs is reached.

        Call this inside ``Resources.changing()``.
        """
        jobs = list(self._resources.all(KIND))
        if len(jobs) < MAX_RESOURCES:
            return
        over = [each for each in jobs if self._keeper.record_of(each).ended is not None]
        await self._resources.delete(min(over, key=lambda job: job.modified))

    def _check(self, members: Members, identity: Identity) -> None:
        """Refuse a job whose members are not valid, or whose files the caller may not use.

        Raises:
            AccessDenied: the caller may not read the job's input or write its output.
            ValidationException: a value is not allowed; the message names it.
        """
        try:
            self._keeper.processing_of(options_of(members))
        except OptionsError as error:
            raise ValidationException(f"{error}.") from None
        source = members["TransformInput"]["DataSource"]["S3DataSource"]
        if source["S3DataType"] not in _READ:
            raise ValidationException(
                f"S3DataType: {source['S3DataType']} was given; it must be {' or '.join(_READ)}."
            )
        checked_place("S3Uri", source["S3Uri"], self._planning.local_roots, "read")
        _check_leave(identity, source["S3Uri"])
        target = members["TransformOutput"]["S3OutputPath"]
        self._rules.check_place("S3OutputPath", target)
        identity.check("s3:PutObject", f"{checked_arn(target.removesuffix('/'))}/*")

    async def _check_model(self, name: str, members: Members, record: TransformRecord) -> None:
        """Refuse a model that cannot have instances, or that jobs cannot call.

        Raises:
            ValidationException: the message says why.
        """
        if record.of_operator and members.get("Environment"):
            # The operator may give any variable to a program, and callers may give none.
            raise ValidationException(
                f"The gateway's operator deployed the model {members['ModelName']!r}; a "
                "transform job of this model must have no Environment."
            )
        plan = plan_of(members, record)
        if plan.names_containers:
            raise ValidationException(
                f"The Mode of the model {members['ModelName']!r} is Direct; it must be Serial, "
                "because a transform job cannot name a container."
            )
        self._leave.check_endpoint(await self._planning.endpoint_of(name, plan))

    def _now(self) -> float:
        return round(self._wall_clock(), 3)  # as AWS's: milliseconds


def _check_leave(identity: Identity, location: str) -> None:
    """Return if the caller may read a location, or everything below it.

    The permission for each file is checked again when the file is read.

    Raises:
        AccessDenied: the caller lacks the permission.
    """
    is_folder = location.endswith("/")
    resource = checked_arn(location.rstrip("/") if is_local(location) else location)
    if is_folder or not identity.may("s3:GetObject", resource):
        identity.check("s3:GetObject", f"{resource.removesuffix('/')}/*")
