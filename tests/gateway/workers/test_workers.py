"""partway serve --workers, as processes: relaying, forwarding, shares, and every end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from partway.gateway.cli.main import main
from tests.conftest import ROOT
from tests.gateway.apis.aws_client import aws
from tests.gateway.apis.kubernetes.served import MODELS
from tests.processes import running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")

STREAM = "/endpoints/echo/invocations-bidirectional-stream"
INVOCATIONS = "/endpoints/echo/invocations"
RAW = "payloadpart.v1.raw"

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60


class Gateway:
    """A gateway with two workers, and the processes that it has started."""

    def __init__(self, *flags: str, workers: int = 2, **settings: str) -> None:
        command = [sys.executable, "-m", "partway", "serve", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, f"--workers={workers}", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if not k.startswith("PARTWAY_")} | settings,
            cwd=ROOT,
        )
        self.url = self.listening()
        self.port = int(self.url.rpartition(":")[2])
        self.supervisor = psutil.Process(self.process.pid)

    def listening(self) -> str:
        """Wait for the next ready line, and return its URL."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("listening on "), line
        return line.split()[2]

    @property
    def parent(self) -> psutil.Process:
        """The gateway process, once it has its admin socket."""
        found: list[psutil.Process] = []

        def is_there() -> bool:
            found[:] = [each for each in self.forked() if _has_admin_socket(each)]
            return bool(found)

        until(is_there)
        return found[0]

    @property
    def workers(self) -> list[psutil.Process]:
        return [each for each in self.forked() if not _has_admin_socket(each)]

    def forked(self) -> list[psutil.Process]:
        """The processes of the gateway that live, without programs."""
        command = self.supervisor.cmdline()
        return [each for each in self.supervisor.children() if _command_of(each) == command]

    def open(self) -> ClientConnection:
        where = self.url.replace("http", "ws") + STREAM
        return connect(where, subprotocols=[RAW], compression=None, close_timeout=PATIENCE)

    def get(self, path: str) -> tuple[int, bytes]:
        return self.ask("GET", path)

    def ask(self, method: str, path: str, **request: Any) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, PATIENCE)) as connection:
            connection.request(method, path, **request)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def ended(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors.decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def _command_of(process: psutil.Process) -> list[str]:
    """Return the command line; empty once the process has ended."""
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def _has_admin_socket(process: psutil.Process) -> bool:
    try:
        return any(each.laddr.endswith("admin.sock") for each in process.net_connections("unix"))
    except psutil.NoSuchProcess:  # it has ended since it was found
        return False


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition that nothing tells of."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not come about"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """An echo container's URL."""
    with running("partway.container", "serve", "--host", "127.0.0.1", "--port", "0") as url:
        yield url


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    started: list[Gateway] = []

    def serve(
        *flags: str, data_dir: str | None = f"--data-dir={tmp_path / 'data'}", **options: Any
    ) -> Gateway:
        started.append(Gateway(*flags, *([data_dir] if data_dir else []), **options))
        return started[-1]

    yield serve
    for each in started:
        each.kill()


@pytest.fixture
def gateway(start, container) -> Gateway:
    return start("--endpoint", f"echo={container}")


def echoes(stream: ClientConnection) -> bool:
    """Whether a stream still answers."""
    try:
        stream.send("hi")
        return stream.recv(PATIENCE) == "hi"
    except ConnectionClosed:
        return False


def opened(gateway: Gateway, stack: ExitStack, number: int) -> list[ClientConnection]:
    return [stack.enter_context(gateway.open()) for _ in range(number)]


def connections_of(gateway: Gateway) -> dict[int, int]:
    """The connections that clients have with each worker."""
    return {
        each.pid: sum(
            found.status == psutil.CONN_ESTABLISHED and found.laddr.port == gateway.port
            for found in each.net_connections("tcp")
        )
        for each in gateway.workers
    }


def forwarded(gateway: Gateway) -> int:
    """The requests that the parent answers now; its socket listens besides."""
    unix = gateway.parent.net_connections("unix")
    # It listens there too.
    return sum(each.laddr.endswith("/requests") for each in unix) - 1


# --- Relaying ------------------------------------------------------------------------------------


def test_both_workers_relay(gateway):
    with ExitStack() as stack:
        streams = opened(gateway, stack, 24)
        assert all(map(echoes, streams))
        assert all(connections_of(gateway).values()), "by chance once in 2 ** 23 times"
        page = gateway.get("/metrics")[1].decode()
        assert 'partway_streams_open{endpoint="echo"} 24.0' in page
    assert gateway.ask("POST", INVOCATIONS, body=b"hi") == (200, b"hi")


def test_metrics_have_the_sums_and_each_process(gateway):
    for _ in range(8):
        gateway.ask("POST", INVOCATIONS, body=b"hi")

    def counted() -> bool:
        page = gateway.get("/metrics")[1].decode()
        processes = re.findall(r'process_cpu_seconds_total\{worker="(\w+)"\}', page)
        assert Counter(processes) == Counter(["parent", "1", "2"])
        assert len(re.findall(r"^partway_build_info", page, re.MULTILINE)) == 1
        assert len(re.findall(r'^partway_limit\{setting="max_streams"\}', page, re.MULTILINE)) == 1
        return bool(re.search(r"partway_invocations_total\{.*\} 8.0", page))

    until(counted)  # the page is made once a second


def test_streams_go_to_the_container_with_the_fewest(start, tmp_path):
    """Each worker sees the streams of the other."""
    with ExitStack() as stack:
        urls = [
            stack.enter_context(
                running("partway.container", "serve", "--host", "127.0.0.1", "--port", "0")
            )
            for _ in range(2)
        ]
        (tmp_path / "partway.toml").write_text(f"[endpoints.echo]\nurls = {urls}\n")
        gateway = start("--config", str(tmp_path / "partway.toml"))
        opened(gateway, stack, 20)
        page = gateway.get("/metrics")[1].decode()
        counts = re.findall(r"partway_instance_outstanding\{.*\} (\d+)\.0", page)
        assert sorted(counts) == ["10", "10"]


# --- Requests that change things -----------------------------------------------------------------


@pytest.fixture
def sagemaker(gateway):
    with closing(aws("sagemaker", gateway.port)) as client:
        yield client


def test_the_control_plane_is_the_same_through_any_worker(gateway, sagemaker):
    for number in range(6):  # each call may come on another connection
        sagemaker.create_model(ModelName=f"m{number}", PrimaryContainer={"Image": "echo"})
    found = sagemaker.list_models(SortBy="Name", SortOrder="Ascending")["Models"]
    assert [each["ModelName"] for each in found] == [f"m{number}" for number in range(6)]
    with pytest.raises(ClientError, match="Could not find model"):
        sagemaker.describe_model(ModelName="none")


def test_a_forwarded_body_is_the_clients(gateway):
    """A body in chunks, one that waits for 100, one too large, and none."""
    headers = {"X-Amz-Target": "SageMaker.ListModels", "Content-Type": "application/x-amz-json-1.1"}
    for body in (b"{}", iter([b"{", b"}"])):
        status, answer = gateway.ask("POST", "/", body=body, headers=headers)
        assert (status, json.loads(answer)) == (200, {"Models": []})
    with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE) as client:
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = [
            "POST / HTTP/1.1",
            "Host: 127.0.0.1",
            *lines,
            "Expect: 100-continue",
            "Content-Length: 2",
        ]
        client.sendall("\r\n".join([*head, "", ""]).encode())
        received = client.makefile("rb")
        assert received.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert received.readline() == b"\r\n"
        client.sendall(b"{}")
        assert received.readline() == b"HTTP/1.1 200 OK\r\n"
    status, answer = gateway.ask("POST", "/", body=b" " * 8 * 1024 * 1024, headers=headers)
    assert (status, json.loads(answer)["__type"]) == (400, "RequestEntityTooLargeException")
    assert gateway.ask("POST", "/", headers=headers) == (200, b'{"Models":[]}')


