"""Programs that a killed gateway process has started, and the next one's fleet; all are real."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import aiohttp
import psutil
import pytest

from partway.gateway.fleet.endpoint import Containers, Endpoint, OneContainer, Program, Variant
from partway.gateway.fleet.status import EndpointState
from partway.gateway.fleet.stream_policy import StreamPolicy
from tests.gateway.fleet.kept_machine import Machine, entries, kept, serving, subreaper
from tests.gateway.fleet.waiting import eventually, soon, until_gone

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone can")

PROGRAM = Program((sys.executable, "-S", str(Path(__file__).with_name("kept_program.py"))))


@pytest.fixture
async def machine(tmp_path: Path, anyio_backend: object) -> AsyncIterator[Machine]:
    async with subreaper():
        machine = Machine(tmp_path / "data")
        yield machine
        await machine.close()
        await eventually(lambda: running(tmp_path) == [])


@pytest.fixture
def of(tmp_path: Path) -> Callable[..., Endpoint]:
    """Makes endpoints whose programs this test finds again."""

    def of(instances: int = 1, name: str = "echo", **environment: str) -> Endpoint:
        variables = tuple(sorted({"OF_TEST": str(tmp_path), **environment}.items()))
        variant = Variant(source=PROGRAM, instances=instances, environment=variables)
        return Endpoint(name, StreamPolicy(), (variant,))

    return of


def running(test: Path) -> list[int]:
    """The programs of a test that run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("OF_TEST") == str(test):
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return sorted(found)


async def say(port: int, path: str) -> None:
    where = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(where):
        pass


async def test_a_program_in_service_goes_on(machine, of, tmp_path):
    first = machine.first()
    first.call("apply", of(2))
    await eventually(lambda: serving(first) == 2)
    before, ids = running(tmp_path), set(kept(first.kept, "instance/"))
    ports = {each["port"] for each in kept(first.kept, "program/").values()}
    for port in ports:
        await say(port, "/before")
    await machine.kill_first()
    for port in ports:
        await say(port, "/between")
    assert running(tmp_path) == before
    following = machine.next()
    await following.starts(of(2))
    assert running(tmp_path) == before
    assert following.ports() == ports
    assert {f"instance/{each.id}" for each in following.instances()} == ids
    for port in ports:
        await say(port, "/after")
    for each in following.instances():
        log = following.logs / f"{each.id}.log"
        await eventually(log.exists)
        await eventually(lambda log=log: log.read_text().endswith("/between\n/after\n"))


async def test_its_end_is_told(machine, of, tmp_path, caplog):
    first = machine.first()
    first.call("apply", of(1))
    await eventually(lambda: serving(first) == 1)
    await machine.kill_first()
    following = machine.next()
    await following.starts(of(1))
    (before,) = following.instances()
    with pytest.raises(aiohttp.ClientError):
        await say(*following.ports(), "/exit")
    await eventually(lambda: "the container ended with status 3" in caplog.text)
    await eventually(lambda: before.id not in [each.id for each in following.instances()])
    await eventually(lambda: len(running(tmp_path)) == 1)


async def test_one_that_has_ended_meanwhile_is_told_too(machine, of, caplog):
    first = machine.first()
    first.call("apply", of(1))
    await eventually(lambda: serving(first) == 1)
    (record,) = kept(first.kept, "program/").values()
    await machine.kill_first()
    with pytest.raises(aiohttp.ClientError):
        await say(record["port"], "/exit")
    following = machine.next()
    await following.starts(of(1))
    assert "the container ended with status 3" in caplog.text
    assert "it printed last:" in caplog.text
    assert following.fleet.status("echo").state is EndpointState.IN_SERVICE
    assert following.ports() != {record["port"]}


async def test_a_program_that_starts_goes_on_starting(machine, of, tmp_path):
    ready = tmp_path / "ready"
    first = machine.first()
    first.call("apply", of(1, READY=str(ready)))
    await eventually(lambda: kept(first.kept, "program/"))
    before = running(tmp_path)
    await machine.kill_first()
    following = machine.next()
    starting = asyncio.create_task(following.starts(of(1, READY=str(ready))))
    await eventually(lambda: [each for each in following.instances() if each.container])
    assert following.fleet.status("echo").state is EndpointState.CREATING
    ready.touch()
    await starting
    assert running(tmp_path) == before


