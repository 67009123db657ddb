"""partway-container new: what it writes, where, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.container.cli.main import main
from partway.container.cli.new import FILES
from tests.conftest import ROOT
from tests.dockerfiles import Recipe
from tests.test_documentation import ARCHIVE

STARTER = ROOT / "container" / "starter"


def test_every_file_of_the_starter_is_written_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "models" / "chat"
    assert main(["new", str(project)]) == 0
    written = {path.name: path.read_bytes() for path in project.iterdir()}
    assert written == {
        path.name: path.read_bytes() for path in STARTER.iterdir() if path.name != "__pycache__"
    }
    assert written.keys() == set(FILES)
    assert capsys.readouterr().out == (
        f"{project} has a model, its test and its image. Next:\n"
        f"  cd {project}\n"
        "  python -m pip install pytest 'partway[dev]'\n"
        "  python -m pytest\n"
        "  partway dev model:Chat --reload\n"
    )


def test_an_empty_folder_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my chat").mkdir()
    assert main(["new", "my chat"]) == 0
    assert "  cd 'my chat'\n" in capsys.readouterr().out


def test_files_of_others_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".hidden").write_text("mine")
    assert main(["new", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == [".hidden"]
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors == (
        f"partway-container: {tmp_path} has files in it; the folder must be new or empty\n"
    )


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "chat"
    taken.write_text("mine")
    assert main(["new", str(taken)]) == 1
    assert taken.read_text() == "mine"
    assert capsys.readouterr().err == f"partway-container: cannot write {taken}: File exists\n"


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["new", str(tmp_path / "file" / "chat")]) == 1
    assert capsys.readouterr().err == (
        f"partway-container: cannot write {tmp_path}/file/chat: Not a directory\n"
    )


def test_the_image_serves_the_model() -> None:
    """What else the platform asks of an image, ``tests/test_dockerfile.py`` does."""
    recipe = Recipe((STARTER / "Dockerfile").read_text("utf-8"))
    module, _, name = recipe.values("ENV")["PARTWAY_MODEL"].partition(":")
    assert f"class {name}(Model):" in (STARTER / f"{module}.py").read_text("utf-8")
    assert f'PARTWAY="partway @ {ARCHIVE}"' in [each.arguments for each in recipe.named("ARG")]
