"""boto3 deploys to ``partway serve``: real containers, faults, and SIGKILL in each state."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from botocore.exceptions import ClientError, WaiterError

from partway.gateway.cli.main import main
from partway.gateway.client import connect
from tests.conftest import ROOT
from tests.gateway.apis.aws_client import ARN, aws
from tests.gateway.apis.control.deployments import Script, variant
from tests.processes import ready_url

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

CONTAINER = ROOT / "tests" / "gateway" / "faulty_container.py"

#: Images of containers that do as they are called. A start in vain is not to be tried for minutes.
FILE = """
data_dir = "{folder}/data"
[api]
local_results = ["{folder}/answers"]
[instance]
stop_timeout = 1
[images]
"good:1" = ["{python}", "-S", "{container}", "{folder}"]
"stubborn:1" = ["{python}", "-S", "{container}", "stubborn", "{folder}"]
"unready:1" = ["{python}", "-S", "{container}", "unready", "{folder}"]
"crashing:1" = ["{python}", "-S", "{container}", "exit", "{folder}"]
"missing:1" = "{folder}/there-is-no-such-program"
[endpoints.own]
image = "good:1"
"""


class Gateway:
    """A gateway that is killed and started again, with its script of boto3's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = {"folder": folder, "container": CONTAINER, "python": sys.executable}
        (folder / "partway.toml").write_text(FILE.format(**names))
        self.process: subprocess.Popen[bytes]
        self.url = ""

    def start(self) -> Script:
        # A program that fails at once is started anew seven times in half a minute.
        program = (
            "import sys\n"
            "from partway.gateway.fleet import instance_group as group\n"
            "group.RESTART_SHORTEST = group.RESTART_LONGEST = 0.01\n"
            "from partway.gateway.cli.main import main\n"
            "sys.exit(main(sys.argv[1:]))\n"
        )
        config = str(self.folder / "partway.toml")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program, "serve", "--port", "0", "--config", config],
                stdout=subprocess.PIPE,
                stderr=log,
                env={k: v for k, v in os.environ.items() if not k.startswith("PARTWAY_")},
            )
        self.url = ready_url(self.process, PATIENCE)
        return Script(int(self.url.rpartition(":")[2]))

    def containers(self) -> int:
        return sum(
            str(self.folder) in (each.info["cmdline"] or ())
            and each.info["status"] != psutil.STATUS_ZOMBIE
            for each in psutil.process_iter(["cmdline", "status"])
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        until(lambda: self.containers() == 0, "the end of the containers")


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path)
    yield gateway
    gateway.process.kill()
    gateway.process.communicate()


def states(script: Script, name: str = "mine") -> tuple[str, str]:
    said = script.describe(name)
    return said["EndpointStatus"], said["EndpointConfigName"]


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    assert error["Code"] == "ValidationException"
    return error["Message"]


async def echoed(url: str, word: str) -> bytes | None:
    """What the endpoint's container answers to a word."""
    async with connect(url, "mine") as stream:
        await stream.send_text(word)
        part = await stream.receive()
        return None if part is None else part.payload


