"""partway.gateway.fleet.launchers.programs: real processes, and each fault that they may have."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from partway.gateway.fleet.endpoint import Program, Source
from partway.gateway.fleet.launchers import process
from partway.gateway.fleet.launchers.gpus import GpuShares
from partway.gateway.fleet.launchers.launcher import Launcher, LaunchError
from partway.gateway.fleet.launchers.process import HOST, ContainerProcess
from partway.gateway.fleet.launchers.programs import ProgramLauncher
from partway.gateway.fleet.limits import OUTPUT_BURST, OUTPUT_RATE
from partway.gateway.fleet.platform_interface import VertexContainer
from partway.gateway.storage.files import is_folder
from tests.gateway.fleet.launchers.contract import (
    TRIED,
    LauncherContract,
    ask,
    order_for,
    until_ready,
)
from tests.gateway.fleet.waiting import Output, eventually, soon, until_gone
from tests.gateway.streams.fakes import FakeClock
from tests.wire.peers import MAX_SOCKET_READ

TRIED_PROGRAM = Program((sys.executable, str(TRIED)))

#: A container that lives and does nothing.
IDLE = ("sleep", "1000")

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells")

Launch = Callable[..., Awaitable[ContainerProcess]]


class TestProgramLauncher(LauncherContract):
    read_only = False  # a folder's mode is all there is, which does not bind root

    @pytest.fixture
    async def launcher(self, anyio_backend: object) -> AsyncIterator[Launcher]:
        launcher = ProgramLauncher()
        yield launcher
        await launcher.aclose()

    @pytest.fixture
    def source(self) -> Source:
        return TRIED_PROGRAM

    @pytest.fixture
    def unknown(self) -> Source:
        return Program(("no-such-program",))


@pytest.fixture
def gpus() -> GpuShares | None:
    return None


@pytest.fixture
def clock() -> FakeClock | None:
    return None


@pytest.fixture
async def launcher(
    anyio_backend: object, no_leaks: None, gpus: GpuShares | None, clock: FakeClock | None
) -> AsyncIterator[ProgramLauncher]:
    launcher = ProgramLauncher(gpus, clock)
    yield launcher
    await launcher.aclose()


@pytest.fixture
def output() -> Output:
    return Output()


@pytest.fixture
async def launch(launcher: ProgramLauncher, output: Output) -> AsyncIterator[Launch]:
    """Launches programs; none of them is left."""
    launched = []

    async def launch(*command: str, cwd: Path | None = None, **about: object) -> ContainerProcess:
        order = order_for(Program(command, cwd), **about)
        launched.append(container := await soon(launcher.launch(order)))
        container.pass_output(output.take)
        return container

    yield launch
    for container in launched:
        container.kill()
    for container in launched:
        await soon(container.wait())


async def refused(launch: Launch, *command: str, **about: object) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        await launch(*command, **about)
    return caught.value


def shell(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


# --- What it is told -----------------------------------------------------------------------------


async def test_where_and_with_what_it_runs(launch, output, tmp_path):
    container = await launch(
        *shell(
            "pwd; echo $PARTWAY_BIND_TO_HOST $SAGEMAKER_BIND_TO_PORT $WORD; ls -A $SM_MODEL_DIR; "
            "echo bad >&2"
        ),
        cwd=tmp_path,
        WORD="hello",
    )
    assert str(await soon(container.wait())) == "ended with status 0"
    assert output.data.decode() == f"{tmp_path}\n{container.address} hello\nbad\n".replace(":", " ")


async def test_one_that_is_written_for_vertex_ai_is_told_as_there(launch, output, tmp_path):
    vertex = VertexContainer("/health", "/predict")
    script = "env | grep ^AIP_ | sort"
    for folder in (tmp_path, None):
        container = await launch(
            *shell(script), vertex=vertex, model_dir=folder, AIP_MODE="x", AIP_MACHINE_TYPE="y"
        )
        await soon(container.wait())
        port, storage = container.address.port, "" if folder is None else str(folder)
        told = vertex.environment("tried", "AllTraffic", port, storage) | {"AIP_MACHINE_TYPE": "y"}
        lines = sorted(f"{name}={value}" for name, value in told.items())
        assert sorted(output.data.decode().splitlines()) == lines
        output.data = b""


async def test_what_the_gateway_says_goes_before_what_the_variant_does(launch, output):
    """Else a variant's environment could have it listen for the network."""
    names = ("PARTWAY_BIND_TO_HOST", "SAGEMAKER_BIND_TO_PORT", "SM_MODEL_DIR", "_PARTWAY_LEASH")
    script = "; ".join(f"echo ${name}" for name in names)
    container = await launch(*shell(script), **dict.fromkeys(names, "elsewhere"))
    await soon(container.wait())
    host, port, *rest = output.data.decode().split()
    assert (host, port) == ("127.0.0.1", str(container.address.port))
    assert len(rest) == 2
    assert "elsewhere" not in rest