def test_a_watch_ends_with_its_client(gateway):
    """Kubernetes' watch is an answer without an end."""
    status, answer = gateway.get(MODELS)
    assert status == 200, answer
    with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE) as client:
        client.sendall(f"GET {MODELS}?watch=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
        assert forwarded(gateway) == 1
    until(lambda: not forwarded(gateway))


# --- Shares --------------------------------------------------------------------------------------


def test_a_limit_holds_over_all_workers(start, container):
    gateway = start("--endpoint", f"echo={container}", workers=3, PARTWAY_MAX_STREAMS="12")
    with ExitStack() as stack:
        opened(gateway, stack, 12)
        for _ in range(6):
            with pytest.raises(InvalidStatus) as refused:
                gateway.open()
            assert refused.value.response.status_code == 503
            assert b"all 12 streams of this gateway are in use" in refused.value.response.body
    until(lambda: 'streams_open{endpoint="echo"}' not in gateway.get("/metrics")[1].decode())
    with ExitStack() as stack:
        opened(gateway, stack, 12)


PRINCIPALS = """
[[principals]]
name = "me"
actions = ["sagemaker:InvokeEndpointWithBidirectionalStream"]
resources = ["*"]
[[principals.keys]]
access_key_id = "AKIDONE"
secret_access_key = "secret"
"""


def test_a_url_that_says_once_is_good_in_one_worker_alone(start, container, tmp_path):
    path = tmp_path / "principals.toml"
    path.write_text(PRINCIPALS)
    path.chmod(0o600)
    auth = ("--auth", "sigv4", "--principals", str(path))
    gateway = start("--endpoint", f"echo={container}", *auth)
    request = AWSRequest("GET", f"{gateway.url}{STREAM}?once=8d7f")
    signer = SigV4QueryAuth(Credentials("AKIDONE", "secret"), "sagemaker", "us-east-1", 300)
    signer.add_auth(request)
    url = request.prepare().url.replace("http", "ws", 1)
    with ExitStack() as stack:
        refusals = []
        for _ in range(12):
            try:
                stack.enter_context(connect(url, subprotocols=[RAW], compression=None))
            except InvalidStatus as error:
                refusals.append(error.response)
        assert [each.status_code for each in refusals] == [403] * 11
        assert all(b"this signature has been used" in each.body for each in refusals)


def is_container(process: psutil.Process) -> bool:
    try:
        return "partway.container" in process.cmdline()
    except psutil.Error:  # it has ended
        return False


# --- The fleet -----------------------------------------------------------------------------------


def test_a_deleted_endpoint_waits_for_the_streams_of_workers(start, tmp_path):
    """Its instance stops when the last one has ended, in whichever worker that was."""
    path = tmp_path / "partway.toml"
    command = [sys.executable, "-m", "partway.container", "serve", "--port", "{port}"]
    path.write_text(f"[endpoints.echo]\ncommand = {json.dumps(command)}\n")
    gateway = start("--config", str(path))

    def containers() -> int:
        found = psutil.Process(gateway.process.pid).children(recursive=True)
        return sum(map(is_container, found))

    assert containers() == 1
    with ExitStack() as stack:
        streams = opened(gateway, stack, 8)
        path.write_text("")
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: gateway.ask("POST", INVOCATIONS, body=b"hi")[0] != 200)
        assert all(map(echoes, streams))
        assert containers() == 1
    until(lambda: not containers())


