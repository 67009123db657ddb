"""partway.gateway.workers.supervisor: gateway processes that end, and what the next one finds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from partway.gateway.workers.supervisor import GatewaySupervisor, _Parent
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

#: A supervisor; the gateway process begins with its number, counted in a kept entry.
PROGRAM = """
import os, signal, sys, time
from partway.gateway.workers import supervisor
from partway.gateway.workers.supervisor_packets import NEWS, received_packet
supervisor.RESTART_SHORTEST = 0.01

def say(*words):
    os.write(1, " ".join(map(str, words)).encode() + b"\\n")

def news(means):
    means._news.setblocking(True)
    data, _ = received_packet(means._news)
    return NEWS.decode(data) if data else None

def parent(means):
    kept = means.take("number")
    number = 1 + int(kept["number"].record) if kept else 1
    means.keep("number", str(number).encode())
{body}

sys.exit(supervisor.GatewaySupervisor(parent, lambda order, _: 0).run())
"""


@contextmanager
def supervisor(body: str, before: str = "") -> Iterator[subprocess.Popen[str]]:
    program = before + PROGRAM.format(body=textwrap.indent(textwrap.dedent(body), "    "))
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with process:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that nothing tells of."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not come about"
        time.sleep(0.01)


def test_a_process_that_ends_unasked_has_a_successor():
    """It finds what its predecessors have kept, and obeys the same signals."""
    body = """
        means.is_up()
        say(number, means.is_first, os.getpid())
        while number == 3:
            say(news(means))
            return 7
        if number == 1:
            return 0
        time.sleep(1000)
    """
    with supervisor(body) as process:
        assert said(process).startswith("1 True")
        number, is_first, pid = said(process).split()
        assert (number, is_first) == ("2", "False")
        os.kill(int(pid), signal.SIGKILL)
        assert said(process).startswith("3 False")
        process.send_signal(signal.SIGTERM)
        assert said(process) == "Signalled(number=15)"
        assert process.wait(PATIENCE) == 7


@pytest.mark.parametrize(
    ("end", "status"), [("return 3", 3), ("return 0", 1), ("os.kill(os.getpid(), 9)", 137)]
)
def test_a_first_process_that_fails_is_the_end_of_the_whole(end, status):
    with supervisor(end) as process:
        assert process.wait(PATIENCE) == status


def test_an_end_that_no_process_has_been_told_comes_to_the_next():
    body = """
        means.is_up()
        if number == 1:
            say(os.getpid())
            os.kill(os.getppid(), signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGKILL)
        say(number, news(means))
        return 0
    """
    with supervisor(body) as process:
        first = psutil.Process(int(said(process)))
        until(lambda: first.status() == psutil.STATUS_ZOMBIE)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        assert said(process) == "2 Signalled(number=2)"
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(("kills", "status"), [(1, 0), (2, 137)])
def test_a_process_that_is_killed_in_its_end_has_one_successor(kills, status):
    """It has taken the signal, and the next one finishes the drain."""
    body = """
        means.is_up()
        if number == 1:
            say("up")
        say(number, news(means).number)
        if number <= KILLS:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0
    """
    with supervisor(body.replace("KILLS", str(kills))) as process:
        assert said(process) == "up"
        process.terminate()
        assert said(process) == "1 15"
        assert said(process) == "2 15"
        assert process.wait(PATIENCE) == status


def test_an_end_that_waits_is_not_tried_without_pause():
    """While no process can be forked."""
    before = """
import errno, os, time
fork, failed = os.fork, []
def scarce():
    if os.path.exists("SCARCE") and len(failed) < 5:
        failed.append(time.monotonic())
        raise OSError(errno.EAGAIN, "")
    if failed:
        os.write(1, b"pauses %d\\n" % sum(b - a > 0.005 for a, b in zip(failed, failed[1:])))
    return fork()
