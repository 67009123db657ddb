"""partway.gateway.workbench.dev.changes: what counts as a change."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest

from partway.gateway.workbench.dev.changes import Changes, WatchFailed


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("watchfiles")
    (tmp_path / "package").mkdir()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "model.py").write_text("before")
    return tmp_path


async def seen(changes: Changes, folder) -> list[str]:
    """What is taken, up to a change that is certain to be the last."""
    names: list[str] = []
    async with asyncio.timeout(30):
        while "last.py" not in names:
            if not changes.some.is_set():
                (folder / "last.py").write_text("")  # again, should the watch have begun after it
                await asyncio.wait((asyncio.create_task(changes.some.wait()),), timeout=0.3)
            names += changes.take()
    return sorted(set(names) - {"last.py"})


async def test_python_files_below_the_folder(folder, no_leaks):
    async with Changes(folder) as changes:
        assert await seen(changes, folder) == []
        (folder / "model.py").write_text("after")
        (folder / "package" / "new.py").write_text("")
        (folder / "weights.bin").write_text("")
        (folder / "__pycache__" / "model.py").write_text("")
        (folder / ".git" / "hook.py").write_text("")
        assert await seen(changes, folder) == ["model.py", "package/new.py"]
        (folder / "package" / "new.py").unlink()
        assert await seen(changes, folder) == ["package/new.py"]


async def test_an_editor_that_writes_beside_and_renames(folder, no_leaks):
    async with Changes(folder) as changes:
        assert await seen(changes, folder) == []
        (folder / "model.py~").write_text("after")
        (folder / "model.py~").rename(folder / "model.py")
        assert await seen(changes, folder) == ["model.py"]


async def test_taken_is_forgotten(folder, no_leaks):
    async with Changes(folder) as changes:
        await seen(changes, folder)
        assert not changes.some.is_set()
        assert changes.take() == []


async def test_a_folder_that_cannot_be_watched(folder, no_leaks):
    async with Changes(folder / "none") as changes:
        await asyncio.wait_for(changes.some.wait(), 10)
        with pytest.raises(WatchFailed, match="none cannot be watched: "):
            changes.take()


def test_without_the_package(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "watchfiles" else find(name)
    )
    with pytest.raises(WatchFailed, match=r"pip install 'partway\[dev\]'"):
        Changes(tmp_path)