# --- The gateway process -------------------------------------------------------------------------


def listed(gateway: Gateway) -> int:
    """Ask for something that the gateway process alone knows; return the status."""
    headers = {"X-Amz-Target": "SageMaker.ListModels", "Content-Type": "application/x-amz-json-1.1"}
    return gateway.ask("POST", "/", body=b"{}", headers=headers)[0]


def test_a_killed_gateway_process_loses_no_stream(gateway, sagemaker):
    """The next one has the same port, the same counts, and all that was stored."""
    sagemaker.create_model(ModelName="before", PrimaryContainer={"Image": "echo"})
    with ExitStack() as stack:
        streams = opened(gateway, stack, 8)
        workers = {each.pid for each in gateway.workers}
        for number in (1, 2):
            gateway.parent.kill()
            streams += opened(gateway, stack, 4)
            assert all(map(echoes, streams))
            assert gateway.get("/readyz")[0] == 200
            until(lambda: listed(gateway) == 200)
            sagemaker.create_model(ModelName=f"m{number}", PrimaryContainer={"Image": "echo"})
            assert {each.pid for each in gateway.workers} == workers
            assert all(map(echoes, streams))
        page = gateway.get("/metrics")[1].decode()
        assert 'partway_streams_open{endpoint="echo"} 16.0' in page
    names = {each["ModelName"] for each in sagemaker.list_models()["Models"]}
    assert names == {"before", "m1", "m2"}