async def test_the_end_of_the_supervisor_ends_it(machine, of, tmp_path):
    first = machine.first()
    first.call("apply", of(2))
    await eventually(lambda: serving(first) == 2)
    before = running(tmp_path)
    await machine.kill_first()
    assert running(tmp_path) == before
    machine.kept.close()  # the leash's pipe with it
    for pid in before:
        await until_gone(pid)


async def test_an_orderly_end_ends_it(machine, of, tmp_path):
    first = machine.first()
    first.call("apply", of(2))
    await eventually(lambda: serving(first) == 2)
    await machine.kill_first()
    following = machine.next()
    await following.starts(of(2))
    await following.stop()
    assert running(tmp_path) == []
    assert machine.kept.names == {"fleet"}


async def test_one_that_was_not_kept_is_killed(machine, of, tmp_path):
    """As one that was being started when the process was killed."""
    first = machine.first()
    first.call("apply", of(2))
    await eventually(lambda: serving(first) == 2)
    before = running(tmp_path)
    await machine.kill_first()
    lost = min(kept(machine.kept, "program/"))
    machine.kept.forget(lost)
    following = machine.next()
    await following.starts(of(2))
    await eventually(lambda: len(running(tmp_path)) == 2)
    assert len({*running(tmp_path)} & {*before}) == 1
    assert {f"program/{each.id}" for each in following.instances()} >= {lost}


async def test_it_keeps_its_gpus(machine, of, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "a,b")
    (variant,) = of(1).variants
    one = Endpoint("echo", StreamPolicy(), (replace(variant, gpus=1),))
    first = machine.first()
    first.call("apply", one)
    await eventually(lambda: serving(first) == 1)
    await machine.kill_first()
    following = machine.next()
    await following.starts(replace(one, name="another"), one)
    found = [psutil.Process(pid).environ()["CUDA_VISIBLE_DEVICES"] for pid in running(tmp_path)]
    assert sorted(found) == ["a", "b"]


# --- Changes that were under way ------------------------------------------------------------------


async def test_one_that_drained_ends_once_nothing_is_open(machine, of, tmp_path):
    first = machine.first()
    first.call("apply", of(2))
    await eventually(lambda: serving(first) == 2)
    first.call("lease", "echo")
    first.call("lease", "echo")
    first.call("apply", of(1))
    await eventually(lambda: serving(first) == 1)
    before = running(tmp_path)
    await machine.kill_first()
    (leaves,) = [
        name.removeprefix("instance/")
        for name, each in kept(machine.kept, "instance/").items()
        if each["is_leaving"]
    ]
    following = machine.next()
    following.counts.elsewhere[f"instance {leaves} streams"] = 1
    await following.starts(of(1))
    load = following.router.load(leaves)
    await eventually(lambda: load.on_idle.__name__ == "set")  # it is looked after
    load.check_idle()
    assert running(tmp_path) == before
    following.counts.elsewhere.clear()
    load.check_idle()
    await eventually(lambda: len(running(tmp_path)) == 1)
    await eventually(lambda: leaves not in str(machine.kept.names))


async def test_one_that_nobody_wants_yet_need_not_wait_for_its_output(machine, of, tmp_path):
    """As that of an earlier version, until the new one serves."""
    ready = tmp_path / "ready"
    first = machine.first()
    first.call("apply", of(1))
    await eventually(lambda: serving(first) == 1)
    (record,) = kept(first.kept, "program/").values()
    await machine.kill_first()
    following = machine.next()
    starting = asyncio.create_task(following.starts(of(1, READY=str(ready))))
    await eventually(lambda: following.fleet.status("echo"))
    for _ in range(20):
        await say(record["port"], "/" + 8000 * "x")  # more than a pipe holds
    ready.touch()
    await starting
    await eventually(lambda: len(running(tmp_path)) == 1)


async def test_a_removed_endpoint_ends(machine, of, tmp_path):
    first = machine.first()
    first.call("apply", of(2))
    first.call("apply", of(1, "other"))
    await eventually(lambda: serving(first) == 3)
    await machine.kill_first()
    following = machine.next()
    await following.starts(of(1, "other"))
    await eventually(lambda: len(running(tmp_path)) == 1)
    await eventually(lambda: entries(machine.kept) == (1, 1))


