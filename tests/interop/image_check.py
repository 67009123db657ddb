"""The images, built and run as the platform runs them. Run by ``make image``, as root.

No engine and no registry is asked for: buildah builds on a base that is made here, and an image's
entry point is started as process 1, with the image's files as its root.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from partway.container.cli.main import main
from tests.conftest import ROOT
from tests.dockerfiles import LABEL
from tests.interop.images import BASE, Images, Running

pytestmark = pytest.mark.timeout(2700)

PAGE = ROOT / "docs" / "how-to" / "build-an-image.md"

#: The images, each with what its model answers to "hello".
ANSWERS = {
    "localhost/partway": "hello",
    "localhost/on-ours": "You said: hello (words: 1)",
    "localhost/starter": "You said: hello (words: 1)",
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    with Images(tmp_path_factory.mktemp("images")) as images:
        images.make_base()
        yield images


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An author's project, as it begins."""
    folder = tmp_path_factory.mktemp("projects") / "chat"
    assert main(["new", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def ours(images: Images) -> str:
    images.build("localhost/partway", ROOT, BASE=BASE)
    return "localhost/partway"


@pytest.fixture(scope="module")
def on_ours(images: Images, ours: str, project: Path) -> str:
    """An author's image on ours, by the recipe that the documentation shows."""
    folder = project.with_name("on-ours")
    shutil.copytree(project, folder)
    shown = re.search(
        r"^```dockerfile\n(FROM partway\n.*?)^```$",
        PAGE.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert shown
    (folder / "Dockerfile").write_text(shown[1].replace("FROM partway", f"FROM {ours}"))
    images.build("localhost/on-ours", folder)
    return "localhost/on-ours"


@pytest.fixture(scope="module")
def starter(images: Images, project: Path) -> str:
    """The image of an author's project, with this checkout's wheel."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", project, ROOT], check=True, timeout=120)
    (wheel,) = project.glob("partway-*.whl")
    images.build("localhost/starter", project, BASE=BASE, PARTWAY=f"./{wheel.name}")
    return "localhost/starter"


@pytest.fixture(params=["ours", "on_ours", "starter"])
def image(request: pytest.FixtureRequest) -> str:
    name: str = request.getfixturevalue(request.param)
    return name


@pytest.fixture
def running(images: Images, image: str, tmp_path: Path) -> Iterator[Running]:
    """Started as the platform does it, on a port of its choice."""
    environment = {"SAGEMAKER_BIND_TO_PORT": "0"}
    with images.started(image, "serve", artifacts=tmp_path, environment=environment) as running:
        yield running


@pytest.mark.clause("1.1-1", "1.1-4")
def test_what_an_image_says_of_itself(images: Images, image: str) -> None:
    configuration = images.configuration(image)
    assert configuration["Labels"][LABEL] == "true"
    assert configuration["Entrypoint"] == ["partway-container"]
    assert configuration["Cmd"] == ["serve"]
    assert list(configuration["ExposedPorts"]) == ["8080/tcp"]
    assert configuration.get("User", "") == ""
    assert configuration.get("StopSignal", "SIGTERM") == "SIGTERM"


@pytest.mark.clause("1.1-1", "1.1-2", "1.1-4")
def test_it_answers_and_ends(running: Running, image: str) -> None:
    for method in ("GET", "POST"):
        request = urllib.request.Request(f"{running.url}/ping", method=method)
        with urllib.request.urlopen(request, timeout=2) as response:
            assert (response.status, response.read()) == (200, b"")
    url = running.url.replace("http", "ws", 1)
    with connect(f"{url}/invocations-bidirectional-stream") as client:
        client.send("hello")
        assert client.recv(timeout=10) == ANSWERS[image]
    assert running.stop() == 0
