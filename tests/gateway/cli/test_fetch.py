"""partway fetch: model data that are there as a whole, or not at all."""

from __future__ import annotations

import asyncio
import sys
import tarfile

import pytest

from partway.gateway.cli.main import main
from tests.gateway.fleet.waiting import soon
from tests.gateway.object_server import serving_objects


@pytest.fixture
def archive(tmp_path):
    (tmp_path / "weights").write_text("w")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "weights", "weights")
    return tmp_path / "model.tar.gz"


@pytest.fixture
def folder(tmp_path):
    """A folder to make, in one that is there, as a pod's volume is."""
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume" / "model"


def test_an_archive(archive, folder):
    assert main(["fetch", str(archive), str(folder)]) == 0
    assert (folder / "weights").read_text() == "w"


def test_what_is_there_is_left_as_it_is(folder):
    folder.mkdir()
    assert main(["fetch", "s3://bucket/never-asked/", str(folder)]) == 0
    assert list(folder.iterdir()) == []


def test_nothing_to_fetch(tmp_path, folder, capsys):
    assert main(["fetch", str(tmp_path / "none.tar.gz"), str(folder)]) == 1
    assert "none.tar.gz: No such file or directory" in capsys.readouterr().err
    assert not folder.exists()


def test_a_folder_stays_where_it_is(tmp_path, folder, capsys):
    (tmp_path / "data").mkdir()
    assert main(["fetch", str(tmp_path / "data"), str(folder)]) == 2
    assert "is a folder of this machine" in capsys.readouterr().err
    assert (tmp_path / "data").is_dir()


@pytest.mark.usefixtures("anyio_backend", "no_leaks")
async def test_files_of_s3(folder, monkeypatch):
    async with serving_objects(monkeypatch) as server:
        server.buckets["bucket"] = {"chat/weights": b"w", "chat/more/a": b"a", "other": b"o"}
        command = [sys.executable, "-m", "partway", "fetch", "s3://bucket/chat/", str(folder)]
        process = await asyncio.create_subprocess_exec(*command)
        assert await soon(process.wait()) == 0
    assert (folder / "weights").read_bytes() == b"w"
    assert (folder / "more" / "a").read_bytes() == b"a"
