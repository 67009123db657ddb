"""What is written down of a transform job, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.apis.control.resources import Resource
from partway.gateway.apis.transform_jobs.job_records import (
    JobStatus,
    TransformRecord,
    described,
    options_of,
    plan_of,
    summary_of,
)
from partway.gateway.batch.options import OptionsError, TransformOptions
from tests.gateway.apis.control.deployed import a_model
from tests.gateway.apis.transform_jobs.transforming import a_job

RECORD = TransformRecord(JobStatus.IN_PROGRESS, "somebody", a_model("capitals", "capitals:1"))
FOLDER = Path("/srv")


def a_resource(**members):
    return Resource("transform-job", "mine", 5.0, 5.0, a_job(FOLDER, **members))


def test_a_record_is_what_the_store_has_of_it():
    record = RECORD.over(JobStatus.FAILED, 8.0, "why")
    kept = record.in_place_of(a_resource(), 7.0)
    assert (kept.modified, kept.created) == (7.0, 5.0)
    assert kept.kept["status"] == "Failed"
    assert TransformRecord.of(kept) == record


def test_a_record_of_before_models_had_makers():
    kept = dict(RECORD.in_place_of(a_resource(), 7.0).kept)
    del kept["model_maker"]
    job = Resource("transform-job", "mine", 5.0, 5.0, a_job(FOLDER), kept=kept)
    assert TransformRecord.of(job) == RECORD
    assert plan_of(job.members, RECORD).maker_of("capitals") == ""


def test_a_reason_is_cut():
    assert len(RECORD.over(JobStatus.FAILED, 8.0, "x" * 5000).reason) == 1024


def test_what_is_left_out_is_the_options_own():
    assert options_of(a_job(FOLDER)) == TransformOptions(
        content_type="text/csv", split_type="Line", assemble_with="Line"
    )


def test_everything_that_may_be_asked_for():
    members = a_job(
        FOLDER,
        given={"CompressionType": "Gzip"},
        put={"Accept": "application/jsonlines"},
        BatchStrategy="SingleRecord",
        MaxPayloadInMB=0,
        MaxConcurrentTransforms=3,
        ModelClientConfig={"InvocationsTimeoutInSeconds": 5, "InvocationsMaxRetries": 0},
        DataProcessing={"InputFilter": "$[1:]", "OutputFilter": "", "JoinSource": "None"},
    )
    assert options_of(members) == TransformOptions(
        content_type="text/csv",
        accept="application/jsonlines",
        split_type="Line",
        assemble_with="Line",
        compression_type="Gzip",
        batch_strategy="SingleRecord",
        max_payload_mb=0,
        max_concurrent=3,
        invocation_timeout=5,
        max_retries=0,
        input_filter="$[1:]",
    )


def test_what_does_not_go_together():
    with pytest.raises(OptionsError, match="MaxConcurrentTransforms"):
        options_of(a_job(FOLDER, MaxConcurrentTransforms=50, MaxPayloadInMB=3))


def test_instances_are_made_as_an_endpoints_are():
    resources = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 3}
    plan = plan_of(a_job(FOLDER, TransformResources=resources), RECORD)
    (variant,) = plan.variants
    assert variant["VariantName"] == "transform"
    assert plan.instances_of(variant) == 3
    assert plan.asks_for_gpus
    assert plan.of_operator == {}


def test_a_jobs_variables_go_before_the_models():
    one = {"Image": "a:1", "Environment": {"A": "1", "B": "2"}}
    record = TransformRecord(JobStatus.IN_PROGRESS, "", {"Containers": [one, {"Image": "b:1"}]})
    plan = plan_of(a_job(FOLDER, Environment={"B": "3"}), record)
    first, second = plan.containers_of(plan.variants[0])
    assert (first["Environment"], second["Environment"]) == ({"A": "1", "B": "3"}, {"B": "3"})
    assert one["Environment"]["B"] == "2"


def test_what_is_described():
    said = described(a_resource(ExperimentConfig={"RunName": "a"}), RECORD, "the-arn")
    assert said["ExperimentConfig"] == {"RunName": "a"}
    assert said["TransformOutput"] == {
        "AssembleWith": "Line", "KmsKeyId": "", "S3OutputPath": "/srv/out",
    }  # fmt: skip
    assert said["TransformInput"]["CompressionType"] == "None"
    assert (said["TransformJobArn"], said["CreationTime"]) == ("the-arn", 5.0)
    assert not {"FailureReason", "TransformStartTime", "TransformEndTime", "Tags"} & said.keys()
    over = described(a_resource(), RECORD.over(JobStatus.FAILED, 9.0, "why"), "the-arn")
    assert (over["FailureReason"], over["TransformEndTime"]) == ("why", 9.0)


def test_what_is_listed():
    assert summary_of(a_resource(), RECORD.over(JobStatus.STOPPED, 9.0), "the-arn") == {
        "TransformJobName": "mine",
        "TransformJobArn": "the-arn",
        "CreationTime": 5.0,
        "LastModifiedTime": 5.0,
        "TransformEndTime": 9.0,
        "TransformJobStatus": "Stopped",
    }
