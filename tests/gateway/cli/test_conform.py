"""partway conform, as a process."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import psutil
import pytest

from partway.gateway.cli.main import main
from partway.gateway.fleet.health import slow_start
from partway.gateway.workbench.conformance.checks import startup
from tests.conftest import ROOT
from tests.gateway.workbench.conformance.archives import saved, written
from tests.processes import running

ECHO = shlex.join([sys.executable, "-m", "partway.container", "serve"])

#: Prints what would steer a terminal, and ends.
HOSTILE = r"import sys; print('\x1b]0;mine\x07<b>', sys.argv[1:]); sys.exit(3)"

#: Listens, and not where it is told to.
ELSEWHERE = "import socket, signal; s = socket.create_server(('127.0.0.1', 0)); signal.pause()"

#: Has a child, says who both are in a file, and waits without listening; deaf to SIGTERM.
DEAF = (
    "import os, pathlib, signal, subprocess, time;"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "child = subprocess.Popen(['sleep', '600']);"
    "there = pathlib.Path(os.environ['PIDS']);"
    "there.with_suffix('.new').write_text(f'{os.getpid()} {child.pid}');"
    "there.with_suffix('.new').rename(there);"
    "time.sleep(600)"
)


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def argv(*flags: object) -> list[str]:
    return [sys.executable, "-m", "partway.gateway.cli.main", "conform", *map(str, flags)]


def conform(*flags: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(*flags), capture_output=True, text=True, timeout=60, check=False, cwd=ROOT, **options
    )


def here(capsys: pytest.CaptureFixture[str], *flags: object) -> tuple[int, str, str]:
    """The command in this process: its status, what it prints, and its errors."""
    try:
        status = main(["conform", *map(str, flags)])
    except SystemExit as exit:  # argparse's
        status = exit.code
    return status, *capsys.readouterr()


# --- Containers -----------------------------------------------------------------------------------


@pytest.mark.clause("1.1-1", "1.1-2", "1.1-4")
def test_our_container_is_conformant(tmp_path):
    files = {kind: tmp_path / f"report.{kind}" for kind in ("json", "junit", "html")}
    flags = [f"--{kind}={file}" for kind, file in files.items()]
    only = ("startup", "ping.get", "messages.text", "shutdown.sigterm")
    done = conform("--command", ECHO, "--probe", "echo", "--fast", "--only", *only, *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert re.search(r"\npass     must      messages.text ", done.stdout)
    assert re.search(r"\n\n\d+ passed in \d+\.\d s: conformant\n$", done.stdout)
    found = json.loads(files["json"].read_text())
    assert found["conformant"]
    assert {each["verdict"] for each in found["results"]} == {"pass"}
    suite = ET.fromstring(files["junit"].read_bytes())[0]
    assert int(suite.get("tests")) == len(found["results"])
    assert files["html"].read_text().startswith("<!DOCTYPE html>")


def test_a_container_that_runs(tmp_path):
    with running("partway.container", "serve", "--port", "0", "--host", "127.0.0.1") as url:
        done = conform("--url", url, "--probe", "echo", "--only", "ping", "--fast", "--json", "-")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["subject"].startswith(f"{url}/invocations-bidirectional-stream")
    assert re.search(r"passed.* in \d+\.\d s: conformant\n$", done.stderr), "the table is here"


def test_path_and_query_are_where_streams_are_asked_for():
    with running("partway.container", "serve", "--port", "0", "--host", "127.0.0.1") as url:
        flags = ("--only", "upgrade.granted", "--fast", "--json", "-")
        done = conform("--url", url, "--path", "v1/listen", "--query", "model=x", *flags)
    assert done.returncode == 1, "echo takes no streams there"
    found = json.loads(done.stdout)
    result = found["results"][-1]
    assert found["subject"] == f"{url}/v1/listen?model=x"
    assert (result["id"], result["verdict"]) == ("upgrade.granted", "fail")
    assert result["exchanges"][0]["steps"][0]["side"] == "sent"


def test_a_container_that_ends_at_once_says_why_and_steers_nothing(tmp_path):
    page = tmp_path / "page.html"
    done = conform("--command", python(HOSTILE), "--fast", "--html", page)
    assert done.returncode == 1
    assert re.search(r"^FAIL     must      startup.listens", done.stdout, re.MULTILINE)
    blocked = r"^blocked  \d+ checks \(startup.listens did not pass\): startup.ready, "
    assert re.search(blocked, done.stdout, re.MULTILINE)
    assert "| \ufffd]0;mine\ufffd<b> []\n" in done.stdout, "nothing is appended"
    assert (
        "remedy: find out why the program ended with status 3; it must keep running." in done.stdout
    )
    assert "append it to the command" not in done.stdout
    assert done.stdout.endswith(": not conformant\n")
    assert "\x1b" not in done.stdout + page.read_text()
    assert "&lt;b&gt;" in page.read_text()


def test_a_program_on_another_port_is_told_of_before_the_report_and_in_it(capsys, monkeypatch):
    monkeypatch.setattr(startup, "_FAST_START", 2.0)
    monkeypatch.setattr(slow_start, "SLOW_START_LOOK_AFTER", 1.0)
    monkeypatch.setattr(slow_start, "SLOW_START_WARNING_AFTER", 1.0)
    status, said, told = here(capsys, "--command", python(ELSEWHERE), "--fast")
    assert status == 1
    trouble = r"nothing listens on \d+; this process listens on \d+"
    assert re.search(rf"partway conform: waiting for the container for \d s: {trouble}\n", told)
    assert re.search(rf"^ +{trouble}, 2 s after the start$", said, re.MULTILINE)


def test_variables_and_artifacts_reach_the_container(tmp_path):
    code = "import os; print(os.environ['COLOUR'], os.listdir(os.environ['SM_MODEL_DIR']))"
    (tmp_path / "weights").touch()
    flags = ("--env", "COLOUR=a=b", "--model-dir", tmp_path, "--only", "startup.listens")
    done = conform("--command", python(code), *flags)
    assert done.returncode == 1
    assert "| a=b ['weights']\n" in done.stdout


def test_no_process_and_no_folder_is_left_over(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(psutil.Process().children())  # some of other tests may end meanwhile
    assert here(capsys, "--command", ECHO, "--only", "startup.listens", "--fast")[0] == 0
    assert set(psutil.Process().children()) <= before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_all_that_it_has_started(tmp_path, number):
    pids = tmp_path / "pids"
    command = argv("--command", python(DEAF), "--env", f"PIDS={pids}")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        deadline = time.monotonic() + 20
        while not pids.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate(timeout=40)
    assert (process.returncode, errors) == (130, "partway conform: interrupted\n")
    assert [pid for pid in pids.read_text().split() if _runs(int(pid))] == []


def _runs(pid: int) -> bool:
    """Whether it does; one whose parent is gone too is somebody else's to bury."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_on_a_terminal_there_are_colours_and_progress():
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE"):
        environment.pop(name, None)
    command = argv("--command", ECHO, "--only", "ping.get", "--fast")
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT
    ) as process:
        os.close(theirs)
        seen = _read_all(ours)
        process.wait(20)
    os.close(ours)
    assert process.returncode == 0
    assert "\x1b[32mpass" in seen
    assert "/3" in seen.partition("verdict")[0], "progress comes before the table"


