"""storage.places.local_place: files of this machine, wherever links and others lead."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from partway.gateway.storage import file_threads
from partway.gateway.storage.file_threads import Wanted, WorkStopped
from partway.gateway.storage.places.folder_threads import FolderThreads
from partway.gateway.storage.places.local_place import LocalPlace
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import LoopClock
from tests.gateway.storage.places.contract import Held, PlaceContract, content

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class Folder:
    def __init__(self, top):
        self._top = top

    def write(self, files):
        for name, data in files.items():
            path = self._top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_bytes(data)

    def read(self):
        return {
            path.relative_to(self._top).as_posix(): path.read_bytes()
            for path in self._top.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def place_below(root, passed_over=None, setting="local_roots"):
    roots = LocalRoots((root,), setting=setting)
    return LocalPlace(roots, FolderThreads(LoopClock(), 4, 30.0), passed_over)


class TestLocalPlace(PlaceContract):
    @pytest.fixture
    async def held(self, root):
        return Held(place_below(root), f"{root}/", Folder(root))


# --- Reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["{}/link", "/etc/passwd"])
async def test_nothing_but_what_is_below_a_root_is_read(root, tmp_path, location):
    (tmp_path / "secret").write_bytes(b"secret")
    (root / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(StorageFailed, match="must be below one of the local_roots"):
        await place_below(root).look(location.format(root))


async def test_an_address_of_a_file_names_it(root):
    (root / "a").write_bytes(b"hello")
    place = place_below(root)
    assert await place.look(f"file://{root}/a") == await place.look(f"{root}/a")
    with pytest.raises(StorageFailed, match="no part of it empty"):
        await place.look(f"file://{root}/b/%2e%2e/a")


async def test_a_link_that_stays_inside_is_followed(root):
    (root / "a").write_bytes(b"hello")
    (root / "link").symlink_to(root / "a")
    file = await place_below(root).look(f"{root}/link")
    assert (file.key, file.name) == (f"{root}/a", "link")


async def test_a_link_that_is_put_in_its_place_meanwhile_leads_nowhere(root, tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    (root / "folder").mkdir()
    (root / "folder" / "a").write_bytes(b"hello")
    place = place_below(root)
    file = await place.look(f"{root}/folder/a")
    (root / "folder").rename(root / "before")
    (root / "folder").symlink_to(tmp_path)
    with pytest.raises(StorageFailed, match=r"Not a directory|symbolic links"):
        await content(place, file)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
async def test_only_a_regular_file_is_read(root, kind):
    {"folder": Path.mkdir, "pipe": os.mkfifo}[kind](root / "it")
    with pytest.raises(StorageFailed, match=f"^{root}/it: this must be a regular file$"):
        await place_below(root).look(f"{root}/it")


async def test_a_file_that_changes_is_not_read_half_of_each(root):
    path = root / "f"
    path.write_bytes(bytes(2 << 20))
    place = place_below(root)
    pieces = place.pieces(await place.look(str(path)))
    await anext(pieces)
    with path.open("ab") as more:
        more.write(b"more")
        os.utime(more.fileno(), ns=(1, 1))
    with pytest.raises(StorageFailed, match="it has changed while it was read"):
        [piece async for piece in pieces]


@pytest.fixture
def unreadable():
    """A folder that may be passed and not read, by another user than root, who may read all."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        Folder(folder).write({"in/a": b"hello"})
        folder.chmod(0o311)
        if not user:
            os.seteuid(65534)
        try:
            with pytest.raises(PermissionError):
                next(folder.iterdir())
            yield folder
        finally:
            os.seteuid(user)
            folder.chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="the system has no O_PATH")
async def test_a_folder_on_the_way_need_not_be_readable(unreadable):
    place = place_below(unreadable)
    assert await content(place, await place.look(f"{unreadable}/in/a")) == b"hello"


# --- Listing -------------------------------------------------------------------------------------


async def test_all_that_is_below_a_folder(root):
    made = ("b/z", "b/a", "a", "c/d/e", ".hidden", ".git/config", "b/.part")
    Folder(root).write(dict.fromkeys(made, b"x"))
    (root / "link").symlink_to(root / "a")
    (root / "dangling").symlink_to(root / "nothing")
    (root / "empty").mkdir()
    os.mkfifo(root / "pipe")

    async def names(**given):
        return [each.name for each in await place_below(root, **given).listing(str(root), 10)]

    assert await names() == ["a", "b/a", "b/z", "c/d/e", "link"]
    assert await names(passed_over=root / "b") == ["a", "c/d/e", "link"]


async def test_a_folder_that_is_not_there_is_not_listed(root):
    with pytest.raises(StorageFailed, match=f"^{root}/none: No such file or directory$"):
        await place_below(root).listing(f"{root}/none/a", 10)


async def test_a_folder_that_a_link_leads_to_outside_is_not_listed(root, tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "a").write_bytes(b"secret")
    (root / "link").symlink_to(tmp_path / "secrets")
    with pytest.raises(StorageFailed, match="must be below one of the local_roots"):
        await place_below(root).listing(f"{root}/link/", 10)
    assert await place_below(root).listing(f"{root}/", 10) == []


# --- Writing -------------------------------------------------------------------------------------


async def test_a_file_is_for_its_owner_alone_with_its_folders(root):
    await place_below(root).put(f"{root}/deep/er/a", b"answer", 6)
    assert (root / "deep" / "er" / "a").stat().st_mode & 0o777 == 0o600
    assert (root / "deep" / "er").stat().st_mode & 0o777 == 0o700


async def test_a_link_out_is_not_written_by(root, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    (root / "a").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    for key in ("a", "folder/secret"):
        with pytest.raises(StorageFailed, match="must be below one of the local_results"):
            await place_below(root, setting="local_results").put(f"{root}/{key}", b"", 0)
    assert (tmp_path / "secret").read_bytes() == b"secret"


async def test_a_file_that_is_not_wanted_any_more_leaves_nothing(root, monkeypatch):
    (root / "a").write_bytes(b"old")
    on_thread = file_threads.on_thread

    async def stopped(clock, work, slots):
        wanted = Wanted()
        wanted.stop()
        return await on_thread(clock, lambda _: work(wanted), slots)

    monkeypatch.setattr(file_threads, "on_thread", stopped)
    with pytest.raises(WorkStopped):
        await place_below(root).put(f"{root}/a", b"new", 3)
    assert Folder(root).read() == {"a": b"old"}


async def test_a_disk_that_is_full_leaves_the_file_that_was_there(root, monkeypatch):
    (root / "a").write_bytes(b"old")

    def refuse(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageFailed, match=f"^{root}/a: No space left on device$") as failed:
        await place_below(root).put(f"{root}/a", b"new", 3)
    assert failed.value.passing
    assert Folder(root).read() == {"a": b"old"}


async def test_a_root_that_is_away_is_not_made(root):
    root.rmdir()
    with pytest.raises(StorageFailed, match="No such file or directory"):
        await place_below(root).put(f"{root}/deep/a", b"", 0)
    assert not root.exists()
