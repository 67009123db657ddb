"""partway serve, as a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from partway.gateway.cli import serve
from partway.gateway.cli.main import main
from partway.gateway.containers.limits import MAX_IDLE_CONNECTIONS
from partway.gateway.settings.cluster_table import ClusterTable
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.data_directory import (
    DataDirectory,
    DataDirectoryError,
    default_data_directory,
)
from tests.conftest import ROOT
from tests.processes import ready_url

STREAM = "/endpoints/echo/invocations-bidirectional-stream"
RAW = "payloadpart.v1.raw"
JSON = "payloadpart.v1.json"

#: Nothing here takes this long, in seconds.
PATIENCE = 40

Start = Callable[..., subprocess.Popen[bytes]]


def environment(**settings: str) -> dict[str, str]:
    """This environment without settings of the gateway's but these; output is buffered."""
    unwanted = ("PARTWAY_", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return kept | settings


@pytest.fixture
def start(container: str) -> Iterator[Start]:
    """Starts gateways with the endpoint ``echo``; takes flags, and settings for the environment."""
    started = []

    def serve(*flags: str, **settings: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "partway.gateway.cli.main", "serve", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--endpoint", f"echo={container}", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**settings),
            cwd=ROOT,
        )
        started.append(process)
        return process

    yield serve
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Wait for the end: status, standard output since the ready line, standard error."""
    output, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, output.decode().lstrip("\n"), errors.decode()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs a gateway that does not start, in this process: status and standard error."""

    def run(*flags: str, **settings: str) -> tuple[int, str]:
        monkeypatch.setattr(os, "environ", environment(**settings))
        try:
            code = main(["serve", *flags])
        except SystemExit as exit:  # argparse's
            code = exit.code
        output, errors = capsys.readouterr()
        assert output == ""
        return code, errors

    return run


@contextlib.contextmanager
def stream(url: str, subprotocol: str = RAW, **options: object) -> Iterator[ClientConnection]:
    """A stream with ``echo``, by a client that is not ours."""
    where = url.replace("http", "ws") + STREAM
    with connect(where, subprotocols=[subprotocol], compression=None, **options) as connection:
        yield connection


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


# --- Starting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ready_line_service_and_orderly_end(start, number):
    process = start()
    url = ready_url(process)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    assert status(f"{url}/readyz") == 200
    with stream(url) as connection:
        connection.send("hi")
        assert connection.recv(PATIENCE) == "hi"
        connection.close(1000)
    process.send_signal(number)
    code, output, errors = ended(process)
    assert (code, output) == (0, "")
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].endswith("INFO partway.gateway drained")


def test_two_gateways_take_two_free_ports(start):
    first, second = start(), start()
    assert ready_url(first) != ready_url(second)


def test_an_ipv6_address_is_shown_in_brackets(start):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no ::1")
    url = ready_url(start("--host", "::1"))
    assert re.fullmatch(r"http://\[::1\]:\d+", url)
    assert status(f"{url}/healthz") == 200


#: So few that the machine's limit of open files does not matter.
FEW = {
    "PARTWAY_MAX_CONNECTIONS": "100",
    "PARTWAY_MAX_STREAMS": "40",
    "PARTWAY_MAX_REQUESTS": "10",
}


#: The command with few descriptors: soft limit, hard limit, arguments.
LIMITED = """
import resource, sys
soft, hard, *arguments = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (int(soft), int(hard)))
from partway.gateway.cli.main import main
sys.exit(main(arguments))
"""


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no prlimit here")
@pytest.mark.parametrize(("beside", "enough"), [(149, False), (150, True)])
def test_all_descriptors_that_may_be_had_are_taken(beside, enough):
    hard = beside + MAX_IDLE_CONNECTIONS
    command = [sys.executable, "-c", LIMITED, "100", str(hard), "serve", "--port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**FEW),
        cwd=ROOT,
    ) as process:
        try:
            ready_url(process)
            assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
            process.send_signal(signal.SIGTERM)
            code, _, errors = ended(process)
        finally:
            process.kill()
    assert code == 0
    warned = "WARNING partway.serve the limit of open files is too low for max_connections, "
    assert (warned in errors) is not enough
    numbers = f" limit={hard} needed={150 + MAX_IDLE_CONNECTIONS}"
    assert (numbers in errors) is not enough


