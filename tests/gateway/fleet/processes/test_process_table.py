"""partway.gateway.fleet.processes.process_table: with real processes, where Linux tells."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator

import psutil
import pytest

from partway.gateway.fleet.launchers.process import HOST
from partway.gateway.fleet.processes import process_table
from partway.gateway.fleet.processes.process_table import (
    MARK,
    Strays,
    family,
    kill_marked,
    listening_elsewhere,
    marked,
    of_group,
    other_listener,
)
from tests.gateway.fleet.waiting import eventually, soon

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells")

#: Starts a child in a session of its own, which says its number, and waits. The child stops instead
#: of sleeping: while it became another program, its environment could not be read. When a suite is
#: killed, it is left.
TWO = "setsid sh -c 'echo $$; kill -STOP $$' & wait"

#: Listens, and says so.
LISTENS = """
import signal, socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6
                              if ":" in sys.argv[1] else socket.AF_INET)
print("listens", flush=True)
signal.pause()
"""

#: Marks that no other test has, also in another process.
ONE, ONE_MORE, ANOTHER = (f"{os.getpid()}.{number}." for number in (1, 10, 2))

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes with a mark, each in a session of its own; none of them is left."""
    with contextlib.ExitStack() as started:

        def start(*command: str, mark: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, start_new_session=True,
                env={**os.environ, MARK: mark},
            )  # fmt: skip
            started.enter_context(process)
            started.callback(kill_marked, {mark})
            return process

        yield start


@pytest.fixture
def free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def shell(start: Start, script: str, mark: str) -> tuple[int, int]:
    """The numbers of a shell, and of what it says first."""
    process = start("/bin/sh", "-c", script, mark=mark)
    assert process.stdout is not None
    return process.pid, int(process.stdout.readline())


def listens(start: Start, host: str, port: int, mark: str) -> int:
    process = start(sys.executable, "-c", LISTENS, host, str(port), mark=mark)
    assert process.stdout is not None
    assert process.stdout.readline() == "listens\n"
    return process.pid


def test_a_group_is_not_all_of_a_family(start):
    leader, stranger = shell(start, TWO, ONE)
    assert of_group(leader) == [leader]
    assert of_group(stranger) == [stranger]
    assert sorted(family(leader)) == sorted([leader, stranger])


def test_whose_parent_has_ended_is_of_the_family_by_the_group(start):
    leader, orphan = shell(start, "sh -c 'sleep 1000 & echo $!'; :; sleep 1000", ONE)
    assert orphan in family(leader)
    assert psutil.Process(orphan).ppid() != leader


def test_a_mark_is_found_wherever_it_has_gone(start):
    leader, stranger = shell(start, TWO, ONE)
    other, _ = shell(start, TWO, ONE_MORE)
    assert sorted(marked({ONE})) == sorted([leader, stranger])
    assert marked({ONE[:-1]}) == []
    assert set(marked({ONE, ONE_MORE})) > {leader, stranger, other}


def test_what_has_a_mark_is_killed_and_nobody_else(start):
    _, stranger = shell(start, TWO, ONE)
    other, _ = shell(start, TWO, ANOTHER)
    kill_marked({ONE})
    assert marked({ONE}) == []
    assert marked({ANOTHER})
    assert psutil.Process(other).is_running()
    assert not psutil.pid_exists(stranger) or psutil.Process(stranger).status() == "zombie"


def test_what_starts_others_meanwhile_is_killed_with_them(start):
    shell(start, "while :; do setsid sh -c 'echo 1; sleep 0.02'; done", ONE)
    kill_marked({ONE})
    assert marked({ONE}) == []


def test_what_cannot_be_killed_is_left(start, monkeypatch):
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    leader, _ = shell(start, TWO, ONE)
    with monkeypatch.context() as patch:
        patch.setattr("partway.gateway.fleet.processes.process_table.os.kill", refuse)
        kill_marked({ONE})
    assert leader in marked({ONE})


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_listener_is_its_own_or_anothers(start, free, host):
    own, _ = shell(start, TWO, ONE)
    assert other_listener(HOST, free, own, ONE) == "", "nobody listens"
    listener = listens(start, host, free, ANOTHER)
    assert other_listener(HOST, free, own, ONE).startswith(f"process {listener} (python")
    assert other_listener(HOST, free, listener, ANOTHER) == ""
    assert other_listener(HOST, free, own, ANOTHER) == "", "by its mark"


def test_who_listens_elsewhere_is_in_nobodys_way(start, free):
    own, _ = shell(start, TWO, ONE)
    listens(start, "127.0.0.2", free, ANOTHER)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert server.getsockname()[1] != free
        assert other_listener(HOST, free, own, ONE) == ""


def test_whose_sockets_are_not_to_be_seen_may_be_the_one(start, free, monkeypatch):
    own, _ = shell(start, TWO, ONE)
    listens(start, "127.0.0.1", free, ANOTHER)
    sockets_of = process_table._sockets_of
    monkeypatch.setattr(
        process_table, "_sockets_of", lambda pid: None if pid == own else sockets_of(pid)
    )
    assert other_listener(HOST, free, own, ONE) == ""


def test_a_listener_that_cannot_be_found_is_anothers(start, free, monkeypatch):
    own, stranger = shell(start, TWO, ONE)
    listens(start, "127.0.0.1", free, ANOTHER)
    monkeypatch.setattr(
        process_table, "_sockets_of", lambda pid: set() if pid in (own, stranger) else None
    )
    assert other_listener(HOST, free, own, ONE) == "a process that this user may not look at"


