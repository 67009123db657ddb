"""partway-container serve: what it is asked, and the process from its beginning to its end."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK
from websockets.sync.client import connect

from partway.container.cli import serve
from partway.container.cli.main import main
from tests.container.cli.commands import (
    PATIENCE,
    ended,
    environment,
    serving,
    started,
    until_logged,
)
from tests.container.wire import STREAM, upgrade_request
from tests.frame_factory import BINARY, KEY, frame

MIB = 1 << 20

#: An author's module, with a model for each thing that can be wrong or can hang.
OWN = '''
    import asyncio
    import sys
    import threading

    from partway.container import Model, ModelError
    from partway.container.models.echo import Echo


    def hang_in_a_thread():
        forever = threading.Event().wait
        threading.Thread(target=forever, name="of the model", daemon=False).start()


    class Shouting(Model):
        async def stream(self, stream):
            async for message in stream.messages():
                await stream.send(message.upper())


    class Loading(Shouting):
        def load(self, model_dir):
            (model_dir / "weights").read_text()


    class NotAsync(Model):
        def stream(self, stream):
            pass


    class Needy(Model):
        def __init__(self, size):
            self.size = size


    class HangsLoading(Shouting):
        def load(self, model_dir):
            print("hanging", file=sys.stderr, flush=True)
            threading.Event().wait()


    class FailsWithAThread(Shouting):
        def load(self, model_dir):
            hang_in_a_thread()
            raise ModelError("no weights")


    class HangsInItsThread(Shouting):
        def load(self, model_dir):
            hang_in_a_thread()

        async def stream(self, stream):
            print("printed by the model")


    class HangsInTheExecutor(Model):
        async def stream(self, stream):
            async for message in stream.messages():
                await stream.send(message)
                await asyncio.to_thread(threading.Event().wait)


    class IgnoresItsEnd(Shouting):
        async def admit(self, opening):
            self.task = asyncio.create_task(self.for_ever())

        async def for_ever(self):
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass


    helper = len
'''  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the author's module."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_model.py").write_text(textwrap.dedent(OWN))
    (folder / "broken_model.py").write_text("import no_such_library\n")
    (folder / "worse_model.py").write_text("class Model(:\n")
    (folder / "empty_model.py").write_text("")
    return folder


Refused = Callable[..., tuple[int, str]]


@pytest.fixture
def refused(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Refused]:
    """Runs the command in this process, in the author's folder: its status and what it says."""

    def run(*arguments: str, **settings: str) -> tuple[int, str]:
        monkeypatch.chdir(own)
        monkeypatch.setattr(os, "environ", environment(**settings))
        monkeypatch.setattr(sys, "path", [*sys.path])
        try:
            status = main(arguments)
        except SystemExit as exit:  # argparse's
            status = exit.code
        for path in own.iterdir():
            sys.modules.pop(path.stem, None)
        output, errors = capsys.readouterr()
        assert output == ""
        assert errors.startswith("partway-container: ")
        assert errors.count("\n") == 1
        return status, errors.removeprefix("partway-container: ").removesuffix("\n")

    def begin(main: Coroutine[Any, Any, int]) -> int:
        main.close()
        pytest.fail("it serves, in the process of the tests")

    monkeypatch.setattr(serve, "_run_loop", begin)
    numbers = (signal.SIGTERM, signal.SIGINT)
    handlers = [signal.getsignal(number) for number in numbers]
    yield run
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


@contextlib.contextmanager
def stream(port: int):
    """A stream, by a client that is not ours."""
    with connect(f"ws://127.0.0.1:{port}{STREAM}", compression=None) as client:
        yield client


def left_running(log: str) -> list[str]:
    """The threads that a process has left without waiting for."""
    lines = [
        line
        for line in log.splitlines()
        if "threads still run: the process ends without them threads=" in line
    ]
    # A busy machine may need that second to end a process that has nothing left.
    names = [line.partition("threads=")[2].strip('"') for line in lines]
    return [each for each in names if each != "-"]  # that is for what is called at exit


