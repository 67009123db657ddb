"""partway serve --upgrade: gateways that cannot be upgraded in place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from partway.gateway.cli import serve_upgrade
from partway.gateway.cli.main import main
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.workers.upgrade_notes import UpgradeNote, note
from tests.processes import running


def test_no_gateway(tmp_path, capsys):
    assert main(["serve", "--upgrade", "--data-dir", str(tmp_path)]) == 1
    assert "partway serve --upgrade: no gateway" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")
def test_a_gateway_of_one_process_gets_no_signal(tmp_path, capsys):
    """The note of an earlier gateway with workers names another process."""
    serve = ("partway", "serve", "--port", "0", "--apis", "none", "--data-dir", str(tmp_path))
    with (
        running(*serve, "--endpoint", "echo=http://127.0.0.1:9"),
        subprocess.Popen(["sleep", "1000"]) as other,
    ):
        note(tmp_path, UpgradeNote(other.pid, "1", 0))
        assert main(["serve", "--upgrade", "--data-dir", str(tmp_path)]) == 1
        assert "the gateway runs as one process" in capsys.readouterr().err
        assert other.poll() is None
        os.kill(other.pid, signal.SIGKILL)


@pytest.fixture
def gateway(tmp_path, monkeypatch):
    """A data directory that names this process as a gateway with workers; it takes signals."""
    signals = []
    monkeypatch.setattr(serve_upgrade, "find_gateway", lambda *_: tmp_path)
    monkeypatch.setattr(os, "kill", lambda *both: signals.append(both))
    with DataDirectory.opened(tmp_path, os.getpid()) as data:
        data.announce((), 0.0)
        note(tmp_path, UpgradeNote(os.getpid(), "1", 0))
        yield signals


@pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")
@pytest.mark.parametrize("named", [-1, 0, "another user's"])
def test_files_cannot_name_another_users_process(gateway, tmp_path, capsys, named):
    """The owner of the folder may write anything there, and root may run the command."""
    pid = os.getpid() if named == "another user's" else named
    (tmp_path / "gateway.json").write_text(f'{{"pid": {pid}, "urls": [], "since": 0}}')
    note(tmp_path, UpgradeNote(pid, "1", 0))
    if pid == os.getpid():
        if os.geteuid():
            pytest.skip("root alone can give a folder away")
        os.chown(tmp_path, 12345, -1)
    assert main(["serve", "--upgrade", "--data-dir", str(tmp_path)]) == 1
    assert "as the owner of this folder" in capsys.readouterr().err
    assert gateway == []


@pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")
def test_a_gateway_that_was_restarted_has_not_been_upgraded(gateway, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        serve_upgrade.time, "sleep", lambda _: note(tmp_path, UpgradeNote(1, "2", 0))
    )
    assert main(["serve", "--upgrade", "--data-dir", str(tmp_path)]) == 1
    assert "has been started anew" in capsys.readouterr().err
    assert gateway == [(os.getpid(), signal.SIGUSR2)]


@pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")
def test_a_failure_after_the_check_is_told(gateway, tmp_path, capsys, monkeypatch):
    """The next gateway process of the same code has noted it."""
    failed = UpgradeNote(os.getpid(), "1", 0, 1, "the handover has failed")
    monkeypatch.setattr(serve_upgrade.time, "sleep", lambda _: note(tmp_path, failed))
    assert main(["serve", "--upgrade", "--data-dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "no upgrade: the same code serves on: the handover has failed" in said


@pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")
def test_a_gateway_that_ends_is_not_waited_for(gateway, tmp_path, capsys, monkeypatch):
    alive = serve_upgrade._user_of
    monkeypatch.setattr(serve_upgrade, "_user_of", lambda pid: None if gateway else alive(pid))
    monkeypatch.setattr(serve_upgrade, "_PATIENCE", 10)
    assert main(["serve", "--upgrade", "--data-dir", str(tmp_path)]) == 1
    assert f"process {os.getpid()} has ended" in capsys.readouterr().err
