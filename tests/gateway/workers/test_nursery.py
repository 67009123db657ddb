"""partway.gateway.workers.nursery: workers that start, that fail, and that cannot be forked."""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from partway.gateway.workers import nursery as module
from partway.gateway.workers.nursery import Nursery, NurseryGone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


def tells(order: str, descriptors: Sequence[int]) -> int:
    """Write the order into the descriptor."""
    if order == "fail":
        raise RuntimeError("as told")
    os.write(descriptors[0], order.encode())
    return 0


@contextmanager
def started(work: Callable[[str, Sequence[int]], int]) -> Iterator[Nursery]:
    with ExitStack() as stack:
        nursery = Nursery.start(work)
        stack.callback(nursery.close)
        yield nursery


@contextmanager
def answer_of(nursery: Nursery, order: str) -> Iterator[socket.socket]:
    """Fork a worker; the socket has what it writes, and ends with it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    with ours:
        with theirs:
            nursery.fork(order, [theirs.fileno()])
        yield ours


def test_each_order_is_a_worker():
    with started(tells) as nursery:
        for order in ("one", "two"):
            with answer_of(nursery, order) as answer:
                assert answer.recv(10) == order.encode()
                assert answer.recv(10) == b""


def test_a_fault_of_a_worker_is_logged(tmp_path):
    handler = logging.FileHandler(tmp_path / "log")
    module.log.addHandler(handler)
    try:
        with started(tells) as nursery, answer_of(nursery, "fail") as answer:
            assert answer.recv(10) == b""
    finally:
        module.log.removeHandler(handler)
        handler.close()
    logged = (tmp_path / "log").read_text()
    assert "a worker has failed" in logged
    assert "RuntimeError: as told" in logged


def test_a_fork_that_fails_can_be_tried_again(monkeypatch, tmp_path):
    """The nursery lives on, and has kept no descriptor."""
    fork, mark = os.fork, tmp_path / "fails"

    def failing() -> int:
        if mark.exists():
            raise OSError(errno.EAGAIN, "no more processes")
        return fork()

    monkeypatch.setattr(os, "fork", failing)
    with started(tells) as nursery:
        mark.touch()
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE)
        with ours:
            with theirs, pytest.raises(OSError) as refused:
                nursery.fork("one", [theirs.fileno()])
            assert refused.value.errno == errno.EAGAIN
            assert ours.recv(10) == b""
        mark.unlink()
        with answer_of(nursery, "two") as answer:
            assert answer.recv(10) == b"two"
            assert answer.recv(10) == b""


def test_a_nursery_that_has_ended_is_named():
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(NurseryGone, match="restart the gateway"):
        Nursery(ours).fork("one", [])


def test_a_nursery_that_is_stuck_is_left(monkeypatch):
    ours, theirs = socket.socketpair()
    ours.settimeout(0.01)
    with theirs:
        nursery = Nursery(ours)
        with pytest.raises(NurseryGone, match="timed out"):
            nursery.fork("one", [])
        assert select.select([theirs], [], [], PATIENCE)[0]
        with pytest.raises(NurseryGone):
            nursery.fork("two", [])


def test_its_answers_are_waited_for_within_a_time():
    with started(tells) as nursery:
        assert nursery._control.gettimeout() == module.NURSERY_TIMEOUT
