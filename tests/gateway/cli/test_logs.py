"""partway logs, which asks a gateway."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from partway.gateway.cli.logs import LogPrinter
from partway.gateway.cli.main import main
from tests.conftest import ROOT
from tests.gateway.cli.asked_gateway import (
    PATIENCE,
    AskedGateway,
    commanded_here,
    environment,
    gateway_at,
    words,
)
from tests.gateway.fleet.statuses import a_variant, an_endpoint, an_instance

ID = "echo-AllTraffic-1a2b3c"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[AskedGateway]:
    """The only one of a user whose data is in ``tmp_path``."""
    with gateway_at(tmp_path / "partway" / "gateways" / "8090") as gateway:
        yield gateway


def test_the_last_lines(tmp_path, gateway):
    assert commanded_here(tmp_path, "logs", "echo") == (0, b"", "")
    gateway.printed(ID, b"".join(b"line %d\n" % number for number in range(150)))
    ended = commanded_here(tmp_path, "logs", "echo")
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output.splitlines() == [b"line %d" % number for number in range(50, 150)]
    ended = commanded_here(tmp_path, "logs", "echo", "--lines", "2", "--instance", ID)
    assert ended == (0, b"line 148\nline 149\n", "")


def test_a_pipe_gets_every_byte_and_lines_say_whose_they_are(tmp_path, gateway):
    both = a_variant(an_instance("echo-A-1"), an_instance("echo-A-2"))
    gateway.fleet.endpoints = (an_endpoint("echo", both),)
    gateway.printed("echo-A-1", b"\xff\x00\x1b[2J\n")
    gateway.printed("echo-A-2", b"two\nthree")
    assert commanded_here(tmp_path, "logs", "echo").output == (
        b"echo-A-1 | \xff\x00\x1b[2J\necho-A-2 | two\necho-A-2 | three\n"
    )


def test_what_is_asked_wrongly(tmp_path, gateway, capsys):
    ended = commanded_here(tmp_path, "logs", "eco")
    assert ended == (2, b"", "partway logs: there is no endpoint 'eco'; there is echo\n")
    ended = commanded_here(tmp_path, "logs", "echo", "--instance", "echo-A-0")
    said = f"there is no instance 'echo-A-0' of endpoint 'echo'; there are {ID}"
    assert ended == (2, b"", f"partway logs: {said}\n")
    with pytest.raises(SystemExit) as refused:
        main(["logs", "echo", "--lines", "-1"])
    assert refused.value.code == 2
    assert "'-1' was given; it must be a whole number from 0 to 1000000" in capsys.readouterr().err


def test_no_gateway_runs(tmp_path):
    ended = commanded_here(tmp_path, "logs", "echo", "--data-dir", str(tmp_path))
    assert (ended.status, ended.output) == (1, b"")
    assert ended.errors.startswith(
        f"partway logs: no gateway runs with the data directory {tmp_path}"
    )


# --- Followed ------------------------------------------------------------------------------------


def following(tmp_path: Path, *flags: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words("logs", "echo", "--follow", *flags),
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options),
        env=environment(tmp_path),
        cwd=ROOT,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_comes_until_a_signal(tmp_path, gateway, number):
    gateway.printed(ID, b"one\n")
    with following(tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        log = gateway.directory.logs / f"{ID}.log"
        gateway.printed(ID, b"two\n")
        log.rename(f"{log}.1")
        gateway.printed(ID, b"three\n")
        assert process.stdout.readline() == b"two\n"
        assert process.stdout.readline() == b"three\n"
        process.send_signal(number)
        output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (130, b"", b"")


def test_what_comes_until_the_gateway_ends(tmp_path, gateway):
    gateway.printed(ID, b"one\ntwo\n")
    with following(tmp_path, "--lines", "1") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"two\n"
        gateway.printed(ID, b"three\n")
        gateway.stop()
        output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (0, b"three\n", b"")


def test_a_reader_that_has_seen_enough(tmp_path, gateway):
    gateway.printed(ID, b"one\n")
    with following(tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.stdout.close()
        gateway.printed(ID, b"two\n")
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 0


def test_a_terminal_is_not_steered(tmp_path, gateway):
    gateway.printed(ID, b"one \x1b[2Jtwo \x1b]0;title\x07\nthree \xe2\x82\xac \xff\n")
    main, other = pty.openpty()
    with following(tmp_path, "--instance", ID, stdout=other) as process:
        os.close(other)
        seen = b""
        while seen.count(b"\n") < 2:
            seen += os.read(main, 4096)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    os.close(main)
    assert (process.returncode, errors) == (130, b"")
    assert seen.decode() == "one two \r\nthree € �\r\n"


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_what_a_line_begins_ends_with_it_wherever_it_is_cut():
    data = b"a\x1b]0;never ended\nb \xe2\x82\xac\x1b[31m c\n\xe2\x82\nd"
    for cut in range(len(data) + 1):
        output = Terminal()
        printer = LogPrinter(output)
        printer.show(data[:cut])
        printer.show(data[cut:])
        assert output.getvalue().decode() == "a\nb € c\n�\nd"