def status(port: int, path: str = "/ping") -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


# --- What it is asked ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "--log-level", "loud"], "choose from"),
        (["serve", "--nope"], "--nope"),
        (["new"], "required: DIR"),
    ],
)
def test_bad_arguments_are_one_line(refused: Refused, arguments: list[str], says: str) -> None:
    status, errors = refused(*arguments)
    assert status == 2
    assert says in errors
    assert "--help" in errors


@pytest.mark.parametrize("port", ["65536", "-1", "http", "", "8080 ", "٣", "1" * 5000])
def test_a_port_that_is_none(refused: Refused, port: str) -> None:
    expected = f"{port!r} was given; it must be a whole number from 0 to 65535"
    assert refused("serve", f"--port={port}") == (2, f"--port {expected}")
    if port:  # an empty variable is none
        assert refused("serve", SAGEMAKER_BIND_TO_PORT=port) == (
            2,
            f"SAGEMAKER_BIND_TO_PORT {expected}",
        )


def test_a_log_level_that_is_none(refused: Refused) -> None:
    assert refused("serve", PARTWAY_LOG_LEVEL="loud") == (
        2,
        "PARTWAY_LOG_LEVEL 'loud' was given; it must be one of debug, info, warning, error",
    )


def test_a_folder_of_artifacts_that_is_not_there(refused: Refused) -> None:
    assert refused("serve", "--model-dir", "/nope") == (
        2,
        "--model-dir /nope: there is no such folder",
    )
    assert refused("serve", SM_MODEL_DIR="/nope") == (
        2,
        "SM_MODEL_DIR /nope: there is no such folder",
    )


def test_two_things_to_serve(refused: Refused) -> None:
    assert refused("serve", "--model", "echo", "--script", "x.py") == (
        2,
        "--model echo and --script x.py are given; a container must serve one of them",
    )
    assert refused("serve", PARTWAY_APP="a:b", PARTWAY_SCRIPT="x.py", PARTWAY_MODEL="") == (
        2,
        "PARTWAY_APP a:b and PARTWAY_SCRIPT x.py are given; a container must serve one of them",
    )


def test_a_flag_goes_before_the_environment(refused: Refused, own: Path) -> None:
    """Even one of another kind."""
    assert refused("serve", "--script", "x.py", PARTWAY_MODEL="echo") == (
        2,
        f"--script x.py: there is no such file in {own}",
    )


def test_a_scikit_learn_model_that_is_not_there(refused: Refused, own: Path) -> None:
    assert refused("serve", "--sklearn", "model.joblib", "--model-dir", "/tmp") == (
        2,
        f"--sklearn model.joblib: there is no such file in {own} or in the model's folder /tmp",
    )


def test_a_method_is_for_scikit_learn_alone(refused: Refused) -> None:
    assert refused("serve", "--model", "echo", "--method", "predict_proba") == (
        2,
        (
            "the method predict_proba was given with --model echo; "
            "a method is allowed only with --sklearn"
        ),
    )
    assert refused("serve", "--sklearn", "m.joblib", PARTWAY_METHOD="transform") == (
        2,
        "PARTWAY_METHOD 'transform' was given; it must be one of predict, predict_proba",
    )


def test_whether_errors_are_shown(refused: Refused) -> None:
    assert refused("serve", PARTWAY_SHOW_ERRORS="yes") == (
        2,
        "PARTWAY_SHOW_ERRORS 'yes' was given; it must be one of 0, 1",
    )


