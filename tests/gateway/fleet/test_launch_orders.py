"""partway.gateway.fleet.launch_orders: orders, and the model data that instances share."""

from __future__ import annotations

import asyncio
from pathlib import Path

from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    InstanceTimes,
    OneContainer,
    Variant,
)
from partway.gateway.fleet.launch_orders import ContainerOutputs
from partway.gateway.network.dialling import Address
from partway.gateway.storage.model_data.model_data import ModelDataError
from tests.gateway.fleet.fakes import PROGRAM, FakeOutput, endpoint, turns

MODEL = "s3://models/one.tar.gz"


def folders(of):
    return [str(each.model) for each in of.launcher.containers]


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
    assert trouble == "model data: they did not arrive within 60 s"
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


# --- Several containers --------------------------------------------------------------------------


def several(*, urls=False, **keys):
    """An instance has a program with model data, and what runs at a URL or another program."""
    attached = Attached((Address("h", 1),))
    source = Containers(
        (
            OneContainer(
                hostname="pre", source=PROGRAM, model_data=MODEL, environment=(("A", "1"),)
            ),
            OneContainer(hostname="model", source=attached if urls else PROGRAM),
        ),
        "direct",
    )
    return endpoint("echo", Variant(source=source, **keys))


async def test_each_has_an_order_of_its_own(of):
    await of.apply(several(instances=2))
    assert of.states() == ["InService"] * 2
    names = [each.id for each in of.status().variants[0].instances]
    launched = {each.order.instance: each for each in of.launcher.containers}
    assert sorted(launched) == sorted(
        f"{name}_{which}" for name in names for which in ("pre", "model")
    )
    for name in names:
        pre, model = launched[f"{name}_pre"], launched[f"{name}_model"]
        assert (pre.model, model.model) == (Path("/models/1"), None)
        environments = [each.order.variant.environment for each in (pre, model)]
        assert environments == [(("A", "1"),), ()]
        pre.says(b"of pre")
        assert of.outputs[f"{name}_pre"].fed == b"of pre"
        assert of.outputs[f"{name}_model"].fed == b""
    assert of.model_data.acquired == [MODEL]
    assert of.model_data.held == 1


async def test_where_each_is(of):
    await of.apply(several())
    ((instance,),) = [variant.instances for variant in of.router.table["echo"]]
    place = instance.place
    ports = [each.address.port for each in of.launcher.containers]
    assert [each.container.port for each in place.containers] == ports
    assert [each.hostname for each in place.containers] == ["pre", "model"]
    assert (place.container.port, place.hostname, place.execution) == (ports[0], "", "direct")
    (shown,) = of.status().variants[0].instances
    assert shown.containers == {
        "pre": f"http://127.0.0.1:{ports[0]}", "model": f"http://127.0.0.1:{ports[1]}"
    }  # fmt: skip


async def test_what_runs_at_one_url_is_there_for_all_instances(of):
    await of.apply(several(urls=True, instances=2))
    assert of.states() == ["InService"] * 2
    assert [
        each.order.number for each in of.launcher.containers if "model" in each.order.instance
    ] == [0, 0]


async def test_one_that_ends_is_named_and_takes_the_other_with_it(of):
    await of.apply(several())
    pre, model = of.launcher.containers
    model.says(b"no memory\n")
    model.end()
    await turns()
    assert pre.signals == ["KILL"]
    assert of.status().variants[0].trouble == (
        "the container model ended with status 3\nit printed last:\nmodel: no memory"
    )
    await of.advance(0.75)
    assert of.states() == ["InService"]
    assert len(of.launcher.running) == 2


async def test_one_that_does_not_answer_is_named(of):
    of.launcher.troubles.extend([None, "Connection refused"])
    await of.apply(several(times=InstanceTimes(startup_timeout=5)))
    await of.advance(4)
    assert of.states() == ["Starting"]
    await of.advance(1)
    trouble = of.status().variants[0].trouble
    assert trouble == "the container is not ready after 5 s: model: Connection refused"
    of.fleet.remove("echo")
    await turns()
    assert of.launcher.running == []


async def test_whose_model_data_are_missing_is_named(of):
    of.model_data.errors.append(ModelDataError("one.tar.gz: it must be an archive"))
    await of.apply(several())
    assert of.status().reason == "pre: model data: one.tar.gz: it must be an archive"


def test_each_line_has_the_name_of_who_printed_it():
    first, second = FakeOutput(), FakeOutput()
    first.feed(b"loading\nloaded\n")
    second.feed(b"no such file\n")
    both = ContainerOutputs({"pre": first, "model": second})
    assert both.last_lines() == ("pre: loading", "pre: loaded", "model: no such file")
    both.close()
    assert first.closed
    assert second.closed


def test_of_many_few_lines_are_shown():
    outputs = {f"c{number}": FakeOutput() for number in range(15)}
    for output in outputs.values():
        output.feed(b"one\ntwo\n")
    assert ContainerOutputs(outputs).last_lines() == tuple(f"c{n}: two" for n in range(15))
