"""partway.gateway.apis.logs.streams: which groups and streams there are."""

from __future__ import annotations

import pytest

from partway.gateway.apis.logs.inputs import NoSuchLog
from partway.gateway.apis.logs.streams import LogStreams
from partway.gateway.fleet.output.log_files import PrintedFiles
from partway.gateway.fleet.output.log_names import GROUPS, JOBS_GROUP, OF_JOBS
from partway.gateway.fleet.states import InstanceState
from tests.gateway.fleet.statuses import a_variant, an_endpoint, an_instance

NEW, OLD = "echo-A-11111111", "echo-A-22222222"


@pytest.fixture
def there(tmp_path):
    PrintedFiles(tmp_path, OLD, "echo").append(b"x\n", 7)
    PrintedFiles(tmp_path, "a-b-c-33333333", "a-b").append(b"x\n", 9)
    over = an_instance("echo-A-44444444", state=InstanceState.FAILED)
    fleet = (an_endpoint("echo", a_variant(an_instance(NEW), over)),)
    return LogStreams.of(tmp_path, fleet)


def test_groups_are_those_of_endpoints_and_of_what_is_left_of_others(there):
    assert there.groups() == {f"{GROUPS}echo": 7, f"{GROUPS}a-b": 9}
    assert LogStreams.of(None, (an_endpoint("echo"),)).groups() == {f"{GROUPS}echo": None}


def test_streams_are_those_that_live_and_those_that_have_printed(there):
    assert there.streams(f"{GROUPS}echo") == {f"A/{NEW}": NEW, f"A/{OLD}": OLD}
    assert there.streams(f"{GROUPS}a-b") == {"c/a-b-c-33333333": "a-b-c-33333333"}
    for group in ("echo", "", GROUPS, f"{GROUPS}a", f"{GROUPS}Echo"):
        with pytest.raises(NoSuchLog, match=r"^The specified log group does not exist\.$"):
            there.streams(group)


def test_a_stream_is_open_or_still_empty(there):
    printed, over = there.stream(f"{GROUPS}echo", f"A/{OLD}")
    with printed:
        assert (printed.endpoint, over) == ("echo", True)
    assert there.stream(f"{GROUPS}echo", f"A/{NEW}") == (None, False)


def test_each_of_several_containers_has_one(tmp_path):
    container = f"{OLD}_pre"
    PrintedFiles(tmp_path, container, "echo").append(b"x\n", 7)
    both = an_instance(NEW, containers={"pre": "http://h:1", "model": "http://h:2"})
    there = LogStreams.of(tmp_path, (an_endpoint("echo", a_variant(both)),))
    assert there.streams(f"{GROUPS}echo") == {
        f"A/{NEW}/pre": f"{NEW}_pre",
        f"A/{NEW}/model": f"{NEW}_model",
        f"A/{OLD}/pre": container,
    }
    printed, over = there.stream(f"{GROUPS}echo", f"A/{OLD}/pre")
    with printed:
        assert (printed.endpoint, over) == ("echo", True)
    assert there.stream(f"{GROUPS}echo", f"A/{NEW}/model") == (None, False)


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("a", "b-c/a-b-c-33333333"), ("a-b", "b/a-b-c-33333333"), ("echo", OLD),
        ("echo", f"A/../{OLD}"), ("echo", f"A/{OLD}.log"), ("a-b", f"A/{OLD}"),
        ("echo", "A/echo-A-44444444"), ("echo", f"A/{OLD}/pre"), ("echo", f"A/{OLD}/../x"),
    ],
)  # fmt: skip
def test_no_other_name_opens_one(there, group, name):
    with pytest.raises(NoSuchLog):
        there.stream(f"{GROUPS}{group}", name)


def test_times(there):
    assert there.times(OLD) == (7, 7)
    assert there.times(NEW) is None


def test_all_jobs_have_one_group(tmp_path):
    new, old = "job-transform-11111111", "old-transform-22222222"
    PrintedFiles(tmp_path, old, f"{OF_JOBS}old").append(b"x\n", 7)
    running = an_endpoint(f"{OF_JOBS}job", a_variant(an_instance(new)))
    there = LogStreams.of(tmp_path, (running, an_endpoint("job")))
    assert there.groups() == {JOBS_GROUP: 7, f"{GROUPS}job": None}
    assert there.streams(JOBS_GROUP) == {f"job/{new}": new, f"old/{old}": old}
    assert not any("transform" in each for each in there.streams(f"{GROUPS}job"))
    printed, over = there.stream(JOBS_GROUP, f"old/{old}")
    with printed:
        assert over
    assert there.stream(JOBS_GROUP, f"job/{new}") == (None, False)
    for group, name in ((f"{GROUPS}job", f"job/{new}"), (f"{GROUPS}{OF_JOBS}old", f"old/{old}")):
        with pytest.raises(NoSuchLog):
            there.stream(group, name)
    with pytest.raises(NoSuchLog):
        LogStreams.of(tmp_path / "none", ()).streams(JOBS_GROUP)
