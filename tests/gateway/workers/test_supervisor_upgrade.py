"""partway.gateway.workers.supervisor_upgrade: the command line that is executed again."""

from __future__ import annotations

import sys

import pytest

from partway.gateway.workers.supervisor_upgrade import command_line


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
