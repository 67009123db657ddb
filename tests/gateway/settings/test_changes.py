"""partway.gateway.settings.changes: what of changed settings a gateway that runs can take."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest

from partway.gateway.settings.changes import SettingsChanges, compare
from partway.gateway.settings.settings import Settings, load
from partway.gateway.tls.local_ca import LocalCa

BEFORE = """
[endpoints.a]
command = "a"
[endpoints.b]
image = "b:1"
environment = { TOKEN = "1" }
"""
NOTHING = SettingsChanges((), (), (), ())


@pytest.fixture
def read(tmp_path: Path):
    """Reads a file, which has the same name each time."""

    def loaded(text: str, **flags: object) -> Settings:
        path = tmp_path / "partway.toml"
        path.write_text(text, "utf-8")
        return load(flags, {}, path)

    return loaded


def by_name(settings: Settings, name: str):
    return next(each for each in settings.endpoints if each.name == name)


def test_nothing_has_changed(read):
    assert compare(read(BEFORE), read(BEFORE)) == NOTHING
    moved = '[endpoints.b]\nimage = "b:1"\nenvironment.TOKEN = "1"\n[endpoints.a]\ncommand = ["a"]'
    assert compare(read(BEFORE), read(moved)) == NOTHING


def test_endpoints_that_come_and_go(read):
    old, new = read(BEFORE), read('[endpoints.c]\nurl = "http://c:1"\n[endpoints.a]\ncommand="a"')
    assert compare(old, new) == SettingsChanges((by_name(new, "c"),), (), ("b",), ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('command = "a"', 'command = "a --more"'),
        ('image = "b:1"', 'image = "b:2"'),
        ('TOKEN = "1"', 'TOKEN = "2"'),
        ('image = "b:1"', 'image = "b:1"\nlifetime = 7'),
        ('image = "b:1"', 'image = "b:1"\ninstances = 2'),
        ("\n[endpoints.b]", '\n[images]\n"b:1" = "b"\n[endpoints.b]'),
    ],
)
def test_an_endpoint_that_is_to_be_otherwise(read, before, after):
    old, new = read(BEFORE), read(BEFORE.replace(before, after))
    name = "a" if "command" in before else "b"
    assert compare(old, new) == SettingsChanges((), (by_name(new, name),), (), ())


def test_what_all_endpoints_have_changes_each(read):
    for table in ("[stream]\nlifetime = 5\n", "[instance]\nstop_timeout = 5\n"):
        new = read(table + BEFORE)
        assert compare(read(BEFORE), new) == SettingsChanges((), new.endpoints, (), ())


def test_roots_of_containers_change_those_behind_tls(read, tmp_path):
    ca = LocalCa(tmp_path / "ca").ensure(["localhost"], datetime.now(UTC)).ca
    secure = BEFORE + '[endpoints.c]\nurl = "https://c"\n'
    old, new = read(secure), read(f'container_ca = "{ca}"\n{secure}')
    assert compare(old, new) == SettingsChanges((), (by_name(new, "c"),), (), ())


def test_an_endpoint_of_a_flag_stays_what_it_is(read):
    flags = ["a=http://h:1"]
    old, new = (
        read(BEFORE, endpoints=flags),
        read('[endpoints.a]\nurl = "http://h:2"', endpoints=flags),
    )
    assert compare(old, new) == SettingsChanges((), (), ("b",), ())


@pytest.mark.parametrize(
    "name", sorted({field.name for field in dataclasses.fields(Settings)} - {"endpoints"})
)
def test_every_other_setting_is_either_in_the_endpoints_or_takes_a_restart(name):
    changed = dataclasses.replace(Settings(), **{name: "otherwise"})
    taken = {
        *("api_environment", "container_ca", "images", "local_roots", "max_containers"),
        *("policy", "times"),
    }
    restart = () if name in taken else (name,)
    assert compare(Settings(), changed) == SettingsChanges((), (), (), restart)


def test_several_are_named_together(read):
    new = read("port = 1\nmodel_data_quota = 7\n" + BEFORE)
    assert compare(read(BEFORE), new) == SettingsChanges((), (), (), ("port", "model_data_quota"))