def test_a_model_that_cannot_be_found(refused: Refused, own: Path) -> None:
    shipped = "chat, echo, kmeans, linear, pca, speech, text, voice"
    assert refused("serve", "--model", "nope") == (
        2,
        f"--model nope: it must be a shipped model ({shipped}), or your own as module:Class",
    )
    where = f"in {own} or on Python's path; run this in the folder that has it"
    for name, missing in (
        ("nope:M", "nope"),
        ("nope.deep:M", "nope"),
        ("json.nope:M", "json.nope"),
    ):
        assert refused("serve", PARTWAY_MODEL=name) == (
            2,
            f"PARTWAY_MODEL {name}: there is no module {missing} {where}",
        )
    assert refused("serve", "--model", "./own_model.py:Shouting") == (
        2,
        (
            "--model ./own_model.py:Shouting: './own_model.py' must be the name of a Python "
            "module, such as model for the file model.py"
        ),
    )


def test_a_class_that_cannot_be_found_names_those_that_can(refused: Refused, own: Path) -> None:
    models = (
        "FailsWithAThread, HangsInItsThread, HangsInTheExecutor, HangsLoading, IgnoresItsEnd, "
        "Loading, Needy, NotAsync, Shouting"
    )
    there = f"models in {own / 'own_model.py'}: Echo, {models}"
    assert refused("serve", "--model", "own_model:Shout") == (
        2,
        f"--model own_model:Shout: own_model has no 'Shout'; {there}",
    )
    for name in ("helper", "Model", "asyncio"):
        assert refused("serve", "--model", f"own_model:{name}") == (
            2,
            f"--model own_model:{name}: {name} must be a subclass of partway.Model; {there}",
        )
    assert refused("serve", "--model", "empty_model:Chat") == (
        2,
        (
            "--model empty_model:Chat: empty_model has no 'Chat'; "
            f"models in {own / 'empty_model.py'}: none"
        ),
    )


def test_a_model_that_cannot_be_imported(
    refused: Refused, caplog: pytest.LogCaptureFixture
) -> None:
    assert refused("serve", "--model", "broken_model:M") == (
        1,
        (
            "--model broken_model:M: importing broken_model failed: "
            "ModuleNotFoundError: No module named 'no_such_library'"
        ),
    )
    assert "import no_such_library" in caplog.text
    status, errors = refused("serve", "--model", "worse_model:M")
    assert status == 1
    assert errors.startswith("--model worse_model:M: importing worse_model failed: SyntaxError: ")


def test_a_model_that_cannot_be_made(refused: Refused, caplog: pytest.LogCaptureFixture) -> None:
    status, errors = refused("serve", "--model", "own_model:Needy")
    assert status == 1
    assert errors.startswith("--model own_model:Needy: Needy() failed: TypeError: ")
    assert errors.endswith("'size'")
    assert "Traceback" in caplog.text


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--version"])
    assert raised.value.code == 0
    version = importlib.metadata.version("partway")
    assert capsys.readouterr().out == f"partway-container {version}\n"


# --- Beginning -----------------------------------------------------------------------------------


@pytest.mark.clause("1.1-1")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once_with_0(number: signal.Signals) -> None:
    with serving() as (process, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping") as response:
            assert (response.status, response.read()) == (200, b"")
        process.send_signal(number)
        code, _, log = ended(process)
    assert code == 0
    assert "folder=/opt/ml/model" in log or Path("/opt/ml/model").is_dir()
    assert left_running(log) == []


def test_the_environment_alone_is_enough(own: Path, tmp_path: Path) -> None:
    """As on the platform, which passes no flags."""
    (tmp_path / "weights").write_text("1")
    with serving(
        cwd=own,
        PARTWAY_MODEL="own_model:Loading",
        PARTWAY_APP="",
        SM_MODEL_DIR=str(tmp_path),
        SAGEMAKER_BIND_TO_PORT="0",
        PARTWAY_LOG_LEVEL="warning",
    ) as (process, port):
        assert port != 8080
        with stream(port) as client:
            client.send("hello")
            assert client.recv() == "HELLO"
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "", "")


