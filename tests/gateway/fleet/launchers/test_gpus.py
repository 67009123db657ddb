"""partway.gateway.fleet.launchers.gpus: what nvidia-smi says is said by a script in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.fleet.launchers import gpus
from partway.gateway.fleet.launchers.gpus import GpuShares, gpus_of_this_machine
from partway.gateway.fleet.launchers.launcher import LaunchError
from tests.gateway.fleet.waiting import soon

TWO = """\
GPU 0: NVIDIA H200 (UUID: GPU-3a1f0000-aaaa-bbbb-cccc-000000000000)
GPU 1: NVIDIA H200 (UUID: GPU-3a1f0000-aaaa-bbbb-cccc-000000000001)
"""

#: The first is divided.
DIVIDED = """\
GPU 0: NVIDIA H200 (UUID: GPU-aa)
  MIG 1g.18gb     Device  0: (UUID: MIG-11111111-aaaa)
  MIG 1g.18gb     Device  1: (UUID: MIG-22222222-aaaa)
GPU 1: NVIDIA H200 (UUID: GPU-bb)
GPU 2: Tesla V100 (UUID: GPU-cc)
  MIG 3g.20gb Device 0: (UUID: MIG-GPU-cc/1/0)
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the script is written that stands for nvidia-smi; without it there is none."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(gpus, "_DRIVER", tmp_path / "driver")
    return tmp_path / "nvidia-smi"


def says(tool: Path, script: str) -> None:
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


# --- What there is -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("0", ("0",)),
        ("2, 0", ("2", "0")),
        ("0,-1,1", ("0",)),
        ("GPU-3a1f,MIG-77", ("GPU-3a1f", "MIG-77")),
    ],
)
async def test_those_that_the_gateway_may_see(anyio_backend, tool, visible, expected):
    says(tool, f"echo '{TWO}'")
    assert await soon(gpus_of_this_machine({"CUDA_VISIBLE_DEVICES": visible})) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", ()),
        ("No devices found.", ()),
        (TWO, tuple(f"GPU-3a1f0000-aaaa-bbbb-cccc-00000000000{n}" for n in range(2))),
        (DIVIDED, ("MIG-11111111-aaaa", "MIG-22222222-aaaa", "GPU-bb", "MIG-GPU-cc/1/0")),
    ],
)
async def test_those_that_the_drivers_tool_lists(anyio_backend, no_leaks, tool, said, expected):
    says(tool, f"[ $# = 1 ] && [ $1 = -L ] && echo '{said}'")
    assert await soon(gpus_of_this_machine({})) == expected


@pytest.mark.parametrize("script", [None, "echo 'GPU-no: mismatch'; exit 9", "exec sleep 1000"])
async def test_without_the_tool_the_driver_is_asked(
    anyio_backend, no_leaks, tool, script, monkeypatch
):
    if script is not None:
        says(tool, script)
    monkeypatch.setattr(gpus, "GPU_LIST_TIMEOUT", 0.2)
    for bus in ("0000:02:00.0", "0000:01:00.0"):
        folder = tool.parent / "driver" / bus
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: NVIDIA\nGPU UUID:\t GPU-{bus[5:7]}\n")
    assert await soon(gpus_of_this_machine({})) == ("GPU-01", "GPU-02")


async def test_most_machines_have_none(anyio_backend, no_leaks, tool):
    assert await soon(gpus_of_this_machine({})) == ()


# --- Whose they are ------------------------------------------------------------------------------


def test_each_has_its_own_as_long_as_it_lives():
    shares = GpuShares(["a", "b", "c"])
    assert not shares.given
    assert shares.take("one", 2) == ("a", "b")
    assert shares.take("two", 1) == ("c",)
    shares.give_back("one")
    assert shares.given
    assert shares.take("three", 1) == ("a",)
    shares.give_back("two")
    assert shares.take("four", 2) == ("b", "c")
    for instance in ("three", "four", "nobody"):
        shares.give_back(instance)
    assert not shares.given


