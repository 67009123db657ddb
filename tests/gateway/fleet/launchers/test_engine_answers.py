"""partway.gateway.fleet.launchers.engine_answers: where an engine is."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from partway.gateway.fleet.launchers.engine_answers import EngineAway, find_engine
from partway.gateway.fleet.launchers.launcher import LaunchError


@pytest.mark.parametrize(
    "where",
    [
        "unix:///run/engine.sock",
        "tcp://127.0.0.1:2375",
        "tcp://localhost:2375",
        "http://[::1]:2375",
    ],
)
def test_an_engine_that_is_named(where):
    assert find_engine({"DOCKER_HOST": where}) == where


@pytest.mark.parametrize(
    "where",
    [
        "tcp://engine.example:2375",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:port",
        "ssh://me@127.0.0.1",
        "unix://",
        "/var/run/docker.sock",
        "https://127.0.0.1:2376",
    ],
)
def test_an_engine_that_is_elsewhere(where):
    with pytest.raises(LaunchError, match="the engine must run on this machine") as caught:
        find_engine({"DOCKER_HOST": where})
    assert repr(where) in str(caught.value)
    assert not caught.value.passing


@pytest.mark.parametrize(
    ("variable", "place"),
    [
        ("HOME", ".docker/run/docker.sock"),
        ("XDG_RUNTIME_DIR", "docker.sock"),
        ("XDG_RUNTIME_DIR", "podman/podman.sock"),
    ],
)
def test_an_engine_of_a_users_own(tmp_path, monkeypatch, variable, place):
    monkeypatch.setattr(
        "partway.gateway.fleet.launchers.engine_answers.ENGINE_SOCKET", tmp_path / "none"
    )
    environment = {variable: str(tmp_path)}
    with pytest.raises(EngineAway) as caught:
        find_engine(environment)
    assert str(tmp_path / place) in str(caught.value)
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch()
    with pytest.raises(EngineAway):  # a file is no engine
        find_engine(environment)
    (tmp_path / place).unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / place))
        assert find_engine(environment) == f"unix://{tmp_path / place}"


def test_who_has_no_engine_does_not_pay_for_its_client():
    asked = "import sys; import partway.gateway.fleet.launchers.engine; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True, text=True)
    assert "partway.gateway.fleet.launchers.engine" in done.stdout.split()
    assert {"aiodocker", "aiohttp"} & set(done.stdout.split()) == set()
