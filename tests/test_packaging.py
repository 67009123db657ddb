"""The wheel, installed away from its sources, beside folders named like its packages."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.processes import ready_url

pytestmark = pytest.mark.timeout(180)

PACKAGES = ("protocol", "gateway", "container")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the tree."""
    pytest.importorskip("pip")
    sources = tmp_path_factory.mktemp("sources") / "partway"
    sources.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", *PACKAGES):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, sources / name)
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", target]
    if importlib.util.find_spec("hatchling") is not None:  # else pip fetches it
        build += ["--no-build-isolation", "--no-index"]
    subprocess.run([*build, sources], check=True, timeout=120)
    (built,) = target.glob("partway-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of a fresh environment with the wheel in it."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--no-index", wheel], check=True, timeout=120)
    # Dependencies come from here. A .pth file inside that folder is not followed, so an editable
    # installation of these very sources is not seen.
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


@contextmanager
def running(program: Path, *arguments: str, **options: object) -> Iterator[str]:
    process = subprocess.Popen(
        [program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )
    try:
        yield ready_url(process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=40)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors.decode()


def clean_environment() -> dict[str, str]:
    """Without what would bring these sources back, or another gateway's settings."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PARTWAY_", "PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV"))
    }


def test_the_wheel_holds_the_packages_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if "dist-info" not in name} == set(PACKAGES)
    inside = {name for name in names if "dist-info" not in name}
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == expected
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_packages_are_the_installed_ones(installed, tmp_path):
    found = subprocess.run(
        [installed / "python", "-c", "import gateway.client as g; print(g.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=tmp_path,
        env=clean_environment(),
    )
    assert Path(found.stdout.strip()).is_relative_to(installed.parent)


@pytest.mark.parametrize("with_init", [False, True], ids=["plain folders", "packages"])
def test_the_commands_use_the_installed_code_wherever_they_run(installed, tmp_path, with_init):
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        if with_init:
            (tmp_path / package / "__init__.py").write_text("raise SystemExit('the wrong code')\n")
    options = {"cwd": tmp_path, "env": clean_environment()}
    serve = ("serve", "--host", "127.0.0.1", "--port", "0")
    with running(installed / "partway-container", *serve, **options) as container:
        endpoint = f"echo={container}"
        with running(installed / "partway", *serve, "--endpoint", endpoint, **options) as gateway:
            words = [installed / "partway", "invoke", "echo", "--url", gateway]
            said = subprocess.run(
                [*words, "--text", "Hello ", "--text", "world", "--partial"],
                capture_output=True,
                timeout=60,
                check=False,
                **options,  # type: ignore[call-overload]
            )
    assert said.returncode == 0, said.stderr.decode()
    assert said.stdout == b"Hello world\n"


def test_python_m_container_is_the_same_command(installed, tmp_path):
    """As the documentation says; a folder of that name in the way is the caller's own business."""
    found = subprocess.run(
        [installed / "python", "-m", "container", "serve", "--help"],
        capture_output=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
        env=clean_environment(),
    )
    assert found.stdout.startswith(b"usage: partway-container serve")