os.fork = scarce
"""
    body = """
        means.is_up()
        if number == 1:
            say(os.getpid())
            os.kill(os.getppid(), signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGKILL)
        say(news(means).number)
        return 0
    """
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder, "scarce")
        with supervisor(body, before.replace("SCARCE", str(mark))) as process:
            first = psutil.Process(int(said(process)))
            until(lambda: first.status() == psutil.STATUS_ZOMBIE)
            mark.touch()
            process.terminate()
            process.send_signal(signal.SIGCONT)
            assert said(process) == "pauses 4"
            assert said(process) == "15"
            assert process.wait(PATIENCE) == 0


def test_a_process_that_takes_no_news_has_few_of_them():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        made = GatewaySupervisor(lambda _: 1, lambda *_: 1)
        made._parent = _Parent(0, None, ours)
        for _ in range(100):
            for each in (signal.SIGHUP, signal.SIGTERM):
                made._signalled(each)
        numbers = [each.number for each in made._parent.unsent]
        made._close()
    assert numbers == [signal.SIGHUP, signal.SIGTERM] * 2


def test_ctrl_c_reaches_the_gateway_process_once():
    """A terminal sends it to all processes of the group; the supervisor alone takes it."""
    body = """
        means.is_up()
        say("up")
        say(news(means))
        say(news(means))
        return 0
    """
    with supervisor(body) as process:
        assert said(process) == "up"
        os.killpg(process.pid, signal.SIGINT)
        assert said(process) == "Signalled(number=2)"
        process.send_signal(signal.SIGTERM)
        assert said(process) == "Signalled(number=15)"
        assert process.wait(PATIENCE) == 0


def test_the_status_of_an_orphan_is_told():
    """The child of a dead gateway process is the supervisor's."""
    body = """
        means.is_up()
        if number == 1:
            out, go_on = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(go_on)
                os.read(out, 1)
                os._exit(5)
            means.keep("program/a", b"", [go_on], child)
            os.kill(os.getpid(), signal.SIGKILL)
        (entry,) = means.take("program/").values()
        say(entry.status)
        os.write(entry.descriptors[0], b"x")
        say(news(means))
        return 0
    """
    with supervisor(body) as process:
        assert said(process) == "None"
        assert said(process) == "EntryEnded(name='program/a', status=5)"


def test_a_signal_does_not_reach_a_program_as_ignored():
    """A program that the gateway process starts ends at SIGTERM, as any other."""
    body = """
        means.is_up()
        import subprocess
        child = subprocess.Popen(["sleep", "1000"])
        child.terminate()
        say(child.wait())
        news(means)
        return 0
    """
    with supervisor(body) as process:
        assert said(process) == "-15"
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_the_end_of_the_supervisor_is_told():
    body = """
        means.is_up()
        say("up")
        say(news(means))
        return 0
    """
    with supervisor(body) as process:
        assert said(process) == "up"
        process.kill()
        assert said(process) == "None"


# --- Upgrades ------------------------------------------------------------------------------------


def test_it_goes_on_with_new_code_as_the_same_process():
    """The next gateway process finds entries, descriptors, and the ends of programs."""
    body = """
        means.is_up()
        if means.generation == 0:
            out, go_on = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(go_on)
                os.read(out, 1)
                os._exit(5)
            means.keep("program/a", b"", [go_on], child)
            means.hands_over()
            return 0
        say(number, means.generation, means.is_first, os.getppid())
        (entry,) = means.take("program/").values()
        os.write(entry.descriptors[0], b"x")
        say(news(means))
        say(news(means))
        return 3
    """
    with supervisor(body) as process:
        assert said(process) == f"2 1 False {process.pid}"
        assert said(process) == "EntryEnded(name='program/a', status=5)"
        process.terminate()
        assert said(process) == "Signalled(number=15)"
        assert process.wait(PATIENCE) == 3


@pytest.mark.parametrize("is_read", [False, True])
def test_an_end_during_the_handover_comes_to_the_next(is_read):
    """Whether or not the process that hands over has read of it."""
    body = """
        means.is_up()
        if number == 1:
            say("up")
            if news(means) and IS_READ:
                os.kill(os.getppid(), signal.SIGTERM)
                news(means)
            means.hands_over()
            if not IS_READ:
                os.kill(os.getppid(), signal.SIGSTOP)
                say("stopped")
            return 0
        say(number, means.generation, news(means))
        return 0
    """
    with supervisor(body.replace("IS_READ", str(is_read))) as process:
        assert said(process) == "up"
        process.send_signal(signal.SIGHUP)
        if not is_read:
            first = psutil.Process(process.pid).children()[0]
            assert said(process) == "stopped"
            until(lambda: first.status() == psutil.STATUS_ZOMBIE)
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
        assert said(process) == "2 0 Signalled(number=15)"
        assert process.wait(PATIENCE) == 0


def test_without_new_code_it_goes_on_with_the_old():
    body = """
        means.is_up()
        if number == 1:
            means.hands_over()
            return 0
        say(number, means.generation, means.upgrade_failure)
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        news(means)
        return 0
    """
    missing = "import sys\nsys.executable = '/none'\n"
    with supervisor(body, missing) as process:
        assert said(process).startswith("2 0 the new code cannot be executed: ")
        assert said(process) == "3 0", "it was told once"
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert "the new code cannot be executed" in process.stderr.read()
