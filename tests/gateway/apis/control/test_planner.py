"""Planning: files are looked at on threads, for so long, and only where a plan names any."""

from __future__ import annotations

import asyncio
import dataclasses
import threading

import pytest

from partway.gateway.apis.control import planner as planning_module
from partway.gateway.apis.control.endpoint_plans import planned
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.planner import Planning
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT, WORK_STOP_TIMEOUT
from partway.protocol.errors import ServiceUnavailable
from tests.gateway.apis.control.deployed import a_config, a_model, a_plan
from tests.gateway.fleet.fakes import turns
from tests.gateway.streams.fakes import FakeClock


def with_data(place):
    return a_plan(a_config(), a_model(ModelDataUrl=place))


@pytest.fixture
def threads(monkeypatch):
    """On which threads is planned."""
    seen = []

    def seen_planned(*given):
        seen.append(threading.current_thread())
        return planned(*given)

    monkeypatch.setattr(planning_module, "planned", seen_planned)
    return seen


@pytest.mark.parametrize("form", ["{}", "file://{}"])
async def test_files_are_looked_at_on_a_thread_that_nobody_joins(tmp_path, threads, form):
    planning = Planning(Settings(local_roots=(tmp_path,)), FakeClock())
    endpoint = await planning.endpoint_of("mine", with_data(form.format(tmp_path)))
    assert endpoint.variants[0].model_data == str(tmp_path)
    (thread,) = threads
    assert thread.daemon
    assert thread is not threading.main_thread()
    planning.settings = dataclasses.replace(planning.settings, local_roots=())
    with pytest.raises(ValidationException, match="local_roots"):
        await planning.endpoint_of("mine", with_data(str(tmp_path)))


@pytest.mark.parametrize("place", ["", "s3://bucket/model.tar.gz"])
async def test_what_names_no_files_needs_no_thread(threads, place):
    endpoint = await Planning(Settings(), FakeClock()).endpoint_of("mine", with_data(place))
    assert endpoint.name == "mine"
    assert threads == [threading.current_thread()]


async def test_a_file_system_that_does_not_answer_is_given_up(monkeypatch):
    back, clock = threading.Event(), FakeClock()
    monkeypatch.setattr(planning_module, "planned", lambda *_: back.wait(30))
    asking = asyncio.create_task(Planning(Settings(), clock).endpoint_of("a", with_data("/away")))
    await turns()
    clock.advance(MODEL_DATA_LOOK_TIMEOUT)
    await turns()
    clock.advance(WORK_STOP_TIMEOUT)
    try:
        with pytest.raises(ValidationException, match="has not answered within 30 s"):
            await asking
    finally:
        back.set()


async def test_without_a_thread_it_is_for_later(monkeypatch):
    async def no_thread(*_):
        raise OSError("256 threads work on files already")

    monkeypatch.setattr(planning_module, "on_thread", no_thread)
    with pytest.raises(ServiceUnavailable, match=r"256 threads.*try again later"):
        await Planning(Settings(), FakeClock()).endpoint_of("mine", with_data("/models"))