def test_settings_from_a_file_and_from_the_environment(start, tmp_path):
    config = tmp_path / "partway.toml"
    config.write_text('log_level = "error"\n[stream]\nmax_part = 3\n')
    process = start(PARTWAY_CONFIG=str(config), PARTWAY_LOG_LEVEL="warning", **FEW)
    with stream(ready_url(process)) as connection:
        connection.send("four")
        with pytest.raises(ConnectionClosed):
            connection.recv(PATIENCE)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (0, "", ""), "no INFO line at this level"


def call(url: str, operation: str, **members: object) -> tuple[int, str]:
    request = urllib.request.Request(
        url,
        json.dumps(members).encode(),
        {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"SageMaker.{operation}",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def create_endpoint(url: str, folder: Path, name: str) -> tuple[int, str]:
    """Ask for an endpoint with a folder's model data; where they are is looked at then."""
    container = {"Image": "echo", "ModelDataUrl": str(folder)}
    variant = {"VariantName": "A", "ModelName": name, "InitialInstanceCount": 1}
    variant["InstanceType"] = "ml.m5.large"
    call(url, "CreateModel", ModelName=name, PrimaryContainer=container)
    call(url, "CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=[variant])
    return call(url, "CreateEndpoint", EndpointName=name, EndpointConfigName=name)


def test_callers_may_name_nothing_of_the_gateways_own(start, tmp_path):
    """Not even where a root of theirs is above all of it."""
    names = ("models", "settings", "data", "home", "home/partway/tls")
    models, settings, data, home, ca = (tmp_path / name for name in names)
    for folder in (models, settings, home, ca):
        folder.mkdir(parents=True, mode=0o700)
    config = settings / "partway.toml"
    config.write_text(f'[api]\nlocal_roots = ["{tmp_path}"]\n')
    flags = ("--config", str(config), "--data-dir", str(data))
    url = ready_url(start(*flags, XDG_DATA_HOME=str(home)))
    assert create_endpoint(url, models, "good")[0] == 200
    for number, folder in enumerate((tmp_path, settings, data, data / "models", home, ca)):
        status, said = create_endpoint(url, folder, f"bad{number}")
        assert status == 400, folder
        assert "leads to data of the gateway itself" in said


# --- Stopping ------------------------------------------------------------------------------------

QUICK = {
    "PARTWAY_SHUTDOWN_GRACE": "0.2",
    "PARTWAY_SHUTDOWN_SPREAD": "0.1",
    "PARTWAY_SHUTDOWN_HARD": "1",
}


def test_a_stream_that_stays_is_ended_by_the_drain(start):
    process = start(**QUICK)
    with stream(ready_url(process), JSON) as connection:
        process.send_signal(signal.SIGTERM)
        message = json.loads(connection.recv(PATIENCE))
        assert "draining" in message["InternalStreamFailure"]["Message"]
        with pytest.raises(ConnectionClosed) as caught:
            connection.recv(PATIENCE)
        assert caught.value.rcvd.code == 4500
    code, _, errors = ended(process)
    assert code == 0
    assert "cause=gateway_draining" in errors


def test_a_stream_that_ends_by_itself_ends_the_drain(start):
    process = start(PARTWAY_SHUTDOWN_GRACE="60")
    url = ready_url(process)
    with stream(url) as connection:
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while status(f"{url}/readyz") != 503:
            assert time.monotonic() < deadline, "still ready"
        connection.send("still here")
        assert connection.recv(PATIENCE) == "still here"
        connection.close(1000)
    code, _, errors = ended(process)
    assert code == 0
    assert "cause=client_finished" in errors


def test_a_second_signal_hastens(start):
    process = start(
        PARTWAY_SHUTDOWN_GRACE="60", PARTWAY_SHUTDOWN_SPREAD="60", PARTWAY_SHUTDOWN_HARD="1"
    )
    url = ready_url(process)
    with stream(url) as connection:
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while status(f"{url}/readyz") != 503:
            assert time.monotonic() < deadline, "still ready"
        process.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionClosed) as caught:
            connection.recv(PATIENCE)
        assert caught.value.rcvd.reason.startswith("InternalStreamFailure the gateway is draining")
    code, _, errors = ended(process)
    assert code == 0
    assert "Traceback" not in errors


# --- Not starting --------------------------------------------------------------------------------


def one_line(errors: str) -> str:
    lines = errors.splitlines()
    assert len(lines) == 1, errors
    assert lines[0].startswith("partway serve: ")
    return lines[0]


def test_a_port_in_use(refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, errors = refused("--port", str(port))
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}: " in one_line(errors)
    assert "in use" in errors.lower()


def test_a_second_gateway_on_one_port_says_that_alone(start, tmp_path):
    """The folder that it would have of its own is the first one's too: that is not the fault."""
    home = {"XDG_DATA_HOME": str(tmp_path)}
    port = ready_url(start(**home)).rpartition(":")[2]
    (tmp_path / "partway" / "gateways").mkdir(parents=True, exist_ok=True, mode=0o700)
    with DataDirectory.opened(default_data_directory({"XDG_DATA_HOME": str(tmp_path)}, int(port))):
        code, _, errors = ended(start("--port", port, **home))
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}: " in one_line(errors)


def test_folders_that_are_not_there_are_told_of_once_it_listens(start, tmp_path):
    config = tmp_path / "partway.toml"
    config.write_text('[api]\nlocal_roots = ["asked"]\nlocal_results = ["answers"]')
    process = start("--config", str(config), "--log-level", "warning")
    ready_url(process)
    assert process.stderr is not None
    told = [process.stderr.readline().decode() for _ in range(2)]
    lines = sorted(told, key=lambda line: line.partition("reason=")[2])
    for line, setting, name in zip(lines, ("results", "roots"), ("answers", "asked"), strict=True):
        assert "WARNING partway.serve a folder named in the settings is missing" in line
        assert f"api.local_{setting}: {tmp_path / name}: there is no such folder" in line


def test_an_address_that_is_not_ours(refused):
    code, errors = refused("--host", "192.0.2.1", "--insecure", "--port", "0")
    assert code == 1
    assert "cannot listen on 192.0.2.1:0: " in one_line(errors)


def test_a_host_without_address(refused):
    code, errors = refused("--host", "no-such-host.invalid", "--insecure", "--port", "0")
    assert code == 1
    assert "cannot listen on no-such-host.invalid:0: " in one_line(errors)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "gateway.example"])
