"""storage.model_data.model_data: one folder for each content, as long as somebody holds it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from partway.gateway.storage.file_threads import Wanted, remove_tree
from partway.gateway.storage.limits import (
    MODEL_DATA_AT_ONCE,
    MODEL_DATA_CLOSE_TIMEOUT,
    MODEL_DATA_TIMEOUT,
    WORK_STOP_TIMEOUT,
)
from partway.gateway.storage.model_data import model_data, sources
from partway.gateway.storage.model_data.disk_room import RoomShare
from partway.gateway.storage.model_data.extraction import unpack
from partway.gateway.storage.model_data.folder import DataFolder
from partway.gateway.storage.model_data.model_data import ModelData, ModelDataError
from tests.conftest import ROOT
from tests.disks import small_disk
from tests.gateway.fleet.model_archives import BAD, MODEL, packed, tree
from tests.gateway.fleet.waiting import eventually
from tests.gateway.kept_in_memory import KeptInMemory
from tests.gateway.object_server import ObjectServer, serving_objects
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("no_leaks")

OTHER = {"other.bin": b"other"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()  # by the gateway that owns it
    return tmp_path / "data" / "models"


@pytest.fixture
async def data(folder: Path) -> AsyncIterator[ModelData]:
    data = ModelData(folder)
    yield data
    await data.aclose()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "model.tar.gz"
    path.write_bytes(packed(MODEL))
    return path


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ObjectServer]:
    async with serving_objects(monkeypatch) as server:
        server.buckets["bucket"] = {"m/model.tar.gz": packed(MODEL)}
        yield server


def whole(folder: Path) -> list[Path]:
    """What lies in the folder, its lock aside."""
    return sorted(path for path in folder.iterdir() if path.name != "lock")


async def refused(data: ModelData, source: str | Path) -> ModelDataError:
    with pytest.raises(ModelDataError) as caught:
        await data.acquire(str(source))
    assert "\n" not in str(caught.value)
    return caught.value


class Held:
    """An unpacking that waits at its beginning until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.times = 0
        monkeypatch.setattr(model_data, "unpack", self.unpack)

    def unpack(self, archive: Path, into: Path, share: RoomShare, wanted: Wanted) -> str:
        self.times += 1
        into.mkdir()
        (into / "half").touch()
        self.begun.set()
        while not self.go_on.wait(0.005):
            wanted.check()
        (into / "half").unlink()
        into.rmdir()
        return unpack(archive, into, share, wanted)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    held = Held(monkeypatch)
    yield held
    held.go_on.set()