def _read_all(terminal: int) -> str:
    seen = b""
    while select.select([terminal], [], [], 30)[0]:
        try:
            data = os.read(terminal, 4096)
        except OSError:  # the other side has gone
            break
        if not data:
            break
        seen += data
    return seen.decode()


# --- Images ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-1", "1.1-4")
def test_an_image(tmp_path):
    path = written(tmp_path, saved(), packed=True)
    done = conform("--image", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"image {path}\n")
    assert re.search(r"\n8 passed in 0.0 s: conformant\n$", done.stdout)


def test_an_image_that_is_refused(capsys, tmp_path):
    path = written(tmp_path, saved(Entrypoint=["/bin/sh", "-c", "python \x1b[2J"], Labels={}))
    status, output, errors = here(capsys, "--image", path, "--junit", "-")
    assert status == 1
    suite = ET.fromstring(output.encode())[0]
    assert [case.get("name") for case in suite if case.find("failure") is not None] == [
        "image.entrypoint",
        "image.label",
    ]
    assert "2 failed, 2 blocked" in errors
    assert "\x1b" not in errors + output


def test_one_check_of_an_image(capsys, tmp_path):
    path = written(tmp_path, saved(Labels={}))
    assert here(capsys, "--image", path, "--only", "image.tini")[0] == 0
    assert here(capsys, "--image", path, "--only", "image.label")[0] == 1


# --- A gateway ------------------------------------------------------------------------------------