def test_a_handler_that_is_not_async(own: Path) -> None:
    with started("--model", "own_model:NotAsync", cwd=own) as process:
        code, output, errors = ended(process)
    assert (code, output) == (1, "")
    assert errors.splitlines()[-1] == (
        "partway-container: --model own_model:NotAsync: "
        "NotAsync.stream handles streams: it must be async def"
    )
    assert "Traceback" not in errors


FAILING = """
    from partway import Model

    class Failing(Model):
        async def stream(self, stream):
            raise ValueError("a\\nb")
"""


@pytest.mark.parametrize("how", [("--log-format", "json"), ()], ids=["flag", "environment"])
def test_the_log_in_json_is_one_object_a_line(tmp_path: Path, how: tuple[str, ...]) -> None:
    (tmp_path / "failing.py").write_text(textwrap.dedent(FAILING))
    settings = {} if how else {"PARTWAY_LOG_FORMAT": "json"}
    with serving(*how, "--model", "failing:Failing", cwd=tmp_path, **settings) as (process, port):
        whose = {"X-Amzn-SageMaker-Request-Id": "an-id"}
        url = f"ws://127.0.0.1:{port}/invocations-bidirectional-stream"
        with connect(url, additional_headers=whose) as client, pytest.raises(ConnectionClosed):
            client.recv(PATIENCE)
        process.send_signal(signal.SIGTERM)
        _, output, errors = ended(process)
    assert output == "", "the ready line was the only one"
    said = [json.loads(line) for line in errors.splitlines()]
    for line in said:
        assert list(line)[:4] == ["time", "level", "logger", "event"]
    failed, over = [line for line in said if line.get("request_id") == "an-id"]
    assert failed["event"] == "the model failed"
    assert failed["exception"].endswith("ValueError: a\nb")
    assert over["event"] == "stream ended"
    # The gateway's names for the same.
    assert over.keys() >= {"duration", "parts_in", "bytes_in", "parts_out", "bytes_out"}
    assert over["code"] == 1011


def test_a_container_that_cannot_start_says_so_in_json_too() -> None:
    with started("--model", "no.such:Model", "--log-format", "json") as process:
        code, _, errors = ended(process)
    assert code != 0
    assert "no.such" in json.loads(errors.splitlines()[-1])["reason"]


@pytest.mark.parametrize("how", [("--log-format", "json"), ()], ids=["flag", "environment"])
@pytest.mark.parametrize("wrong", ["PARTWAY_PROT", "PARTWAY_LOG_LEVEL"])
def test_what_is_asked_wrongly_is_said_in_json_too(how: tuple[str, ...], wrong: str) -> None:
    asked = {wrong: "loud"} | ({} if how else {"PARTWAY_LOG_FORMAT": "json"})
    with started(*how, **asked) as process:
        code, _, errors = ended(process)
    assert code == 2
    assert json.loads(errors)["reason"].startswith(wrong)


@pytest.mark.parametrize("how", [("--log-format", "json"), ()], ids=["flag", "environment"])
def test_a_wrong_command_line_is_said_in_json_too(how: tuple[str, ...]) -> None:
    with started(
        "--prot", "80", *how, **({} if how else {"PARTWAY_LOG_FORMAT": "json"})
    ) as process:
        code, output, errors = ended(process)
    assert (code, output) == (2, "")
    assert "--prot" in json.loads(errors)["reason"]


