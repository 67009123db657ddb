"""partway deploy, in this process: a gateway whose deployments go as a test says."""

from __future__ import annotations

import os
import pty
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.operator_models import OperatorCommand
from partway.gateway.cli import deployment_client
from partway.gateway.cli.main import main
from partway.gateway.fleet.states import InstanceState
from partway.gateway.fleet.status import EndpointState
from tests.gateway.apis.control.fake_deployments import FakeDeployments, said
from tests.gateway.cli.asked_gateway import AskedGateway, gateway_at
from tests.gateway.cli.invoking import Ended
from tests.gateway.fleet.statuses import a_variant, an_endpoint, an_instance

ID = "chat-AllTraffic-ffffff"


@pytest.fixture(scope="module")
def one_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedGateway]:
    with gateway_at(tmp_path_factory.mktemp("gateway") / "data") as gateway:
        yield gateway


@pytest.fixture
def gateway(
    one_gateway: AskedGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AskedGateway:
    """A gateway that begins every deployment, and a user in a folder of their own."""
    one_gateway.fleet.endpoints = (an_endpoint("other"),)
    vars(one_gateway.deployments).update(vars(FakeDeployments()))
    monkeypatch.setattr(deployment_client, "_LOOK", 0.001)
    monkeypatch.chdir(tmp_path)
    return one_gateway


@pytest.fixture
def deploy(gateway: AskedGateway, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: str) -> Ended:
        where = ("--data-dir", str(gateway.directory.path))
        try:
            status = main(["deploy", "chat", *arguments, *where])
        except SystemExit as exit:  # argparse's
            status = exit.code
        output, errors = capsys.readouterr()
        return Ended(status, output.encode(), errors)

    return run


def looks(gateway: AskedGateway, *said: object) -> None:
    gateway.deployments.described.clear()
    gateway.deployments.described.extend(said)


def test_it_waits_until_the_endpoint_is_in_service(gateway, deploy):
    looks(gateway, said("Creating"), said("Creating"), said("InService"))
    gateway.fleet.endpoints = (an_endpoint("other"), an_endpoint("chat"))
    ended = deploy("--image", "echo")
    assert (ended.status, ended.output.decode().splitlines()) == (
        0,
        [
            "chat is being created: model chat-v1, configuration chat-v1",
            "chat is in service",
        ],
    )
    (line,) = ended.errors.splitlines()  # nothing changes from the first look on
    assert line.endswith(
        "InService endpoint=chat variant=AllTraffic instances=1/1 health=healthy restarts=0"
    )


def test_all_that_can_be_asked_for(gateway, deploy, tmp_path):
    gateway.deployments.operation = "UpdateEndpoint"
    ended = deploy(
        *("--command", "./serve 'one word'", "--model-data", "models/1", "--instances", "3"),
        *("--environment", "A=1=2", "--environment", "B=", "--instance-type", "ml.g5.xlarge"),
        "--no-wait",
    )
    said = b"chat is being updated: model chat-v1, configuration chat-v1\n"
    assert ended == (0, said, "")
    ((name, asked),) = gateway.deployments.asked
    assert name == "chat"
    assert asked.command == OperatorCommand(("./serve", "one word"), tmp_path)
    assert asked.variant == {"InitialInstanceCount": 3, "InstanceType": "ml.g5.xlarge"}
    assert asked.container == {
        "ModelDataUrl": str(tmp_path / "models" / "1"),
        "Environment": {"A": "1=2", "B": ""},
    }


def test_what_goes_is_said_at_once(gateway, deploy):
    gateway.deployments.operation = "UpdateEndpoint"
    gateway.deployments.gone = ["AsyncInferenceConfig", "variant b"]
    (line,) = deploy("--image", "echo", "--no-wait").output.decode().splitlines()
    assert line.endswith("configuration chat-v1; removed from it: AsyncInferenceConfig, variant b")


@pytest.mark.parametrize("place", ["s3://b/k/", "/models/x"])
def test_model_data_elsewhere(gateway, deploy, place):
    deploy("--image", "chat:1", "--model-data", place, "--no-wait")
    ((_, asked),) = gateway.deployments.asked
    assert asked.container == {"Image": "chat:1", "ModelDataUrl": place}
    assert (asked.variant, asked.command) == ({}, None)


def test_an_endpoint_that_fails_with_its_log(gateway, deploy, monkeypatch):
    failed = an_instance(ID, version=1, state=InstanceState.FAILED)
    gateway.fleet.endpoints = (
        an_endpoint("chat", a_variant(failed), state=EndpointState.CREATING),
    )
    gateway.printed(ID, b"loading\n\x1b[2Jboom\n")

    looks(gateway, said("Failed", reason="it ended with status 3\nit printed last:\nboom"))
    # Until the deployment is asked for, the fleet has none of this name.
    later = gateway.fleet.endpoints
    begun = gateway.deployments.deploy

    async def begin(name: str, asked: object) -> object:
        gateway.fleet.endpoints = later
        return await begun(name, asked)

    gateway.fleet.endpoints = ()
    monkeypatch.setattr(gateway.deployments, "deploy", begin)
    ended = deploy("--image", "echo")
    assert ended.status == 1
    *_, why, head, first, second = ended.errors.splitlines()
    assert why == (
        "partway deploy: chat has not come into service: it ended with status 3; delete it: "
        "partway delete chat"
    )
    assert (head, first) == (f"the last lines of {ID}:", "    loading")
    assert second.endswith("[2Jboom")
    assert "\x1b" not in ended.errors


def test_an_update_that_fails_without_a_log_of_the_new_version(gateway, deploy):
    gateway.fleet.endpoints = (an_endpoint("chat"),)
    gateway.printed("chat-AllTraffic-1a2b3c", b"of what serves\n")
    reason = "no instance came\nlast words"
    looks(gateway, said("Updating", "chat-v0"), said("InService", "chat-v0", reason))
    ended = deploy("--image", "echo")
    assert ended.status == 1
    assert ended.errors.splitlines()[-2:] == [
        "partway deploy: chat has not come into service: no instance came; chat-v0 still serves",
        "    last words",
    ]


def test_an_endpoint_that_somebody_deletes_meanwhile(gateway, deploy):
    looks(gateway, said("Creating"), None)
    ended = deploy("--image", "echo")
    assert (ended.status, ended.errors) == (
        1,
        "partway deploy: chat was deleted meanwhile\n",
    )


def test_a_refusal(gateway, deploy):
    gateway.deployments.refusal = ValidationException("not \x1b[2Jthat")
    ended = deploy("--image", "echo")
    assert (ended.status, ended.output) == (2, b"")
    assert ended.errors.startswith("partway deploy: not ")
    assert "\x1b" not in ended.errors


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "one of the arguments --image --command is required"),
        (("--image", "a", "--command", "b"), "not allowed with argument"),
        (("--command", "'a"), "No closing quotation"),
        (("--image", "a", "--instances", "0"), "it must be a whole number, 1 or more"),
        (("--image", "a", "--environment", "=secret"), "it must be NAME=VALUE"),
    ],
)
def test_bad_usage(gateway, deploy, arguments, why):
    ended = deploy(*arguments)
    assert ended.status == 2
    assert why in ended.errors
    assert "secret" not in ended.errors
    assert gateway.deployments.asked == []


