"""partway.gateway.fleet.instance_maker: what a variant's instances share."""

from __future__ import annotations

import asyncio

from partway.gateway.fleet.endpoints import InstanceTimes
from partway.gateway.fleet.model_data import ModelDataError
from partway.gateway.fleet.pinned_path import PinnedPath
from tests.gateway.fleet.fakes import endpoint, turns
from tests.gateway.fleet.processes import eventually

MODEL = "s3://models/one.tar.gz"


def folders(of):
    return [str(each.order.model_dir) for each in of.launcher.containers]


async def test_model_data_are_had_once_for_all(of):
    await of.apply(endpoint(model_data=MODEL, instances=3))
    assert of.model_data.acquired == [MODEL]
    assert folders(of) == ["/models/1"] * 3


async def test_one_in_the_place_of_another_needs_no_network(of):
    await of.apply(endpoint(model_data=MODEL))
    of.launcher.containers[0].end()
    await of.advance(0.75)
    assert of.states() == ["InService"]
    assert of.model_data.acquired == [MODEL]
    assert of.model_data.held == 1


async def test_they_are_given_back_with_the_last_instance(of):
    await of.apply(endpoint(model_data=MODEL, instances=2))
    lease = of.router.lease("echo")
    of.fleet.remove("echo")
    await turns()
    assert of.model_data.held == 1
    lease.__exit__(None, None, None)
    await turns()
    assert of.model_data.held == 0


async def test_another_version_has_its_own(of):
    await of.apply(endpoint(model_data=MODEL))
    await of.apply(endpoint(model_data="/models/two"))
    assert of.model_data.acquired == [MODEL, "/models/two"]
    assert of.model_data.held == 1
    await of.fleet.restart("echo")
    await turns()
    assert of.model_data.acquired == [MODEL, "/models/two", "/models/two"]
    assert of.model_data.held == 1


async def test_what_passes_is_tried_again(of):
    of.model_data.errors.append(ModelDataError("s3 is out", passing=True))
    await of.apply(endpoint(model_data=MODEL))
    assert of.status().variants[0].trouble == "model data: s3 is out"
    await of.advance(0.75)
    assert of.states() == ["InService"]


async def test_what_is_not_at_hand_in_its_time_is_tried_again(of):
    of.model_data.waits = asyncio.Event()
    await of.apply(endpoint(model_data=MODEL, times=InstanceTimes(download_timeout=60)))
    await of.advance(59)
    assert of.states() == ["Pending"]
    await of.advance(1)
    trouble = of.status().variants[0].trouble
    assert trouble == "model data: they are not at hand after 60 s"
    of.model_data.waits.set()
    await of.advance(1)
    assert of.states() == ["InService"]


async def test_what_does_not_fails_the_endpoint(of):
    of.model_data.errors.append(ModelDataError("one.tar.gz: it must be an archive"))
    await of.apply(endpoint(model_data=MODEL))
    status = of.status()
    assert (status.state, status.reason) == (
        "Failed",
        "model data: one.tar.gz: it must be an archive",
    )
    assert of.model_data.held == 0


async def test_whoever_is_gone_before_they_came_holds_nothing(of):
    of.model_data.waits = asyncio.Event()
    await of.apply(endpoint(model_data=MODEL))
    of.fleet.remove("echo")
    await turns()
    of.model_data.waits.set()
    await turns()
    assert of.fleet.describe() == ()
    assert of.model_data.held == 0
    assert of.launcher.containers == []


# --- What a caller has named ---------------------------------------------------------------------


def named_by_a_caller(of, path, **keys):
    """Has an endpoint run with model data of this machine that are pinned as they are now."""
    of.fleet.apply(endpoint(model_data=str(path), pinned=PinnedPath.of(path), **keys))


async def test_a_folder_is_looked_at_before_each_launch(of, tmp_path):
    folder = tmp_path.resolve() / "chat"
    folder.mkdir()
    of.model_data.in_place = True
    named_by_a_caller(of, folder)
    await eventually(lambda: of.states() == ["InService"])
    assert folders(of) == [str(folder)]
    folder.rename(tmp_path / "away")
    folder.symlink_to("/etc")
    of.launcher.containers[0].end()
    await of.advance(0.75)
    await eventually(lambda: "a link or another" in of.status().variants[0].trouble)
    assert len(of.launcher.containers) == 1, "nothing was started with what the link leads to"
    folder.unlink()
    (tmp_path / "away").rename(folder)
    await of.advance(30)
    await eventually(lambda: of.states() == ["InService"])


async def test_before_the_first_too(of, tmp_path):
    folder = tmp_path.resolve() / "chat"
    folder.mkdir()
    of.model_data.waits = asyncio.Event()
    pinned = PinnedPath.of(folder)
    folder.rmdir()
    folder.symlink_to("/etc")
    of.fleet.apply(endpoint(model_data=str(folder), pinned=pinned))
    await eventually(lambda: "a link or another" in of.status().variants[0].trouble)
    assert of.model_data.acquired == []


async def test_of_what_was_unpacked_there_is_a_copy(of, tmp_path):
    archive = tmp_path.resolve() / "chat.tar.gz"
    archive.touch()
    named_by_a_caller(of, archive)
    await eventually(lambda: of.states() == ["InService"])
    archive.unlink()
    archive.symlink_to("/etc/passwd")
    of.launcher.containers[0].end()
    await of.advance(0.75)
    await eventually(lambda: of.states() == ["InService"])
    assert folders(of) == ["/models/1"] * 2
