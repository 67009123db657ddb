"""partway.gateway.storage.places.pinned_path: whether the same is still there, by no link."""

from __future__ import annotations

import pytest

from partway.gateway.storage.places.pinned_path import OpenFolder, PathChanged, PinnedPath


@pytest.fixture
def folder(tmp_path):
    """A folder with a file, in another one."""
    folder = tmp_path.resolve() / "root" / "chat"
    folder.mkdir(parents=True)
    (folder / "weights").touch()
    return folder


def test_the_same_is_there(folder):
    pinned = PinnedPath.of(folder)
    pinned.check()
    (folder / "more").touch()
    folder.chmod(0o700)
    pinned.check()


def test_a_link_in_its_place(folder, tmp_path):
    pinned = PinnedPath.of(folder)
    folder.rename(folder.with_name("away"))
    folder.symlink_to(tmp_path)
    with pytest.raises(PathChanged, match=f"{folder} has changed since the endpoint"):
        pinned.check()
    folder.unlink()
    folder.symlink_to(folder.with_name("away"))  # the very same, but by a link
    with pytest.raises(PathChanged, match="a link or another file or folder is in its place"):
        pinned.check()


def test_a_link_on_the_way(folder, tmp_path):
    pinned = PinnedPath.of(folder)
    folder.parent.rename(tmp_path / "away")
    folder.parent.symlink_to(tmp_path / "away")
    with pytest.raises(PathChanged, match="a link or another file"):
        pinned.check()


def test_another_one_in_its_place(folder):
    pinned = PinnedPath.of(folder)
    folder.rename(folder.with_name("away"))
    folder.mkdir()
    with pytest.raises(PathChanged, match="put back what was there, or update the endpoint"):
        pinned.check()
    folder.rmdir()
    folder.with_name("away").rename(folder)
    pinned.check()


def test_what_was_not_there_may_come_but_by_no_link(folder, tmp_path):
    later = folder / "later"
    pinned = PinnedPath.of(later)
    with pytest.raises(FileNotFoundError):
        pinned.check()
    later.mkdir()
    pinned.check()
    later.rmdir()
    later.symlink_to(tmp_path)
    with pytest.raises(PathChanged, match="a link or another file"):
        pinned.check()


def test_an_open_folder_is_the_same_whatever_is_at_its_path(folder, tmp_path):
    opened = OpenFolder(folder, PinnedPath.of(folder).open())
    path = opened.program_path
    folder.rename(folder.with_name("away"))
    folder.symlink_to(tmp_path)
    assert [each.name for each in path.iterdir()] == ["weights"]
    with pytest.raises(PathChanged):
        opened.pinned.check()
    opened.close()
    opened.close()
    assert not path.exists()


def test_a_folder_that_nothing_refers_to_is_closed(folder):
    opened = OpenFolder(folder, PinnedPath.of(folder).open())
    path = opened.program_path
    del opened
    assert not path.exists()
