"""partway.gateway.fleet.leash: what is held does not outlive who holds it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from partway.gateway.fleet.leash import Leash
from tests.conftest import ROOT

#: Holds the group that is its argument, says so, and waits.
HOLDER = """
import signal, sys
from partway.gateway.fleet.leash import Leash
leash = Leash()
for group in sys.argv[1:]:
    leash.hold(int(group))
print("held", flush=True)
while True:
    signal.pause()
"""


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
