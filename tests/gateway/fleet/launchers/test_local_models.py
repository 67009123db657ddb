"""partway.gateway.fleet.launchers.local_models: data that the instances of a version share."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from partway.gateway.fleet.endpoint import Attached, Variant
from partway.gateway.fleet.launchers.attached import AttachLauncher
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.fleet.launchers.local_models import LocalModels, ModelDataFirst
from partway.gateway.network.dialling import Address
from partway.gateway.storage.model_data.model_data import ModelDataError
from tests.gateway.fleet.fakes import PROGRAM, FakeModelData, turns
from tests.gateway.fleet.waiting import soon

ORDER = Order("one", "echo", Variant(source=PROGRAM, model_data="s3://b/m"), 0, "v")
BARE = replace(ORDER, variant=Variant(source=PROGRAM))


@pytest.fixture
def data() -> FakeModelData:
    return FakeModelData()


@pytest.fixture
async def models(anyio_backend: object, no_leaks: None, data: FakeModelData) -> LocalModels:
    return LocalModels(data.acquire)


async def test_a_version_has_its_data_until_it_is_released(models, data):
    first = await models.of(ORDER)
    assert await models.of(replace(ORDER, instance="two", number=1)) is first
    other = await models.of(replace(ORDER, version="w"))
    assert other.path != first.path
    assert await models.of(BARE) is None
    models.release("v")
    assert data.held == 1
    models.release("v")
    models.release("w")
    assert data.held == 0


async def test_each_of_several_containers_has_its_own(models, data):
    pre, model = (replace(ORDER, instance=f"one_{name}") for name in ("pre", "model"))
    assert (await models.of(pre)).path != (await models.of(model)).path
    models.release("v")
    assert data.held == 0


async def test_what_comes_after_the_release_is_held_by_nobody(models, data):
    data.waits = asyncio.Event()
    fetching = asyncio.create_task(models.of(ORDER))
    await turns()
    models.release("v")
    data.waits.set()
    with pytest.raises(LaunchError, match="stopped while its model data were fetched"):
        await soon(fetching)
    assert data.held == 0


async def test_by_default_a_folder_is_used_where_it_is(anyio_backend, no_leaks, tmp_path):
    variant = Variant(source=PROGRAM, model_data=str(tmp_path))
    assert (await LocalModels().of(replace(ORDER, variant=variant))).path == Path(tmp_path)


async def test_an_attached_container_starts_only_with_its_data(models, data):
    launcher = ModelDataFirst(AttachLauncher(), models)
    source = Attached((Address("far", 1),))
    order = replace(ORDER, variant=replace(ORDER.variant, source=source))
    data.errors.append(ModelDataError("m: it must be an archive"))
    with pytest.raises(LaunchError, match="model data: m: it must be an archive"):
        await launcher.launch(order)
    assert (await launcher.launch(order)).address == Address("far", 1)
    assert data.held == 1
    launcher.release("v")
    assert data.held == 0
    await launcher.aclose()