class Hanging:
    """A system call that does not come back until the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.times = 0

    def hang(self, *_: object, **__: object) -> None:
        self.times += 1
        self.begun.set()
        self.go_on.wait(60)

    def unpack(self, _: Path, into: Path, __: RoomShare, wanted: Wanted) -> str:
        """An unpacking that goes on for one more step after that."""
        self.hang()
        into.mkdir()
        (into / "half").touch()
        wanted.check()
        raise AssertionError("nobody has stopped it")


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.go_on.set()


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 10)


# --- What may be given ----------------------------------------------------------------------------


async def test_a_folder_is_used_where_it_is(data, tmp_path, folder):
    (tmp_path / "model").mkdir()
    held = await data.acquire(str(tmp_path / "model"))
    assert held.path == tmp_path / "model"
    held.release()
    assert (tmp_path / "model").is_dir()
    assert not folder.exists()  # nothing had to be unpacked


async def test_a_relative_path_becomes_absolute(data, tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert (await data.acquire("model")).path == tmp_path / "model"


@pytest.mark.clause("1.1-6", "1.1-7")
async def test_an_archive_is_unpacked_and_read_only(data, archive, folder):
    held = await data.acquire(str(archive))
    assert held.path.is_absolute()
    assert held.path.parent == folder
    assert tree(held.path) == MODEL
    modes = {each.stat().st_mode & 0o777 for each in (held.path, *held.path.rglob("*"))}
    assert modes == {0o444, 0o555}
    held.release()
    await eventually(lambda: data.used == 0)
    assert whole(folder) == []


@pytest.mark.clause("1.1-7")
async def test_an_archive_of_a_bucket(data, server, folder):
    held = await data.acquire("s3://bucket/m/model.tar.gz")
    assert tree(held.path) == MODEL
    assert whole(folder) == [held.path]  # the download itself has gone
    held.release()
    await eventually(lambda: data.used == 0)
    assert whole(folder) == []


async def test_a_prefix_of_a_bucket(data, server):
    server.buckets["bucket"] |= {f"p/{name}": content for name, content in MODEL.items()}
    server.buckets["bucket"] |= {"p/": b"", "p/code/": b"", "p2/x": b""}  # a console's marks
    held = await data.acquire("s3://bucket/p/")
    assert tree(held.path) == MODEL
    modes = {each.stat().st_mode & 0o777 for each in (held.path, *held.path.rglob("*"))}
    assert modes == {0o444, 0o555}
    again = await data.acquire("s3://bucket/p/")
    assert again.path == held.path
    assert len([asked for asked in server.asked if asked.startswith("GET /bucket/p/")]) == 3
    server.buckets["bucket"]["p/model.bin"] = b"new"
    other = await data.acquire("s3://bucket/p/")
    assert (other.path / "model.bin").read_bytes() == b"new"
    assert tree(held.path) == MODEL


# --- Leave ----------------------------------------------------------------------------------------


class Reader:
    """Somebody who may read some locations, and all that they were asked for."""

    def __init__(self, *may: str) -> None:
        self.asked: list[str] = []
        self.may = may

    def __call__(self, location: str) -> str:
        self.asked.append(location)
        return "" if location in self.may else f"{location} is another's"


async def test_what_a_reader_is_asked_for(data, server, archive, tmp_path):
    server.buckets["bucket"] |= {"p/a": b"1", "p/b/c": b"2"}
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.tar.gz").mkdir()
    prefix = "s3://bucket/p/"
    for source, locations in (
        ("s3://bucket/m/model.tar.gz", ["s3://bucket/m/model.tar.gz"] * 2),
        (prefix, [prefix, f"{prefix}a", f"{prefix}b/c"]),
        (str(archive), [str(archive)] * 2),
        (f"{tmp_path}/folder", [f"{tmp_path}/folder/"] * 2),
        (f"{tmp_path}/folder.tar.gz", [f"{tmp_path}/folder.tar.gz", f"{tmp_path}/folder.tar.gz/"]),
    ):  # fmt: skip
        reader = Reader(*locations)
        (await data.acquire(source, reader)).release()
        assert reader.asked == locations
        for lacking in dict.fromkeys(locations):
            may = [each for each in locations if each != lacking]
            with pytest.raises(ModelDataError) as caught:
                await data.acquire(source, Reader(*may))
            assert str(caught.value) == f"{lacking} is another's"
            assert not caught.value.passing


async def test_nothing_is_looked_at_without_leave(data, server):
    with pytest.raises(ModelDataError):
        await data.acquire("s3://bucket/m/model.tar.gz", Reader())
    assert server.asked == []


async def test_leave_is_asked_for_what_others_have_unpacked(data, server):
    held = await data.acquire("s3://bucket/m/model.tar.gz")
    with pytest.raises(ModelDataError, match="is another's"):
        await data.acquire("s3://bucket/m/model.tar.gz", Reader())
    assert tree(held.path) == MODEL


@pytest.mark.parametrize(
    "source", ["s3://bucket/../other/", "s3://bucket//m/model.tar.gz", "s3://bucket/m//x.tar.gz"]
)
async def test_what_no_key_can_be(data, server, source):
    error = await refused(data, source)
    assert "no part of a key may be empty, . or .." in str(error)
    assert server.asked == []


# --- Once for each content ------------------------------------------------------------------------


async def test_all_who_hold_it_share_it(data, archive, tmp_path):
    first, second = await data.acquire(str(archive)), await data.acquire(str(archive))
    (tmp_path / "copy.tar.gz").write_bytes(archive.read_bytes())
    copy = await data.acquire(str(tmp_path / "copy.tar.gz"))
    assert first.path == second.path == copy.path
    first.release()
    first.release()  # changes nothing
    copy.release()
    await asyncio.sleep(0)
    assert tree(second.path) == MODEL
    second.release()
    await eventually(lambda: data.used == 0)


async def test_of_several_who_ask_at_once_one_has_it_unpacked(data, archive, held, tmp_path):
    (tmp_path / "copy.tar.gz").write_bytes(archive.read_bytes())
    paths = [archive, archive, tmp_path / "copy.tar.gz"]
    asking = [asyncio.create_task(data.acquire(str(path))) for path in paths]
    await until(held.begun)
    held.go_on.set()
    assert len({each.path for each in await asyncio.gather(*asking)}) == 1
    assert held.times == 1


async def test_an_object_is_downloaded_once(data, server):
    both = await asyncio.gather(*[data.acquire("s3://bucket/m/model.tar.gz") for _ in range(2)])
    await data.acquire("s3://bucket/m/model.tar.gz")
    assert len({each.path for each in both}) == 1
    assert [asked for asked in server.asked if asked.startswith("GET")] == [
        "GET /bucket/m/model.tar.gz"
    ]


async def test_another_content_under_the_same_name(data, archive):
    old = await data.acquire(str(archive))
    archive.write_bytes(packed(OTHER))
    new = await data.acquire(str(archive))
    assert (tree(old.path), tree(new.path)) == (MODEL, OTHER)
    old.release()
    await eventually(lambda: not old.path.exists())
    assert tree(new.path) == OTHER


async def test_a_content_that_changes_while_it_is_unpacked(data, archive, held, folder):
    asking = asyncio.create_task(refused(data, archive))
    await until(held.begun)
    archive.write_bytes(packed(OTHER))
    held.go_on.set()
    error = await asking
    assert str(error) == f"{archive}: it has changed while it was read; try again"
    assert error.passing
    assert whole(folder) == []


async def test_nobody_sees_half_of_it(data, archive, held, folder):
    asking = asyncio.create_task(data.acquire(str(archive)))
    await until(held.begun)
    assert [path.suffix for path in whole(folder)] == [".part"]
    held.go_on.set()
    made = await asking
    assert whole(folder) == [made.path]


async def test_it_is_wanted_again_before_it_is_removed(data, archive):
    held = await data.acquire(str(archive))
    (kept,) = data._by_path.values()
    held.release()
    again = data._held(kept)  # as acquire does, in the same turn of the loop
    await asyncio.wait(data._removals)
    assert tree(held.path) == MODEL
    again.release()
    await eventually(lambda: data.used == 0)


async def test_it_is_wanted_again_and_again(data, archive):
    for _ in range(10):
        held = await data.acquire(str(archive))
        held.release()
    held = await data.acquire(str(archive))
    assert tree(held.path) == MODEL


# --- Its end --------------------------------------------------------------------------------------


async def test_who_gives_up_leaves_nothing(data, archive, held, folder):
    asking = asyncio.create_task(data.acquire(str(archive)))
    await until(held.begun)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert whole(folder) == []
    assert data.used == 0


async def left_behind(clock: FakeClock, data: ModelData, archive: Path, hanging: Hanging) -> None:
    """Have somebody give up what hangs."""
    asking = asyncio.create_task(data.acquire(str(archive)))
    await until(hanging.begun)
    asking.cancel()
    await eventually(lambda: clock.armed and clock.armed[0].due < clock.time() + 10)
    clock.advance(WORK_STOP_TIMEOUT)
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_what_a_thread_that_was_left_behind_writes_is_removed_after_its_end(
    folder, archive, hanging, monkeypatch, caplog
):
    clock = FakeClock()
    data = ModelData(folder, clock=clock)
    monkeypatch.setattr(model_data, "unpack", hanging.unpack)
    with caplog.at_level(logging.INFO, "partway.model_data"):
        await left_behind(clock, data, archive, hanging)
        assert data.used > 0
        hanging.go_on.set()
        await eventually(lambda: data.used == 0)
    assert whole(folder) == []
    not_yet, removed = (record.getMessage() for record in caplog.records)
    path = folder / "0.part"
    assert not_yet.startswith(f'model data not removed path={path} reason="a hanging thread may')
    assert removed == f"model data removed path={path}"
    await data.aclose()


async def test_closing_leaves_what_hangs_to_the_next_gateway(folder, archive, hanging, monkeypatch):
    clock = FakeClock()
    data = ModelData(folder, clock=clock)
    monkeypatch.setattr(model_data, "unpack", hanging.unpack)
    await left_behind(clock, data, archive, hanging)
    async with asyncio.timeout(10):
        await data.aclose()
    hanging.go_on.set()
    await eventually(lambda: [*folder.rglob("half")])
    after = ModelData(folder)
    await after.take_over()
    assert whole(folder) == []
    await after.aclose()


async def test_who_gives_up_while_it_gets_its_name_leaves_nothing(
    data, archive, folder, hanging, monkeypatch
):
    rename = Path.rename

    def hangs(path: Path, target: Path) -> Path:
        renamed = rename(path, target)
        hanging.hang()
        return renamed

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", hangs)
        asking = asyncio.create_task(data.acquire(str(archive)))
        await until(hanging.begun)
        asking.cancel()
        hanging.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert whole(folder) == []
    assert data.used == 0
    assert tree((await data.acquire(str(archive))).path) == MODEL


async def test_who_gives_up_once_it_is_whole_holds_nothing(
    data, server, folder, hanging, monkeypatch
):
    """While its download is removed."""

    def hangs(path: Path) -> None:
        hanging.hang()
        remove_tree(path)

    monkeypatch.setattr("partway.gateway.storage.model_data.folder.remove_tree", hangs)
    asking = asyncio.create_task(data.acquire("s3://bucket/m/model.tar.gz"))
    await until(hanging.begun)
    asking.cancel()
    hanging.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await eventually(lambda: data.used == 0)
    assert whole(folder) == []


async def test_a_removal_that_hangs_holds_up_nobody(
    folder, archive, tmp_path, hanging, monkeypatch
):
    clock = FakeClock()
    data = ModelData(folder, clock=clock)
    with monkeypatch.context() as patched:
        patched.setattr("partway.gateway.storage.model_data.folder.remove_tree", hanging.hang)
        for number in range(MODEL_DATA_AT_ONCE):
            bad = tmp_path / f"{number}.tar.gz"
            bad.write_bytes(packed(MODEL)[:-20])
            asking = asyncio.create_task(refused(data, bad))
            await eventually(lambda number=number: hanging.times == number + 1)
            clock.advance(WORK_STOP_TIMEOUT)
            async with asyncio.timeout(10):
                assert "the archive is cut" in str(await asking)
        async with asyncio.timeout(10):
            assert tree((await data.acquire(str(archive))).path) == MODEL
        closing = asyncio.create_task(data.aclose())
        await eventually(lambda: clock.armed)
        clock.advance(MODEL_DATA_CLOSE_TIMEOUT)
        await eventually(lambda: len(clock.armed) == MODEL_DATA_AT_ONCE)
        clock.advance(WORK_STOP_TIMEOUT)
        async with asyncio.timeout(10):
            await closing


async def test_one_of_two_gives_up(data, archive, held):
    leaving, staying = (asyncio.create_task(data.acquire(str(archive))) for _ in range(2))
    await until(held.begun)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    held.go_on.set()
    data_held = await staying
    assert tree(data_held.path) == MODEL
    data_held.release()
    await eventually(lambda: data.used == 0)  # the one that left holds nothing


async def test_closing_ends_what_is_under_way_and_keeps_what_is_held(
    folder, archive, held, tmp_path
):
    data = ModelData(folder)
    held.go_on.set()
    (tmp_path / "kept.tar.gz").write_bytes(packed(OTHER))
    kept = await data.acquire(str(tmp_path / "kept.tar.gz"))
    held.go_on.clear()
    held.begun.clear()
    asking = asyncio.create_task(refused(data, archive))
    await until(held.begun)
    await data.aclose()
    assert str(await asking) == f"{archive}: the gateway is stopping"
    assert whole(folder) == [kept.path]
    kept.release()  # nobody is left to remove it; the next gateway does
    assert "the gateway is stopping" in str(await refused(data, archive))


async def test_it_may_not_take_for_ever(folder, archive, held):
    clock = FakeClock()
    data = ModelData(folder, clock=clock)
    asking = asyncio.create_task(refused(data, archive))
    await until(held.begun)
    clock.advance(MODEL_DATA_TIMEOUT)
    error = await asking
    assert f"{archive}: not downloaded and unpacked within 3600 s" in str(error)
    assert error.passing
    assert whole(folder) == []
    await data.aclose()


async def hangs_until_its_limit(
    clock: FakeClock, data: ModelData, source: Path, begun: threading.Event, limit: float
) -> ModelDataError:
    """What is said of a source whose file system does not answer."""
    asking = asyncio.create_task(refused(data, source))
    await until(begun)
    clock.advance(limit - 1)
    await asyncio.sleep(0)
    assert not asking.done()
    clock.advance(1)
    left_behind = clock.time() + WORK_STOP_TIMEOUT
    await eventually(lambda: [timer.due for timer in clock.armed] == [left_behind])
    clock.advance(WORK_STOP_TIMEOUT)
    return await asking


async def test_a_source_on_a_file_system_that_does_not_answer(
    folder, archive, hanging, monkeypatch
):
    clock = FakeClock()
    data = ModelData(folder, clock=clock)
    monkeypatch.setattr(sources, "_on_this_machine", hanging.hang)
    error = await hangs_until_its_limit(clock, data, archive, hanging.begun, 30)
    assert str(error) == (
        f"{archive}: not found within 30 s; mount its file system again, or name a copy"
    )
    assert error.passing
    await data.aclose()


async def test_a_prefix_that_is_listed_without_end(folder, server, monkeypatch):
    clock, begun = FakeClock(), asyncio.Event()
    data = ModelData(folder, clock=clock)

    async def endless(*_: object) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(model_data, "find", endless)
    asking = asyncio.create_task(refused(data, "s3://bucket/p/"))
    await begun.wait()
    clock.advance(300)
    error = await asking
    assert str(error).startswith("s3://bucket/p/: not found within 300 s; check whether")
    assert error.passing
    await data.aclose()


async def test_a_folder_of_data_on_a_file_system_that_does_not_answer(
    folder, archive, hanging, monkeypatch
):
    clock = FakeClock()
    data = ModelData(folder, clock=clock)
    monkeypatch.setattr(DataFolder, "_measured", lambda *_: None)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", hanging.hang)
        error = await hangs_until_its_limit(clock, data, archive, hanging.begun, 300)
    assert str(error) == (
        f"{folder}: could not be locked and cleared within 300 s; check its file system, or move "
        "it with --data-dir"
    )
    assert error.passing
    folder.mkdir(parents=True)
    hanging.go_on.set()  # the one that was left behind locks nobody out
    assert tree((await data.acquire(str(archive))).path) == MODEL
    await data.aclose()


async def test_a_file_system_that_gives_up_is_not_a_limit(data, archive, monkeypatch):
    def gives_up(*_: object) -> str:
        raise OSError(errno.ETIMEDOUT, "Connection timed out")

    monkeypatch.setattr(model_data, "unpack", gives_up)
    error = await refused(data, archive)
    assert f"{archive}: Connection timed out; check the disk" in str(error)
    assert error.passing


# --- From one gateway to the next -----------------------------------------------------------------


async def test_what_a_killed_gateway_left_is_removed(folder, archive):
    """Killed while it unpacks; what it had unpacked before is of no use to anybody either."""
    program = (
        "import asyncio, os, signal, sys; from pathlib import Path;"
        "from partway.gateway.storage.model_data import model_data\n"
        "async def main():\n"
        "    data = model_data.ModelData(Path(sys.argv[1]))\n"
        "    await data.acquire(sys.argv[2])\n"
        "    def killed(archive, into, *more):\n"
        "        into.mkdir(); (into / 'half').touch(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "    model_data.unpack = killed\n"
        "    Path(sys.argv[2]).write_bytes(Path(sys.argv[3]).read_bytes())\n"
        "    await data.acquire(sys.argv[2])\n"
        "asyncio.run(main())"
    )
    (archive.parent / "other").write_bytes(packed(OTHER))
    command = [sys.executable, "-B", "-c", program, folder, archive, archive.parent / "other"]
    ended = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    (folder / "mine.txt").touch()  # not one of its names
    assert sorted(path.suffix for path in whole(folder)) == ["", ".part", ".txt"]
    data = ModelData(folder)
    held = await data.acquire(str(archive))
    assert whole(folder) == [held.path, folder / "mine.txt"]
    await data.aclose()


async def test_what_containers_go_on_using_is_kept(folder, archive, tmp_path):
    before = ModelData(folder)
    used = await before.acquire(str(archive))
    (tmp_path / "other.tar.gz").write_bytes(packed(OTHER))
    unused = await before.acquire(str(tmp_path / "other.tar.gz"))
    await before.aclose()
    after = ModelData(folder)
    elsewhere = tmp_path / "elsewhere"
    kept = await after.take_over([used.path, elsewhere, folder / ("0" * 64)])
    assert list(kept) == [used.path]
    assert not unused.path.exists()
    assert after.used > sum(map(len, MODEL.values()))
    again = await after.acquire(str(archive))
    assert again.path == used.path
    again.release()
    await asyncio.sleep(0.02)
    assert tree(used.path) == MODEL
    kept[used.path].release()
    await eventually(lambda: after.used == 0)
    assert whole(folder) == []
    await after.aclose()


async def test_what_is_known_of_kept_data_need_not_be_read_again(folder, server):
    """As an archive of many gigabytes in a bucket."""
    kept = KeptInMemory()
    first = ModelData(folder, kept=kept)
    held = await first.acquire("s3://bucket/m/model.tar.gz")
    await first.aclose()
    following = kept.next_process()
    server.asked.clear()
    next_one = ModelData(folder, kept=following)
    (again,) = (await next_one.take_over([held.path])).values()
    other = await next_one.acquire("s3://bucket/m/model.tar.gz")
    assert other.path == held.path
    assert not [asked for asked in server.asked if asked == "GET /bucket/m/model.tar.gz"]
    for each in (again, other):
        each.release()
    await eventually(lambda: next_one.used == 0)
    assert following.names == set()
    await next_one.aclose()


async def test_each_data_is_kept_by_itself(folder, server, archive):
    """All of it in one record would be more than a supervisor takes."""
    archive.write_bytes(packed(OTHER))
    kept = KeptInMemory()
    first = ModelData(folder, kept=kept)
    held = [await first.acquire(each) for each in ("s3://bucket/m/model.tar.gz", str(archive))]
    assert kept.names == {f"model-data/{each.path.name}" for each in held}
    assert len(kept.names) == 2
    await first.aclose()
    following = kept.next_process()
    next_one = ModelData(folder, kept=following)
    (again,) = (await next_one.take_over([held[1].path])).values()
    assert following.names == {f"model-data/{again.path.name}"}
    again.release()
    await next_one.aclose()


async def test_a_folder_is_one_gateways(data, folder, archive):
    await data.acquire(str(archive))
    other = ModelData(folder)
    error = await refused(other, archive)
    assert str(error) == (
        f"{folder}: another gateway keeps its model data here; start this one with another "
        "--data-dir"
    )
    await other.aclose()
    await data.aclose()
    third = ModelData(folder)
    await third.take_over()
    await third.aclose()


async def test_a_folder_that_cannot_be_made(tmp_path, archive):
    (tmp_path / "file").touch()
    data = ModelData(tmp_path / "file" / "models")
    assert "Not a directory" in str(await refused(data, archive))
    await data.aclose()


async def test_a_full_disk_is_waited_for(tmp_path, archive):
    """Also one that has not taken the folder that this one is in; then there is room."""
    with small_disk(tmp_path / "disk") as disk:
        data = ModelData(disk.path / "data" / "models")
        early = await refused(data, archive)
        assert early.passing
        assert early.waits
        (disk.path / "data").mkdir()
        await data.take_over()
        disk.fill()
        full = await refused(data, archive)
        assert "is full (No space left on device); make room there" in str(full)
        assert full.passing
        assert full.waits
        disk.make_room()
        (await data.acquire(str(archive))).release()
        await data.aclose()


# --- What goes wrong ------------------------------------------------------------------------------


@pytest.mark.clause("1.1-7")
@pytest.mark.parametrize("name", BAD)
async def test_a_bad_archive_leaves_nothing(data, tmp_path, folder, name):
    content, said = BAD[name]
    (tmp_path / "bad.tar.gz").write_bytes(content)
    error = await refused(data, tmp_path / "bad.tar.gz")
    assert str(error).startswith(f"{tmp_path / 'bad.tar.gz'}: ")
    assert said in str(error)
    assert not error.passing
    assert whole(folder) == []
    assert data.used == 0


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "model data must be a folder, a file that ends in .tar.gz, s3://BUCKET/KEY.tar.gz"),
        ("https://host/model.tar.gz", "model data must be a folder"),
        ("file:///model.tar.gz", "model data must be a folder"),
        ("a\0b", "model data must be a folder"),
        ("s3://bucket/m/model", "or s3://BUCKET/PREFIX/ with a slash at its end"),
        ("s3://B/model.tar.gz", "'B' is not a bucket's name"),
        ("nothing.tar.gz", "nothing.tar.gz: No such file or directory; it must exist"),
        ("pipe.tar.gz", "this is a pipe; model data must be a folder"),
        ("socket.tar.gz", "this is a socket; model data must be a folder"),
        ("/dev/null", "this is a device; model data must be a folder"),
        ("model.zip", "model data must be a folder, a file that ends in .tar.gz"),
        ("link.tar.gz", "link.tar.gz: No such file or directory"),
    ],
)
async def test_what_is_no_model_data(data, tmp_path, monkeypatch, source, said):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.tar.gz")
    (tmp_path / "model.zip").touch()
    (tmp_path / "link.tar.gz").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.tar.gz")
        error = await refused(data, source)
    assert said in str(error)
    assert not error.passing


@contextmanager
def closed_to_all(kind: str) -> Iterator[Path]:
    """A file or a folder that nobody may read, in a folder that anybody may use."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "model.tar.gz")
        path.parent.chmod(0o777)
        if kind == "file":
            path.write_bytes(packed(MODEL))
        else:
            path.mkdir()
        path.chmod(0)
        yield path
        path.chmod(0o700)


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user that may not read everything, which root may."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_what_may_not_be_read(kind):
    with closed_to_all(kind) as path, as_nobody():
        data = ModelData(path.parent / "models")
        error = await refused(data, path)
        await data.aclose()
    assert str(error) == (
        f"{path}: Permission denied; it must exist, and the gateway's user must be allowed "
        "to read it"
    )
    assert not error.passing


