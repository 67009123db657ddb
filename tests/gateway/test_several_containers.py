"""boto3 deploys models of several containers to ``partway serve``: real programs, one is killed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import psutil
import pytest
from botocore.exceptions import ClientError

from tests.conftest import ROOT
from tests.gateway.apis.aws_client import aws
from tests.gateway.apis.control.deployments import Script, variant
from tests.processes import ready_url

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

CONTAINER = ROOT / "tests" / "gateway" / "faulty_container.py"

FILE = """
data_dir = "{folder}/data"
[instance]
stop_timeout = 1
[images]
"good:1" = ["{python}", "-S", "{container}", "{folder}"]
[endpoints.own]
execution = "direct"
[[endpoints.own.containers]]
hostname = "pre"
image = "good:1"
environment = {{ SAGEMAKER_SAYS = " own pre" }}
[[endpoints.own.containers]]
hostname = "model"
command = ["{python}", "-S", "{container}", "{folder}"]
environment = {{ SAGEMAKER_SAYS = " own model" }}
"""

CONTAINERS = [
    {"Image": "good:1", "ContainerHostname": name, "Environment": {"SAGEMAKER_SAYS": f" {name}"}}
    for name in ("pre", "model")
]


class Gateway:
    """``partway serve`` with its data in a folder of its own, and clients of boto3's.

    Attributes:
        url: where it listens.
        script: what a deploying script does.
        runtime: the client of the runtime.
        logs: the client of CloudWatch Logs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = {"folder": folder, "container": CONTAINER, "python": sys.executable}
        (folder / "partway.toml").write_text(FILE.format(**names))
        command = (sys.executable, "-m", "partway", "serve", "--port", "0", "--config")
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(folder / "partway.toml")],
                stdout=subprocess.PIPE,
                stderr=log,
                env={k: v for k, v in os.environ.items() if not k.startswith("PARTWAY_")},
            )
        self.url = ready_url(self.process, PATIENCE)
        port = int(self.url.rpartition(":")[2])
        self.script = Script(port)
        self.runtime, self.logs = aws("sagemaker-runtime", port), aws("logs", port)

    def containers(self) -> dict[int, str]:
        """What each container says, by the numbers of their processes."""
        found = {}
        for each in psutil.process_iter(["cmdline", "status"]):
            is_there = each.info["status"] != psutil.STATUS_ZOMBIE
            if str(self.folder) in (each.info["cmdline"] or ()) and is_there:
                # It may end between the two, which psutil says in either way.
                with suppress(psutil.NoSuchProcess, ProcessLookupError):
                    found[each.pid] = each.environ().get("SAGEMAKER_SAYS", "").strip()
        return found

    def instances(self, endpoint: str) -> list[dict[str, object]]:
        """What ``partway endpoints --json`` says of an endpoint's instances."""
        data = str(self.folder / "data")
        command = (sys.executable, "-m", "partway", "endpoints", "--json", "--data-dir", data)
        said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        (found,) = [each for each in said["endpoints"] if each["name"] == endpoint]
        return [instance for variant in found["variants"] for instance in variant["instances"]]

    def said(self, endpoint: str) -> str:
        """What ``partway logs`` shows of an endpoint."""
        command = (sys.executable, "-m", "partway", "logs", endpoint)
        data = ("--data-dir", str(self.folder / "data"))
        shown = subprocess.run((*command, *data), stdout=subprocess.PIPE, check=True)
        return shown.stdout.decode()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path)
    yield gateway
    gateway.process.kill()
    gateway.process.communicate()
    until(lambda: not gateway.containers(), "the end of the containers")


def invoke(gateway: Gateway, body: bytes = b"hi", endpoint: str = "mine", **members: str) -> bytes:
    answer = gateway.runtime.invoke_endpoint(EndpointName=endpoint, Body=body, **members)
    found: bytes = answer["Body"].read()
    return found


def refusal(gateway: Gateway, **members: str) -> str:
    with pytest.raises(ClientError) as caught:
        invoke(gateway, **members)
    error = caught.value.response["Error"]
    assert error["Code"] == "ValidationError"
    return error["Message"]


