"""partway.gateway.cli.serve_arguments: flags as the names of settings, those given only."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import pytest

from partway.gateway.cli.serve_arguments import add_arguments
from partway.gateway.settings.settings import Settings


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch):
    """What the words of a command line come to."""
    monkeypatch.delenv("PARTWAY_CONFIG", raising=False)
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    add_arguments(parser)
    return lambda *words: vars(parser.parse_args(words))


def test_what_is_not_given_leaves_its_setting_to_others(parsed):
    options = parsed()
    assert options == {
        "config": None, "check": False, "upgrade": False, "faults": None, "record": None,
        "no_payloads": False,
    }  # fmt: skip
    assert not options.keys() & {field.name for field in dataclasses.fields(Settings)}


def test_a_flag_may_be_repeated_where_there_may_be_several(parsed):
    options = parsed("--endpoint", "a=serve it", "--endpoint=b=docker://b:1", "--tls-name", "n")
    assert options["endpoints"] == ["a=serve it", "b=docker://b:1"]
    assert options["tls_names"] == ["n"]


def test_paths_are_paths(parsed):
    options = parsed("--data-dir", "data", "--principals", "p.toml", "--config", "c.toml")
    assert [options[name] for name in ("data_dir", "principals", "config")] == [
        Path("data"), Path("p.toml"), Path("c.toml"),
    ]  # fmt: skip


def test_every_flag_is_a_setting_or_of_the_command_alone(parsed):
    words = [
        *("--check", "--upgrade", "--config=c", "--host=h", "--port=1", "--endpoint=e"),
        *("--container-ca=f",),
        *("--data-dir=d", "--tls-port=2", "--tls-cert=c", "--tls-key=k", "--tls-name=n"),
        *("--region=r", "--account=a", "--auth=none", "--principals=p", "--insecure"),
        *("--allow-origin=o", "--trusted-proxy=t", "--faults=f", "--record=r", "--no-payloads"),
        *("--log-level=info", "--log-format=json"),
    ]
    own = {"check", "upgrade", "config", "faults", "record", "no_payloads"}
    assert parsed(*words).keys() - own <= {field.name for field in dataclasses.fields(Settings)}
