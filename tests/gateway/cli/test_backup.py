"""partway backup and partway restore, of gateways that run and of those that have stopped."""

from __future__ import annotations

import json
import shutil
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from partway.gateway.cli.main import main
from partway.gateway.storage.store import backups
from tests.disks import small_disk
from tests.gateway.cli.asked_gateway import commanded_here, environment
from tests.processes import ready_url

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

#: Starts sooner than a gateway of all APIs.
SERVE = (sys.executable, "-m", "partway", "serve", "--apis", "control", "--port", "0")


class Gateway:
    """A gateway of a folder, which is started and ended."""

    def __init__(self, home: Path, data: Path) -> None:
        self.home = home
        self.data = data
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*SERVE, "--data-dir", self.data],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(self.home),
        )
        self.url = ready_url(self.process)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.communicate(timeout=PATIENCE)

    def asked(self, operation: str, **members: Any) -> Any:
        headers = {
            "X-Amz-Target": f"SageMaker.{operation}",
            "Content-Type": "application/x-amz-json-1.1",
        }
        request = urllib.request.Request(self.url, json.dumps(members).encode(), headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read())

    def create(self, name: str) -> None:
        container = {"Image": "echo", "Environment": {"SECRET": f"of {name}"}}
        role = "arn:aws:iam::000000000000:role/x"
        self.asked("CreateModel", ModelName=name, PrimaryContainer=container, ExecutionRoleArn=role)

    def models(self) -> list[str]:
        return sorted(each["ModelName"] for each in self.asked("ListModels")["Models"])

    def command(self, *words: object, where: tuple[str, ...] | None = None) -> Ended:
        given = ("--data-dir", str(self.data)) if where is None else where
        status, output, errors = commanded_here(self.home, *map(str, words), *given)
        return status, output.decode(), errors


Ended = tuple[int, str, str]