def streamed(gateway: Gateway, **members: str) -> bytes:
    answer = gateway.runtime.invoke_endpoint_with_response_stream(
        EndpointName="mine", Body=b"hi", **members
    )
    return b"".join(event["PayloadPart"]["Bytes"] for event in answer["Body"])


async def echoed(gateway: Gateway, query: str = "") -> str | int:
    """What a stream's container answers to ``who``: its process; or what refuses the stream."""
    url = f"{gateway.url}/endpoints/mine/invocations-bidirectional-stream{query}"
    async with aiohttp.ClientSession() as session:
        try:
            async with session.ws_connect(url) as stream:
                await stream.send_str("who")
                return await stream.receive_str(timeout=PATIENCE)
        except aiohttp.WSServerHandshakeError as refused:
            return refused.status


def model(gateway: Gateway, name: str, mode: str) -> None:
    gateway.script.client.create_model(
        ModelName=name, Containers=CONTAINERS, InferenceExecutionConfig={"Mode": mode}
    )
    gateway.script.config(name, variant(name))


def test_serial_then_direct_while_one_is_killed(gateway):
    script = gateway.script
    model(gateway, "serial", "Serial")
    model(gateway, "direct", "Direct")
    script.create("mine", "serial")
    said = script.in_service("mine")
    (shown,) = said["ProductionVariants"]
    assert [each["SpecifiedImage"] for each in shown["DeployedImages"]] == ["good:1"] * 2
    assert invoke(gateway) == streamed(gateway) == b"hi pre model"
    assert "not configured for direct" in refusal(gateway, TargetContainerHostname="pre")
    assert asyncio.run(echoed(gateway)) == 400

    script.update_whole("mine", "direct")
    for name in ("pre", "model"):
        assert invoke(gateway, TargetContainerHostname=name) == f"hi {name}".encode()
    assert streamed(gateway, TargetContainerHostname="pre") == b"hi pre"
    assert "pre, model" in refusal(gateway)
    assert "'other'" in refusal(gateway, TargetContainerHostname="other")
    until(lambda: len(gateway.containers()) == 4, "the end of the serial ones")
    pid = int(asyncio.run(echoed(gateway, "?container=model")))
    assert gateway.containers()[pid] == "model"
    assert asyncio.run(echoed(gateway)) == 400

    before = gateway.containers()
    psutil.Process(pid).kill()
    until(
        lambda: (
            sorted(gateway.containers().values()) == sorted(before.values())
            and len(gateway.containers().keys() - before.keys()) == 2
        ),
        "another instance with new containers, both of them",
    )
    until(lambda: script.in_service("mine")["ProductionVariants"][0]["CurrentInstanceCount"] == 1,
          "the new one in service")  # fmt: skip
    assert "the container model was ended by SIGKILL" in (gateway.folder / "log").read_text()
    assert invoke(gateway, TargetContainerHostname="model") == b"hi model"
    script.delete("mine")
    until(lambda: "pre" not in gateway.containers().values(), "the end of all of them")


def test_each_container_of_the_settings_has_its_log_and_is_shown(gateway):
    until(lambda: gateway.said("own").count("this is own") == 2, "what both have printed")
    (instance,) = gateway.instances("own")
    name, urls = instance["id"], instance["containers"]
    assert list(urls) == ["pre", "model"]
    lines = gateway.said("own").splitlines()
    assert sorted(lines) == [f"{name}_model | this is own model", f"{name}_pre | this is own pre"]
    group = "/aws/sagemaker/Endpoints/own"
    names = [f"AllTraffic/{name}/{each}" for each in ("model", "pre")]
    streams = gateway.logs.describe_log_streams(logGroupName=group)["logStreams"]
    assert [each["logStreamName"] for each in streams] == names
    events = gateway.logs.get_log_events(logGroupName=group, logStreamName=names[1])["events"]
    assert [each["message"] for each in events] == ["this is own pre"]
    members = {"endpoint": "own", "TargetContainerHostname": "model"}
    assert invoke(gateway, **members) == b"hi own model"
