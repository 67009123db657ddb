"""An unmodified kubectl against ``partway serve``, with TLS and a token, and without either.

Run by ``make interop-kubectl``; KUBECTL names another than the one in PATH. The objects and the
commands of the page are the page's own, as they are printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from partway.gateway.cli.main import main
from tests.interop.aws_sdk import ServedGateway
from tests.interop.served_api import PATIENCE, Ended, blocks, ended

pytestmark = pytest.mark.timeout(300)

PAGE = "how-to/kubectl.md"
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

TIME = r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"'

#: A program that is called with the words of a command, and waits for it.
Kubectl = Callable[..., Awaitable[Ended]]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture
async def gateway(anyio_backend: str, tmp_path: Path) -> AsyncIterator[ServedGateway]:
    """A gateway that asks who asks, and the page's two files beside it."""
    model, endpoint, _ = blocks(PAGE, "yaml")
    (tmp_path / "my-tf-model.yaml").write_text(model, "utf-8")
    (tmp_path / "chat.yaml").write_text(endpoint, "utf-8")
    async with ServedGateway.start(tmp_path, "", PRINCIPALS) as gateway:
        yield gateway


def kubeconfig(gateway: ServedGateway, file: Path, token: str = TOKEN) -> Path:
    """The file as the command writes it."""
    flags = ["--gateway", gateway.https, "--ca", str(gateway.ca), "--token", token]
    assert main(["kubeconfig", *flags, "--output", str(file)]) == 0
    return file


def asking(directory: Path, file: Path) -> Kubectl:
    """The program, with nothing of this user's."""
    found = os.environ.get("KUBECTL") or shutil.which("kubectl")
    if not found:
        pytest.fail(
            "there is no kubectl; it must be in PATH, or KUBECTL name one: "
            "apt-get install kubernetes-client",
            pytrace=False,
        )
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "KUBECONFIG": str(file)}
    kubectl = str(Path(found).absolute())
    return lambda *words: ended(kubectl, *words, environment=environment, directory=directory)


@pytest.fixture
def kubectl(gateway: ServedGateway, tmp_path: Path) -> Kubectl:
    """Asks as who may do everything."""
    return asking(tmp_path, kubeconfig(gateway, tmp_path / "kubeconfig"))


async def said(kubectl: Kubectl, *words: str) -> str:
    """What a command that works prints."""
    done = await kubectl(*words)
    assert done.status == 0, done.errors
    return done.output


async def refused(kubectl: Kubectl, *words: str) -> str:
    """What a command that does not work says."""
    done = await kubectl(*words)
    assert done.status == 1, done.output
    return done.errors


async def until(kubectl: Kubectl, words: tuple[str, ...], expected: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while (found := await said(kubectl, *words)) != expected:
        assert time.monotonic() < deadline, found


async def test_the_pages_commands_print_what_the_documents_show(kubectl: Kubectl) -> None:
    _, commands, *_ = blocks(PAGE, "sh")
    apply, wait, model, endpoint = commands.splitlines()
    assert await said(kubectl, *apply.split()[1:]) == (
        "deployedmodel.prediction.aiplatform.gdc.goog/my-tf-model created\n"
        "endpoint.aiplatform.gdc.goog/chat created\n"
    )
    assert await said(kubectl, *wait.split()[1:]) == (
        "endpoint.aiplatform.gdc.goog/chat condition met\n"
    )
    shown = []
    for command in (model, endpoint):
        words, _, path = command.rpartition(" -o jsonpath=")
        shown.append(
            await said(kubectl, *words.split()[1:], "-o", f"jsonpath={path.strip(chr(39))}")
        )
    assert re.fullmatch(
        rf'{{"firstObservedTime":{TIME},"lastUpdateTime":{TIME},'
        r'"message":"DeployedModel is ready","observedGeneration":1,"reason":"Ready",'
        r'"resourceName":"my-tf-model","type":"DeployedModel"}',
        shown[0],
    )
    assert re.fullmatch(
        rf'{{"lastTransitionTime":{TIME},"message":"Endpoint Ready","observedGeneration":1,'
        r'"reason":"ResourceReady","status":"True","type":"EndpointReady"}',
        shown[1],
    )
    words = ("get", "endpoint", "chat", "-o", "jsonpath={.status.endpointFQDN}")
    assert await said(kubectl, *words) == "chat.localhost"
    lines = (await said(kubectl, "get", "deployedmodels,endpoints")).splitlines()
    assert lines[0].split() == ["NAME", "ENDPOINT", "READY", "REASON", "AGE"]
    assert lines[1].split()[1:4] == ["chat", "True", "Ready"]
    assert lines[4].split()[1:4] == ["chat", "True", "ResourceReady"]
    assert "unchanged" in await said(kubectl, "apply", "-f", "chat.yaml")
    assert "deleted" in await said(kubectl, "delete", "-f", "chat.yaml", "-f", "my-tf-model.yaml")
    assert (await said(kubectl, "get", "dm,ep", "-A", "-o", "name")) == ""


async def test_a_watch_prints_each_change(kubectl: Kubectl, tmp_path: Path) -> None:
    await said(kubectl, "apply", "-f", "my-tf-model.yaml")
    found = os.environ.get("KUBECTL") or "kubectl"
    watching = await asyncio.create_subprocess_exec(
        *(found, "get", "-f", "my-tf-model.yaml", "-w", "--no-headers"),
        stdout=asyncio.subprocess.PIPE,
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "KUBECONFIG": str(tmp_path / "kubeconfig"),
        },
    )
    assert watching.stdout is not None
    try:
        reasons = []
        async with asyncio.timeout(PATIENCE):
            while "Ready" not in reasons:
                line = (await watching.stdout.readline()).decode().split()
                reasons.append(line[3])
                if reasons == ["NoEndpoint"]:
                    await said(kubectl, "apply", "-f", "chat.yaml")
        assert reasons[0] == "NoEndpoint"
    finally:
        watching.kill()
        await watching.wait()