@pytest.fixture
def short_folder() -> Iterator[str]:
    """A folder in which a socket's path is not too long."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def test_a_temporary_data_directory_is_for_all_gateway_processes(start, container, short_folder):
    """Users know the gateway by the process that they have started."""
    gateway = start("--endpoint", f"echo={container}", data_dir=None, TMPDIR=short_folder)
    (folder,) = Path(short_folder).glob("partway-gateway-*")
    with closing(aws("sagemaker", gateway.port)) as client:
        client.create_model(ModelName="before", PrimaryContainer={"Image": "echo"})
        gateway.parent.kill()
        until(lambda: listed(gateway) == 200)
        assert [each["ModelName"] for each in client.list_models()["Models"]] == ["before"]
    pid = gateway.process.pid
    until(lambda: json.loads((folder / "gateway.json").read_text())["pid"] == pid)
    assert (folder / "lock").read_text() == f"{pid}\n"
    gateway.process.terminate()
    assert gateway.ended()[0] == 0
    assert not any(Path(short_folder).iterdir())


def test_a_worker_and_the_gateway_process_may_end_together(gateway):
    with ExitStack() as stack:
        streams = opened(gateway, stack, 16)
        counts = connections_of(gateway)
        victim = max(counts, key=counts.__getitem__)
        gateway.parent.kill()
        os.kill(victim, signal.SIGKILL)
        assert sum(map(echoes, streams)) == 16 - counts[victim]
        until(lambda: listed(gateway) == 200)
        until(lambda: len(gateway.workers) == 2)
        assert all(map(echoes, opened(gateway, stack, 16)))


def test_wrong_settings_at_its_restart_are_waited_out(start, container, tmp_path):
    """Workers serve on meanwhile; the log says what is wrong."""
    path = tmp_path / "partway.toml"
    right = f'[endpoints.echo]\nurl = "{container}"\n'
    path.write_text(right)
    gateway = start("--config", str(path))
    with gateway.open() as stream:
        path.write_text("wrong = 1\n")
        gateway.parent.kill()
        told(gateway, b"wrong")
        assert echoes(stream)
        assert listed(gateway) == 503
        path.write_text(right)
        until(lambda: listed(gateway) == 200)
        assert echoes(stream)


# --- Upgrades ------------------------------------------------------------------------------------


def told(gateway: Gateway, line: bytes) -> bytes:
    """Wait for a line of the log."""
    assert gateway.process.stderr is not None
    return next(each for each in gateway.process.stderr if line in each)


def upgraded(data: Path) -> tuple[int, str]:
    """Upgrade the gateway of a data directory; return the exit status, and what was said."""
    done = subprocess.run(
        [sys.executable, "-m", "partway", "serve", "--upgrade", f"--data-dir={data}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=2 * PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@contextmanager
def asking(*asks: Callable[[], bool]) -> Iterator[None]:
    """Ask each again and again on a thread of its own; all must succeed."""
    over = threading.Event()

    def ask_on(ask: Callable[[], bool]) -> int:
        asked = 0
        while not over.is_set():
            assert ask()
            asked += 1
        return asked

    with ThreadPoolExecutor(len(asks)) as pool:
        running = [pool.submit(ask_on, each) for each in asks]
        try:
            yield
        finally:
            over.set()
        assert all(each.result(PATIENCE) for each in running)


def test_an_upgrade_cuts_nothing_and_fails_nothing(start, container, tmp_path):
    """A refused one changes nothing."""
    path = tmp_path / "partway.toml"
    right = f'[endpoints.echo]\nurl = "{container}"\n'
    path.write_text(right)
    gateway = start("--config", str(path))
    with ExitStack() as stack:
        streams = opened(gateway, stack, 8)
        old, parent = {each.pid for each in gateway.workers}, gateway.parent.pid
        path.write_text("wrong = 1\n")
        status, said = upgraded(tmp_path / "data")
        assert (status, gateway.parent.pid) == (1, parent)
        assert "no upgrade: the same code serves on: " in said
        assert "wrong: this key is unknown" in said
        path.write_text(right)
        stack.enter_context(
            asking(
                lambda: gateway.ask("POST", INVOCATIONS, body=b"hi") == (200, b"hi"),
                lambda: listed(gateway) == 200,
            )
        )
        assert upgraded(tmp_path / "data")[0] == 0
        assert all(map(echoes, streams))
        assert gateway.parent.pid != parent
        until(lambda: len({each.pid for each in gateway.workers} - old) == 2)
        streams += opened(gateway, stack, 4)
        gateway.process.send_signal(signal.SIGUSR2)
        told(gateway, b"workers of the last upgrade still serve")
        assert all(map(echoes, streams))
        for each in streams[:8]:
            each.close()
        until(lambda: not {each.pid for each in gateway.workers} & old)
        assert all(map(echoes, streams[8:]))
    gateway.process.terminate()
    assert gateway.ended()[0] == 0


# --- Ends ----------------------------------------------------------------------------------------


def test_a_killed_worker_loses_its_own_streams_alone(gateway):
    with ExitStack() as stack:
        streams = opened(gateway, stack, 24)
        counts = connections_of(gateway)
        victim = max(counts, key=counts.__getitem__)
        os.kill(victim, signal.SIGKILL)
        alive = sum(map(echoes, streams))
        assert alive == 24 - counts[victim]
        until(lambda: len(gateway.workers) == 2)
        until(lambda: len([each for each in connections_of(gateway) if each != victim]) == 2)
        further = opened(gateway, stack, 24)
        assert all(map(echoes, further))
        until(lambda: f'echo"}} {24 + alive}.0' in gateway.get("/metrics")[1].decode())
    assert gateway.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_drain_reaches_the_streams_of_all(start, container, number):
    gateway = start("--endpoint", f"echo={container}", PARTWAY_SHUTDOWN_GRACE="1")
    with ExitStack() as stack:
        streams = opened(gateway, stack, 12)
        gateway.process.send_signal(number)
        for each in streams:
            with pytest.raises(ConnectionClosed) as ended:
                each.recv(PATIENCE)
            assert "the gateway is draining" in ended.value.rcvd.reason
    code, errors = gateway.ended()
    assert code == 0
    assert "Traceback" not in errors


def test_an_end_while_the_next_gateway_process_starts_cuts_no_stream(start, container):
    gateway = start("--endpoint", f"echo={container}", PARTWAY_SHUTDOWN_GRACE="1000")
    with ExitStack() as stack:
        streams = opened(gateway, stack, 8)
        before = {each.pid for each in gateway.forked()}
        gateway.parent.kill()
        until(lambda: {each.pid for each in gateway.forked()} - before)
        gateway.process.terminate()
        for _ in range(3):
            told(gateway, b"draining streams=")
        assert all(map(echoes, streams))
    assert gateway.ended()[0] == 0


def test_a_gateway_process_that_is_killed_in_its_end_cuts_no_stream(start, container):
    """The workers drain on, and the next one waits for them."""
    gateway = start("--endpoint", f"echo={container}", PARTWAY_SHUTDOWN_GRACE="1000")
    with ExitStack() as stack:
        streams = opened(gateway, stack, 8)
        parent = gateway.parent
        gateway.process.terminate()
        for _ in range(3):
            told(gateway, b"draining streams=")
        parent.kill()
        told(gateway, b"draining streams=")
        assert all(map(echoes, streams))
    code, errors = gateway.ended()
    assert (code, "a worker has ended without" in errors) == (0, False), errors


def test_an_end_during_the_check_of_an_upgrade_cuts_no_stream(start, container):
    gateway = start("--endpoint", f"echo={container}", PARTWAY_SHUTDOWN_GRACE="1000")
    with ExitStack() as stack:
        streams = opened(gateway, stack, 8)
        gateway.process.send_signal(signal.SIGUSR2)
        told(gateway, b"an upgrade begins")
        gateway.process.terminate()
        assert b"the gateway is stopping" in told(gateway, b"the upgrade is refused")
        assert all(map(echoes, streams))
    assert gateway.ended()[0] == 0


def test_the_supervisors_end_is_everybodys(start):
    command = f"{sys.executable} -m partway.container serve --port {{port}}"
    gateway = start("--endpoint", f"echo={command}")
    processes = gateway.supervisor.children(recursive=True)
    with ExitStack() as stack:
        streams = opened(gateway, stack, 4)
        gateway.process.kill()
        for each in streams:
            with pytest.raises(ConnectionClosed):
                each.recv(PATIENCE)
    _, alive = psutil.wait_procs(processes, PATIENCE)
    assert alive == []
    _, errors = gateway.ended()
    assert errors.count(" ERROR ") == 1
    assert "the supervisor has ended, and everything ends with it" in errors


def test_the_tls_port_and_http2_work_too(start, container, tmp_path):
    gateway = start(
        "--endpoint", f"echo={container}", "--tls-port", "0", XDG_DATA_HOME=str(tmp_path)
    )
    port = int(gateway.listening().rpartition(":")[2])
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    for _ in range(6):
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
        ):
            assert client.selected_alpn_protocol() == "h2"
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            assert client.recv(9)[3] == 4  # SETTINGS


def test_a_start_without_room_for_its_socket_fails(tmp_path, container):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    serve = [sys.executable, "-m", "partway", "serve", "--port", "0", "--workers", "2"]
    ended = subprocess.run(
        [*serve, "--endpoint", f"echo={container}", f"--data-dir={tmp_path / 'data'}"],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(folder)},
        cwd=ROOT,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 1
    assert "set TMPDIR to a folder with a short path" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("flag", ["--faults", "--record"])
def test_an_intermediary_needs_one_process(flag, tmp_path, capsys):
    (tmp_path / "faults").write_text("")
    assert main(["serve", "--workers", "2", flag, str(tmp_path / "faults")]) == 2
    assert f"{flag} works only with one process: leave --workers out" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["0", "65", "many", "1.5"])
def test_a_wrong_number_is_named(given, capsys):
    assert main(["serve", "--workers", given]) == 2
    error = capsys.readouterr().err
    assert "--workers" in error
    assert "a whole number of processes from 1 to 64, or auto" in error
