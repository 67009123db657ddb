"""partway.gateway.fleet.instance_factory: instances of attached and of launched containers."""

from __future__ import annotations

from pathlib import Path

from partway.gateway.fleet.endpoint import Attached, Variant
from partway.gateway.network.dialling import Address
from partway.gateway.tls.trust import Trust
from tests.gateway.fleet.fakes import endpoint

TRUST = Trust()
ATTACHED = Attached((Address("h", 1),), TRUST)


async def test_an_attached_instance_has_no_output_and_no_model_data(of):
    await of.apply(endpoint("chat", Variant(source=ATTACHED)))
    assert of.states("chat") == ["InService"]
    (container,) = of.launcher.containers
    assert container.model is None
    container.says(b"it goes nowhere")
    assert of.outputs == {}
    ((instance,),) = [variant.instances for variant in of.router.table["chat"]]
    assert (instance.place.container, instance.place.tls) == (container.address, TRUST)
    assert not instance.place.has_log


async def test_model_data_of_an_attached_instance_are_had_all_the_same(of):
    await of.apply(endpoint("chat", Variant(source=ATTACHED, model_data="s3://models/one.tar.gz")))
    assert of.states("chat") == ["InService"]
    (container,) = of.launcher.containers
    assert container.model == Path("/models/1")
    assert of.model_data.held == 1


async def test_a_launched_instance_has_an_output(of):
    await of.apply(endpoint("chat"))
    (container,) = of.launcher.containers
    container.says(b"hello")
    (output,) = of.outputs.values()
    assert output.fed == b"hello"
    ((instance,),) = [variant.instances for variant in of.router.table["chat"]]
    assert instance.place.has_log
