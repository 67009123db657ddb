"""partway serve where the disk takes nothing: it serves, says what it refuses, and recovers."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from partway.gateway.fleet.launchers.process import HOST, free_port
from partway.gateway.storage.data_directory import DataDirectory
from tests.conftest import ROOT
from tests.disks import SmallDisk, small_disk
from tests.gateway.cli.asked_gateway import commanded_here
from tests.gateway.cli.invoking import Ended
from tests.processes import ready_url

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

CONTAINER = ROOT / "tests" / "gateway" / "faulty_container.py"

FILE = """
data_dir = "{data}"
{top}
[api]
local_results = ["{data.parent}/answers"]
[images]
"good:1" = ["{python}", "-S", "{container}"]
[endpoints.own]
command = ["{python}", "-S", "{container}"]
"""

ROLE = "arn:aws:iam::000000000000:role/x"


class Gateway:
    """A gateway that is started and ended, with its settings' file and its log."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.data = data
        self.home = folder / "home"
        self.config = folder / "partway.toml"
        self.write()
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._lines: list[str] = []

    def write(self, more: str = "", top: str = "") -> None:
        names = {"data": self.data, "container": CONTAINER, "python": sys.executable, "top": top}
        self.config.write_text(FILE.format(**names) + more)

    def start(
        self, *before: str, port: int = 0, program: tuple[str, ...] = ("-m", "partway")
    ) -> None:
        """Start it, and wait for its ready line; with a port until it serves, which is sooner."""
        kept = {name: value for name, value in os.environ.items() if "PARTWAY_" not in name}
        flags = ("--port", str(port), "--config", str(self.config))
        self.process = subprocess.Popen(
            [*before, sys.executable, *program, "serve", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=kept | {"HOME": str(self.home), "XDG_DATA_HOME": ""},
        )
        self._lines = lines = []
        assert self.process.stderr is not None
        log = self.process.stderr  # no file, which a limit of file sizes would hold for too
        threading.Thread(target=lambda: lines.extend(map(bytes.decode, log)), daemon=True).start()
        self.url = f"http://{HOST}:{port}" if port else ready_url(self.process)
        until(self.serves)

    def serves(self) -> bool:
        try:
            return self._status("/healthz", None, {})[0] == 200
        except urllib.error.URLError:  # it does not listen yet
            assert self.process is not None
            assert self.process.poll() is None, self._lines
            return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        return self.process.returncode

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def told(self, words: str) -> list[str]:
        return [line for line in self._lines if words in line]

    def invoke(self, endpoint: str, path: str = "", **headers: str) -> int:
        return self._status(f"/endpoints/{endpoint}/{path or 'invocations'}", b"a", headers)[0]

    def asked(self, operation: str, **members: Any) -> tuple[int, Mapping[str, Any]]:
        headers = {
            "X-Amz-Target": f"SageMaker.{operation}",
            "Content-Type": "application/x-amz-json-1.1",
        }
        status, body = self._status("/", json.dumps(members).encode(), headers)
        return status, json.loads(body)

    def metrics(self) -> str:
        return self._status("/metrics", None, {})[1].decode()

    def kubernetes(self) -> int:
        path = "/kubernetes/apis/aiplatform.gdc.goog/v1/namespaces/default/endpoints"
        return self._status(path, None, {})[0]

    def command(self, *words: str) -> Ended:
        return commanded_here(self.home, *words, "--data-dir", str(self.data))

    def _status(
        self, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        request = urllib.request.Request(self.url + path, body, dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as mounted:
        yield mounted


@pytest.fixture
def gateway(tmp_path: Path, disk: SmallDisk) -> Iterator[Gateway]:
    made = Gateway(tmp_path, disk.path / "data")
    yield made
    made.end()


def create_model(gateway: Gateway, name: str) -> int:
    container = {"Image": "good:1"}
    asked = {"ModelName": name, "PrimaryContainer": container, "ExecutionRoleArn": ROLE}
    return gateway.asked("CreateModel", **asked)[0]


def create_endpoint(gateway: Gateway) -> None:
    """An endpoint of the API that takes asynchronous requests, and serves."""
    ask_for_endpoint(gateway)
    until(lambda: gateway.invoke("made") == 200)


def ask_for_endpoint(gateway: Gateway) -> None:
    """Such an endpoint, which begins to come up."""
    assert create_model(gateway, "m") == 200
    variant = {"VariantName": "a", "ModelName": "m", "InitialInstanceCount": 1}
    variant["InstanceType"] = "ml.m5.large"
    answers = {"OutputConfig": {"S3OutputPath": str(gateway.data.parent / "answers")}}
    config = {"ProductionVariants": [variant], "AsyncInferenceConfig": answers}
    asked = gateway.asked("CreateEndpointConfig", EndpointConfigName="c", **config)
    assert asked[0] == 200, asked
    name = {"EndpointName": "made", "EndpointConfigName": "c"}
    assert gateway.asked("CreateEndpoint", **name)[0] == 200


def models(gateway: Gateway) -> list[str]:
    _, answer = gateway.asked("ListModels", SortBy="Name", SortOrder="Ascending")
    return [each["ModelName"] for each in answer["Models"]]


def warning_of(gateway: Gateway) -> str:
    until(lambda: gateway.told("the disk refuses the gateway's data") != [])
    (line,) = gateway.told("the disk refuses the gateway's data")
    assert " WARNING partway.disk " in line
    assert f"folder={gateway.data} " in line
    return line


def test_a_full_disk_and_a_data_directory_that_is_not_there_yet(gateway, disk):
    disk.fill()
    gateway.start()
    until(lambda: gateway.invoke("own") == 200)
    line = warning_of(gateway)
    assert "bytes_free=0 " in line
    assert "No space left on device" in line
    for refused in ("changes through the API", "asynchronous requests", "model data", "logs of"):
        assert refused in line
    assert models(gateway) == []
    assert create_model(gateway, "a") == 500
    assert gateway.asked("ListEndpoints")[1]["Endpoints"][0]["EndpointName"] == "own"
    assert gateway.kubernetes() == 200
    disk.make_room()
    until(lambda: create_model(gateway, "a") == 200)
    until(lambda: gateway.told("the disk accepts the gateway's data again") != [])
    until(lambda: gateway.command("endpoints").status == 0)
    assert gateway.stop() == 0
    gateway.start()
    assert models(gateway) == ["a"]


@pytest.mark.parametrize(
    ("how", "ended"),
    [("full", signal.SIGTERM), ("full", signal.SIGKILL), ("read-only", signal.SIGKILL)],
)
def test_what_was_created_before_is_served(gateway, disk, ended, how):
    (disk.path / "answers").mkdir()
    gateway.start()
    create_endpoint(gateway)
    gateway.stop(ended)
    disk.fill()
    if how == "read-only":
        disk.remount("ro")
    gateway.start()
    until(lambda: gateway.invoke("own") == gateway.invoke("made") == 200)
    warning_of(gateway)
    assert models(gateway) == ["m"]
    assert create_model(gateway, "a") == 500
    until(lambda: gateway.told(f'"a change cannot be stored: {gateway.data}/store.db: ') != [])
    assert gateway.invoke("made", "async-invocations") in (500, 503)
    # And again: nothing of what was refused is half there.
    assert models(gateway) == ["m"]
    if how == "read-only":
        disk.remount("rw")
    disk.make_room()
    until(lambda: create_model(gateway, "a") == 200)
    until(lambda: gateway.invoke("made", "async-invocations") == 202)
    until(lambda: any((disk.path / "answers").iterdir()))
    until(lambda: gateway.told("still_refused=-") != [])
    assert gateway.command("endpoints").status == 0
    assert gateway.stop() == 0
    gateway.start()
    assert models(gateway) == ["a", "m"]


def test_the_operators_commands_say_why(gateway, disk):
    gateway.start()
    gateway.stop()
    disk.fill()
    gateway.start()
    said = gateway.command("deploy", "x", "--command", f"{sys.executable} -S {CONTAINER}")
    assert said.status == 1
    assert f"{gateway.data}/store.db: the disk is full; make room there" in said.errors


#: ``partway`` whose instances are started anew soon after they have failed.
RESTARTS_SOON = """
import sys
from partway.gateway.fleet import instance_group as group
group.RESTART_SHORTEST = group.RESTART_LONGEST = 0.1
from partway.gateway.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_model_data_waits_for_room(gateway, disk, tmp_path):
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        of_it = tarfile.TarInfo("weights")
        of_it.size = 1 << 20
        made.addfile(of_it, io.BytesIO(bytes(of_it.size)))
    DataDirectory.opened(gateway.data).close()
    disk.fill()
    command = f'command = ["{sys.executable}", "-S", "{CONTAINER}"]'
    gateway.write(f'[endpoints.large]\n{command}\nmodel_data = "{archive}"\n')
    # The ready line waits 30 s for an endpoint without its data.
    gateway.start(port=free_port(), program=("-c", RESTARTS_SOON))
    until(lambda: gateway.invoke("own") == 200)
    until(lambda: gateway.told("model data: ") != [])
    assert gateway.invoke("large") == 503
    until(lambda: b"the disk of" in gateway.command("endpoints").output)
    disk.make_room()
    until(lambda: gateway.invoke("large") == 200)


def test_the_tls_port_is_opened_once_its_certificate_can_be_kept(gateway, disk):
    gateway.home = disk.path / "home"
    gateway.write(top="tls_port = 0")
    disk.fill()
    gateway.start()
    until(lambda: gateway.invoke("own") == 200)
    assert "connections with the TLS port" in warning_of(gateway)
    disk.make_room()

    def announced() -> list[str]:
        with suppress(FileNotFoundError):
            return json.loads((gateway.data / "gateway.json").read_text())["urls"]
        return []

    until(lambda: len(announced()) == 2)
    port = int(announced()[1].rpartition(":")[2])
    trusted = ssl.create_default_context(cafile=disk.path / "home/.local/share/partway/tls/ca.pem")
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connected:
        trusted.wrap_socket(connected, server_hostname="localhost").close()


#: Root without the capabilities by which modes do not hold for it.
HELD_TO_MODES = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")


@pytest.mark.parametrize("kept", ["a store", "nothing"])
def test_a_folder_that_the_user_may_not_write_to(tmp_path, kept):
    gateway = Gateway(tmp_path, tmp_path / "data")
    before = HELD_TO_MODES if os.geteuid() == 0 else ()
    gateway.data.mkdir(mode=0o700)
    try:
        if kept == "a store":
            gateway.start(*before)
            assert create_model(gateway, "a") == 200
            gateway.stop()
        gateway.data.chmod(0o500)
        gateway.start(*before)
        until(lambda: gateway.invoke("own") == 200)
        assert "Permission denied" in warning_of(gateway)
        assert models(gateway) == (["a"] if kept == "a store" else [])
        assert create_model(gateway, "b") == 500
        gateway.data.chmod(0o700)
        until(lambda: create_model(gateway, "b") == 200)
        until(lambda: gateway.told("still_refused=-") != [])
    finally:
        gateway.end()


def test_what_cannot_be_read_is_not_said_to_be_missing(tmp_path):
    """A store that may not be read: its models are not gone, and its endpoints come back."""
    gateway = Gateway(tmp_path, tmp_path / "data")
    before = HELD_TO_MODES if os.geteuid() == 0 else ()
    try:
        gateway.start(*before)
        assert create_model(gateway, "a") == 200
        gateway.stop()
        (gateway.data / "store.db").chmod(0o000)
        gateway.start(*before)
        until(lambda: gateway.invoke("own") == 200)
        assert "endpoints that were created through the API" in warning_of(gateway)
        status, said = gateway.asked("ListModels")
        assert (status, said["message"]) == (
            503,
            "the gateway cannot read its stored resources yet; its log has the reason",
        )
        assert gateway.kubernetes() == 503
        assert create_model(gateway, "b") == 503
        (gateway.data / "store.db").chmod(0o600)
        until(lambda: gateway.asked("ListModels")[0] == 200)
        assert models(gateway) == ["a"]
        until(lambda: create_model(gateway, "b") == 200)
    finally:
        gateway.end()


def test_a_limit_of_file_sizes_is_as_a_full_disk(tmp_path):
    """RLIMIT_FSIZE needs no right to mount: the same, for whoever runs the tests."""
    gateway = Gateway(tmp_path, tmp_path / "data")
    try:
        gateway.start("sh", "-c", 'ulimit -S -f 0; exec "$@"', "sh")
        assert gateway.process is not None
        until(lambda: gateway.invoke("own") == 200)
        assert "File too large" in warning_of(gateway)
        assert models(gateway) == []
        assert create_model(gateway, "a") == 500
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: create_model(gateway, "a") == 200)
        until(lambda: gateway.told("still_refused=-") != [])
        assert gateway.stop() == 0
    finally:
        gateway.end()


def test_the_tls_port_is_opened_once_where_it_cannot_be_announced(tmp_path):
    gateway = Gateway(tmp_path, tmp_path / "data")
    gateway.write(top="tls_port = 0")
    announcement = gateway.data / "gateway.json"
    said: list[bytes] = []
    try:
        gateway.start("sh", "-c", 'ulimit -S -f 0; exec "$@"', "sh")
        assert gateway.process is not None
        assert gateway.process.stdout is not None
        output = gateway.process.stdout
        threading.Thread(target=lambda: said.extend(output), daemon=True).start()
        warning_of(gateway)
        announcement.mkdir()  # a file cannot take its name, which is no refusal of the disk
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: said != [])
        until(lambda: gateway.told("a part of the start failed and will be retried ") != [])
        assert gateway.told("Error: ")[0].rstrip().endswith("Is a directory")
        announcement.rmdir()
        until(lambda: gateway.told("still_refused=-") != [])
        assert len(json.loads(announcement.read_text())["urls"]) == 2
        assert gateway.stop() == 0
        (line,) = said
        assert line.startswith(b"listening on https://")
    finally:
        gateway.end()


def test_a_late_certificate_keeps_no_caller_waiting(tmp_path):
    """Reading the certificate takes for ever here: it is a pipe to which nobody writes."""
    gateway = Gateway(tmp_path, tmp_path / "data")
    gateway.write(top="tls_port = 0")
    certificate = gateway.home / ".local/share/partway/tls/ca.pem"
    try:
        gateway.start("sh", "-c", 'ulimit -S -f 0; exec "$@"', "sh")
        assert gateway.process is not None
        warning_of(gateway)
        certificate.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.mkfifo(certificate)
        writers: list[int] = []

        def is_being_read() -> bool:
            with suppress(OSError):  # ENXIO as long as nobody reads
                writers.append(os.open(certificate, os.O_WRONLY | os.O_NONBLOCK))
            return writers != []

        until(is_being_read)
        assert gateway.invoke("own") == 200
        certificate.unlink()
        os.close(*writers)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: gateway.told("still_refused=-") != [])
        assert len(json.loads((gateway.data / "gateway.json").read_text())["urls"]) == 2
        assert gateway.stop() == 0
    finally:
        gateway.end()
