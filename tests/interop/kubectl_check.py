"""An unmodified kubectl against ``partway serve``, with TLS and a token, and without either.

Run by ``make interop-kubectl``; KUBECTL names another than the one in PATH. The objects and the
commands of the page are the page's own, as they are printed. The same contract is kept on a real
Kubernetes API server by ``make interop-kubernetes``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from partway.gateway.cli.main import main
from tests.interop.aws_sdk import ServedGateway
from tests.interop.kubectl_contract import (
    Kubectl,
    KubectlContract,
    refused,
    said,
    until,
    write_page,
)

pytestmark = pytest.mark.timeout(300)

TOKEN = "a-token-of-sixteen-characters-or-more"
PRINCIPALS = f"""
[[principals]]
name = "deployer"
actions = ["sagemaker:*"]
tokens = ["{TOKEN}"]
[[principals]]
name = "reader"
actions = ["sagemaker:Describe*", "sagemaker:List*"]
tokens = ["{TOKEN}-reads"]
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture
async def gateway(anyio_backend: str, tmp_path: Path) -> AsyncIterator[ServedGateway]:
    """A gateway that asks who asks."""
    async with ServedGateway.start(tmp_path, "", PRINCIPALS) as gateway:
        yield gateway


def kubeconfig(gateway: ServedGateway, file: Path, token: str = TOKEN) -> Path:
    """The file as the command writes it."""
    flags = ["--gateway", gateway.https, "--ca", str(gateway.ca), "--token", token]
    assert main(["kubeconfig", *flags, "--output", str(file)]) == 0
    return file


@pytest.fixture
def kubectl(gateway: ServedGateway, tmp_path: Path) -> Kubectl:
    """Asks as who may do everything."""
    return Kubectl(tmp_path, kubeconfig(gateway, tmp_path / "kubeconfig"))


class TestTheEmbeddedServer(KubectlContract):
    @pytest.fixture
    def reader(self, gateway: ServedGateway, tmp_path: Path) -> Kubectl:
        return Kubectl(tmp_path, kubeconfig(gateway, tmp_path / "reader", f"{TOKEN}-reads"))

    @pytest.fixture
    def nobody(self, gateway: ServedGateway, tmp_path: Path) -> Kubectl:
        return Kubectl(tmp_path, kubeconfig(gateway, tmp_path / "nobody", "nobodys-token-at-all"))


async def test_a_table_shows_whether_all_is_ready(kubectl: Kubectl, tmp_path: Path) -> None:
    write_page(tmp_path)
    await said(kubectl, "apply", "-f", "my-tf-model.yaml")
    reason = ("get", "-f", "my-tf-model.yaml", "-o", "jsonpath={.status.primaryCondition.reason}")
    assert await said(kubectl, *reason) == "NoEndpoint"
    await said(kubectl, "apply", "-f", "chat.yaml")
    await said(kubectl, "wait", "--for=condition=EndpointReady", "endpoint/chat")
    words = ("get", "endpoint", "chat", "-o", "jsonpath={.status.endpointFQDN}")
    assert await said(kubectl, *words) == "chat.localhost"
    lines = (await said(kubectl, "get", "deployedmodels,endpoints")).splitlines()
    assert lines[0].split() == ["NAME", "ENDPOINT", "READY", "REASON", "AGE"]
    assert lines[1].split()[1:4] == ["chat", "True", "Ready"]
    assert lines[4].split()[1:4] == ["chat", "True", "ResourceReady"]


async def test_what_kubectl_does_besides(kubectl: Kubectl, tmp_path: Path) -> None:
    write_page(tmp_path)
    await said(kubectl, "apply", "-f", "my-tf-model.yaml")
    for name in ("my-tf-model.yaml", "chat.yaml"):
        assert "use kubectl apply without --server-side" in await refused(
            kubectl, "apply", "--server-side", "--force-conflicts", "-f", name
        )
    assert "managedFields" not in await said(
        kubectl, "get", "dm", "-o", "yaml", "--show-managed-fields"
    )
    assert "labeled" in await said(kubectl, "label", "dm", "my-tf-model", "app=chat")
    names = ("get", "dm", "-l", "app in (chat),!old", "-o", "name")
    assert (await said(kubectl, *names)).split() == [
        "deployedmodel.prediction.aiplatform.gdc.goog/my-tf-model"
    ]
    operations = json.dumps([{"op": "remove", "path": "/metadata/labels/app"}])
    error = await refused(kubectl, "patch", "dm", "my-tf-model", "--type=json", "-p", operations)
    assert "use kubectl patch --type=merge" in error
    removal = json.dumps({"metadata": {"labels": {"app": None}}})
    assert "patched" in await said(
        kubectl, "patch", "dm", "my-tf-model", "--type=merge", "-p", removal
    )
    assert (await said(kubectl, *names)) == ""
    assert "replaced" in await said(kubectl, "replace", "-f", "my-tf-model.yaml")
    error = await refused(
        kubectl,
        *("patch", "dm", "my-tf-model", "--type=merge", "-p"),
        json.dumps({"spec": {"modelSpec": {"modelContainerSpec": {"command": ["sh"]}}}}),
    )
    assert "spec.modelSpec.modelContainerSpec.command: not supported" in error
    assert 'endpoints.aiplatform.gdc.goog "chat" not found' in await refused(
        kubectl, "get", "-f", "chat.yaml"
    )


async def test_objects_outlive_the_gateway(tmp_path: Path, anyio_backend: str) -> None:
    write_page(tmp_path)
    ready = ("get", "mep", "chat", "-o", "jsonpath={.status.conditions[0].status}")
    for commands in (("apply", "-f", "my-tf-model.yaml", "-f", "chat.yaml"), ("get", "dm")):
        config = f'data_dir = "{tmp_path / "kept"}"\n'
        async with ServedGateway.start(tmp_path, config, None) as gateway:
            file = tmp_path / "open"
            assert main(["kubeconfig", "--gateway", gateway.http, "--output", str(file)]) == 0
            kubectl = Kubectl(tmp_path, file)
            assert "my-tf-model" in await said(kubectl, *commands)
            await until(kubectl, ready, "True")
