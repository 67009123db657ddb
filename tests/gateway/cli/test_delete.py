"""partway delete, in this process: a gateway whose endpoints go as a test says."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.cli import deployment_client
from partway.gateway.cli.main import main
from tests.gateway.apis.control.fake_deployments import said
from tests.gateway.cli.asked_gateway import AskedGateway, gateway_at

DELETED = "endpoint/chat, endpoint-config/chat-v1, model/chat-v1"


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AskedGateway]:
    monkeypatch.setattr(deployment_client, "_LOOK", 0.001)
    with gateway_at(tmp_path / "data") as gateway:
        gateway.deployments.described.extend([said("Deleting"), None])
        gateway.deployments.described.popleft()
        yield gateway


def delete(gateway: AskedGateway, *more: str) -> int:
    return main(["delete", "chat", "--data-dir", str(gateway.directory.path), *more])


def test_it_waits_until_the_endpoint_is_gone(gateway, capsys):
    assert delete(gateway) == 0
    assert capsys.readouterr() == (f"chat is gone: {DELETED}\n", "")
    assert list(gateway.deployments.described) == [None]
    assert gateway.deployments.deleted == ["chat"]


def test_it_need_not_wait(gateway, capsys):
    assert delete(gateway, "--no-wait") == 0
    assert capsys.readouterr() == (f"chat is being deleted: {DELETED}\n", "")
    assert len(gateway.deployments.described) == 2


@pytest.mark.parametrize("again", [said("Creating"), said("Deleting", created=2.0)])
def test_one_that_is_made_again_meanwhile(gateway, capsys, again):
    gateway.deployments.described.clear()
    gateway.deployments.described.extend([said("Deleting"), again])
    assert delete(gateway) == 0
    assert capsys.readouterr() == (
        f"chat is gone: {DELETED}\n",
        "partway delete: chat was created again meanwhile\n",
    )


def test_a_refusal(gateway, capsys):
    gateway.deployments.refusal = ValidationException("the gateway's settings define it")
    assert delete(gateway) == 2
    assert capsys.readouterr() == ("", "partway delete: the gateway's settings define it\n")


def test_ctrl_c_does_not_bring_it_back(gateway, capsys, monkeypatch):
    monkeypatch.setattr(
        deployment_client.time, "sleep", lambda _: os.kill(os.getpid(), signal.SIGTERM)
    )
    assert delete(gateway) == 130
    assert capsys.readouterr() == ("", "partway delete: chat is still being deleted\n")


def test_no_gateway(tmp_path, capsys):
    assert main(["delete", "chat", "--data-dir", str(tmp_path / "none")]) == 1
    assert "no gateway runs with the data directory" in capsys.readouterr().err
