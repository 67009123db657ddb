"""A container's checks as pytest's tests, in a pytest of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from tests.gateway.workbench.conformance.archives import saved, written

#: Each is a pytest of its own, or several.
pytestmark = pytest.mark.timeout(300)

#: These and no others: a pytest starts in half the time.
PLUGINS = ("-p", "partway.gateway.workbench.testing.plugin", "-p", "timeout")
ENVIRONMENT = os.environ | {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONPATH": str(ROOT / "src"),
    "CI": "1",  # what is said is not cut to the width of a terminal
}

#: A mutant, or the whole one; each start leaves a line.
SERVE = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.gateway.workbench.conformance.mutants.base import Container, serve
from tests.gateway.workbench.conformance.mutants.catalogue import MUTANTS
record, name, said = sys.argv[1:]
with open(record, "a") as starts:
    starts.write(f"{{os.getpid()}}\\n")
assert said == "serve"
sys.exit(serve(MUTANTS[name].container if name in MUTANTS else Container))
"""

#: Has a child, says who both are, and waits without listening; deaf to SIGTERM.
DEAF = """
import os, pathlib, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
pathlib.Path("pids.new").write_text(f"{os.getpid()} {child.pid}")
pathlib.Path("pids.new").rename("pids")
time.sleep(600)
"""


#: Prints what would steer a terminal, and ends.
DEAD = r"print('\x1b]0;no model'); raise SystemExit(3)"


def described(folder: Path, name: str, *members: str) -> None:
    """A file for a mutant, or for the one that is whole; its starts are kept beside it."""
    folder.joinpath("serve.py").write_text(SERVE)
    words = [sys.executable, "serve.py", f"starts-{name}", name, "serve"]
    lines = (f"command = {json.dumps(shlex.join(words))}", "fast = true", *members)
    folder.joinpath(f"{name}.conformance.toml").write_text("\n".join(lines))


def starts(folder: Path, name: str) -> int:
    file = folder / f"starts-{name}"
    return len(file.read_text().split()) if file.exists() else 0


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *PLUGINS, "-p", "no:cacheprovider", "-v", *flags]


class Done:
    """A pytest that has ended."""

    def __init__(self, folder: Path, *flags: str) -> None:
        process = subprocess.run(
            [*command("-rfsx"), *flags],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            cwd=folder,
            env=ENVIRONMENT,
        )
        self.status = process.returncode
        self.output = process.stdout + process.stderr

    def outcomes(self, name: str) -> dict[str, str]:
        """By the ids of its checks, what has become of those of a file; nothing of what passed."""
        found = re.findall(
            rf"^{name}\.conformance\.toml::(\S+) ([A-Z]+)", self.output, re.MULTILINE
        )
        assert found, self.output
        return {id: outcome for id, outcome in found if outcome != "PASSED"}

    def failure(self, file: str, id: str) -> str:
        """What is said of a test that has failed."""
        blocks = re.split(r"^_+ .* _+$", self.output, flags=re.MULTILINE)[1:]
        said = re.search(
            rf"^FAILED {file}\.conformance\.toml::{id} - Failed: (.*)$", self.output, re.MULTILINE
        )
        assert said, self.output
        (block,) = (each for each in blocks if each.lstrip().startswith(said[1]))
        return re.split(r"\n(?:=|-+ )", block.strip())[0]


# --- Many containers at once ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("containers")


@pytest.fixture(scope="module")
def many(folder: Path) -> Done:
    """One pytest on all of them, with its warnings as errors, and a limit that one is beyond."""
    described(folder, "whole", "only = ['startup', 'messages.text', 'streams.idle', 'shutdown']")
    described(folder, "text-as-binary", "only = ['messages.answer', 'messages.order', 'ping.get']")
    described(folder, "ping-with-body", "only = ['ping.empty']")
    described(folder, "whole-answers", "only = ['invocations.chunked']")
    described(folder, "dies-of-reason", "only = ['closing.reason', 'closing.mid_message']")
    written(folder, saved(Labels=None))
    for name, lines in {
        "dead": (
            f"command = {json.dumps(shlex.join([sys.executable, '-c', DEAD]))}",
            "only = ['ping.get']",
        ),
        "missing": ("command = 'no-such-program'", "only = ['startup.ready']"),
        "image": ("image = 'image.tar'",),
        "nowhere": ("url = 'http://127.0.0.1:9'", "only = ['startup.listens', 'files']"),
    }.items():
        folder.joinpath(f"{name}.conformance.toml").write_text("\n".join(lines))
    return Done(folder, "-W", "error", "--timeout=2", "--junitxml=report.xml")


