"""partway replay, as a process."""

from __future__ import annotations

import errno
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.gateway.workbench.recording.recordings import (
    GRANTED,
    HEAD,
    OVER,
    both_close,
    came,
    closed,
    said,
    whole,
    written,
)


def argv(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "partway.gateway.cli.main", "replay", *map(str, arguments)]


def replay(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(*arguments), capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recording.jsonl"


def test_the_same(path, container):
    whole(path, said(0.1, "hello"), came(0.112, "hello"), said(0.2, b"/w=="), came(0.25, b"/w=="),
          *both_close(0.3))  # fmt: skip
    done = replay(path, "--url", container)
    assert (done.returncode, done.stderr) == (0, "")
    title, _, head, first, second, close, _, summary = done.stdout.splitlines()
    assert title == (
        f"{path}, echo, 2026-01-02 03:04:05 UTC; now {container}/invocations-bidirectional-stream"
    )
    assert head.split() == ["verdict", "reply", "kind", "bytes", "then", "now", "said"]
    assert first.startswith("same          1  text            5    0.012 s ")
    assert first.endswith("'hello'")
    assert second.split()[:6] == ["same", "2", "binary", "1", "0.050", "s"]
    assert close == "same     Close 1000"
    assert summary == "2 replies, 2 same: the same"


def test_a_container_is_started_by_its_command_and_ended(path):
    whole(path, said(0.1, "hello"), came(0.112, "hello"), *both_close(0.3))
    echo = f"{sys.executable} -m partway.container serve --model echo --port {{port}}"
    done = replay(path, "--command", echo, "--json", "-")
    assert done.returncode == 0, done.stderr
    port = json.loads(done.stdout)["container"].partition("/invocations")[0].rpartition(":")[2]
    assert f"listening on http://127.0.0.1:{port}\n" in done.stderr, "what it prints"
    with socket.socket() as gone:
        assert gone.connect_ex(("127.0.0.1", int(port))) == errno.ECONNREFUSED


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("'a", "--command: No closing quotation"),
        ("/not/there", "--command: /not/there: there is no such program"),
        ("sh -c 'exit 3'", "--command: the container ended with status 3"),
    ],
)
def test_a_container_that_cannot_be_started_says_why(path, command, why):
    whole(path, *both_close(0.1))
    done = replay(path, "--command", command)
    assert (done.returncode, done.stderr) == (2, f"partway replay: {why}\n")


def test_without_a_reply_there_is_nothing_to_compare(path, container):
    whole(path, *both_close(0.1))
    done = replay(path, "--url", container)
    assert done.returncode == 0
    assert "there was no reply, so there was nothing to compare\n" in done.stdout
    assert done.stdout.endswith("0 replies: the same\n")


def test_why_nothing_came_stands_before_what_did_not_come(path):
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        whole(path, said(0.1, "hello"), came(0.2, "hello"), *both_close(0.3))
        done = replay(path, "--url", url)
    assert done.returncode == 1
    _, _, why, _, missing, *_ = done.stdout.splitlines()
    assert why.startswith("DIFFERS  ")
    assert missing.startswith("MISSING ")


def test_another_answer_is_shown_where_it_differs_and_steers_nothing(path, container, tmp_path):
    before = "a" * 100
    whole(path, said(0.1, f"{before}\x1b]0;mine\x07"), came(0.2, f"{before}what it was"),
          closed(0.3, "container", 1011, "it broke"))  # fmt: skip
    found = tmp_path / "found.json"
    done = replay(path, "--url", container, "--speed", "max", "--wait", "0.2", "--json", found)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert "DIFFERS       1  text " in done.stdout
    assert "         from byte 100 on\n         then: …'aaaaaaaaaaaawhat it was'\n" in done.stdout
    assert "DIFFERS  the stream goes on; in the recording it ended with Close 1011\n" in done.stdout
    assert done.stdout.endswith("1 reply, 1 differs: different\n")
    said_so = json.loads(found.read_text())
    assert (said_so["same"], said_so["counts"]["differs"]) == (False, 1)
    assert said_so["close"]["then"] == {"code": 1011, "reason": "it broke"}
    assert (said_so["replies"][0]["at"], said_so["replies"][0]["then"]["size"]) == (100, 111)