def test_beyond_loopback_without_insecure(refused, host):
    code, errors = refused("--host", host, "--port", "0")
    assert code == 2
    assert f"listening on {host} without authentication" in one_line(errors)
    assert "--insecure" in errors


def test_beyond_loopback_if_that_is_meant(start):
    assert ready_url(start("--host", "0.0.0.0", "--insecure")).startswith("http://0.0.0.0:")


@pytest.mark.parametrize(
    ("flags", "settings", "what"),
    [
        (["--config", "/no/such.toml"], {}, "/no/such.toml: cannot be read: No such file"),
        ([], {"PARTWAY_CONFIG": "/no/such.toml"}, "/no/such.toml: cannot be read: No such file"),
        (
            ["--port", "70000"],
            {},
            "--port: 70000 was given; it must be a whole number from 0 to 65535",
        ),
        (["--endpoint", "echo"], {}, "--endpoint: 'echo' was given; it must be NAME=URL"),
        (
            ["--endpoint", "echo=tcp://h:1"],
            {},
            "--endpoint echo: 'tcp://h:1' was given; it must be a running container's URL",
        ),
        ([], {"PARTWAY_PORT": "http"}, "PARTWAY_PORT: 'http' was given; it must be a whole number"),
        (
            [],
            {"PARTWAY_SHUTDOWN_GRACE": "-1"},
            "PARTWAY_SHUTDOWN_GRACE: -1.0 was given; it must be a finite number of seconds",
        ),
    ],
)
def test_settings_that_are_wrong(refused, flags, settings, what):
    code, errors = refused(*flags, **settings)
    assert code == 2
    assert what in one_line(errors)


