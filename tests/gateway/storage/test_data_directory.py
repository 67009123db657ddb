"""storage.data_directory: one owner, private, found again; sockets of any length."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from partway.gateway.storage.data_directory import (
    MAX_SOCKET_NAME,
    Announcement,
    DataDirectory,
    DataDirectoryError,
    DataDirectoryUnavailable,
    admin_socket,
    announced,
    default_data_directory,
    gateways_folder,
    socket_name,
)
from tests.disks import small_disk

# --- Where it is ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/home/u"}, "/home/u/.local/share/partway/gateways/8090"),
        (
            {"HOME": "/home/u", "XDG_DATA_HOME": "data"},
            "/home/u/.local/share/partway/gateways/8090",
        ),
        ({"XDG_DATA_HOME": "/data"}, "/data/partway/gateways/8090"),
    ],
)
def test_each_port_has_one(environment, expected):
    assert default_data_directory(environment, 8090) == Path(expected)
    assert gateways_folder(environment) == Path(expected).parent


def test_a_user_without_a_home():
    with pytest.raises(DataDirectoryError, match="set HOME or XDG_DATA_HOME, or name a folder"):
        default_data_directory({}, 8090)


# --- What is in it -------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_it_holds_is_its_users_alone(tmp_path):
    path = tmp_path / "partway" / "gateways" / "8090"
    with DataDirectory.opened(path) as directory:
        directory.announce(["http://127.0.0.1:8090"], 5.0)
        assert (directory.path, directory.logs, directory.models) == (
            path,
            path / "logs",
            path / "models",
        )
        assert directory.socket == admin_socket(path) == path / "admin.sock"
        assert {each.name: mode(each) for each in path.iterdir()} == {
            "lock": 0o600,
            "id": 0o600,
            "gateway.json": 0o600,
            "logs": 0o700,
            "models": 0o700,
            "requests": 0o700,
            "transforms": 0o700,
        }
        assert mode(path) == 0o700


def test_a_relative_path_is_the_same_wherever_the_process_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with DataDirectory.opened(Path("data")) as directory:
        assert directory.path == tmp_path / "data"


def test_its_id_stays_with_it(tmp_path):
    ids = []
    for name in ("a", "a", "b"):
        with DataDirectory.opened(tmp_path / name) as directory:
            ids.append(directory.id)
    assert re.fullmatch("[0-9a-f]{32}", ids[0])
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("garbled", [b"", b"no id", b"\xff", b"0" * 32 + b"\n1", b"0" * 100_000])
def test_a_garbled_id_is_refused(tmp_path, garbled):
    (tmp_path / "id").write_bytes(garbled)
    tmp_path.chmod(0o700)
    for _ in range(2):  # and the lock is not held by the first refusal
        with pytest.raises(DataDirectoryError, match=r"/id: this must be 32 hexadecimal digits"):
            DataDirectory.opened(tmp_path)


def test_a_temporary_one_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with DataDirectory.temporary() as directory, DataDirectory.temporary() as another:
        assert directory.path.parent == another.path.parent == tmp_path
        assert directory.id != another.id
        (directory.logs / "some.log").write_text("something")
        assert mode(directory.path) == 0o700
    assert list(tmp_path.iterdir()) == []


# --- Where the gateway listens -------------------------------------------------------------------


def test_where_the_gateway_listens_is_there_while_it_runs(tmp_path):
    urls = ["http://127.0.0.1:8090", "https://127.0.0.1:8443"]
    with DataDirectory.opened(tmp_path / "data") as directory:
        assert announced(directory.path) is None
        directory.announce(urls[:1], 5.0)
        directory.announce(urls, 6.5)
        assert announced(directory.path) == Announcement(os.getpid(), tuple(urls), 6.5)
    assert announced(directory.path) is None


@pytest.mark.parametrize(
    "garbled",
    ["", "[]", "{}", "null", '{"pid": "x", "urls": [], "since": 1}', '{"pid": 1, "urls": 2}', "\0"],
)
def test_what_cannot_be_read_says_nothing(tmp_path, garbled):
    (tmp_path / "gateway.json").write_text(garbled)
    assert announced(tmp_path) is None


def test_where_nothing_can_be_written(tmp_path):
    with DataDirectory.opened(tmp_path / "data") as directory:
        (directory.path / "gateway.json").mkdir()
        with pytest.raises(DataDirectoryError, match="cannot write its addresses here"):
            directory.announce([], 5.0)


# --- Its one owner -------------------------------------------------------------------------------

_OWNER = """
import sys
from pathlib import Path
from partway.gateway.storage.data_directory import DataDirectory
directory = DataDirectory.opened(Path(sys.argv[1]))
print("owned", flush=True)
sys.stdin.read()
"""


def test_a_second_gateway_is_told_who_has_it_and_a_killed_one_has_it_no_more(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"owned\n"
        with pytest.raises(DataDirectoryError) as refused:
            DataDirectory.opened(tmp_path / "data")
        owner.kill()
    assert str(refused.value) == (
        f"{tmp_path}/data: a running gateway, process {owner.pid}, uses this data "
        "directory; stop it, or name another directory with --data-dir DIR"
    )
    with DataDirectory.opened(tmp_path / "data"):
        assert (tmp_path / "data" / "lock").read_text() == f"{os.getpid()}\n"


def test_an_owner_that_has_not_said_who_it_is(tmp_path):
    with DataDirectory.opened(tmp_path) as directory:
        (directory.path / "lock").write_text("")
        with pytest.raises(DataDirectoryError, match="a running gateway, another process, uses"):
            DataDirectory.opened(tmp_path)


@pytest.mark.parametrize("shared", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_to(tmp_path, shared):
    tmp_path.chmod(shared)
    with pytest.raises(
        DataDirectoryError,
        match=rf"other than its owner can write to this folder \(mode {shared:04o}\); chmod 700",
    ):
        DataDirectory.opened(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_others_may_read(tmp_path):
    tmp_path.chmod(0o755)
    with DataDirectory.opened(tmp_path):
        assert mode(tmp_path / "logs") == 0o700


def test_another_users_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(DataDirectoryError, match=r"another user \(number \d+\) owns this folder"):
        DataDirectory.opened(tmp_path)


@pytest.mark.parametrize("what", ["file", "below a file", "link for a lock"])
def test_what_cannot_be_a_data_directory(tmp_path, what):
    path = tmp_path / "data"
    if what == "link for a lock":
        path.mkdir(mode=0o700)
        (path / "lock").symlink_to("elsewhere")
    else:
        path.write_text("")
        path = path / "x" if what == "below a file" else path
    with pytest.raises(DataDirectoryError, match=r"the gateway cannot keep its data here: \w.*dir"):
        DataDirectory.opened(path)


# --- Its socket ----------------------------------------------------------------------------------


@pytest.mark.parametrize("temporary", ["short", "long"])
def test_a_socket_whose_path_is_too_long(tmp_path, monkeypatch, temporary):
    usual = tmp_path / ("t" if temporary == "short" else "t" * 100)
    usual.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(usual))
    folder = tmp_path / ("deep" * 20) / ("deeper" * 20)
    folder.mkdir(parents=True)
    path = folder / "admin.sock"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        with pytest.raises(OSError, match="too long"):
            listener.bind(str(path))
        with socket_name(path) as name:
            assert len(os.fsencode(name)) <= MAX_SOCKET_NAME
            listener.bind(name)
        assert path.is_socket()
        listener.listen()
        with socket_name(path) as name:
            client.connect(name)
        listener.accept()[0].close()
    assert list(usual.iterdir()) == []


def test_the_longest_path_that_the_system_takes(tmp_path):
    """And one more byte, which it does not take."""
    with socket.socket(socket.AF_UNIX) as listener:
        path = tmp_path / ("x" * (MAX_SOCKET_NAME - len(os.fsencode(tmp_path)) - 1))
        with socket_name(path) as name:
            assert name == str(path)
            listener.bind(name)
    with socket.socket(socket.AF_UNIX) as listener, pytest.raises(OSError, match="too long"):
        listener.bind(f"{path}x")
    with socket_name(Path(f"{path}x")) as name:
        assert name != f"{path}x"


def test_what_the_file_says(tmp_path):
    with DataDirectory.opened(tmp_path) as directory:
        directory.announce(["http://127.0.0.1:8090"], 5.0)
        assert json.loads((tmp_path / "gateway.json").read_bytes()) == {
            "pid": os.getpid(),
            "urls": ["http://127.0.0.1:8090"],
            "since": 5.0,
        }


def test_that_an_engine_was_used_is_remembered(tmp_path):
    with DataDirectory.opened(tmp_path) as data:
        assert not data.has_used_engine
        key = data.engine_key()
    with DataDirectory.opened(tmp_path) as data:
        assert data.has_used_engine
        assert data.engine_key() == key
    assert len(key) == 32
    assert (tmp_path / "engine").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "ab\n", "no key\n", "\u00e9"])
def test_a_key_of_an_engines_labels_that_is_none_is_made_anew(tmp_path, text):
    (tmp_path / "engine").write_text(text)
    with DataDirectory.opened(tmp_path) as data:
        assert data.has_used_engine
        assert data.engine_key() == data.engine_key()
        assert len(data.engine_key()) == 32


def test_that_it_cannot_be_remembered_is_a_warning(tmp_path, caplog):
    (tmp_path / "engine").mkdir()
    with DataDirectory.opened(tmp_path) as data:
        assert len(data.engine_key()) == 32
    assert "the use of a container engine cannot be recorded" in caplog.text


# --- A disk that takes nothing -------------------------------------------------------------------


def test_a_full_disk_takes_the_rest_later(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        disk.fill()
        with DataDirectory.opened(disk.path / "data") as directory:
            assert directory.refusal is not None
            assert directory.refusal.is_full
            assert "No space left on device" in str(directory.refusal)
            id_until_then = directory.id
            with pytest.raises(DataDirectoryUnavailable, match="cannot write its addresses here"):
                directory.announce([], 5.0)
            with pytest.raises(DataDirectoryUnavailable):
                directory.complete()
            disk.make_room()
            directory.complete()
            assert directory.refusal is None
            assert directory.id == id_until_then
            assert directory.logs.is_dir()
            directory.announce([], 5.0)
        with DataDirectory.opened(disk.path / "data") as directory:
            assert directory.id == id_until_then


def test_a_full_disk_has_one_owner_who_says_who_it_is(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        DataDirectory.opened(disk.path / "data").close()
        disk.fill()
        with DataDirectory.opened(disk.path / "data") as directory:
            assert directory.refusal is None
            with pytest.raises(DataDirectoryError, match=f"process {os.getpid()}, uses"):
                DataDirectory.opened(disk.path / "data")


def test_a_disk_that_is_read_only_has_one_owner_too(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        with DataDirectory.opened(disk.path / "data") as directory:
            its_id = directory.id
        disk.remount("ro")
        with DataDirectory.opened(disk.path / "data") as directory:
            assert directory.is_owned
            assert directory.id == its_id
            assert "Read-only file system" in str(directory.refusal)
            with pytest.raises(DataDirectoryError, match="uses this data directory"):
                DataDirectory.opened(disk.path / "data")
            disk.remount("rw")
            directory.complete()
            assert (directory.path / "lock").read_text() == f"{os.getpid()}\n"


def test_what_another_gateway_has_taken_meanwhile_is_not_owned(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        disk.remount("ro")
        with DataDirectory.opened(disk.path / "data") as late:
            assert not late.is_owned
            disk.remount("rw")
            with DataDirectory.opened(disk.path / "data"):
                with pytest.raises(DataDirectoryError, match="uses this data directory"):
                    late.complete()
                assert not late.is_owned
        assert (disk.path / "data" / "id").exists()


def test_a_full_disk_has_no_temporary_one(tmp_path, monkeypatch):
    with small_disk(tmp_path / "disk") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk.path))
        disk.fill()
        with pytest.raises(DataDirectoryError, match="No space left on device"):
            DataDirectory.temporary()
        assert [each.name for each in disk.path.iterdir()] == ["ballast"]