def test_one_may_keep_what_it_has():
    shares = GpuShares(["a", "b", "c"])
    assert shares.keep("one", ("b",))
    assert shares.keep("one", ("b",))
    assert not shares.keep("two", ("a", "b")), "another's"
    assert not shares.keep("two", ("d",)), "it is not there"
    assert shares.keep("two", ())
    assert shares.take("two", 2) == ("a", "c")


async def test_which_there_are_is_found_out_once(anyio_backend, monkeypatch):
    found = [("a",), ("b",)]

    async def look():
        return found.pop(0)

    monkeypatch.setattr("partway.gateway.fleet.launchers.gpus.gpus_of_this_machine", look)
    shares = GpuShares()
    for _ in range(2):
        await shares.find()
    assert shares.take("one", 1) == ("a",)
    assert not shares.sees_none


@pytest.mark.parametrize(("visible", "none"), [(None, True), ("", False), ("-1", False)])
def test_a_gateway_that_is_told_to_see_none_is_not_blind(monkeypatch, visible, none):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert GpuShares([]).sees_none is none


def test_those_that_others_have_come_back():
    shares = GpuShares(["a", "b", "c"])
    shares.take("two", 1)
    shares.take("one", 1)
    with pytest.raises(LaunchError) as caught:
        shares.take("three", 2)
    assert str(caught.value) == (
        "the variant asks for 2 GPUs, but only 1 of 3 are free; one, two have the others"
    )
    assert caught.value.passing
    assert shares.take("three", 1) == ("c",)


@pytest.mark.parametrize(("there", "seen"), [([], "none"), (["a"], "only 1")])
def test_those_that_are_not_there_do_not_come(there, seen):
    with pytest.raises(LaunchError) as caught:
        GpuShares(there).take("one", 2)
    assert f"the variant asks for 2 GPUs, but this gateway sees {seen}" in str(caught.value)
    assert not caught.value.passing


def test_containers_of_one_instance_share_its_own():
    shares = GpuShares(["a", "b", "c"])
    assert shares.take("one_pre", 2) == ("a", "b")
    assert shares.take("one_model", 2) == ("a", "b")
    assert shares.take("two_pre", 1) == ("c",)
    assert shares.keep("two_model", ("c",))
    shares.give_back("one_pre")
    with pytest.raises(LaunchError):
        shares.take("three", 1)
    shares.give_back("one_model")
    assert shares.take("three", 2) == ("a", "b")


def test_what_is_taken_over_is_the_new_ones():
    shares = GpuShares(["a", "b"])
    assert shares.keep("old_pre", ("a",))
    assert shares.keep("old_model", ("a",))
    shares.move("old", "new")
    shares.move("old", "new")
    assert shares.keep("old_model", ("a",)), "it is only found again"
    assert shares.take("new_model", 1) == ("a",)
    for container in ("old_pre", "old_model"):
        shares.give_back(container)
    assert shares.take("other", 1) == ("b",)
    shares.give_back("new_model")
    assert shares.take("old", 1) == ("a",)


def test_one_that_has_some_takes_over_no_others():
    shares = GpuShares(["a", "b"])
    assert shares.take("new_model", 1) == ("a",)
    assert shares.keep("old_pre", ("b",))
    shares.move("old", "new")
    shares.move("nobody", "new")
    assert shares.take("new_pre", 1) == ("a",)
    with pytest.raises(LaunchError, match="new, old have the others"):
        shares.take("other", 1)


def test_those_of_a_running_container_are_its_own_before_any_is_known():
    shares = GpuShares(["a", "b"])
    shares.reserve("one", ["a"])
    assert shares.take("other", 1) == ("b",)
    with pytest.raises(LaunchError, match="one, other have the others"):
        shares.take("third", 1)
    shares.give_back("one")
    assert shares.take("third", 1) == ("a",)
