"""The manifest of transform jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from partway.gateway.apis.control.limits import (
    JOBS_AT_ONCE,
    MAX_JOBS_UNDER_WAY,
    TRANSFORM_QUOTA,
)
from partway.gateway.apis.manifest import Manifest
from partway.gateway.configuration.expected import Size, whole


@dataclass(frozen=True)
class TransformSettings:
    """The settings of transform jobs.

    Attributes:
        max_transform_jobs: the number of jobs that run at a time; others wait.
        transform_quota: the limit of outputs that are gathered on disk, in bytes.
    """

    max_transform_jobs: Annotated[int, whole(1, MAX_JOBS_UNDER_WAY, "jobs")] = JOBS_AT_ONCE
    transform_quota: Size = TRANSFORM_QUOTA


MANIFEST: Final = Manifest(
    "transform_jobs",
    "partway.gateway.apis.transform_jobs.api",
    targets=(
        "SageMaker.CreateTransformJob",
        "SageMaker.DescribeTransformJob",
        "SageMaker.ListTransformJobs",
        "SageMaker.StopTransformJob",
    ),
    needs=("control",),
    settings=TransformSettings,
)
