"""partway.gateway.storage.places.local_place: callers' files, wherever links and others lead."""

from __future__ import annotations

import pytest

from partway.gateway.storage.file_threads import Wanted, WorkStopped
from partway.gateway.storage.places import local_place
from partway.gateway.storage.places.local_roots import LocalRoots

WANTED = Wanted()


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def look(root, path):
    return local_place.looked_up(LocalRoots((root,)), str(path), WANTED)


def put(root, path, content=b"answer", wanted=WANTED):
    local_place.put(LocalRoots((root,), setting="local_results"), str(path), content, wanted)


def test_a_file_is_read(root):
    (root / "a").write_bytes(b"hello")
    file = look(root, root / "a")
    assert (file.size, local_place.piece(file, 0, WANTED)) == (5, b"hello")
    assert local_place.piece(file, 3, WANTED) == b"lo"
    assert look(root, f"file://{root}/a") == file


@pytest.mark.parametrize("what", ["link out", "elsewhere"])
def test_nothing_but_what_is_below_a_root_is_read(root, tmp_path, what):
    (tmp_path / "secret").write_bytes(b"secret")
    (root / "link").symlink_to(tmp_path / "secret")
    path = {"link out": root / "link", "elsewhere": "/etc/passwd"}
    with pytest.raises(ValueError, match="must be below one of the local_roots"):
        look(root, path[what])


@pytest.mark.parametrize("location", ["{}/a/../b/c", "file://{}/a/%2e%2e/b/c"])
def test_a_path_that_leads_up_again_is_neither_read_nor_written(root, location):
    (root / "a").mkdir()
    (root / "b").mkdir()
    (root / "b" / "c").write_bytes(b"of another")
    with pytest.raises(ValueError, match="no part of it empty"):
        look(root, location.format(root))
    with pytest.raises(ValueError, match="no part of it empty"):
        put(root, location.format(root))
    assert (root / "b" / "c").read_bytes() == b"of another"


def test_a_link_that_stays_inside_is_followed(root):
    (root / "a").write_bytes(b"hello")
    (root / "link").symlink_to(root / "a")
    assert look(root, root / "link").path == root / "a"


def test_a_link_that_is_put_in_its_place_meanwhile_leads_nowhere(root, tmp_path):
    (tmp_path / "secret").write_bytes(b"12345")
    (root / "folder").mkdir()
    (root / "folder" / "a").write_bytes(b"hello")
    file = look(root, root / "folder" / "a")
    (root / "folder").rename(root / "before")
    (root / "folder").symlink_to(tmp_path)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        local_place.piece(file, 0, WANTED)


def test_another_content_is_not_read_on(root):
    (root / "a").write_bytes(b"hello")
    file = look(root, root / "a")
    (root / "a").unlink()
    (root / "a").write_bytes(b"world")
    with pytest.raises(ValueError, match="has changed while it was read"):
        local_place.piece(file, 0, WANTED)


def test_a_folder_is_no_input(root):
    (root / "folder").mkdir()
    with pytest.raises(OSError, match="must be a regular file"):
        look(root, root / "folder")


@pytest.mark.parametrize("form", ["bytes", "file"])
def test_an_answer_is_put_with_the_folders_that_it_is_in(root, tmp_path, form):
    content = b"answer"
    if form == "file":
        content = tmp_path / "spooled"
        content.write_bytes(b"answer")
    put(root, root / "deep" / "er" / "a", content)
    assert (root / "deep" / "er" / "a").read_bytes() == b"answer"
    assert (root / "deep" / "er" / "a").stat().st_mode & 0o777 == 0o600
    assert len(list((root / "deep" / "er").iterdir())) == 1


def test_an_answer_takes_the_place_of_another_and_of_a_link(root, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    put(root, root / "a", b"first")
    put(root, root / "a", b"second")
    assert (root / "a").read_bytes() == b"second"
    (root / "b").symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match="must be below one of the local_results"):
        put(root, root / "b")
    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_what_is_not_wanted_any_more_leaves_nothing(root):
    wanted = Wanted()
    wanted.stop()
    with pytest.raises(WorkStopped):
        put(root, root / "a", b"answer", wanted)
    assert list(root.iterdir()) == []


def test_a_root_that_is_away_is_not_made(root):
    root.rmdir()
    with pytest.raises(FileNotFoundError):
        put(root, root / "deep" / "a")
    assert not root.exists()