def test_our_gateway_is_conformant(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
    endpoint = f"echo=http://{listen}"
    with running("partway.gateway.cli.main", "serve", "--port", "0", "--endpoint", endpoint) as url:
        where = ("--platform", url, "--endpoint", "echo", "--listen", listen)
        report = tmp_path / "report.json"
        done = conform(*where, "--fast", "--only", "platform.frames", "--json", report)
        other = conform("--platform", url, "--endpoint", "other", "--listen", listen)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^pass +must +platform\.frames\.masked ", done.stdout, re.MULTILINE)
    assert json.loads(report.read_text())["subject"].startswith(url)
    assert other.returncode == 1
    assert "the platform refused the stream: " in other.stdout


def test_where_a_container_is_expected_somebody_may_listen(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        where = ("--platform", "http://127.0.0.1:9", "--endpoint", "a", "--listen", listen)
        status, _, errors = here(capsys, *where)
    assert status == 2
    assert errors == f"partway conform: --listen {listen}: Address already in use\n"


# --- Asked wrongly --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("", "one of the arguments --url --command --image --platform --matrix is required"),
        ("--url http://a --command b", "not allowed with argument"),
        ("--url http://a --nonsense", "unrecognized arguments: --nonsense"),
        ("--command a --env A", "'A' was given; it must be NAME=VALUE"),
        ("--platform a --ping-interval 0", "'0' was given; it must be a number of seconds over 0"),
        ("--platform a --ping-interval x", "'x' was given; it must be a number of seconds over 0"),
    ],
)
def test_flags_that_do_not_fit(capsys, flags, why):
    status, output, errors = here(capsys, *shlex.split(flags))
    assert (status, output) == (2, "")
    assert why in errors


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("--url http://a:1 --endpoint a", "--endpoint and --listen work only with --platform"),
        ("--platform http://a:1", "--platform needs --endpoint NAME, and --listen HOST:PORT"),
        ("--platform http://a:1 --endpoint a", "--platform needs --endpoint NAME, and --listen"),
        (
            "--platform a --endpoint a --listen b",
            "--platform a: it must begin with http:// or https://",
        ),
        (
            "--platform http://a --endpoint a --listen b/c",
            "--listen b/c: 'http://b/c' has more than host and port",
        ),
        (
            "--platform http://a --endpoint a --listen b --only ping",
            "--only: there is no check 'ping'",
        ),
        (
            "--platform http://a --endpoint a --listen b --probe chat",
            "--probe works only for a container; --platform checks a gateway",
        ),
        ("--url https://a:1", "--url: 'https://a:1' is not a container's URL: it must begin with"),
        ("--url http://a:1 --env A=1", "--env and --model-dir are for a container started with"),
        (
            "--image a.tar --model-dir docs",
            "--env and --model-dir are for a container started with",
        ),
        ('--command "\'a"', "--command: No closing quotation"),
        ("--command ' '", "--command: there is no program in it"),
        ("--command /not/there", "--command: /not/there: there is no such program"),
        (
            "--command docs/README.md",
            "--command: docs/README.md: it must be an executable file: chmod +x",
        ),
        ("--command a --model-dir /not", "--model-dir /not: there is no such folder"),
        (
            "--command a --probe nope",
            "--probe nope: there is no such file; it must be a file or one of echo, chat, speech",
        ),
        ("--command a --probe LICENSE", "--probe LICENSE: "),
        ("--command a --only nope", "--only: there is no check 'nope'; partway conform --matrix"),
        ("--command a --only image.label", "--only: image.label can be checked only with --image"),
        ("--image a.tar --only ping", "--only: ping can be checked only with --url or --command"),
        ("--image /not/there", "--image /not/there: No such file or directory"),
        ("--image LICENSE", "--image LICENSE: the file is not a tar archive, or is damaged"),
        ("--image docs", "--image docs: Is a directory"),
        ("--image 'a\x1b'", "--image a\ufffd: No such file or directory"),
        ("--command a --path 'a b'", "--path or --query: ModelInvocationPath must have at most"),
        ("--command a --query a", "--path or --query: ModelQueryString must be up to"),
        ("--command a --json /not/there/a", "/not/there/a: it must be a file in a folder"),
        ("--command a --html docs", "docs: it must be a file in a folder that exists"),
        (
            "--command a --html - --json -",
            "--json, --junit and --html: only one of them can be standard output",
        ),
    ],
)
def test_asked_wrongly(capsys, monkeypatch, flags, why):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DOCKER_HOST", "unix:///not/there")
    status, output, errors = here(capsys, *shlex.split(flags))
    assert (status, output) == (2, "")
    assert errors.startswith(f"partway conform: {why}")
    assert errors.count("\n") == 1


def test_a_process_that_is_asked_wrongly():
    done = conform("--command", "/not/there")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "partway conform: --command: /not/there: there is no such program\n"


def test_a_report_that_cannot_be_written(capsys, tmp_path):
    path = written(tmp_path, saved())
    status, _, errors = here(capsys, "--image", path, "--json", "/dev/full")
    assert status == 2
    assert errors == "partway conform: /dev/full: No space left on device\n"


def test_the_matrix_is_printed(capsys):
    status, output, errors = here(capsys, "--matrix")
    assert (status, errors) == (0, "")
    assert re.search(r"^1\.1-4  .*  image\.label ", output, re.MULTILINE)
    assert re.search(r"^1\.1-7  .*  the platform's task: ", output, re.MULTILINE)


def test_a_log_without_unicode(tmp_path):
    path = written(tmp_path, saved(User="\xe9"))
    done = conform("--image", path, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "the image runs as '\\xe9'" in done.stdout