def test_a_program_that_listens_elsewhere_is_told_of_with_its_ports(start, free):
    own, _ = shell(start, TWO, ONE)
    nothing = f"nothing listens on {free}; this process listens on"
    assert listening_elsewhere(HOST, free, own) == f"{nothing} no port"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        elsewhere = other.getsockname()[1]
    listener = listens(start, "127.0.0.1", elsewhere, ANOTHER)
    assert listening_elsewhere(HOST, free, listener) == f"{nothing} {elsewhere}"
    assert listening_elsewhere(HOST, free, own) == f"{nothing} no port", "that one is another's"
    assert listening_elsewhere(HOST, elsewhere, own) == "", "somebody listens there"


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.2", "127.0.0.2:{}"), ("::1", "[::1]:{}")])
def test_a_program_at_another_address_is_told_of_with_it(start, free, host, shown):
    listener = listens(start, host, free, ONE)
    assert listening_elsewhere(HOST, free, listener) == (
        f"nothing listens on {free}; this process listens on {shown.format(free)}"
    )


def test_what_a_worker_of_its_group_listens_on_is_its_own(start, free):
    script = f"{sys.executable} -c '{LISTENS}' 127.0.0.1 {free} & exec sleep 1000"
    leader = start("/bin/sh", "-c", script, mark=ONE)
    assert leader.stdout.readline() == "listens\n"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        found = listening_elsewhere(HOST, port, leader.pid)
    assert found == f"nothing listens on {port}; this process listens on {free}"


def test_where_the_system_does_not_tell_a_connection_is_tried(start, free, monkeypatch, tmp_path):
    monkeypatch.setattr(process_table, "_PROC", tmp_path / "none")
    assert listening_elsewhere(HOST, free, os.getpid()) == f"nothing listens on {free}"
    with socket.create_server(("127.0.0.1", free)):
        assert listening_elsewhere(HOST, free, os.getpid()) == ""


def test_where_the_system_does_not_tell_nobody_is_found(start, free, monkeypatch, tmp_path):
    monkeypatch.setattr(process_table, "_PROC", tmp_path / "none")
    with socket.create_server(("127.0.0.1", free)):
        assert other_listener(HOST, free, os.getpid(), ONE) == ""
    assert of_group(os.getpgrp()) == marked({ONE}) == []
    assert family(os.getpid()) == [os.getpid()]
    kill_marked({ONE})


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The marks of each look."""
    looks: list[set[str]] = []
    monkeypatch.setattr(
        "partway.gateway.fleet.processes.process_table.kill_marked",
        lambda marks: looks.append(set(marks)),
    )
    return looks


async def test_those_that_come_meanwhile_share_the_next_look(anyio_backend, no_leaks, monkeypatch):
    looks: list[set[str]] = []
    goes_on = threading.Event()

    def look(marks: Collection[str]) -> None:
        looks.append(set(marks))
        assert goes_on.wait(30)

    monkeypatch.setattr("partway.gateway.fleet.processes.process_table.kill_marked", look)
    strays = Strays()
    first = asyncio.create_task(strays.kill("a"))
    await eventually(lambda: looks)
    others = [asyncio.create_task(strays.kill(mark)) for mark in "bcd"]
    await asyncio.sleep(0)
    goes_on.set()
    await soon(asyncio.gather(first, *others))
    assert looks == [{"a"}, {"b", "c", "d"}]


async def test_it_goes_on_for_whoever_waits_no_longer(anyio_backend, no_leaks, monkeypatch):
    """A waiter has a second; a look that is under way may take longer than that."""
    looks: list[set[str]] = []
    goes_on = threading.Event()

    def look(marks: Collection[str]) -> None:
        looks.append(set(marks))
        assert goes_on.wait(30)

    monkeypatch.setattr("partway.gateway.fleet.processes.process_table.kill_marked", look)
    strays = Strays()
    waiting = [asyncio.create_task(strays.kill(mark)) for mark in "ab"]
    await eventually(lambda: looks)
    late = asyncio.create_task(strays.kill("c"))
    await asyncio.sleep(0)
    for task in (*waiting, late):
        task.cancel()
    await asyncio.wait((*waiting, late))
    goes_on.set()
    await eventually(lambda: strays._looking is None)
    assert looks == [{"a", "b"}, {"c"}]


async def test_nobody_waits_for_the_looks_of_others(anyio_backend, no_leaks, monkeypatch):
    looks: list[set[str]] = []
    turns = threading.Semaphore(0)

    def look(marks: Collection[str]) -> None:
        looks.append(set(marks))
        assert turns.acquire(timeout=30)

    monkeypatch.setattr("partway.gateway.fleet.processes.process_table.kill_marked", look)
    strays = Strays()
    first = asyncio.create_task(strays.kill("a"))
    await eventually(lambda: looks)
    second = asyncio.create_task(strays.kill("b"))
    await asyncio.sleep(0)
    turns.release()
    await soon(first)
    assert not second.done()
    turns.release()
    await soon(second)


async def test_whoever_waits_no_longer_is_looked_for_all_the_same(anyio_backend, no_leaks, looks):
    strays = Strays()
    waiting = asyncio.create_task(strays.kill("a"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    await soon(strays.kill("b"))
    assert set().union(*looks) == {"a", "b"}