class Load:
    """Streams that come one after the other, from several at a time, until they are to end."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ended = asyncio.Event()
        self.held = 0

    async def run(self, several: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(several):
                group.create_task(self._talk())

    async def _talk(self) -> None:
        while not self._ended.is_set():
            assert await echoed(self._url, "hello") == b"hello"
            self.held += 1

    def end(self) -> None:
        self._ended.set()


def test_what_was_taken_is_answered_behind_a_kill(gateway):
    """Killed between the 202 and the first try: no instance takes the request before that."""
    answers = gateway.folder / "answers"
    answers.mkdir(mode=0o700)
    script = gateway.start()
    script.model("unready", "unready:1")
    script.client.create_endpoint_config(
        EndpointConfigName="later",
        ProductionVariants=[variant("unready")],
        AsyncInferenceConfig={"OutputConfig": {"S3OutputPath": str(answers)}},
    )
    script.create("mine", "later")
    runtime = aws("sagemaker-runtime", int(gateway.url.rpartition(":")[2]))
    taken = [runtime.invoke_endpoint_async(EndpointName="mine", Body=b"%d" % n) for n in range(3)]
    gateway.kill()
    (gateway.folder / "partway.toml").write_text(
        (gateway.folder / "partway.toml").read_text().replace('"unready", ', "")
    )
    gateway.start()
    files = [Path(each["OutputLocation"]) for each in taken]
    until(lambda: all(file.exists() for file in files), "the answers")
    assert [file.read_bytes() for file in files] == [b"0", b"1", b"2"]
    assert len(list(answers.iterdir())) == 3
    until(lambda: not list((gateway.folder / "data" / "requests").iterdir()), "bodies are gone")


async def test_from_the_model_to_the_deletion_under_load(gateway):
    script = await asyncio.to_thread(gateway.start)

    def deploy() -> None:
        for name, image in (("first", "good:1"), ("second", "stubborn:1")):
            script.model(name, image)
        script.create("mine", "first")
        assert states(script)[0] in {"Creating", "InService"}
        script.in_service("mine")
        script.client.delete_endpoint_config(EndpointConfigName="first")
        script.client.delete_model(ModelName="first")

    await asyncio.to_thread(deploy)
    load = Load(gateway.url)
    loading = asyncio.create_task(load.run(4))

    def change() -> None:
        script.update("mine", "second")
        assert script.in_service("mine")["EndpointConfigName"] == "second"
        for count in (3, 1):
            script.scale("mine", count)
            (said,) = script.describe("mine")["ProductionVariants"]
            assert (said["CurrentInstanceCount"], said["DesiredInstanceCount"]) == (count, count)

    await asyncio.to_thread(change)
    load.end()
    await asyncio.wait_for(loading, PATIENCE)
    assert load.held > 0
    await asyncio.to_thread(script.delete, "mine")
    message = await asyncio.to_thread(refusal, lambda: script.describe("mine"))
    assert message == f'Could not find endpoint "{ARN}endpoint/mine".'
    assert await asyncio.to_thread(script.names) == ["own"]


def test_what_never_comes_into_service(gateway):
    script = gateway.start()
    script.model("good", "good:1")
    script.model("missing", "missing:1")
    script.model("crashing", "crashing:1")
    script.model("unready", "unready:1")
    script.create("mine", "good")
    script.in_service("mine")
    reasons = {"missing": "there-is-no-such-program", "crashing": "there is no model"}
    for name, reason in reasons.items():
        script.create(name, name)
        with pytest.raises(WaiterError, match="terminal failure"):
            script.in_service(name)
        assert states(script, name) == ("Failed", name)
        assert reason in script.describe(name)["FailureReason"]
        failed = f'Cannot update failed endpoint "{ARN}endpoint/{name}".'
        assert refusal(lambda name=name: script.update(name, "good")) == failed
        script.client.delete_endpoint(EndpointName=name)
        until(lambda name=name: name not in script.names(), "the end of what had failed")
    for config, reason in reasons.items():  # and updates to it, which roll back
        script.update("mine", config)
        script.in_service("mine")
        assert states(script) == ("InService", "good")
        assert reason in script.describe("mine")["FailureReason"]
    in_progress = f'Cannot update in-progress endpoint "{ARN}endpoint/mine".'
    script.update("mine", "unready")
    assert states(script) == ("Updating", "good")
    assert refusal(lambda: script.update("mine", "good")) == in_progress
    assert refusal(lambda: script.scale("mine", 2)) == in_progress
    assert refusal(lambda: script.client.delete_endpoint(EndpointName="mine")) == in_progress
    script.create("waiting", "unready")
    assert states(script, "waiting")[0] == "Creating"
    message = refusal(lambda: script.client.delete_endpoint(EndpointName="waiting"))
    assert message == in_progress.replace("mine", "waiting")
    assert "the gateway's settings define it" in refusal(
        lambda: script.client.delete_endpoint(EndpointName="own")
    )


def test_commands_show_what_the_api_says(gateway):
    """Of an update that was given up, and of what failed under an earlier gateway."""

    def command(*words: str) -> str:
        where = ("--data-dir", str(gateway.folder / "data"))
        asked = [sys.executable, "-m", "partway", *words, *where]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout

    def shown(name: str) -> tuple[str, ...]:
        """The instances and the state of an endpoint of one variant, as commands show them."""
        (row,) = (each.split() for each in command("endpoints").splitlines() if f"{name} " in each)
        return tuple(row[1:3])

    def said(name: str) -> tuple[str, ...]:
        answer = script.describe(name)
        (one,) = answer["ProductionVariants"]
        numbers = f"{one['CurrentInstanceCount']}/{one['DesiredInstanceCount']}"
        return numbers, answer["EndpointStatus"]

    script = gateway.start()
    for name in ("good", "crashing"):
        script.model(name, f"{name}:1")
    script.config("three", variant("good", count=3))
    script.create("mine", "three")
    script.in_service("mine")
    script.update("mine", "crashing")
    script.in_service("mine")
    assert shown("mine") == said("mine") == ("3/3", "InService")
    script.create("broken", "crashing")
    with pytest.raises(WaiterError, match="terminal failure"):
        script.in_service("broken")
    assert shown("broken") == said("broken") == ("0/1", "Failed")
    assert "there is no model" in command("logs", "broken")
    assert "there is no model" in command("endpoints")
    gateway.kill()
    script = gateway.start()
    script.in_service("mine")
    assert shown("broken") == said("broken") == ("0/1", "Failed")
    assert "there is no model" in command("logs", "broken")
    assert "broken: the container ended" in command("endpoints")
    assert shown("mine") == said("mine") == ("3/3", "InService")


def test_killed_in_each_state(gateway):
    script = gateway.start()
    for name in ("good", "unready", "stubborn"):
        script.model(name, f"{name}:1")
    script.config("two", variant("good", count=2))
    script.create("mine", "two")
    script.create("waiting", "unready")
    script.create("leaving", "stubborn")
    script.in_service("leaving")
    script.in_service("mine")
    script.update("mine", "unready")
    script.client.delete_endpoint(EndpointName="leaving")
    assert states(script) == ("Updating", "two")
    assert states(script, "leaving")[0] == "Deleting"
    gateway.kill()

    (gateway.folder / "partway.toml").write_text(
        (gateway.folder / "partway.toml").read_text().replace('"unready", ', "")
    )
    script = gateway.start()  # what was not ready is now
    for name in ("mine", "waiting"):
        assert script.in_service(name)["EndpointConfigName"] == "unready"
    until(lambda: script.names() == ["mine", "own", "waiting"], "the end of what was deleted")
    script.scale("mine", 2)
    gateway.kill()

    script = gateway.start()
    (said,) = script.in_service("mine")["ProductionVariants"]
    assert said["DesiredInstanceCount"] == 2
    script.in_service("waiting")
    assert gateway.containers() == 4  # two of mine, and one each
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(PATIENCE) == 0
    assert "Traceback" not in (gateway.folder / "log").read_text()


def test_a_command_of_the_operators(gateway, capfd, monkeypatch):
    """Deployed over the admin socket, killed, there again, and told to no caller of the API."""
    gateway.start()
    monkeypatch.chdir(gateway.folder)
    data = ("--data-dir", str(gateway.folder / "data"))
    command = f"{sys.executable} -S {CONTAINER} sesame {gateway.folder}"
    deploy = ("deploy", "mine", "--command", command, "--environment", "A=1", *data)
    assert main(deploy) == 0
    gateway.kill()
    script = gateway.start()
    script.in_service("mine")
    assert gateway.containers() == 2  # and that of the settings
    model = script.client.describe_model(ModelName="mine-v1")["PrimaryContainer"]
    assert (model["Image"], model["Environment"]) == ("partway://command", {"A": "1"})
    assert "sesame" not in str((model, script.describe("mine")))
    assert main([*deploy[:-4], "--command", f"{command} exit", *data]) == 1
    assert states(script) == ("InService", "mine-v1")
    errors = capfd.readouterr().err
    assert "partway deploy: mine has not come into service: " in errors
    assert "    there is no model" in errors
    assert main(["delete", "mine", *data]) == 0
    assert capfd.readouterr().out == (
        "mine is gone: endpoint/mine, endpoint-config/mine-v1, endpoint-config/mine-v2, "
        "model/mine-v1, model/mine-v2\n"
    )
    assert script.names() == ["own"]
    assert main(["delete", "own", *data]) == 2
    assert "the gateway's settings define it" in capfd.readouterr().err
