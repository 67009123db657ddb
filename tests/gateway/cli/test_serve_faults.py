"""partway serve --faults and --record, as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from partway.gateway.cli.main import main
from tests.conftest import ROOT
from tests.processes import ready_url

PATIENCE = 40
STREAM = "/endpoints/echo/invocations-bidirectional-stream"

Serve = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def serve(container: str) -> Iterator[Serve]:
    """Starts a gateway with the endpoint ``echo``; takes flags."""
    started = []

    def start(*flags: str | Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "partway.gateway.cli.main", "serve", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--endpoint", f"echo={container}", *map(str, flags)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if not k.startswith("PARTWAY_")},
            cwd=ROOT,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def stopped(process: subprocess.Popen[bytes]) -> list[str]:
    """Stop it; the lines of its log, without times."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors.decode()
    assert b"Traceback" not in errors
    return [line.split(" ", 1)[1] for line in errors.decode().splitlines()]


def echoes(url: str, words: list[str], query: str = "") -> tuple[list[str], int, str]:
    """Say words, one after the other: the echoes, and the Close's code and reason."""
    target = url.replace("http", "ws") + STREAM + (f"?query={query}" if query else "")
    heard: list[str] = []
    with connect(target, subprotocols=["payloadpart.v1.raw"], compression=None) as stream:
        try:
            for word in words:
                stream.send(word)
                heard.append(str(stream.recv(PATIENCE)))
        except ConnectionClosed as closed:
            close = closed.rcvd
            return (heard, close.code, close.reason) if close is not None else (heard, 1006, "")
    return heard, 1000, ""


def test_the_first_stream_is_cut_and_the_second_one_good(serve, tmp_path):
    faults = tmp_path / "faults.toml"
    faults.write_text('[[rule]]\nendpoint = "echo"\nfirst = 1\ncut = { after = 2 }\n')
    process = serve("--faults", faults)
    url = ready_url(process)
    heard, code, reason = echoes(url, ["one", "two", "three"])
    assert (heard, code) == (["one", "two"], 4424)
    assert reason.startswith("1006 ")
    assert echoes(url, ["one", "two", "three"]) == (["one", "two", "three"], 1000, "")
    log = stopped(process)
    warning = f"WARNING partway.serve faults are on: streams are broken on purpose file={faults}"
    assert warning in log
    (applied,) = [line for line in log if line.startswith("INFO partway.intermediary fault ")]
    assert applied.startswith(
        'INFO partway.intermediary fault what="cut after=2" endpoint=echo request_id='
    )


def test_without_the_option_nothing_stands_between(serve, container):
    process = serve("--log-level", "debug")
    assert echoes(ready_url(process), ["one"]) == (["one"], 1000, "")
    assert not any("intermediary" in line or "faults" in line for line in stopped(process))


def test_what_passes_is_recorded_with_its_faults(serve, tmp_path):
    faults = tmp_path / "faults.toml"
    faults.write_text('[[rule]]\nquery = "fault=close"\nclose = { code = 1012, after = 1 }\n')
    kept, sizes = tmp_path / "kept", tmp_path / "sizes"
    process = serve("--faults", faults, "--record", kept)
    heard, code, _ = echoes(ready_url(process), ["a word", "another"], "fault%3Dclose")
    assert (heard, code) == (["a word"], 4424)
    stopped(process)
    (recording,) = kept.iterdir()
    assert "a word" in recording.read_text()
    process = serve("--record", sizes, "--no-payloads")
    echoes(ready_url(process), ["a word"])
    stopped(process)
    (recording,) = sizes.iterdir()
    assert "a word" not in recording.read_text()


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (
            ["--faults", "FILE"],
            2,
            "FILE: rule#1.endpoint: 'chat' was given; it must be the name of an endpoint: echo",
        ),
        (["--faults", "none.toml"], 2, "none.toml: cannot be read: No such file or directory"),
        (["--no-payloads"], 2, "--no-payloads was given alone; it works only with --record DIR"),
        (["--record", "FILE"], 1, "--record FILE: File exists"),
    ],
)
def test_what_is_refused_before_the_start(tmp_path, capsys, monkeypatch, flags, status, message):
    file = tmp_path / "faults.toml"
    file.write_text('[[rule]]\nendpoint = "chat"\nstall = true\n')
    for name in [name for name in os.environ if name.startswith("PARTWAY_")]:
        monkeypatch.delenv(name)
    given = [str(file) if flag == "FILE" else flag for flag in flags]
    assert main(["serve", "--endpoint", "echo=http://127.0.0.1:1", *given]) == status
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith(f"partway serve: {message.replace('FILE', str(file))}")


def test_what_a_file_says_steers_no_terminal(tmp_path, capsys):
    file = tmp_path / "faults.toml"
    file.write_text('"\\u001b[31m" = 1')
    assert main(["serve", "--faults", str(file)]) == 2
    assert "\x1b" not in capsys.readouterr().err