@contextmanager
def gateway_of(folder: Path) -> Iterator[Gateway]:
    made = Gateway(folder / "home", folder / "data")
    try:
        yield made
    finally:
        if made.process is not None:
            made.process.kill()
            made.process.communicate()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_of(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that runs, and in which nothing is changed."""
    with gateway_of(tmp_path_factory.mktemp("running")) as made:
        made.start()
        yield made


def test_a_backup_of_a_gateway_that_runs_is_restored_when_it_has_stopped(gateway, tmp_path):
    file = tmp_path / "backup"
    gateway.start()
    gateway.create("before")
    status, said, errors = gateway.command("backup", file)
    assert (status, errors) == (0, "")
    assert said == f"{file}: 1 records, {file.stat().st_size} bytes\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    gateway.create("later")
    assert gateway.process is not None
    status, said, errors = gateway.command("restore", file)
    assert (status, said) == (1, "")
    assert f"a running gateway, process {gateway.process.pid}, uses" in errors
    assert gateway.models() == ["before", "later"]
    gateway.stop()
    status, said, errors = gateway.command("restore", file)
    assert (status, errors) == (0, "")
    restored, kept = said.splitlines()
    assert restored == f"{gateway.data}: 1 records of {file} were restored"
    aside = Path(kept.removeprefix("the previous store is now "))
    gateway.start()
    assert gateway.models() == ["before"]
    gateway.stop()
    aside.replace(gateway.data / "store.db")
    gateway.start()
    assert gateway.models() == ["before", "later"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_backup_of_a_gateway_that_has_stopped(gateway, tmp_path, number):
    gateway.start()
    gateway.create("a")
    gateway.stop(number)
    file = tmp_path / "backup"
    status, said, errors = gateway.command("backup", file)
    assert (status, said) == (0, f"{file}: 1 records, {file.stat().st_size} bytes\n")
    assert errors == f"partway backup: no gateway runs with {gateway.data}; its files are copied\n"
    other = Gateway(gateway.home, tmp_path / "other")
    status, said, errors = other.command("restore", file)
    assert (status, said, errors) == (0, f"{other.data}: 1 records of {file} were restored\n", "")
    gateway.data = other.data
    gateway.start()
    assert gateway.models() == ["a"]


@pytest.mark.parametrize("what", ["a link", "a folder"])
def test_a_backup_takes_no_name_that_is_anothers(running, tmp_path, what):
    target, file = tmp_path / "target", tmp_path / "backup"
    target.write_text("somebody's")
    if what == "a link":
        file.symlink_to(target)
    else:
        file.mkdir()
    status, _, errors = running.command("backup", file)
    assert status == 1
    assert errors.endswith("; a backup needs another name\n")
    assert target.read_text() == "somebody's"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup", "target"]


def test_a_backup_takes_the_place_of_the_one_before_only_when_it_is_whole(gateway, tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        gateway.start()
        gateway.create("a")
        file = disk.path / "backup"
        assert gateway.command("backup", file)[0] == 0
        before = file.read_bytes()
        gateway.create("b")
        disk.fill()
        status, said, errors = gateway.command("backup", file)
        assert (status, said) == (1, "")
        assert "No space left on device" in errors
        assert file.read_bytes() == before
        disk.make_room()
        assert gateway.command("backup", file)[0] == 0
        assert "2 records" in gateway.command("backup", file)[1]
        assert [each.name for each in disk.path.iterdir()] == ["backup"]


def test_there_is_nothing_to_back_up(gateway, tmp_path):
    file = tmp_path / "backup"
    status, _, errors = gateway.command("backup", file)
    assert status == 1
    why = "this directory has no store, and no gateway runs with it"
    said = f"partway backup: {gateway.data}: {why}\n"
    assert errors == said
    status, _, errors = gateway.command("backup", file, where=())
    assert status == 1
    assert "no data directory below" in errors
    assert list(tmp_path.iterdir()) == []


def test_the_only_data_directory_of_the_user_need_not_be_named(gateway, tmp_path):
    folder = gateway.home / "partway" / "gateways"
    folder.mkdir(parents=True)
    gateway.data = folder / "8090"
    file = tmp_path / "backup"
    gateway.start()
    gateway.create("a")
    assert gateway.command("backup", file, where=())[0] == 0
    gateway.stop()
    assert gateway.command("backup", file, where=())[0] == 0
    assert gateway.command("restore", file, where=())[0] == 0
    (folder / "8091").mkdir()
    (folder / "8091" / "store.db").write_bytes(b"")
    status, _, errors = gateway.command("restore", file, where=())
    assert status == 2
    assert [line.split()[-1] for line in errors.splitlines()[1:]] == [
        str(folder / "8090"),
        str(folder / "8091"),
    ]


def test_a_backup_has_a_folder_that_is_there(running, tmp_path):
    status, _, errors = running.command("backup", tmp_path / "none" / "backup")
    assert status == 1
    assert errors == f"partway backup: {tmp_path}/none/backup: No such file or directory\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_folder_that_has_gone_is_said(tmp_path, command):
    """A relative data directory, in a working directory that somebody has removed."""
    (tmp_path / "here").mkdir()
    words = (sys.executable, "-m", "partway.gateway.cli.main", command, str(tmp_path / "backup"))
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *words, "--data-dir", "data"],
        cwd=tmp_path / "here",
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=environment(tmp_path),
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(f"partway {command}: ")


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of a killed gateway with one model, a backup of it, and a second one in its log."""
    folder = tmp_path_factory.mktemp("backed_up")
    with gateway_of(folder) as gateway:
        gateway.start()
        gateway.create("before")
        assert gateway.command("backup", folder / "backup")[0] == 0
        gateway.create("later")
        gateway.stop(signal.SIGKILL)
        assert (gateway.data / "store.db-wal").stat().st_size > 0
    return folder


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("when", ["before the files are moved", "while they are"])
def test_an_interrupted_restore_leaves_one_store_or_the_other(
    gateway, backed_up, monkeypatch, capsys, number, when
):
    file = backed_up / "backup"
    shutil.copytree(backed_up / "data", gateway.data, ignore=shutil.ignore_patterns("*.sock"))
    step = "check_backup" if when.startswith("before") else "_put_aside"
    real = getattr(backups, step)

    def interrupted(*given: Path) -> object:
        done = real(*given)
        signal.raise_signal(number)
        return done

    monkeypatch.setattr(backups, step, interrupted)
    assert main(["restore", str(file), "--data-dir", str(gateway.data)]) == 130
    assert capsys.readouterr() == ("", "")
    gateway.start()
    assert gateway.models() == (["before", "later"] if step == "check_backup" else ["before"])