def test_a_format_that_nobody_knows() -> None:
    with started(PARTWAY_LOG_FORMAT="xml") as process:
        code, _, errors = ended(process)
    assert code == 2
    assert errors == (
        "partway-container: PARTWAY_LOG_FORMAT 'xml' was given; it must be one of text, json\n"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_cannot_be_had(host: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        started(
            *("--host", host, "--port", str(taken.getsockname()[1])), PARTWAY_LOG_LEVEL="error"
        ) as process,
    ):
        code, output, errors = ended(process)
    assert (code, output) == (1, "")
    assert errors.startswith(f"partway-container: cannot listen on {host} port ")
    assert errors.endswith("; choose another with --host or --port\n")
    assert errors.count("\n") == 1


def test_a_script(tmp_path: Path) -> None:
    """What becomes of its functions, ``hosting/test_script.py`` says."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "inference.py").write_text(
        "def model_fn(model_dir): return lambda data: data.sum()\n"
    )
    with serving(cwd=tmp_path, PARTWAY_SCRIPT="code/inference.py") as (process, port):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/invocations",
            data=b"[1, 2, 3]",
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            assert response.read() == b"6"
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0


APP = """
    async def app(scope, receive, send):
        assert scope["type"] == "http", "no lifespan"
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"from the app"})
"""


def test_an_application(tmp_path: Path) -> None:
    """The rest of it is ``hosting``'s."""
    (tmp_path / "own_app.py").write_text(textwrap.dedent(APP))
    with serving("--app", "own_app:app", cwd=tmp_path, PARTWAY_MODEL="echo") as (process, port):
        where = f"http://127.0.0.1:{port}/invocations"
        with urllib.request.urlopen(where, data=b"x", timeout=PATIENCE) as response:
            assert response.read() == b"from the app"
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0


def test_an_application_that_is_not_there(tmp_path: Path) -> None:
    with started("--app", "nope:app", cwd=tmp_path) as process:
        code, output, errors = ended(process)
    assert (code, output) == (1, "")
    assert errors.splitlines()[-1] == (
        "partway-container: the application nope:app could not be loaded: "
        "ModuleNotFoundError: No module named 'nope'"
    )