def test_a_file_that_is_wrong(refused, tmp_path):
    config = tmp_path / "partway.toml"
    config.write_text("[stream]\nlifetme = 1\nmax_part = 0\n")
    code, errors = refused("--config", str(config))
    assert code == 2
    unknown, wrong = (
        line.removeprefix(f"partway serve: {config}: ") for line in errors.splitlines()
    )
    assert unknown == "stream.lifetme: this key is unknown; the nearest known one is lifetime"
    assert wrong.startswith("stream.max_part: 0 was given; it must be a whole number of bytes")


def test_principals_that_are_wrong(refused, tmp_path):
    file = tmp_path / "principals.toml"
    file.write_text("[[principals]]\nname = 1\nkeys = 2\n")
    code, errors = refused("--auth", "sigv4", "--principals", str(file))
    assert code == 1
    assert [line.rpartition(" was given")[0] for line in errors.splitlines()] == [
        f"partway serve: {file}: principals#1.name: a number",
        f"partway serve: {file}: principals#1.keys: a number",
    ]


@pytest.mark.parametrize(
    "flags", [["--no-such-flag"], ["--port", "http"], ["--auth", "basic"], ["--log-level", "loud"]]
)
def test_flags_that_are_wrong(refused, flags):
    code, errors = refused(*flags)
    assert code == 2
    assert flags[0] in errors
    assert "Traceback" not in errors


def test_the_start_says_which_endpoints_answer_and_waits_for_none(start, container):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = start("--endpoint", f"silent={where}")
        assert ready_url(process)
        assert process.stderr is not None
        said = [process.stderr.readline().decode().split(" ", 1)[1].strip() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0
    why = 'reason="/ping was not answered within 2 s"'
    assert said == [
        f"INFO partway.fleet endpoint answers endpoint=echo container={container}",
        f"WARNING partway.fleet endpoint does not answer endpoint=silent container={where} {why}",
    ]


# --- The log -------------------------------------------------------------------------------------


def test_the_line_at_the_end_of_a_stream(start):
    process = start()
    with stream(ready_url(process)) as connection:
        connection.send("four")
        connection.send(b"five!")
        assert [connection.recv(PATIENCE) for _ in range(2)] == ["four", b"five!"]
        connection.close(1000)
    process.send_signal(signal.SIGTERM)
    _, _, errors = ended(process)
    (line,) = [line for line in errors.splitlines() if "stream ended" in line]
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO partway\.stream stream ended endpoint=echo "
        r"request_id=[0-9a-f-]{36} duration=\d+\.\d{1,3} parts_in=2 bytes_in=9 parts_out=2 "
        r"bytes_out=9 first_part=\d+\.\d{1,4} parts_saved=0 cause=client_finished",
        line,
    )