async def test_one_of_something_else_drains_beside_a_new_one(machine, of, tmp_path):
    """A folder with its model's path is another one: the variant alone does not tell."""
    model = tmp_path / "model"
    model.mkdir()
    (variant,) = of(1).variants
    one = Endpoint("echo", StreamPolicy(), (replace(variant, model_data=str(model)),))
    first = machine.first()
    first.call("apply", one)
    await eventually(lambda: serving(first) == 1)
    (before,) = running(tmp_path)
    (name,) = (each.removeprefix("instance/") for each in kept(first.kept, "instance/"))
    await machine.kill_first()
    model.rename(tmp_path / "earlier")
    model.mkdir()
    following = machine.next()
    following.counts.elsewhere[f"instance {name} streams"] = 1
    await following.starts(one)
    assert len(running(tmp_path)) == 2
    assert name not in [each.id for each in following.instances()]
    await eventually(lambda: following.router.load(name).on_idle.__name__ == "set")
    following.counts.elsewhere.clear()
    following.router.load(name).check_idle()
    await until_gone(before)
    await eventually(lambda: len(running(tmp_path)) == 1)


async def test_an_update_that_was_under_way_goes_on(machine, of, tmp_path):
    """The earlier version serves again first, as a gateway with a store does it."""
    ready = tmp_path / "ready"
    earlier, coming = of(2), of(2, READY=str(ready))
    first = machine.first()
    first.call("apply", earlier)
    await eventually(lambda: serving(first) == 2)
    first.call("apply", coming)
    await eventually(lambda: len(kept(first.kept, "program/")) == 4)
    before = running(tmp_path)
    await machine.kill_first()
    following = machine.next()
    following.fleet.start([earlier])
    await soon(following.fleet.has_settled(60))
    following.fleet.apply(coming, anew=True)
    await eventually(lambda: sum(bool(each.container) for each in following.instances()) == 4)
    assert running(tmp_path) == before
    ready.touch()
    await following.starts()
    await eventually(lambda: len(running(tmp_path)) == 2)
    assert {*running(tmp_path)} < {*before}


async def test_the_programs_of_one_instance_stay_together(machine, tmp_path):
    each = OneContainer(hostname="a", source=PROGRAM, environment=(("OF_TEST", str(tmp_path)),))
    two = Containers((each, replace(each, hostname="b")))
    one = Endpoint("echo", StreamPolicy(), (Variant(source=two),))
    first = machine.first()
    first.call("apply", one)
    await eventually(lambda: serving(first) == 1)
    before = running(tmp_path)
    await machine.kill_first()
    following = machine.next()
    await following.starts(one)
    assert (running(tmp_path), len(before)) == (before, 2)


async def test_of_several_programs_that_nobody_wants_all_end(machine, tmp_path):
    each = OneContainer(hostname="a", source=PROGRAM, environment=(("OF_TEST", str(tmp_path)),))
    two = Containers((each, replace(each, hostname="b")))
    first = machine.first()
    first.call("apply", Endpoint("echo", StreamPolicy(), (Variant(source=two),)))
    await eventually(lambda: serving(first) == 1)
    await machine.kill_first()
    await machine.next().starts()
    await eventually(lambda: running(tmp_path) == [])


@pytest.mark.parametrize("seed", range(2))
async def test_killed_at_any_moment(machine, of, tmp_path, seed):
    """During starts, updates and scaling; no program is left over, and none is missing."""
    chosen = random.Random(seed)
    first = machine.first()
    first.call("apply", of(chosen.randint(1, 3), VERSION=chosen.choice("ab")))
    await eventually(lambda: kept(first.kept, "instance/"))
    for _ in range(2):
        await asyncio.sleep(chosen.uniform(0, 0.3))
        first.call("apply", of(chosen.randint(1, 3), VERSION=chosen.choice("ab")))
    await asyncio.sleep(chosen.uniform(0, 0.3))  # the moment
    await machine.kill_first()
    last = of(chosen.randint(1, 3), VERSION=chosen.choice("ab"))
    following = machine.next()
    await following.starts(last)
    number = last.variants[0].instances
    await eventually(lambda: len(running(tmp_path)) == number)
    await eventually(lambda: entries(machine.kept) == (number, number))
    for port in following.ports():
        await say(port, "/after")
