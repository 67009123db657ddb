"""CreateTransformJob and its neighbours, from the call to the files, with real containers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.control.errors import (
    NotWrittenDown,
    ResourceInUse,
    ResourceLimitExceeded,
    ValidationException,
)
from partway.gateway.apis.control.limits import MAX_JOBS_UNDER_WAY
from partway.gateway.apis.control.operator_models import kept_of
from partway.gateway.fleet.fleet import FleetStopping
from partway.protocol.errors import AccessDenied
from tests.gateway.apis.conftest import Limited
from tests.gateway.apis.transform_jobs.transforming import Jobs, a_job, until

ARN = "arn:aws:sagemaker:us-east-1:000000000000:transform-job/"


async def test_a_jobs_life(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\r\ntwo\r\n", b="three")
        answer = await jobs.call(
            "CreateTransformJob",
            **a_job(tmp_path, "Mine", Environment={"SAGEMAKER_SAYS": "!"}),
        )
        assert answer == {"TransformJobArn": ARN + "mine"}
        said = await jobs.over()
        assert jobs.answers == {"a.csv.out": "ONE\r\nTWO\r\n!\n", "b.csv.out": "THREE!\n"}
        created, started = said["CreationTime"], said["TransformStartTime"]
        assert created < started < said["TransformEndTime"]
        assert "FailureReason" not in said
        assert {**a_job(tmp_path, "Mine"), **said} == said | {
            "TransformJobName": "Mine",
            "TransformJobArn": ARN + "mine",
            "TransformJobStatus": "Completed",
            "Environment": {"SAGEMAKER_SAYS": "!"},
        }
        assert jobs.keeper.describe() == ()


async def test_what_is_described_and_listed(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n")
        jobs.hold()
        filters = {"InputFilter": "$[0]"}
        await jobs.create("first", DataProcessing=filters)
        await jobs.has_asked("one")
        said = await jobs.describe("first")
        assert said["TransformJobStatus"] == "InProgress"
        assert said["TransformInput"]["CompressionType"] == "None"
        assert said["DataProcessing"] == {**filters, "OutputFilter": "$", "JoinSource": "None"}
        assert "TransformEndTime" not in said
        jobs.let_go()
        await jobs.over("first")
        await jobs.create("second", ModelName="crashing", source={"S3Uri": f"{tmp_path}/in/none"})
        await jobs.over("second")

        listed = (await jobs.call("ListTransformJobs"))["TransformJobSummaries"]
        assert [(each["TransformJobName"], each["TransformJobStatus"]) for each in listed] == [
            ("second", "Failed"),
            ("first", "Completed"),
        ]
        assert listed[0]["FailureReason"].endswith("there must be a file, or a folder with files")
        assert {"TransformJobArn", "CreationTime", "TransformEndTime", "LastModifiedTime"} <= set(
            listed[1]
        )
        failed = await jobs.call("ListTransformJobs", StatusEquals="Failed")
        assert [each["TransformJobName"] for each in failed["TransformJobSummaries"]] == ["second"]


async def test_a_file_that_fails_stops_no_other(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\ntwo\n", b="one\nbad\n", c="three\n")
        await jobs.create(BatchStrategy="SingleRecord")
        said = await jobs.over()
        assert said["TransformJobStatus"] == "Failed"
        reason = said["FailureReason"]
        assert reason.startswith("1 of 3 files failed: b.csv: record 1 (line 2): ")
        assert "the container answered 400: bad is no word of mine" in reason
        assert jobs.answers == {"a.csv.out": "ONE\nTWO\n", "c.csv.out": "THREE\n"}


async def test_the_only_file_fails(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="bad\n")
        await jobs.create()
        assert (await jobs.over())["FailureReason"].startswith("1 of 1 file failed: a.csv: ")


async def test_an_output_that_has_no_room_on_its_way_fails_by_itself(tmp_path):
    async with Jobs(tmp_path, quota=20) as jobs:
        jobs.give(a="one\n", b="very long lines are too much\n", c="three\n")
        await jobs.create(MaxConcurrentTransforms=1)
        said = await jobs.over()
        assert said["FailureReason"].startswith(
            "1 of 3 files failed: b.csv: unfinished outputs of transform jobs have 0 bytes on "
            "disk; they may have at most 20 (transform_quota); "
        )
        assert jobs.answers == {"a.csv.out": "ONE\n", "c.csv.out": "THREE\n"}


async def test_the_files_of_a_manifest(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n", b="two\n")
        text = f'[{{"prefix": "{tmp_path}/in/"}}, "b.csv"]'
        (tmp_path / "in" / "those.json").write_text(text)
        source = {"S3DataType": "ManifestFile", "S3Uri": f"{tmp_path}/in/those.json"}
        await jobs.create(source=source)
        assert (await jobs.over())["TransformJobStatus"] == "Completed"
        assert jobs.answers == {"b.csv.out": "TWO\n"}


async def test_records_are_joined_with_their_answers(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="id1,one\nid2,two\n")
        processing = {"InputFilter": "$[1:]", "JoinSource": "Input", "OutputFilter": "$[0,-1]"}
        await jobs.create(DataProcessing=processing)
        assert (await jobs.over())["TransformJobStatus"] == "Completed"
        assert jobs.asked == ["one"]
        assert jobs.answers == {"a.csv.out": "id1,ONE\nid2,TWO\n"}


@pytest.mark.parametrize("processing", [{"JoinSource": "Input"}, {"OutputFilter": "$[0]"}])
async def test_json_is_not_joined_or_filtered_as_if_it_were_csv(tmp_path, processing):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="id1,json\n", b="id2,two\n")
        await jobs.create(DataProcessing=processing)
        over = await jobs.over()
        assert over["TransformJobStatus"] == "Failed"
        assert (
            "a.csv: record 0 (line 1): the container's answer has the Content-Type "
            "'application/json'; it must be text/csv, as the job's ContentType says"
        ) in over["FailureReason"]
        assert list(jobs.answers) == ["b.csv.out"]


@pytest.mark.parametrize(("inclusive", "asked"), [(False, "a,b"), (True, "a,b,c")])
async def test_the_end_of_a_range_is_in_it_where_the_settings_say_so(tmp_path, inclusive, asked):
    async with Jobs(tmp_path, inclusive_slices=inclusive) as jobs:
        jobs.give(a="a,b,c,d\n")
        await jobs.create(DataProcessing={"InputFilter": "$[0:2]"})
        await jobs.over()
        assert jobs.asked == [asked]


async def test_a_model_that_does_not_start(tmp_path, monkeypatch):
    from partway.gateway.fleet import instance_group as group

    monkeypatch.setattr(group, "RESTART_SHORTEST", 0.01)
    monkeypatch.setattr(group, "RESTART_LONGEST", 0.01)
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n")
        await jobs.create(ModelName="crashing")
        said = await jobs.over()
        assert said["TransformJobStatus"] == "Failed"
        assert "no instance is in service" in said["FailureReason"]
        assert jobs.answers == {}


# --- Stopping -------------------------------------------------------------------------------------


async def test_a_job_is_stopped(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n")
        jobs.hold()
        await jobs.create()
        await jobs.has_asked("one")
        assert await jobs.call("StopTransformJob", TransformJobName="MINE") == {}
        assert await jobs.status() in ("Stopping", "Stopped")
        said = await jobs.over()
        assert said["TransformJobStatus"] == "Stopped"
        assert "FailureReason" not in said
        assert jobs.answers == {}
        assert jobs.keeper.describe() == ()
        with pytest.raises(ValidationException, match=r"transform job is in status Stopped\.$"):
            await jobs.call("StopTransformJob", TransformJobName="mine")


async def test_a_job_that_waits_is_stopped(tmp_path):
    async with Jobs(tmp_path, at_once=1) as jobs:
        jobs.give(a="one\n")
        jobs.hold()
        await jobs.create("first")
        await jobs.has_asked("one")
        await jobs.create("second")
        assert "TransformStartTime" not in await jobs.describe("second")
        await jobs.call("StopTransformJob", TransformJobName="second")
        assert (await jobs.over("second"))["TransformJobStatus"] == "Stopped"
        assert await jobs.status("first") == "InProgress"
        jobs.let_go()
        await jobs.over("first")
        assert jobs.asked == ["one"]


# --- The next gateway -----------------------------------------------------------------------------


async def test_a_job_outlives_its_gateway(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n", b="two\n")
        await jobs.create(MaxConcurrentTransforms=1)
        await jobs.over()
        jobs.give(a="three\n", b="four\n")
        jobs.hold()
        await jobs.create("next", MaxConcurrentTransforms=1)
        await jobs.has_asked("three")
        assert await jobs.status("next") == "InProgress"
    jobs.let_go()
    assert jobs.answers == {"a.csv.out": "ONE\n", "b.csv.out": "TWO\n"}
    async with jobs.again() as later:
        assert (await later.over("next"))["TransformJobStatus"] == "Completed"
        assert later.answers == {"a.csv.out": "THREE\n", "b.csv.out": "FOUR\n"}
        assert await later.status() == "Completed"

        async def is_forgotten() -> bool:
            return not list(later.data.transforms.iterdir())

        await until(is_forgotten, "the end of what is noted of files")


async def test_what_is_finished_is_not_done_again(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n", b="two\n")
        jobs.hold()
        await jobs.create()
        await jobs.has_asked("one")
    (tmp_path / "data" / "transforms" / "mine.finished").write_bytes(b'"a.csv"\n"b.cs')
    jobs.let_go()
    (tmp_path / "asked").unlink()
    async with jobs.again() as later:
        await later.over()
        assert later.asked == ["two"]
        assert later.answers == {"b.csv.out": "TWO\n"}


async def test_a_job_that_was_stopping_is_stopped_by_the_next_gateway(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n")
        jobs.hold()
        await jobs.create()
        await jobs.has_asked("one")
        jobs.keeper.stop = lambda _: None  # killed behind what is written down
        await jobs.call("StopTransformJob", TransformJobName="mine")
    async with jobs.again() as later:
        assert (await later.over())["TransformJobStatus"] == "Stopped"


async def test_a_gateway_that_stops_takes_no_jobs(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.keeper.take_no_jobs()
        with pytest.raises(FleetStopping):
            await jobs.create()


# --- What is refused ------------------------------------------------------------------------------


async def test_a_second_job_of_a_name(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n")
        await jobs.create()
        await jobs.over()
        with pytest.raises(ResourceInUse, match=r"already exists \(arn:.*:transform-job/mine\)"):
            await jobs.create("MINE")


@pytest.mark.parametrize("operation", ["DescribeTransformJob", "StopTransformJob"])
async def test_a_job_that_is_not_there(tmp_path, operation):
    async with Jobs(tmp_path) as jobs:
        with pytest.raises(ValidationException, match="find requested job with name: none"):
            await jobs.call(operation, TransformJobName="none")


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"ModelName": "none"}, 'Could not find model "arn:'),
        ({"source": {"S3Uri": "/etc"}}, "below one of the local_roots"),
        ({"source": {"S3Uri": "https://bucket/key"}}, "must be s3://BUCKET/PREFIX"),
        ({"source": {"S3Uri": "s3://B/key"}}, "is not a bucket's name"),
        (
            {"source": {"S3DataType": "AugmentedManifestFile"}},
            "AugmentedManifestFile was given; it must be S3Prefix or ManifestFile",
        ),
        ({"put": {"S3OutputPath": "/srv"}}, "below one of the local_results"),
        ({"put": {"S3OutputPath": "s3://bucket/a/../b"}}, "no part of it may be empty"),
        ({"MaxPayloadInMB": 101}, "MaxPayloadInMB: 101 was given"),
        ({"MaxConcurrentTransforms": 20, "MaxPayloadInMB": 6}, "MaxConcurrentTransforms: 20"),
        ({"DataProcessing": {"InputFilter": "$..a"}}, "InputFilter: '$..a' has '..'"),
        ({"DataProcessing": {"InputFilter": "$.a"}}, "for text/csv it must select columns"),
        (
            {"given": {"ContentType": "image/png"}, "DataProcessing": {"JoinSource": "Input"}},
            "ContentType: 'image/png' was given",
        ),
        (
            {"TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 10**6}},
            "instances of the variant",
        ),
        ({"Environment": {"LD_PRELOAD": "x"}}, "has LD_PRELOAD"),
    ],
)
async def test_what_no_job_can_be_asked_for(tmp_path, members: dict[str, Any], says):
    async with Jobs(tmp_path) as jobs:
        with pytest.raises(ValidationException) as refused:
            await jobs.create(**members)
        assert says in refused.value.message
        assert list(jobs.resources.all("transform-job")) == []


async def test_a_model_whose_containers_must_be_named(tmp_path):
    async with Jobs(tmp_path) as jobs:
        model = jobs.resources.find("model", "capitals")
        model.members["InferenceExecutionConfig"] = {"Mode": "Direct"}
        with pytest.raises(ValidationException, match="is Direct; it must be Serial"):
            await jobs.create()


async def test_as_many_as_may_be_wait(tmp_path, monkeypatch):
    assert MAX_JOBS_UNDER_WAY == 256
    monkeypatch.setattr("partway.gateway.apis.transform_jobs.job_runner.MAX_JOBS_UNDER_WAY", 2)
    async with Jobs(tmp_path, at_once=1) as jobs:
        jobs.give(a="one\n")
        jobs.hold()
        await jobs.create("first")
        await jobs.create("second")
        with pytest.raises(ResourceLimitExceeded, match="jobs under way' is 2"):
            await jobs.create("third")


async def test_one_principal_has_half_of_those_that_wait_also_behind_a_restart(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("partway.gateway.apis.transform_jobs.job_runner.MAX_JOBS_UNDER_WAY", 4)
    mine, others = Identity("me", may=lambda *_: True), Identity("you", may=lambda *_: True)

    async def is_full(jobs):
        with pytest.raises(ResourceLimitExceeded) as refused:
            await jobs.call("CreateTransformJob", mine, **a_job(tmp_path, "third"))
        assert refused.value.message == (
            "The service limit 'Number of transform jobs under way of one principal' is 2, with "
            "current utilization of 2 and a request delta of 1; wait for one of your jobs to end, "
            "or stop one."
        )

    async with Jobs(tmp_path, at_once=1) as jobs:
        jobs.give(a="one\n")
        jobs.hold()
        for name in ("first", "second"):
            await jobs.call("CreateTransformJob", mine, **a_job(tmp_path, name))
        await is_full(jobs)
    async with jobs.again() as later:
        await is_full(later)
        await later.call("CreateTransformJob", others, **a_job(tmp_path, "yours"))
        later.let_go()
        for name in ("first", "second", "yours"):
            await later.over(name)
        await later.call("CreateTransformJob", mine, **a_job(tmp_path, "third"))
        await later.over("third")


async def test_the_job_that_was_over_first_makes_room(tmp_path, monkeypatch):
    monkeypatch.setattr("partway.gateway.apis.transform_jobs.operations.MAX_RESOURCES", 2)
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n")
        for name in ("first", "second", "third"):
            await jobs.create(name)
            await jobs.over(name)
        names = {each.name for each in jobs.resources.all("transform-job")}
        assert names == {"second", "third"}


async def test_a_full_store(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n")
        jobs.store.full = True
        with pytest.raises(NotWrittenDown):
            await jobs.create()
        assert jobs.keeper.under_way.used == 0


# --- Who may --------------------------------------------------------------------------------------


async def test_leave_for_a_job_and_for_what_it_reads_and_writes(tmp_path):
    wanted = (
        *("sagemaker:CreateTransformJob", "sagemaker:AddTags", "s3:GetObject", "s3:PutObject"),
        "sagemaker:DescribeModel",
    )
    async with Jobs(tmp_path) as jobs:
        somebody = Limited(*wanted)
        jobs.give(a="one\n")
        tags = [{"Key": "a", "Value": "b"}]
        job = a_job(tmp_path, Tags=tags)
        await jobs.call("CreateTransformJob", somebody.identity, **job)
        assert somebody.asked == [
            (wanted[0], f"{ARN}mine"),
            (wanted[1], f"{ARN}mine"),
            (wanted[2], f"arn:partway:files:::{tmp_path}/in"),
            (wanted[3], f"arn:partway:files:::{tmp_path}/out/*"),
            (wanted[4], "arn:aws:sagemaker:us-east-1:000000000000:model/capitals"),
        ]
        await jobs.over()
        for number in range(len(wanted)):
            others = Limited(*(each for each in wanted if each != wanted[number]))
            job = a_job(tmp_path, "other", Tags=tags)
            with pytest.raises(AccessDenied):
                await jobs.call("CreateTransformJob", others.identity, **job)
        for action in ("DescribeTransformJob", "StopTransformJob", "ListTransformJobs"):
            with pytest.raises(AccessDenied):
                await jobs.call(action, Limited().identity, TransformJobName="mine")


@pytest.mark.parametrize(
    ("location", "resources"),
    [
        ("s3://bucket/in/", ["arn:aws:s3:::bucket/in/*"]),
        ("s3://bucket/in", ["arn:aws:s3:::bucket/in", "arn:aws:s3:::bucket/in/*"]),
        ("{0}/in/", ["arn:partway:files:::{0}/in/*"]),
    ],
)
async def test_what_leave_is_asked_for_to_read(tmp_path, location, resources):
    async with Jobs(tmp_path) as jobs:
        somebody = Limited("sagemaker:CreateTransformJob")
        job = a_job(tmp_path, source={"S3Uri": location.format(tmp_path)})
        with pytest.raises(AccessDenied):
            await jobs.call("CreateTransformJob", somebody.identity, **job)
        assert [resource for _, resource in somebody.asked[1:]] == [
            each.format(tmp_path) for each in resources
        ]


async def test_a_model_of_the_operators_is_given_no_variable(tmp_path):
    async with Jobs(tmp_path) as jobs:
        jobs.give(a="one\n")
        model = jobs.resources.find("model", "capitals")
        async with jobs.resources.changing():
            await jobs.resources.put(replace(model, kept=kept_of("capitals")))
        with pytest.raises(ValidationException, match="must have no Environment"):
            await jobs.create(Environment={"LD_PRELOAD": "x"})
        await jobs.create()
        assert (await jobs.over())["TransformJobStatus"] == "Completed"


async def test_leave_is_asked_for_each_file_when_it_is_read(tmp_path):
    asked = []

    def may(*what: str) -> bool:
        asked.append(what)
        return not what[2].endswith("b.csv")

    async with Jobs(tmp_path, may=may) as jobs:
        jobs.give(a="one\n", b="two\n")
        somebody = Limited(
            *("sagemaker:CreateTransformJob", "sagemaker:DescribeModel"),
            *("s3:GetObject", "s3:PutObject"),
        )
        await jobs.call("CreateTransformJob", somebody.identity, **a_job(tmp_path))
        said = await jobs.over()
        assert said["TransformJobStatus"] == "Failed"
        resource = f"arn:partway:files:::{tmp_path}/in/b.csv"
        assert said["FailureReason"] == (
            f"the job's creator has no permission for s3:GetObject on {resource}"
        )
        assert ("somebody", "s3:GetObject", resource) in asked
        assert jobs.answers == {}


async def test_a_link_leads_nowhere_else(tmp_path):
    (tmp_path / "secret.csv").write_text("one\n")
    async with Jobs(tmp_path) as jobs:
        (tmp_path / "in" / "a.csv").symlink_to(tmp_path / "secret.csv")
        await jobs.create()
        said = await jobs.over()
        assert said["TransformJobStatus"] == "Failed"
        assert "below one of the local_roots" in said["FailureReason"]
        assert jobs.asked == []
