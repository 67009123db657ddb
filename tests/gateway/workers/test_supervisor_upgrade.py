"""partway.gateway.workers.supervisor_upgrade: the command line, and the state that goes on."""

from __future__ import annotations

import os
import sys

import msgspec
import pytest

from partway.gateway.cli import serve_workers
from partway.gateway.settings.settings import Settings
from partway.gateway.workers.supervisor_upgrade import command_line
from partway.variables import KEPT_STATE


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Return the command line of a process that was started by some words."""

    def by(*words: str) -> list[str]:
        monkeypatch.setattr(sys, "orig_argv", [sys.executable, *words])
        return command_line()

    monkeypatch.chdir(tmp_path)
    return by


def program(path):
    path.write_text("")
    path.chmod(0o700)
    return str(path)


def test_a_script_is_executed_itself(started, tmp_path):
    script = program(tmp_path / "partway")
    assert started(script, "serve") == [script, "serve"]


@pytest.mark.parametrize("flag", ["-m", "-P"])
def test_a_flag_is_no_script_even_where_a_program_is_called_so(started, tmp_path, flag):
    program(tmp_path / flag)
    assert started(flag, "partway", "serve") == [sys.executable, flag, "partway", "serve"]


def test_a_script_that_is_no_program_is_interpreted(started, tmp_path):
    (tmp_path / "partway").write_text("")
    assert started("partway", "serve") == [sys.executable, "partway", "serve"]


@pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")
def test_a_state_that_cannot_be_read_ends_the_gateway_with_the_reason(monkeypatch, capsys):
    memory = os.memfd_create("state")
    os.pwrite(memory, msgspec.msgpack.encode({"entries": [], "generation": "one"}), 0)
    monkeypatch.setenv(KEPT_STATE, str(memory))
    assert serve_workers.supervised(None, Settings(), Settings) == 1
    said = capsys.readouterr().err
    assert "cannot go on from the state of the one before it: Expected `int`, got `str`" in said