def test_an_application_without_the_extra(tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError(name='uvicorn')\n")
    with started("--app", "own_app:app", cwd=tmp_path) as process:
        code, output, errors = ended(process)
    assert (code, output) == (1, "")
    assert errors == (
        "partway-container: --app own_app:app: "
        "serving an application needs uvicorn: pip install 'partway[asgi]'\n"
    )


def test_a_model_that_cannot_be_loaded(own: Path, tmp_path: Path) -> None:
    flags = ("--model", "own_model:Loading", "--model-dir", str(tmp_path))
    with started(*flags, cwd=own) as process:
        code, output, errors = ended(process)
    assert (code, output) == (1, "")
    assert '(model_dir / "weights").read_text()' in errors, "the author's line"
    assert errors.splitlines()[-1] == (
        f"partway-container: Loading could not be loaded from {tmp_path}: FileNotFoundError: "
        f"[Errno 2] No such file or directory: '{tmp_path}/weights'"
    )
    assert "asyncio.wait" not in errors, "nobody asks how we wait for it"


def test_a_setting_that_only_loading_finds_wrong(tmp_path: Path) -> None:
    with started("--model", "voice", "--set", "turns=energi", cwd=tmp_path) as process:
        code, output, errors = ended(process)
    assert (code, output) == (2, "")
    assert errors.splitlines()[-1] == (
        "partway-container: PARTWAY_VOICE_TURNS is 'energi'; it must name an engine that ships "
        "(energy, silero, smart-turn, stub), or your own as module:Class"
    )
    assert "Traceback" not in errors


# --- The end -------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-1")
def test_sigterm_drains() -> None:
    with serving() as (process, port):
        with stream(port) as client:
            client.send("before")
            assert client.recv() == "before"
            process.send_signal(signal.SIGTERM)
            until_logged(process, "draining streams=1")
            assert status(port) == 503
            client.send("after")
            assert client.recv() == "after"
        assert ended(process)[0] == 0


def test_a_second_signal_closes_the_streams() -> None:
    with serving() as (process, port):
        with stream(port) as client:
            process.send_signal(signal.SIGTERM)
            until_logged(process, "draining streams=1")
            process.send_signal(signal.SIGINT)
            with pytest.raises(Exception, match="1001"):
                client.recv(timeout=5)
        assert ended(process)[0] == 0


def test_a_load_that_hangs_holds_no_signal_up(own: Path) -> None:
    with started("--model", "own_model:HangsLoading", cwd=own) as process:
        until_logged(process, "hanging")
        process.send_signal(signal.SIGTERM)
        code, output, _ = ended(process)
    assert (code, output) == (0, "")


def test_a_signal_while_the_model_is_imported(tmp_path: Path) -> None:
    (tmp_path / "slow_model.py").write_text(
        "import sys, threading\n"
        "print('importing', file=sys.stderr, flush=True)\n"
        "while True:\n"
        "    try: threading.Event().wait()\n"
        "    except BaseException: pass\n"
    )
    with started("--model", "slow_model:Slow", cwd=tmp_path) as process:
        until_logged(process, "importing")
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0


def test_a_thread_of_the_model_keeps_no_process(own: Path) -> None:
    with serving("--model", "own_model:HangsInItsThread", cwd=own) as (process, _):
        process.send_signal(signal.SIGTERM)
        code, _, log = ended(process)
    assert code == 0
    assert left_running(log) == ["of the model"]


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_signals_until_the_end(own: Path, tmp_path: Path, loop: str) -> None:
    """Whenever they come, the status is that of an orderly end."""
    if loop == "asyncio":
        (tmp_path / "uvloop.py").write_text("raise ImportError\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    flags = ("--model", "own_model:HangsInItsThread")
    with serving(*flags, cwd=own, PYTHONPATH=path) as (process, _):
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
    assert process.returncode == 0


def test_what_the_model_has_printed_is_not_lost(own: Path) -> None:
    flags = ("--model", "own_model:HangsInItsThread")
    with serving(*flags, cwd=own, PYTHONUNBUFFERED="") as (process, port):
        with stream(port) as client, pytest.raises(ConnectionClosedOK):
            client.recv()
        process.send_signal(signal.SIGTERM)
        assert ended(process)[1] == "printed by the model\n"


def test_a_thread_of_the_executor_keeps_no_process(own: Path) -> None:
    with serving("--model", "own_model:HangsInTheExecutor", cwd=own) as (process, port):
        with stream(port) as client:
            client.send("x")
            assert client.recv() == "x"
            client.socket.shutdown(
                socket.SHUT_RDWR
            )  # a client that is lost, and no more waited for
        process.send_signal(signal.SIGTERM)
        code, _, log = ended(process)
    assert code == 0
    assert left_running(log) in (["asyncio_0"], ["uvloop_0"])


def test_nor_after_loading_has_failed(own: Path) -> None:
    with started("--model", "own_model:FailsWithAThread", cwd=own) as process:
        code, _, log = ended(process)
    assert code == 1
    assert "partway-container: FailsWithAThread could not be loaded from" in log
    assert log.count("ModelError: no weights") == 2, "in the log, and in the last line"
    assert left_running(log) == ["of the model"]


def test_a_task_that_will_not_be_cancelled_keeps_no_process(own: Path) -> None:
    with serving("--model", "own_model:IgnoresItsEnd", cwd=own) as (process, port):
        with stream(port) as client:
            client.send("x")
            assert client.recv() == "X"
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0


# --- Under load ----------------------------------------------------------------------------------


def test_a_client_that_reads_nothing_costs_bounded_memory() -> None:
    payload = frame(BINARY, bytes(64 * 1024), mask=KEY)
    with serving() as (process, port), socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        sock.connect(("127.0.0.1", port))
        sock.sendall(upgrade_request())
        assert sock.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 101"
        server = psutil.Process(process.pid)
        before = server.memory_info().rss
        sock.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 256 * MIB:
                sent += sock.send(payload[sent % len(payload) :])
        assert sent < 64 * MIB  # mostly the kernel's
        assert server.memory_info().rss - before < 16 * MIB
        assert status(port) == 200  # nobody else is held up
