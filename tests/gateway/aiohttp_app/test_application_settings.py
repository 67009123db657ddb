"""partway.aiohttp.load_settings: where settings come from, and those that are somebody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.aiohttp import ApplicationSettings, SettingsError, load_settings
from partway.gateway.settings.settings import Settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    monkeypatch.delenv("PARTWAY_AUTH", raising=False)


def test_settings_come_from_arguments_over_variables_over_a_file(tmp_path, monkeypatch):
    file = tmp_path / "gateway.toml"
    file.write_text(
        'max_streams = 1\nmax_requests = 1\nregion = "eu-west-1"\n'
        '[endpoints.echo]\nurl = "http://127.0.0.1:8080"\n'
    )
    monkeypatch.setenv("PARTWAY_MAX_STREAMS", "2")
    monkeypatch.setenv("PARTWAY_MAX_REQUESTS", "2")
    found = load_settings(file, max_streams=3, endpoints=["other=http://127.0.0.1:8081"])
    assert (found.gateway.max_streams, found.gateway.max_requests) == (3, 2)
    assert found.gateway.region == "eu-west-1"
    assert [each.name for each in found.gateway.endpoints] == ["echo", "other"]
    assert found.config == file


def test_values_may_be_pythons(tmp_path):
    found = load_settings(apis={"control"}, data_dir=tmp_path, allow_origins=("https://a",))
    assert found.gateway.apis == {"control"}
    assert found.gateway.data_dir == Path(tmp_path)
    assert found.gateway.allow_origins == {"https://a"}
    assert found.config is None


def test_an_unknown_setting_is_named():
    with pytest.raises(SettingsError, match=r"max_stream: there is no such setting; it must be"):
        load_settings(max_stream=1)


@pytest.mark.parametrize(
    ("name", "value", "whose"),
    [
        ("host", "127.0.0.2", "the application's server listens"),
        ("port", 0, "the application's server listens"),
        ("max_connections", 5, "the application's server listens"),
        ("max_connections_per_address", 5, "the application's server listens"),
        ("max_streams_per_connection", 5, "the application's server has no HTTP/2"),
        ("tls_port", 8443, "the application's server has the certificate"),
        ("log_level", "debug", "the application configures its log"),
        ("log_format", "json", "the application configures its log"),
    ],
)
def test_a_setting_of_the_server_is_refused(name, value, whose):
    with pytest.raises(SettingsError, match=rf"{name}: {value!r} was given; it must be left out"):
        load_settings(**{name: value})
    with pytest.raises(SettingsError, match=whose):
        ApplicationSettings(Settings(**{name: value}))


def test_all_faults_are_named_at_once():
    with pytest.raises(SettingsError) as caught:
        ApplicationSettings(Settings(port=1, log_level="debug"))
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "port",
        "log_level",
    ]