@pytest.mark.parametrize("how", [("--log-format", "json"), ()], ids=["flag", "environment"])
def test_the_log_in_json_is_one_object_a_line(start, how):
    process = start(*how, **({} if how else {"PARTWAY_LOG_FORMAT": "json"}))
    ready = json.loads(process.stdout.readline())
    assert list(ready)[:4] == ["time", "level", "logger", "event"]
    assert ready["event"] == "listening"
    url = ready["url"]
    with stream(url) as connection:
        connection.send("four")
        assert connection.recv(PATIENCE) == "four"
        connection.close(1000)
    with pytest.raises(InvalidStatus):
        connect(f"{url.replace('http', 'ws')}{STREAM}".replace("echo", "nobody"))
    process.send_signal(signal.SIGTERM)
    _, output, errors = ended(process)
    assert output == ""
    said = [json.loads(line) for line in errors.splitlines()]
    for line in said:
        assert list(line)[:4] == ["time", "level", "logger", "event"]
        assert datetime.fromisoformat(line["time"]).tzinfo is not None
    (over,) = [line for line in said if line["event"] == "stream ended"]
    assert over.items() >= {
        "endpoint": "echo", "parts_in": 1, "bytes_in": 4, "parts_out": 1, "bytes_out": 4,
        "cause": "client_finished",
    }.items()  # fmt: skip
    assert over.keys() >= {"request_id", "duration", "first_part"}
    (refused,) = [line for line in said if line["event"] == "refused"]
    assert refused["status"] == 400
    assert refused["reason"] == "there is no endpoint 'nobody'"


def test_a_gateway_that_cannot_start_says_so_in_json_too(start):
    code, output, errors = ended(start("--host", "192.0.2.1", "--insecure", "--log-format", "json"))
    assert (code, output) == (1, "")
    said = json.loads(errors.splitlines()[-1])
    assert said["reason"].startswith("cannot listen on 192.0.2.1:")


@pytest.mark.parametrize(
    "how",
    [("--log-format", "json"), ("--log-format=json",), ()],
    ids=["flag", "one-word", "environment"],
)
def test_a_wrong_command_line_is_said_in_json_too(start, how):
    settings = {} if how else {"PARTWAY_LOG_FORMAT": "json"}
    code, output, errors = ended(start("--prot", "80", *how, **settings))
    assert (code, output) == (2, "")
    said = json.loads(errors)
    assert "--prot" in said["reason"]
    assert "--help" in said["reason"]


@pytest.mark.parametrize("how", [("--log-format", "json"), ()], ids=["flag", "environment"])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"PARTWAY_PROT": "80"}, "PARTWAY_PROT: this variable is unknown"),
        ({"PARTWAY_MAX_STREAMS": "many"}, "PARTWAY_MAX_STREAMS: "),
    ],
    ids=["an unknown variable", "a wrong setting"],
)
def test_what_is_asked_wrongly_is_said_in_json_too(start, how, wrong, said):
    asked = wrong if how else wrong | {"PARTWAY_LOG_FORMAT": "json"}
    code, output, errors = ended(start(*how, **asked))
    assert (code, output) == (2, "")
    assert json.loads(errors)["reason"].startswith(said)


CANARY = "c4nary"


def test_nothing_that_is_the_clients_own_is_ever_logged(start, tmp_path):
    """At the most talkative level, whatever a client gets right or wrong."""
    process = start("--log-level", "debug", **QUICK)
    url = ready_url(process)
    port = int(url.rpartition(":")[2])
    secrets = {
        "Authorization": f"Bearer {CANARY}",
        "X-Amz-Security-Token": CANARY,
        "Cookie": f"session={CANARY}",
    }
    query = f"?access_token={CANARY}&query=key={CANARY}&path={CANARY}"
    where = url.replace("http", "ws") + STREAM
    from_elsewhere = f"Upgrade: websocket\r\nOrigin: http://{CANARY}"

    with connect(f"{where}?access_token={CANARY}", additional_headers=secrets) as connection:
        connection.send(CANARY)  # a whole conversation
        assert connection.recv(PATIENCE) == CANARY
        connection.close(4000, CANARY)
    with connect(where, subprotocols=[JSON], additional_headers=secrets) as connection:
        connection.send(f'{{"{CANARY}": 1}}')  # no event
        assert "InputStreamError" in connection.recv(PATIENCE)
    for request in (
        f"GET {STREAM}{query} HTTP/1.1\r\nHost: h\r\nAuthorization: {CANARY}\r\n\r\n",
        f"GET {STREAM}{query} HTTP/1.1\r\nHost: h\r\n{from_elsewhere}\r\n\r\n",
        f"GET /nothing{query} HTTP/1.1\r\nHost: h\r\nAuthorization: {CANARY}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: {CANARY}\r\n bad: \0{CANARY}\r\n\r\n",
        f"{CANARY} {CANARY} {CANARY}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: {CANARY * 2000}\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as raw:
            raw.sendall(request.encode())
            assert raw.recv(4096).startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), request
    process.send_signal(signal.SIGTERM)
    code, _, errors = ended(process)
    assert code == 0
    assert errors.count("refused request_id=") == 3
    assert CANARY not in errors, [line for line in errors.splitlines() if CANARY in line]