@pytest.mark.parametrize(
    ("key", "passing", "said"),
    [
        ("nothing.tar.gz", False, "s3://bucket/nothing.tar.gz: the bucket has no such key"),
        ("nothing/", False, "s3://bucket/nothing/: no key in the bucket begins with this prefix"),
        ("both/", False, "'a' is both a file and a folder of files"),
        ("up/", False, "no part of a key may be empty, . or .. here"),
        ("deep/", False, "has more than 64 folders"),
    ],
)
async def test_what_a_bucket_does_not_have(data, server, folder, key, passing, said):
    server.buckets["bucket"] |= {"both/a": b"1", "both/a/b": b"2", "up/../../x": b"3"}
    server.buckets["bucket"]["deep/" + "d/" * 65 + "x"] = b"4"
    error = await refused(data, f"s3://bucket/{key}")
    assert said in str(error)
    assert error.passing is passing


@pytest.mark.parametrize("key", ["m/model.tar.gz", "p/"])
async def test_a_download_that_is_cut_leaves_nothing(data, server, folder, key):
    server.buckets["bucket"]["p/x"] = bytes(100_000)
    server.cut_after = 10
    error = await refused(data, f"s3://bucket/{key}")
    assert "was cut; try again" in str(error)
    assert error.passing
    assert whole(folder) == []
    assert data.used == 0