def test_by_its_shape_it_is_the_same(path, container):
    whole(path, said(0.1, "hello"), came(0.2, "what it was"), *both_close(0.3))
    done = replay(path, "--url", container, "--by", "shape", "--json", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["by"] == "shape"
    assert done.stderr.endswith("1 reply, 1 same, by shape: the same\n"), "the table is here"


def test_of_many_replies_those_that_differ_are_shown(path, container):
    lines = []
    for number in range(150):
        lines += [said(number, str(number)), came(number, "x" if number == 77 else str(number))]
    whole(path, *lines, *both_close(200))
    done = replay(path, "--url", container, "--speed", "max")
    assert done.returncode == 1
    assert [line.split()[:2] for line in done.stdout.splitlines() if " s  " in line] == [
        ["DIFFERS", "78"]
    ]
    assert "         and 149 more replies\n" in done.stdout


def test_another_path_and_query(path, container):
    whole(path, said(0.1, "hello"), came(0.2, "hello"), *both_close(0.3))
    done = replay(path, "--url", container, "--path", "v1/listen", "--query", "model=x")
    assert done.returncode == 1, "echo takes no streams there"
    assert f"now {container}/v1/listen?model=x\n" in done.stdout
    assert (
        "DIFFERS  the container answers the upgrade with 404; in the recording with 101\n"
        in done.stdout
    )


def test_a_refusal_is_compared_too(path, container):
    refused = {"at": 0.1, "answer": 404, "headers": {}, "text": "no streams are taken here"}
    written(path, refused, OVER, head=HEAD | {"target": "/v1/listen"})
    done = replay(path, "--url", container)
    assert done.returncode == 0
    assert "same     the container answers the upgrade with 404\n" in done.stdout


def test_a_recording_that_ends_early_says_so(path, container):
    written(path, GRANTED, said(0.1, "hello"), came(0.2, "hello"))
    done = replay(path, "--url", container)
    assert done.returncode == 0
    assert "the recording ends before its stream: its recorder did not finish it\n" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["{path}"], "one of the arguments --url --command is required"),
        (["{path}", "--url", "ftp://x"], "--url: 'ftp://x' is not a container's URL"),
        (["{path}", "--url", "http://x", "--speed", "nan"], "--speed"),
        (["{path}", "--url", "http://x", "--speed", "fast"], "--speed"),
        (["{path}", "--url", "http://x", "--wait", "0"], "--wait"),
        (["{path}", "--url", "http://x", "--path", "../x"], "--path or --query: "),
        (["{path}", "--url", "http://x"], ":3: 'at' is missing"),
        (["{path}.none", "--url", "http://x"], "No such file"),
    ],
)
def test_asked_wrongly(path, arguments, why):
    broken = ['{"frame": "text"}'] if "is missing" in why else [OVER]
    written(path, GRANTED, *broken)
    done = replay(*(each.format(path=path) for each in arguments))
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_without_payloads_there_is_nothing_to_say(path):
    written(path, GRANTED, OVER, head=HEAD | {"payloads": False})
    done = replay(path, "--url", "http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"partway replay: {path}: the recording has no payloads, so there is nothing to send\n"
    )


def test_a_signal_ends_it(path):
    whole(path, said(0.1, "hello"), came(0.2, "hello"), *both_close(0.3))
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.settimeout(20)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with subprocess.Popen(
            argv(path, "--url", url), stderr=subprocess.PIPE, text=True, cwd=ROOT
        ) as process:
            connection, _ = deaf.accept()
            with connection:
                connection.settimeout(20)
                assert connection.recv(3) == b"GET"
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=40)
    assert (process.returncode, errors) == (130, "partway replay: interrupted\n")
