"""The tutorial "Your own model", as it is printed: the model runs, and says what the page shows."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.container.cli.commands import ended, environment, serving
from tests.processes import running
from tests.test_docs import page

PAGE = page("tutorial/container.md")
(MODEL,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The printed model in an empty folder, served as the page says; ended as it says."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "model.py").write_text(MODEL, "utf-8")
    assert "partway-container serve --model model:Chat --host 127.0.0.1\n" in PAGE
    with serving("--model", "model:Chat", cwd=folder) as (process, port):
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGINT)
        assert ended(process)[0] == 0


@pytest.fixture(scope="module")
def gateway(container: str) -> Iterator[str]:
    assert "partway serve --endpoint chat=http://127.0.0.1:8080\n" in PAGE
    endpoint = f"chat={container}"
    with running("partway.gateway.cli.main", "serve", "--port", "0", "--endpoint", endpoint) as url:
        yield url


def shown(command: str) -> str:
    """What the page prints below a command."""
    found = re.search(
        rf"^{re.escape(command)}\n```\n\n```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
    assert found, f"the page shows nothing for {command}"
    return found[1]


def timeless(text: str) -> str:
    return re.sub(r"\d\.\d{4} s", "#", text)


def invoked(gateway: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "partway.gateway.cli.main", "invoke", "chat", *arguments],
        capture_output=True,
        timeout=30,
        check=False,
        cwd=ROOT,
        env=environment(PARTWAY_URL=gateway, PYTHONUTF8="1"),
    )


def test_the_printed_model_is_the_starters_and_is_short() -> None:
    assert (ROOT / "container" / "starter" / "model.py").read_text("utf-8") == MODEL
    assert len(MODEL.splitlines()) < 40


def test_the_conversation(gateway: str) -> None:
    said = invoked(gateway, "--text", "hello out there", "--frames")
    assert said.returncode == 0, said.stderr.decode()
    page_says = shown('partway invoke chat --text "hello out there" --frames')
    assert timeless(said.stdout.decode()) == timeless(page_says)


def test_the_error(gateway: str) -> None:
    said = invoked(gateway, "--text", "")
    assert said.returncode == 1
    assert said.stdout == b""
    assert said.stderr.decode().endswith(shown('partway invoke chat --text ""'))


def test_the_invocation(container: str) -> None:
    command, answer = "curl http://127.0.0.1:8080/invocations --data hello", b"You said: hello"
    assert f"`{command}`" in PAGE
    with urllib.request.urlopen(f"{container}/invocations", data=b"hello") as response:
        body = response.read()
    assert body.startswith(answer)
    assert f"`{body.decode()}`" in PAGE


def test_the_project_holds_what_the_page_says(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "partway.container", "new", "chat"],
        check=True,
        capture_output=True,
        timeout=30,
        cwd=tmp_path,
    )
    test = (tmp_path / "chat" / "test_model.py").read_text("utf-8")
    assert "async with serving(Chat()) as served, served.stream() as client:" in PAGE
    assert "async with serving(Chat()) as served, served.stream() as client:" in test
    recipe = (tmp_path / "chat" / "Dockerfile").read_text("utf-8")
    assert "`ENV PARTWAY_MODEL=model:Chat`" in PAGE
    assert "\nENV PARTWAY_MODEL=model:Chat\n" in recipe