@pytest.mark.clause("1.1-6")
async def test_where_there_is_no_model_the_directory_is_empty(launch, launcher, output):
    container = await launch(*shell("echo $SM_MODEL_DIR"))
    await soon(container.wait())
    folder = output.data.decode().strip()
    assert not stat.S_IMODE(os.stat(folder).st_mode) & 0o222  # noqa: PTH116 (in a coroutine a Path may not be asked)
    await launcher.aclose()
    assert not is_folder(Path(folder))


async def test_what_is_installed_beside_the_gateway_is_found(launch, monkeypatch):
    """``.venv/bin/partway serve`` is called without the environment's being activated."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    container = await launch("partway-container", "serve", "--model", "echo")
    await until_ready(container)
    assert await soon(container.stop(30)) is True


async def test_ports_are_not_shared_and_come_back(launch, launcher, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("", 0)) as second:
        ports = (first.getsockname()[1], second.getsockname()[1])
    monkeypatch.setattr(process, "_PORTS", ports)
    containers = [await launch(*IDLE) for _ in range(2)]
    assert {container.address.port for container in containers} == set(ports)
    assert launcher._ports == set(ports)
    containers[0].kill()
    await soon(containers[0].wait())
    assert (await launch(*IDLE)).address == containers[0].address


# --- What cannot be started ----------------------------------------------------------------------


async def test_there_is_no_such_program(launch, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    error = await refused(launch, "no-such-program")
    assert not error.passing
    assert str(error) == (
        "there is no program 'no-such-program' in PATH (/usr/bin:/bin) or in "
        f"{Path(sys.executable).parent}; give its path, or change PATH"
    )


async def test_it_is_looked_for_where_its_own_path_says(launch, tmp_path):
    error = await refused(launch, "sh", PATH=str(tmp_path))
    assert f"in PATH ({tmp_path})" in str(error)


async def test_what_cannot_be_executed(launch, tmp_path):
    def file(name: str, text: str, mode: int = 0o755) -> str:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    cases = {
        f"{tmp_path}/missing": "there is no such program",
        str(tmp_path): "it must be an executable file",
        file("plain", "#!/bin/sh\n", 0o644): "it must be an executable file: chmod +x",
        file("orphan", "#!/no/such/interpreter\n"): "its first line names an interpreter",
    }
    for program, why in cases.items():
        error = await refused(launch, program)
        assert why in str(error), program
        assert program in str(error)
        assert not error.passing


async def test_what_the_system_does_not_take(launch):
    for command, about in ((("sh", "\0"), {}), (IDLE, {"WORD": "a\0"}), (IDLE, {"W\0": "a"})):
        error = await refused(launch, *command, **about)
        assert "its command and environment must be without NUL characters" in str(error)
        assert not error.passing


async def test_what_is_no_program_of_this_machine(launch, tmp_path, output):
    """By uvloop the system's library starts it, and takes what is no program for a script."""
    (tmp_path / "strange").write_text("\x7fELF")
    (tmp_path / "strange").chmod(0o755)
    if isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
        error = await refused(launch, str(tmp_path / "strange"))
        assert "it must be a program built for this machine, or a script" in str(error)
        assert not error.passing
    else:
        container = await launch(str(tmp_path / "strange"))
        assert str(await soon(container.wait())) == "ended with status 127"
        assert b"ELF" in output.data