@pytest.mark.parametrize("key", ["m/model.tar.gz", "p/"])
async def test_who_gives_up_a_download_leaves_nothing(data, server, folder, key):
    server.buckets["bucket"]["p/x"] = bytes(100_000)
    server.stall_after = 10
    asking = asyncio.create_task(data.acquire(f"s3://bucket/{key}"))
    await asyncio.wait_for(server.stalled.wait(), 10)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert whole(folder) == []
    assert data.used == 0
    server.over.set()


# --- The disk -------------------------------------------------------------------------------------


async def test_more_than_the_quota(folder, archive, server):
    data = ModelData(folder, quota=8192)
    for source in (str(archive), "s3://bucket/m/model.tar.gz"):
        error = await refused(data, source)
        assert "it needs more than the 0.0 MiB that all model data may use on disk" in str(error)
        assert "raise model_data_quota" in str(error)
        assert not error.passing  # it never fits
    assert whole(folder) == []
    assert data.used == 0
    await data.aclose()


async def test_the_quota_is_for_all(folder, archive, tmp_path):
    (tmp_path / "other.tar.gz").write_bytes(packed({"other.bin": bytes(20_000)}))
    data = ModelData(folder, quota=45_000)
    held = await data.acquire(str(archive))
    error = await refused(data, tmp_path / "other.tar.gz")
    assert "of which other data uses" in str(error)
    assert error.passing  # once the other one has gone
    held.release()
    await eventually(lambda: data.used == 0)
    assert tree((await data.acquire(str(tmp_path / "other.tar.gz"))).path)
    await data.aclose()