def test_each_check_is_a_test_and_the_container_starts_once(many, folder):
    """Three seconds of silence are beyond the limit of the author's tests, and that is no fault."""
    assert many.outcomes("whole") == {"shutdown.streams": "SKIPPED"}
    assert "takes up to thirty seconds: leave --fast out" in many.output
    assert starts(folder, "whole") == 1


def test_a_failure_says_what_went_over_the_wire_and_has_no_traceback(many, folder):
    assert many.status == pytest.ExitCode.TESTS_FAILED
    assert many.outcomes("text-as-binary") == {
        "messages.answer": "FAILED",
        **dict.fromkeys(("messages.text", "messages.binary", "messages.order"), "SKIPPED"),
    }
    assert re.search(r"SKIPPED .*blocked: messages\.answer did not pass", many.output)
    said, empty, title, remedy, *evidence = many.failure(
        "text-as-binary", "messages.answer"
    ).splitlines()
    assert re.search(r"binary .* came back, not text", said)
    assert empty == ""
    assert title == "must: the model gives the answer that the probe expects (1.1-4)"
    assert remedy.startswith("remedy: ")
    wire = "\n".join(evidence)
    for pattern in (
        r"ms  --> GET /invocations-bidirectional-stream, asking for a WebSocket$",
        r"^ +\| Sec-WebSocket-Version: 13$",
        r"ms  <-- HTTP/1\.1 101 Switching Protocols$",
        r"^ +\| Upgrade: websocket$",
        r"ms  --> text FIN, \d+ bytes  \S",
        r"ms  <-- binary FIN, \d+ bytes  \S",
        rf"ms   !  {re.escape(said)}\Z",
    ):
        assert re.search(pattern, wire, re.MULTILINE), pattern
    assert "Traceback" not in many.output
    report = (folder / "report.xml").read_text()
    assert '<property name="clauses" value="1.1-4"' in report
    assert '<property name="verdict" value="fail"' in report


def test_what_could_be_better_fails_nothing_and_is_told(many):
    assert many.outcomes("ping-with-body") == {"ping.empty": "XFAIL"}
    assert many.outcomes("whole-answers") == {}
    told = many.output.partition("= partway: findings that fail no test =")[2]
    for line in (
        r"^ping-with-body\.conformance\.toml::ping\.empty: should: .+; remedy: .+$",
        r"^whole-answers\.conformance\.toml::invocations\.chunked: note: .+; remedy: .+$",
    ):
        assert re.search(line, told, re.MULTILINE), line


def test_a_container_that_ends_at_once_fails_one_test(many):
    assert many.outcomes("dead") == {
        "startup.listens": "FAILED",
        "startup.ready": "SKIPPED",
        "ping.get": "SKIPPED",
    }
    said = many.failure("dead", "startup.listens")
    assert said.startswith("the process ended with status 3 before it listened on port ")
    assert "the container printed:\n| \ufffd]0;no model" in said
    assert "\x1b" not in many.output


def test_a_container_that_dies_of_a_check_is_started_again(many, folder):
    assert many.outcomes("dies-of-reason") == {"closing.reason": "FAILED"}
    assert starts(folder, "dies-of-reason") == 1, "this one only ends the connection"


def test_a_program_that_is_not_there_fails_one_test(many):
    assert many.outcomes("missing") == {"startup.listens": "FAILED", "startup.ready": "SKIPPED"}
    said = "command: there is no program 'no-such-program' in PATH ("
    assert many.failure("missing", "startup.listens").startswith(said)
    assert re.search(rf"SKIPPED .*: blocked: {re.escape(said)}", many.output, re.MULTILINE)


def test_an_image(many):
    assert many.outcomes("image") == {"image.label": "FAILED"}
    assert many.failure("image", "image.label").startswith("there is no label com.amazonaws.")


