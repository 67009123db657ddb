"""The starter project: its own test holds, and notices when its model breaks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.container.cli.commands import environment

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``partway-container new`` writes it."""
    folder = tmp_path_factory.mktemp("new") / "chat"
    subprocess.run(
        [sys.executable, "-m", "partway.container", "new", str(folder)],
        check=True,
        capture_output=True,
        timeout=30,
        cwd=ROOT,
    )
    return folder


def outcome(project: Path) -> tuple[int, str]:
    """Run the project's own test, as its README says."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        capture_output=True,
        timeout=150,
        cwd=project,
        env=environment(),
        check=False,
    )
    return done.returncode, done.stdout.decode()


def test_its_test_holds(project: Path) -> None:
    status, output = outcome(project)
    assert status == 0, output
    assert "4 passed" in output


def test_its_test_notices_what_breaks(project: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(project, tmp_path / "broken")
    model = broken / "model.py"
    text = model.read_text()
    assert 'f" {word}"' in text
    model.write_text(text.replace('f" {word}"', 'f"{word}"'))
    status, output = outcome(broken)
    assert status == 1
    assert "3 failed, 1 passed" in output


def test_the_model_is_short() -> None:
    text = (ROOT / "container" / "starter" / "model.py").read_text("utf-8")
    assert len(text.splitlines()) < 40