@pytest.mark.parametrize("number", [28, 122, 27], ids=["ENOSPC", "EDQUOT", "EFBIG"])
async def test_a_disk_that_is_full(data, archive, folder, monkeypatch, number):
    """What the system says is tried in ``test_extraction.py``; here, what becomes of it."""

    def full(*_: object) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(model_data, "unpack", full)
    error = await refused(data, archive)
    assert f"{archive}: the disk of {folder} is full ({os.strerror(number)}); make room" in str(
        error
    )
    assert error.passing


async def test_what_cannot_be_removed_is_said_and_goes_on_counting(
    data, archive, caplog, monkeypatch
):
    held = await data.acquire(str(archive))

    def refuses(_: Path) -> None:
        raise PermissionError(13, "Permission denied", str(held.path))

    monkeypatch.setattr("partway.gateway.storage.model_data.folder.remove_tree", refuses)
    with caplog.at_level(logging.WARNING):
        held.release()
        await eventually(lambda: caplog.records)
    assert "model data not removed" in caplog.text
    assert data.used > 0


async def test_each_change_has_its_line(data, archive, caplog):
    with caplog.at_level(logging.INFO, "partway.model_data"):
        held = await data.acquire(str(archive))
        held.release()
        await data.aclose()
    unpacked, removed = (record.getMessage() for record in caplog.records)
    assert unpacked.startswith(f"model data unpacked source={archive} path={held.path} bytes=")
    assert removed == f"model data removed path={held.path}"
