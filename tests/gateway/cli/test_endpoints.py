"""partway endpoints, which asks a gateway."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from partway.gateway.fleet.states import InstanceState
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.fleet.status_json import from_json
from partway.gateway.storage.data_directory import announced
from partway.protocol.errors import ServiceUnavailable
from tests.conftest import ROOT
from tests.gateway.cli.asked_gateway import (
    PATIENCE,
    AskedGateway,
    commanded,
    commanded_here,
    environment,
    gateway_at,
    words,
)
from tests.gateway.fleet.statuses import a_variant, an_endpoint, an_instance
from tests.processes import ready_url


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[AskedGateway]:
    """The only one of a user whose data is in ``tmp_path``."""
    with gateway_at(tmp_path / "partway" / "gateways" / "8090") as gateway:
        yield gateway


def test_a_table_of_the_only_gateway_that_runs(tmp_path, gateway):
    ended = commanded_here(tmp_path, "endpoints")
    assert (ended.status, ended.errors) == (0, "")
    head, row = ended.output.decode().splitlines()
    assert re.split(" {2,}", head.rstrip()) == [
        *("endpoint", "instances", "state", "health", "streams", "requests", "restarts", "age"),
    ]
    assert re.split(" {2,}", row)[:4] == ["echo", "1/1", "InService", "healthy"]


def test_json(tmp_path, gateway):
    ended = commanded_here(
        tmp_path, "endpoints", "--json", "--data-dir", str(gateway.directory.path)
    )
    assert (ended.status, ended.errors) == (0, "")
    assert from_json(ended.output) == gateway.fleet.endpoints


def test_no_gateway_runs(tmp_path):
    for arguments in (("endpoints",), ("endpoints", "--watch"), ("endpoints", "restart", "echo")):
        ended = commanded_here(tmp_path, *arguments)
        assert (ended.status, ended.output) == (1, b"")
        assert ended.errors.startswith("partway endpoints: no gateway runs with a data directory ")


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_restart(tmp_path, gateway, order):
    where = ("--data-dir", str(gateway.directory.path))
    before, after = (where, ()) if order == "before" else ((), where)
    ended = commanded_here(tmp_path, "endpoints", *before, "restart", *after, "echo")
    assert ended == (0, b"echo has been restarted\n", "")
    assert gateway.fleet.restarted == ["echo"]


def test_a_restart_that_fails_and_one_of_nothing(tmp_path, gateway):
    ended = commanded_here(tmp_path, "endpoints", "restart", "eco")
    assert ended == (2, b"", "partway endpoints: there is no endpoint 'eco'; there is echo\n")
    gateway.fleet.restart_fails = ServiceUnavailable("exit status 1:\n\x1b[2Jboom")
    ended = commanded_here(tmp_path, "endpoints", "restart", "echo")
    assert ended.status == 1
    assert ended.errors == "partway endpoints: exit status 1:\n    �[2Jboom\n"


def test_an_interrupted_restart_goes_on(tmp_path, gateway):
    gateway.loop.call_soon_threadsafe(gateway.fleet.may_restart.clear)
    with subprocess.Popen(
        words("endpoints", "restart", "echo"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        cwd=ROOT,
    ) as process:
        while not gateway.fleet.restarted:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output) == (130, b"")
    assert errors.startswith(b"partway endpoints: the restart continues; see: partway endpoints")
    gateway.loop.call_soon_threadsafe(gateway.fleet.may_restart.set)


# --- Watched -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_on_a_pipe_each_change_is_a_line(tmp_path, gateway, number):
    with subprocess.Popen(
        words("endpoints", "--watch"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert " InService endpoint=echo variant=AllTraffic instances=1/1 health=healthy " in line
        gateway.fleet.endpoints = (an_endpoint("echo", a_variant(desired=2)),)
        assert b" endpoint=echo variant=AllTraffic instances=0/2" in process.stdout.readline()
        process.send_signal(number)
        output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (130, b"", b"")


def test_json_is_a_line_each_until_the_gateway_is_gone(tmp_path, gateway):
    with subprocess.Popen(
        words("endpoints", "--watch", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert from_json(process.stdout.readline()) == gateway.fleet.endpoints
        gateway.fleet.endpoints = ()
        assert json.loads(process.stdout.readline()) == {"endpoints": []}
        gateway.stop()
        output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output) == (1, b"")
    assert errors.startswith(b"partway endpoints: no gateway runs with the data directory ")


def test_on_a_terminal_the_table_is_drawn_again(tmp_path, gateway):
    reason = "boom \x1b]0;title\x07"
    gateway.fleet.endpoints = (an_endpoint("echo", a_variant(an_instance(), restarts=0)),)
    main, other = pty.openpty()
    with subprocess.Popen(
        words("endpoints", "--watch"),
        stdin=subprocess.DEVNULL,
        stdout=other,
        stderr=subprocess.PIPE,
        env=environment(tmp_path) | {"TERM": "xterm", "COLUMNS": "140", "LINES": "20"},
        cwd=ROOT,
    ) as process:
        os.close(other)
        seen = b""
        while b"InService" not in seen:
            seen += os.read(main, 4096)
        gateway.fleet.endpoints = (an_endpoint("echo", reason=reason),)
        while b"boom" not in seen:
            seen += os.read(main, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while data := os.read(main, 4096):
                seen += data
        except OSError:  # Linux's end of a terminal
            pass
        _, errors = process.communicate(timeout=PATIENCE)
    os.close(main)
    assert (process.returncode, errors) == (130, b"")
    assert seen.count(b"\x1b[?25l") == seen.count(b"\x1b[?25h") == 1, "the cursor is there again"
    assert b"\x1b]0;" not in seen
    assert b"\x1b[1A" in seen or b"\x1b[2A" in seen, "drawn over what was there"


# --- A gateway as it is --------------------------------------------------------------------------


def test_a_gateway_that_has_started_a_container(tmp_path):
    """Nothing is made up: it is shown, started anew, and heard."""
    serve = [
        *words("serve", "--port", "0", "--data-dir", str(tmp_path / "data")),
        *("--endpoint", f"echo={sys.executable} -m partway.container serve --model echo"),
    ]
    where = ("--data-dir", str(tmp_path / "data"))
    with subprocess.Popen(
        serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path), cwd=ROOT
    ) as process:
        url = ready_url(process, PATIENCE)
        before = from_json(commanded(tmp_path, "endpoints", "--json", *where).output)
        assert announced(tmp_path / "data").urls == (url,)
        restart = commanded(tmp_path, "endpoints", "restart", "echo", *where)
        assert restart == (0, b"echo has been restarted\n", "")
        after = from_json(commanded(tmp_path, "endpoints", "--json", *where).output)
        ids = [serving(endpoints) for endpoints in (before, after)]
        assert ids[0].isdisjoint(ids[1])
        for instance in map(min, ids):
            ended = commanded(tmp_path, "logs", "echo", "--instance", instance, *where)
            assert b"listening on http://" in ended.output
        process.terminate()
        _, log = process.communicate(timeout=PATIENCE)
    assert b" endpoint endpoint=echo state=Stopping\n" in log
    assert b"Deleting" not in log
    ended = commanded(tmp_path, "endpoints", *where)
    assert ended.errors.startswith("partway endpoints: no gateway runs with the data directory ")


def serving(endpoints: Iterable[EndpointStatus]) -> set[str]:
    """The ids of the instances that are in service, one at least."""
    ids = {
        instance.id
        for endpoint in endpoints
        for variant in endpoint.variants
        for instance in variant.instances
        if instance.state is InstanceState.IN_SERVICE
    }
    assert ids
    return ids
