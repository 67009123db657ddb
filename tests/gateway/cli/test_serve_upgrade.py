"""partway serve --upgrade: gateways that cannot be upgraded in place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from partway.gateway.cli.main import main
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