# --- Help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["serve", "invoke"])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    output, errors = capsys.readouterr()
    assert output.startswith(f"usage: partway {command} ")
    assert "example" in output
    assert errors == ""


def test_where_nothing_can_be_kept_it_serves_all_the_same(monkeypatch, capsys):
    """As in a container whose file system is read-only."""

    def refused(*_):
        raise DataDirectoryError("the file system is read-only")

    monkeypatch.setattr(DataDirectory, "opened", refused)
    monkeypatch.setattr(DataDirectory, "temporary", refused)

    async def listening():
        loaded = Settings(port=0)
        serving = asyncio.create_task(serve.serve(loaded, lambda: loaded, None))
        while "listening on" not in capsys.readouterr().out:
            await asyncio.wait((serving,), timeout=0.05)
            assert not serving.done()
        os.kill(os.getpid(), signal.SIGTERM)
        return await serving

    assert asyncio.run(listening()) == 0


def test_its_store_is_in_its_data_directory_and_closed_at_its_end(start, tmp_path):
    folder = tmp_path / "data"
    process = start("--data-dir", str(folder))
    ready_url(process)
    file = folder / "store.db"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.with_name("store.db-wal").exists()
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    assert not file.with_name("store.db-wal").exists()


def test_a_store_that_cannot_be_used_ends_the_start(refused, tmp_path):
    tmp_path.chmod(0o700)
    file = tmp_path / "store.db"
    file.write_bytes(b"somebody's notes\n" * 100)
    code, errors = refused("--data-dir", str(tmp_path), "--port", "0")
    assert code == 1
    assert errors == (
        f"partway serve: {file}: this file is not a database; it must be one that Partway has "
        "made; move it away, or name another folder with --data-dir DIR (SQLITE_NOTADB)\n"
    )
    assert file.read_bytes() == b"somebody's notes\n" * 100


#: ``partway`` with services that fail when they are closed.
FAILS_AT_ITS_END = """
import sys
from partway.gateway.cli.main import main
from partway.gateway.service import Service

async def fail(self):
    raise RuntimeError("a fault at the end")

Service.aclose = fail
sys.exit(main(sys.argv[1:]))
"""


def test_a_fault_at_its_end_is_its_status():
    process = subprocess.Popen(
        [sys.executable, "-c", FAILS_AT_ITS_END, "serve", "--port", "0", "--apis", "runtime"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=ROOT,
    )
    try:
        ready_url(process)
        process.terminate()
        status, _, errors = ended(process)
    finally:
        process.kill()
        process.communicate()
    assert status == 1
    assert "a service has failed service=" in errors
    assert "RuntimeError: a fault at the end" in errors
    assert " drained" in errors


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        (Settings(), "create one: partway deploy, boto3"),
        (Settings(apis=()), "no endpoint: add --endpoint NAME=URL"),
        (Settings(cluster=ClusterTable()), "create one: partway deploy, boto3"),
        (Settings(cluster=ClusterTable(endpoints=True)), "apply an Endpoint object"),
    ],
)
def test_the_remedy_for_a_gateway_without_an_endpoint(settings, remedy):
    assert remedy in serve.missing_endpoint(settings)
