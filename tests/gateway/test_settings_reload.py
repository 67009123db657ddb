"""partway.gateway.settings_reload: settings that change while the gateway runs."""

from __future__ import annotations

import asyncio
import logging

import pytest

from partway.gateway.limits import SETTINGS_CHECK_INTERVAL
from partway.gateway.service import Service
from partway.gateway.settings import settings
from partway.gateway.settings_reload import Reloading
from tests.gateway.apis.control.kept_endpoints import ApiGateway
from tests.gateway.fleet.fakes import endpoint, turns

ONE = """
[endpoints.a]
command = "serve"
"""
TWO = """
port = 8091
[endpoints.a]
command = "serve"
instances = 2
[endpoints.b]
command = "serve"
"""


@pytest.fixture
async def following(of, tmp_path):
    path = tmp_path / "partway.toml"
    path.write_text(ONE)

    def load():
        return settings.load({}, {}, path)

    loaded = load()
    of.fleet.start(loaded.endpoints)
    await turns()
    reloading = Reloading(loaded, load, of.fleet, of.clock, path)
    reloading.path = path
    yield reloading
    await reloading.stop()


async def taken(reloading):
    """Wait until what is being read has been."""
    async with asyncio.timeout(30):
        while reloading._taking is not None:
            await asyncio.wait((reloading._taking,))
    await turns()


def running(of):
    return sorted(each.order.endpoint for each in of.launcher.running)


async def test_what_can_be_taken_is_and_the_rest_is_named(of, following, caplog):
    following.path.write_text(TWO)
    with caplog.at_level(logging.INFO, "partway.serve"):
        following.reload()
        await taken(following)
    assert running(of) == ["a", "a", "b"]
    assert [record.getMessage() for record in caplog.records] == [
        "settings reloaded added=b changed=a removed=-",
        "some changed settings apply only after a restart: restart the gateway settings=port",
    ]
    following.path.write_text(ONE)
    following.reload()
    await taken(following)
    assert running(of) == ["a"]


async def test_the_file_is_looked_at(of, following):
    following.start()
    of.clock.advance(SETTINGS_CHECK_INTERVAL)
    assert following._taking is None
    following.path.write_text(TWO)
    of.clock.advance(SETTINGS_CHECK_INTERVAL)
    of.clock.advance(SETTINGS_CHECK_INTERVAL)
    await taken(following)
    assert running(of) == ["a", "a", "b"]
    await following.stop()
    following.path.write_text(ONE)
    of.clock.advance(SETTINGS_CHECK_INTERVAL)
    of.clock.advance(SETTINGS_CHECK_INTERVAL)
    assert following._taking is None


async def test_a_file_that_is_being_written_is_not_read_half(of, following):
    following.start()
    for half in ("", TWO[:30], TWO[:60]):
        following.path.write_text(half)
        of.clock.advance(SETTINGS_CHECK_INTERVAL)
        assert following._taking is None
    following.path.write_text(TWO)
    of.clock.advance(SETTINGS_CHECK_INTERVAL)
    assert following._taking is None
    of.clock.advance(SETTINGS_CHECK_INTERVAL)
    await taken(following)
    assert running(of) == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("fault", "named"),
    [("lifetme = 3\n", "lifetme"), ('[endpoints.A]\ncommand = "serve"\n', "endpoints a and A")],
)
async def test_a_file_with_a_fault_changes_nothing(of, following, caplog, fault, named):
    following.path.write_text(TWO + fault)
    following.reload()
    await taken(following)
    assert running(of) == ["a"]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("changed settings were not applied reason=")
    assert named in said


async def test_a_file_that_is_gone_changes_nothing(of, following, caplog):
    following.path.unlink()
    following.reload()
    await taken(following)
    assert running(of) == ["a"]
    assert "cannot be read" in caplog.text


async def test_who_asks_while_it_is_read_has_it_read_again(of, following):
    following.reload()
    following.path.write_text(TWO)
    following.reload()
    await taken(following)
    assert running(of) == ["a", "a", "b"]


async def test_what_fails_to_come_up_leaves_the_old_one(of, following, caplog):
    of.launcher.lasting("there is no such program")
    following.path.write_text(ONE + 'environment = { A = "1" }\n')
    following.reload()
    await taken(following)
    assert running(of) == ["a"]
    assert (
        'change failed, the previous version still serves endpoint=a reason="there is'
        in caplog.text
    )


async def test_a_gateway_that_stops_takes_none(of, following, caplog):
    await of.fleet.stop()
    following.path.write_text(TWO)
    following.reload()
    await taken(following)
    assert running(of) == []
    assert "the gateway is stopping" in caplog.text


async def test_what_failed_is_tried_again_though_its_table_is_as_it_was(of, following):
    of.launcher.lasting("there is no such image")
    following.path.write_text(TWO)
    following.reload()
    await taken(following)
    assert any(each.reason for each in of.fleet.describe())
    of.launcher.errors.clear()
    following.reload()
    await taken(following)
    assert not any(each.reason for each in of.fleet.describe())
    assert running(of) == ["a", "a", "b"]


async def test_after_its_end_nothing_is_taken(of, following):
    await following.stop()
    following.path.write_text(TWO)
    following.reload()
    assert following._taking is None


async def test_endpoints_that_the_settings_do_not_have_are_left_alone(of, following):
    """Nothing is removed but what settings had: others may have their own."""
    of.fleet.apply(endpoint("made-by-the-api"))
    following.path.write_text(TWO)
    following.reload()
    await taken(following)
    assert running(of) == ["a", "a", "b", "made-by-the-api"]


class GivingWay(Service):
    """The control plane's part in other settings."""

    def __init__(self, keeper):
        self.take_settings = keeper.give_way
        self.settings_taken = keeper.run_again


async def test_endpoints_of_the_api_give_way_and_come_back(caplog, tmp_path):
    path = tmp_path / "partway.toml"
    path.write_text(ONE)

    def load():
        return settings.load({}, {}, path)

    loaded = load()
    gateway = await ApiGateway(settings=loaded).start()
    reloading = Reloading(
        *(loaded, load, gateway.of.fleet, gateway.of.clock, path),
        services=[GivingWay(gateway.keeper)],
    )
    await gateway.create("b")
    await gateway.until("InService", "one", "b")
    await gateway.written("b")
    path.write_text(TWO)
    reloading.reload()
    await taken(reloading)
    assert await gateway.state("b") == ("InService", "partway-settings")
    assert "the API's endpoint does not run endpoint=b" in caplog.text
    path.write_text(ONE)
    reloading.reload()
    await taken(reloading)
    await gateway.until("InService", "one", "b")
    await reloading.stop()
    await gateway.aclose()