def test_a_container_that_runs_somewhere(many):
    assert many.outcomes("nowhere") == {"startup.listens": "FAILED", "files.artifacts": "SKIPPED"}
    said = many.failure("nowhere", "startup.listens")
    assert said.startswith("nothing accepts connections at 127.0.0.1:9: ")


# --- Which are tried ------------------------------------------------------------------------------


def test_of_those_selected_no_more_is_tried_than_they_require(tmp_path):
    described(tmp_path, "text-as-binary")
    described(tmp_path, "ping-with-body")
    text = "text-as-binary.conformance.toml"
    ids = (f"{text}::ping.get", f"{text}::messages.order", "ping-with-body.conformance.toml")
    done = Done(tmp_path, *ids, "-k", "ping.get or messages.order or ping.empty", "--runxfail")
    assert done.outcomes("text-as-binary") == {"messages.order": "FAILED"}
    said = done.failure("text-as-binary", "messages.order")
    assert said.startswith("blocked by messages.answer: ")
    assert "\nmust: the model gives the answer" in said
    assert starts(tmp_path, "text-as-binary") == 1
    assert done.outcomes("ping-with-body") == {"ping.empty": "FAILED"}, "as it was asked to"
    assert re.search(r"\n=+ 2 failed, 3 passed, \d+ deselected", done.output)


@pytest.mark.parametrize(("how", "containers"), [("load", 2), ("loadfile", 1)])
def test_beside_one_another(tmp_path, how, containers):
    described(tmp_path, "ping-with-body", "only = ['startup', 'ping.get', 'ping.empty', 'http']")
    done = Done(tmp_path, "-p", "xdist", "-n", "2", "--dist", how)
    assert done.status == 0
    assert re.search(r"\n=+ 5 passed, 1 xfailed in ", done.output)
    assert re.search(r"^ping-with-body\.\S+::ping\.empty\S*: should: ", done.output, re.MULTILINE)
    assert starts(tmp_path, "ping-with-body") == containers


def test_collecting_starts_nothing_and_tells_of_wrong_files(tmp_path):
    described(tmp_path, "whole")
    (tmp_path / "conformance.toml").write_text("comand = 'python serve.py'")
    done = Done(tmp_path, "--collect-only", "-q", "-q")
    assert done.status == pytest.ExitCode.INTERRUPTED
    assert "whole.conformance.toml::startup.listens\n" in done.output
    assert re.search(
        r"^conformance\.toml: comand: .* the nearest known one is command",
        done.output,
        re.MULTILINE,
    )
    assert "Traceback" not in done.output
    assert starts(tmp_path, "whole") == 0


# --- The end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_however_pytest_ends_the_container_is_gone(tmp_path, number):
    tmp_path.joinpath("deaf.py").write_text(DEAF)
    deaf = shlex.join([sys.executable, "deaf.py"])
    tmp_path.joinpath("conformance.toml").write_text(f"command = {json.dumps(deaf)}")
    pids = tmp_path / "pids"
    with subprocess.Popen(
        command("conformance.toml"),
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=ENVIRONMENT,
    ) as process:
        try:
            deadline = time.monotonic() + 20
            while not pids.exists() and time.monotonic() < deadline:
                time.sleep(0.01)  # nothing tells when another process has made a file
            family = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
            process.send_signal(number)
            output, _ = process.communicate(timeout=40)
        finally:
            process.kill()
    if number == signal.SIGINT:
        assert process.returncode == pytest.ExitCode.INTERRUPTED
        assert b"KeyboardInterrupt" in output
    _, alive = psutil.wait_procs(family, timeout=40)
    assert [each for each in alive if each.status() != psutil.STATUS_ZOMBIE] == []


def test_the_plugin_costs_a_start_of_pytest_next_to_nothing():
    code = (
        "import sys, pytest; before = set(sys.modules);"
        "import partway.gateway.workbench.testing.plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    ours = {
        "partway",
        "partway.gateway",
        "partway.gateway.workbench",
        "partway.gateway.workbench.testing",
        "partway.gateway.workbench.testing.plugin",
    }
    assert set(done.stdout.split()) <= ours
    assert re.search(r"partway\.gateway\.workbench\.testing\.plugin", done.stdout)
