"""What ``kubectl`` does at each server that has DeployedModels and Endpoints; their tests run it.

::

    class TestTheEmbeddedServer(KubectlContract):
        @pytest.fixture
        def kubectl(self): ...  # asks as who may do everything

        @pytest.fixture
        def reader(self): ...  # as who may only read

        @pytest.fixture
        def nobody(self): ...  # with a token that nobody has

The objects and the commands of the page are the page's own, as they are printed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.interop.served_api import PATIENCE, Ended, blocks, ended

PAGE = "how-to/kubectl.md"

#: By their short names. On Kubernetes ``endpoint`` and ``ep`` are Kubernetes' own.
KINDS = "dm,mep"

TIME = r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"'


def write_page(directory: Path) -> None:
    """The page's two files."""
    model, endpoint, *_ = blocks(PAGE, "yaml")
    (directory / "my-tf-model.yaml").write_text(model, "utf-8")
    (directory / "chat.yaml").write_text(endpoint, "utf-8")


class Kubectl:
    """The program, with nothing of this user's. A call with a command's words waits for its end.

    Args:
        directory: where it runs.
        file: its kubeconfig.
    """

    def __init__(self, directory: Path, file: Path) -> None:
        found = os.environ.get("KUBECTL") or shutil.which("kubectl")
        if not found:
            pytest.fail(
                "there is no kubectl; it must be in PATH, or KUBECTL name one: "
                "apt-get install kubernetes-client",
                pytrace=False,
            )
        self._program = str(Path(found).absolute())
        self._directory = directory
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "KUBECONFIG": str(file),
        }

    async def __call__(self, *words: str) -> Ended:
        return await ended(
            self._program, *words, environment=self._environment, directory=self._directory
        )

    @asynccontextmanager
    async def watching(self, *words: str) -> AsyncIterator[asyncio.StreamReader]:
        """What a command prints that does not end."""
        process = await asyncio.create_subprocess_exec(
            *(self._program, *words),
            stdout=asyncio.subprocess.PIPE,
            cwd=self._directory,
            env=self._environment,
        )
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
            await process.wait()


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


async def read_until(lines: asyncio.StreamReader, wanted: str) -> None:
    while (line := (await lines.readline()).decode().strip()) != wanted:
        assert not lines.at_eof(), line


class KubectlContract:
    @pytest.fixture(autouse=True)
    def page(self, tmp_path: Path) -> None:
        write_page(tmp_path)

    async def test_the_pages_commands_print_what_the_documents_show(self, kubectl: Kubectl) -> None:
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
        assert "unchanged" in await said(kubectl, "apply", "-f", "chat.yaml")
        assert "deleted" in await said(
            kubectl, "delete", "-f", "chat.yaml", "-f", "my-tf-model.yaml"
        )
        assert (await said(kubectl, "get", KINDS, "-o", "name")) == ""

    async def test_a_watch_prints_each_change(self, kubectl: Kubectl) -> None:
        await said(kubectl, "apply", "-f", "my-tf-model.yaml")
        members = r'jsonpath={.status.primaryCondition.reason} {.metadata.labels.app}{"\n"}'
        async with (
            asyncio.timeout(PATIENCE),
            kubectl.watching("get", "-f", "my-tf-model.yaml", "-w", "-o", members) as lines,
        ):
            await said(kubectl, "apply", "-f", "chat.yaml")
            await read_until(lines, "Ready")
            await said(kubectl, "label", "-f", "my-tf-model.yaml", "app=chat")
            await read_until(lines, "Ready chat")

    async def test_an_applied_change_adds_and_removes_members(
        self, kubectl: Kubectl, tmp_path: Path
    ) -> None:
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

    async def test_a_long_list_comes_in_chunks(self, kubectl: Kubectl, tmp_path: Path) -> None:
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

    async def test_who_may_not(self, reader: Kubectl, nobody: Kubectl) -> None:
        assert "(Forbidden)" in await refused(reader, "apply", "-f", "chat.yaml")
        assert await said(reader, "get", KINDS, "-o", "name") == ""
        assert "must be logged in" in await refused(nobody, "get", KINDS)