async def test_an_applied_change_adds_and_removes_members(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "my-tf-model.yaml"
    text = file.read_text("utf-8")
    member = ("get", "dm", "my-tf-model", "-o", "jsonpath={.spec.modelSpec.id}")
    for spec, outcome, expected in (
        (text, "created", ""),
        (f"{text}    id: first\n", "configured", "first"),
        (text, "configured", ""),
        (text, "unchanged", ""),
    ):
        file.write_text(spec, "utf-8")
        assert outcome in await said(kubectl, "apply", "-f", file.name)
        assert await said(kubectl, *member) == expected


async def test_what_kubectl_does_besides(kubectl: Kubectl) -> None:
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


async def test_a_long_list_comes_in_chunks(kubectl: Kubectl, tmp_path: Path) -> None:
    names = [f"model-{number:03}" for number in range(7)]
    model = (tmp_path / "my-tf-model.yaml").read_text("utf-8")
    text = "---\n".join(model.replace("name: my-tf-model", f"name: {each}") for each in names)
    (tmp_path / "many.yaml").write_text(text, "utf-8")
    await said(kubectl, "apply", "-f", "many.yaml")
    whole = [f"deployedmodel.prediction.aiplatform.gdc.goog/{each}" for each in names]
    for size in ("3", "500", "0"):
        shown = await kubectl("get", "dm", "-o", "name", f"--chunk-size={size}", "-v=6")
        assert (shown.status, shown.output.split()) == (0, whole)
        asked = [each for each in shown.errors.splitlines() if "/deployedmodels?" in each]
        assert len([each for each in asked if "continue=" in each]) == (2 if size == "3" else 0)
    rows = (await said(kubectl, "get", "dm", "--chunk-size=3", "--no-headers")).splitlines()
    assert [each.split()[0] for each in rows] == names


async def test_who_may_not(gateway: ServedGateway, tmp_path: Path) -> None:
    reader = asking(tmp_path, kubeconfig(gateway, tmp_path / "reader", f"{TOKEN}-reads"))
    assert "(Forbidden)" in await refused(reader, "apply", "-f", "chat.yaml")
    assert await said(reader, "get", "ep", "-o", "name") == ""
    nobody = asking(tmp_path, kubeconfig(gateway, tmp_path / "nobody", "nobodys-token-at-all"))
    assert "must be logged in" in await refused(nobody, "get", "ep")


async def test_objects_outlive_the_gateway(tmp_path: Path, anyio_backend: str) -> None:
    for name, text in zip(("my-tf-model.yaml", "chat.yaml"), blocks(PAGE, "yaml")[:2], strict=True):
        (tmp_path / name).write_text(text, "utf-8")
    ready = ("get", "ep", "chat", "-o", "jsonpath={.status.conditions[0].status}")
    for commands in (("apply", "-f", "my-tf-model.yaml", "-f", "chat.yaml"), ("get", "dm")):
        config = f'data_dir = "{tmp_path / "kept"}"\n'
        async with ServedGateway.start(tmp_path, config, None) as gateway:
            file = tmp_path / "open"
            assert main(["kubeconfig", "--gateway", gateway.http, "--output", str(file)]) == 0
            kubectl = asking(tmp_path, file)
            assert "my-tf-model" in await said(kubectl, *commands)
            await until(kubectl, ready, "True")