async def test_a_path_is_seen_from_the_folder(launch, tmp_path):
    (tmp_path / "serve").write_text("#!/bin/sh\nexit 4")
    (tmp_path / "serve").chmod(0o755)
    container = await launch("./serve", cwd=tmp_path)
    assert str(await soon(container.wait())) == "ended with status 4"
    assert "there is no such program" in str(await refused(launch, "./serve"))


async def test_there_is_no_such_folder(launch, tmp_path):
    for folder in (tmp_path / "missing", TRIED):
        error = await refused(launch, *IDLE, cwd=folder)
        assert str(error) == f"{folder}: there is no such folder to run 'sleep' in"
        assert not error.passing


async def test_descriptors_come_back(launch, launcher):
    await launch(*IDLE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/dev/fd"))  # noqa: PTH208 (in a coroutine a Path may not be asked)
    spare = [os.open("/dev/null", os.O_RDONLY) for _ in range(used)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
        error = await refused(launch, *IDLE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in spare:
            os.close(descriptor)
    assert (str(error), error.passing, error.waits) == (
        "'sleep' cannot be started now: Too many open files", True, True,
    )  # fmt: skip
    assert len(launcher._ports) == 1, "nothing is kept for it"
    await launch(*IDLE)


# --- What goes wrong later -----------------------------------------------------------------------


async def test_it_exits_at_its_start(launch, output):
    container = await launch(*shell("echo there is no model >&2; exit 3"))
    assert str(await soon(container.wait())) == "ended with status 3"
    assert output.data == b"there is no model\n"


@LINUX
async def test_what_it_has_forked_into_other_sessions_ends_with_it(launch, output):
    daemon = "setsid sh -c '(sleep 1000 & echo $!) & sleep 1000' >&2 &"
    container = await launch(*shell(f"{daemon} exec sleep 1000"))
    pid = int(await output.first_line())
    assert os.getsid(pid) != os.getsid(container.pid)
    assert await soon(container.stop(30)) is True
    await until_gone(pid)


class TestItPrintsWithoutEnd:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    async def test_it_is_slowed_and_nobody_else(self, launch, launcher, output, clock):
        noisy = await launch(*shell("exec yes 'a line that is printed without end'"))
        await eventually(lambda: clock.armed)
        other = await soon(launcher.launch(order_for(TRIED_PROGRAM)))
        await until_ready(other)
        assert await soon(ask(other, "/ping")) == ""
        assert await soon(other.stop(30)) is True
        # With reads that were under way, a fraction of a second's.
        most = OUTPUT_BURST + 8 * MAX_SOCKET_READ
        assert OUTPUT_BURST <= len(output.data) <= most, "it waits for its turn"
        for _ in range(3):
            before = len(output.data)
            clock.advance_to(clock.armed[0].due)
            await eventually(lambda: clock.armed and len(output.data) > before)  # noqa: B023 (called in its own round only)
        assert len(output.data) <= most + OUTPUT_RATE * (clock.now - FakeClock().now)
        assert await soon(noisy.stop(30)) is True
        assert str(noisy.ended) == "was ended by SIGTERM"
        assert clock.armed == []

    async def test_of_one_that_is_slowed_the_last_words_are_heard(
        self, launch, output, clock, tmp_path
    ):
        waits = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
        script = f"head -c {OUTPUT_BURST + 1000} /dev/zero; {waits}; echo last words; exit 3"
        container = await launch(*shell(script))
        await eventually(lambda: clock.armed)
        (tmp_path / "go").touch()
        assert str(await soon(container.wait())) == "ended with status 3"
        assert output.data == bytes(OUTPUT_BURST + 1000) + b"last words\n"
        assert clock.armed == []


@LINUX
async def test_the_log_alone_says_who_else_listens_at_its_port(launch, caplog):
    container = await launch(*IDLE)
    await container.verify()
    with socket.create_server((HOST, container.address.port)):
        with pytest.raises(LaunchError) as caught:
            await container.verify()
        assert str(caught.value) == (
            f"another process holds its port {container.address.port}; the gateway's log names "
            "that process"
        )
        (line,) = [each.msg for each in caplog.records]
        assert line.fields == {
            "port": container.address.port,
            "held_by": f"process {os.getpid()} ({psutil.Process().name()})",
        }
        assert caught.value.passing
    await container.verify()


@LINUX
async def test_it_listens_by_what_it_has_started(launch):
    container = await launch(*shell(f"setsid {sys.executable} {TRIED} & wait"))
    await until_ready(container)
    await container.verify()
    container.kill()
    await soon(container.wait())
    await container.verify()


async def test_its_port_is_taken_before_it_listens(launch, output, tmp_path):
    go = tmp_path / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.02; done; exec {sys.executable} {TRIED}"
    container = await launch(*shell(script))
    with socket.create_server((HOST, container.address.port)):
        go.touch()
        assert str(await soon(container.wait())) == "ended with status 1"
    assert b"Address already in use" in output.data


# --- GPUs ----------------------------------------------------------------------------------------

SEES = shell("echo ${CUDA_VISIBLE_DEVICES-all}; sleep 1000")


class TestGpus:
    @pytest.fixture
    def gpus(self) -> GpuShares:
        return GpuShares(["GPU-a", "GPU-b", "GPU-c"])

    async def seen_by(self, launch: Launch, output: Output, **about: object) -> str:
        output.data = b""
        await launch(*SEES, **about)
        await eventually(lambda: b"\n" in output.data)
        return output.data.decode().strip()

    async def test_each_has_its_own(self, launch, output, monkeypatch):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        assert await self.seen_by(launch, output) == "all"
        assert await self.seen_by(launch, output, CUDA_VISIBLE_DEVICES="7") == "7"
        assert await self.seen_by(launch, output, gpus=2) == "GPU-a,GPU-b"
        assert await self.seen_by(launch, output) == "", "the others' are not its"
        assert await self.seen_by(launch, output, CUDA_VISIBLE_DEVICES="7") == "7"
        assert await self.seen_by(launch, output, gpus=1) == "GPU-c"

    async def test_they_come_back_with_its_end(self, launch, gpus):
        first = await launch(*SEES, gpus=3)
        error = await refused(launch, *SEES, gpus=1)
        assert "0 of 3 are free; tried-" in str(error)
        assert error.passing
        first.kill()
        await soon(first.wait())
        assert not gpus.given
        await launch(*SEES, gpus=1)

    async def test_what_is_not_started_has_none(self, launch, gpus, tmp_path):
        (tmp_path / "orphan").write_text("#!/no/such/interpreter")
        (tmp_path / "orphan").chmod(0o755)
        await refused(launch, str(tmp_path / "orphan"), gpus=3)
        assert not gpus.given
        error = await refused(launch, *SEES, gpus=4)
        assert not error.passing


async def test_what_gpus_there_are_is_found_out_once(launch, monkeypatch):
    looks = []

    async def look() -> tuple[str, ...]:
        looks.append(1)
        await asyncio.sleep(0)
        return ("GPU-a", "GPU-b")

    monkeypatch.setattr("partway.gateway.fleet.launchers.gpus.gpus_of_this_machine", look)
    await launch(*IDLE)
    assert looks == []
    await asyncio.gather(*(launch(*IDLE, gpus=1) for _ in range(2)))
    assert looks == [1]