def test_ctrl_c_leaves_it_coming_up(gateway, deploy, monkeypatch):
    looks(gateway, said("Creating"))
    monkeypatch.setattr(
        deployment_client.time, "sleep", lambda _: os.kill(os.getpid(), signal.SIGTERM)
    )
    ended = deploy("--image", "echo")
    assert ended.status == 130
    goes_on = "partway deploy: chat is still starting; see: partway endpoints"
    assert ended.errors.endswith(f"{goes_on}; delete it: partway delete chat\n")
    gateway.deployments.operation = "UpdateEndpoint"  # what serves would be deleted with it
    assert deploy("--image", "echo").errors.endswith(f"{goes_on}\n")


def test_a_table_on_a_terminal(gateway, deploy, monkeypatch):
    gateway.fleet.endpoints = (an_endpoint("chat"),)
    looks(gateway, said("Creating"), said("InService"))
    ours, terminal = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as reader, os.fdopen(terminal, "w") as writer:
        monkeypatch.setattr(sys, "stderr", writer)
        monkeypatch.setenv("TERM", "xterm")
        assert deploy("--image", "echo").status == 0
        writer.flush()
        shown = reader.read(4096).decode()
    assert shown.startswith("\x1b[?25l")  # the cursor is hidden while a table is redrawn
    assert "1/1" in shown
