"""partway.gateway.fleet.processes.leash: what is held does not outlive who holds it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.fleet.processes.process_table import MARK
from tests.conftest import ROOT

#: Holds the group that is its argument, says so, and waits.
HOLDER = """
import signal, sys
from partway.gateway.fleet.processes.leash import Leash
leash = Leash()
for group in sys.argv[1:]:
    leash.hold(int(group))
print("held", flush=True)
while True:
    signal.pause()
"""


#: Forks gateways, as many as its first argument says. Each launches and kills containers without a
#: pause, whose shells start others, in their group and out of it; it says its number first.
GATEWAYS = """
import asyncio, os, sys
from partway.gateway.fleet.endpoint import Program, Variant
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.launchers.programs import ProgramLauncher

CONTAINER = "sleep 999 & (trap '' TERM; setsid sleep 999) & setsid sh -c 'sleep 999 & wait' & wait"

async def serve():
    launcher = ProgramLauncher()
    variant = Variant(
        source=Program(("/bin/sh", "-c", CONTAINER)), environment=(("OF_GATEWAY", sys.argv[2]),)
    )
    for number in range(10_000):
        order = Order(f"echo-{number}", "echo", variant, number)
        container = await launcher.launch(order)
        if not number:
            os.write(1, b"%d\\n" % os.getpid())
        if number > 2:
            container.kill()

for _ in range(int(sys.argv[1])):
    if not os.fork():
        asyncio.run(serve())
for _ in range(int(sys.argv[1])):
    os.wait()
"""


def of_gateways(name: str) -> list[int]:
    """The processes of all containers of gateways; zombies have no environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("OF_GATEWAY") == name:
                found.append(process.pid)
    return found


@pytest.fixture
def group() -> Iterator[subprocess.Popen[bytes]]:
    """The leader of a process group that would stay for long."""
    with subprocess.Popen(["/bin/sh", "-c", "sleep 1000; :"], start_new_session=True) as leader:
        yield leader
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)


def test_a_killed_holder_takes_it_along(group):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(group.pid)], stdout=subprocess.PIPE, cwd=ROOT
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        assert group.poll() is None
        holder.kill()
    assert group.wait(10) == -signal.SIGKILL


def test_closed_it_takes_it_along(group):
    leash = Leash()
    leash.hold(group.pid)
    leash.close()
    assert group.wait(10) == -signal.SIGKILL


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells")
def test_closed_it_takes_along_what_has_left_a_group_that_is_gone():
    leash = Leash()
    environment = {**os.environ, MARK: leash.new_mark()}
    with subprocess.Popen(["sleep", "1000"], env=environment, start_new_session=True) as stranger:
        try:
            leash.hold(2**31 - 1)
            leash.let_go(2**31 - 1)
            leash.close()
            assert stranger.wait(10) == -signal.SIGKILL
        finally:
            stranger.kill()


def test_what_was_let_go_stays(group):
    leash = Leash()
    leash.hold(group.pid)
    leash.let_go(group.pid)
    leash.close()
    assert group.poll() is None


def test_all_that_are_held_count(group):
    leash = Leash()
    leash.hold(group.pid)
    for other in range(2**31 - 201, 2**31 - 1):  # nobody's
        leash.hold(other)
        leash.let_go(other)
    leash.hold(2**31 - 1)
    leash.close()
    assert group.wait(10) == -signal.SIGKILL


def test_one_that_is_stopped_stops_nobody():
    leash = Leash()
    os.kill(leash._shell.pid, signal.SIGSTOP)
    for _ in range(20_000):  # more than a pipe takes
        leash.hold(2**31 - 1)
        leash.let_go(2**31 - 1)
    leash.close()
    assert leash._shell.returncode == -signal.SIGKILL


def test_one_that_is_killed_is_no_error(group):
    leash = Leash()
    leash._shell.kill()
    leash._shell.wait(10)
    leash.hold(group.pid)
    leash.let_go(group.pid)
    leash.close()
    assert group.poll() is None


def test_the_terminals_interrupt_does_not_reach_it(group):
    """Ctrl-C goes to the holder's whole process group; the holder may take long over it."""
    holder = subprocess.Popen(
        [sys.executable, "-c", f"import signal\nsignal.signal(2, lambda *_: None){HOLDER}",
         str(group.pid)],
        stdout=subprocess.PIPE, cwd=ROOT, process_group=0,
    )  # fmt: skip
    with holder:
        assert holder.stdout.readline() == b"held\n"
        subprocess.run(["/bin/sh", "-c", f"kill -INT -{holder.pid}"], check=True)
        assert group.poll() is None
        holder.kill()
    assert group.wait(10) == -signal.SIGKILL


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells")
def test_gateways_killed_at_any_moment_leave_no_container():
    name = f"{os.getpid()}-{time.monotonic()}"
    gateways = subprocess.Popen(
        [sys.executable, "-c", GATEWAYS, "20", name], stdout=subprocess.PIPE, cwd=ROOT
    )
    with gateways:
        assert gateways.stdout is not None
        began = False
        for _ in range(20):
            pid = int(gateways.stdout.readline())
            began = began or bool(of_gateways(name))
            time.sleep(random.uniform(0, 0.05))  # the moment
            os.kill(pid, signal.SIGKILL)
        assert began
    deadline = time.monotonic() + 30
    while left := of_gateways(name):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
