"""partway.gateway.fleet.output.log_names: in AWS's words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partway.gateway.arns import Arns
from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.output.log_names import (
    GROUPS,
    JOBS_GROUP,
    OF_JOBS,
    container_of,
    group_of,
    log_arn,
    name_its_log,
    stream_name,
)
from partway.gateway.fleet.routing.router import RoutedInstance, RoutedVariant, Router
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.protocol.errors import ContainerError

ARNS = Arns("us-east-1", "012345678901")
ARN = "arn:aws:logs:us-east-1:012345678901:log-group:"


def test_a_stream_is_named_by_variant_and_instance():
    assert stream_name("a-b", "a-b-All-Traffic-1a2b3c4d") == (
        "All-Traffic/a-b-All-Traffic-1a2b3c4d"
    )


def test_of_several_containers_each_has_one():
    name = stream_name("a", "a-V-1a2b3c4d_pre-1")
    assert name == "V/a-V-1a2b3c4d/pre-1"
    assert container_of(name) == "a-V-1a2b3c4d_pre-1"
    assert container_of("V/a-V-1a2b3c4d") == "a-V-1a2b3c4d"


def test_arns():
    assert log_arn(ARNS, "/g", "v/i") == f"{ARN}/g:log-stream:v/i"
    assert log_arn(ARNS, "/g") == f"{ARN}/g:log-stream:"
    assert log_arn(ARNS) == f"{ARN}:log-stream:"


def lease(*, has_log):
    place = Place("Echo", Address("h", 1), StreamPolicy(), "V", has_log=has_log)
    router = Router()
    instance = RoutedInstance("Echo-V-1a2b3c4d", place)
    router.update("Echo", (RoutedVariant("V", 1.0, (instance,)),))
    return router.lease("Echo")


@pytest.mark.clause("4-3")
@pytest.mark.parametrize(
    ("has_log", "expected"),
    [(True, f"{ARN}/aws/sagemaker/Endpoints/Echo:log-stream:V/Echo-V-1a2b3c4d"), (False, "")],
)
def test_an_instances_error_says_where_its_log_is(has_log, expected):
    error = ContainerError("the container refused", 500)
    name_its_log(error, ARNS, lease(has_log=has_log))
    assert error.members["LogStreamArn"] == expected


@pytest.mark.clause("4-3")
def test_and_where_the_log_of_its_container_is():
    error, taken = ContainerError("the container refused", 500), lease(has_log=True)
    name_its_log(error, ARNS, taken, replace(taken.place, hostname="pre"))
    stream = "V/Echo-V-1a2b3c4d/pre"
    expected = f"{ARN}/aws/sagemaker/Endpoints/Echo:log-stream:{stream}"
    assert error.members["LogStreamArn"] == expected


def test_of_a_job_the_jobs_name_is_in_the_place_of_the_variants():
    owner = f"{OF_JOBS}my-job"
    assert (group_of(owner), group_of("echo")) == (JOBS_GROUP, f"{GROUPS}echo")
    name = stream_name(owner, "my-job-transform-1a2b3c4d")
    assert name == "my-job/my-job-transform-1a2b3c4d"
    assert container_of(name) == "my-job-transform-1a2b3c4d"
    several = stream_name(owner, "my-job-transform-1a2b3c4d_pre")
    assert several == "my-job/my-job-transform-1a2b3c4d/pre"
