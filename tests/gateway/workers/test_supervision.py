"""partway.gateway.workers.supervision: workers that start, that fail, and that cannot be forked."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from partway.gateway.workers import supervision as module
from partway.gateway.workers import supervisor
from partway.gateway.workers.supervision import Supervision, SupervisorGone
from partway.gateway.workers.supervisor_packets import (
    EntryEnded,
    Signalled,
    packet_pair,
    send_packet,
)
from tests.gateway.workers.supervised import supervision

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60


def tells(order: str, descriptors: Sequence[int]) -> int:
    """Write the order into the descriptor."""
    if order == "fail":
        raise RuntimeError("as told")
    os.write(descriptors[0], order.encode())
    return 0


@contextmanager
def answer_of(supervision: Supervision, order: str) -> Iterator[socket.socket]:
    """Fork a worker; the socket has what it writes, and ends with it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    with ours:
        with theirs:
            pid, handle = supervision.fork(order, [theirs.fileno()])
        assert pid > 0
        yield ours
        assert select.select([handle], [], [], PATIENCE)[0], "the process has ended"
        os.close(handle)


@pytest.fixture
def _no_leaks():
    """No loop runs here."""


@pytest.mark.usefixtures("_no_leaks")
class TestForks:
    def test_each_order_is_a_worker(self):
        with supervision(tells) as ours:
            for order in ("one", "two", "x" * 1_000_000):
                with answer_of(ours, order) as answer:
                    assert answer.makefile("rb").read() == order.encode()

    def test_a_fault_of_a_worker_is_logged(self, tmp_path):
        handler = logging.FileHandler(tmp_path / "log")
        supervisor.log.addHandler(handler)
        try:
            with supervision(tells) as ours, answer_of(ours, "fail") as answer:
                assert answer.recv(10) == b""
        finally:
            supervisor.log.removeHandler(handler)
            handler.close()
        logged = (tmp_path / "log").read_text()
        assert "a worker has failed" in logged
        assert "RuntimeError: as told" in logged

    def test_a_fork_that_fails_can_be_tried_again(self, monkeypatch, tmp_path):
        """The supervisor lives on, and has kept no descriptor."""
        fork, mark = os.fork, tmp_path / "fails"

        def failing() -> int:
            if mark.exists():
                raise OSError(errno.EAGAIN, "no more processes")
            return fork()

        monkeypatch.setattr(os, "fork", failing)
        with supervision(tells) as ours_side:
            mark.touch()
            ours, theirs = socket.socketpair()
            ours.settimeout(PATIENCE)
            with ours:
                with theirs, pytest.raises(OSError) as refused:
                    ours_side.fork("one", [theirs.fileno()])
                assert refused.value.errno == errno.EAGAIN
                assert ours.recv(10) == b""
            mark.unlink()
            with answer_of(ours_side, "two") as answer:
                assert answer.recv(10) == b"two"
                assert answer.recv(10) == b""

    def test_a_supervisor_that_has_ended_is_named(self):
        ours, theirs = packet_pair()
        theirs.close()
        with ours, pytest.raises(SupervisorGone, match="restart the gateway"):
            Supervision(ours, ours, {}, is_first=True).fork("one", [])

    def test_a_supervisor_that_is_stuck_is_left(self, monkeypatch):
        monkeypatch.setattr(module, "FORK_TIMEOUT", 0.01)
        ours, theirs = packet_pair()
        news, _ = pair = packet_pair()
        with theirs, pair[0], pair[1]:
            made = Supervision(ours, news, {}, is_first=True)
            stuck = []
            made.on_stuck = stuck.append
            with pytest.raises(SupervisorGone, match="timed out") as raised:
                made.fork("one", [])
            assert stuck == [raised.value]
            with pytest.raises(SupervisorGone):
                made.fork("two", [])

    def test_a_supervisor_that_keeps_nothing_is_left(self, monkeypatch):
        """It would wait as long for each further entry."""
        monkeypatch.setattr(module, "FORK_TIMEOUT", 0.01)
        ours, theirs = packet_pair()
        news, _ = pair = packet_pair()
        with theirs, pair[0], pair[1]:
            made = Supervision(ours, news, {}, is_first=True)
            stuck = []
            made.on_stuck = stuck.append
            for _ in range(100):
                made.keep("a", bytes(100_000))
            assert len(stuck) == 1


async def test_news_come_to_their_takers(anyio_backend):
    control, _theirs = packet_pair()
    ours, news = packet_pair()
    pipe = os.pipe()
    entry = module.KeptEntry(b"record", pipe, 7)
    made = Supervision(control, ours, {"program/a": entry}, is_first=False)
    said: asyncio.Queue[object] = asyncio.Queue()
    made.follow(
        lambda: said.put_nowait("stop"),
        lambda: said.put_nowait("reload"),
        lambda: said.put_nowait("upgrade"),
        lambda: said.put_nowait("gone"),
    )
    (taken,) = made.take("program/").values()
    assert made.take("program/") == {}
    taken.on_end = said.put_nowait
    for each in (
        Signalled(signal.SIGHUP),
        Signalled(signal.SIGUSR2),
        EntryEnded("program/a", -9),
        EntryEnded("program/none", 0),
        Signalled(signal.SIGTERM),
    ):
        send_packet(news, each)
    news.close()
    async with asyncio.timeout(PATIENCE):
        assert [await said.get() for _ in range(5)] == ["reload", "upgrade", -9, "stop", "gone"]
    made.forget("program/a")
    os.fstat(pipe[0])  # the taker's
    for each in pipe:
        os.close(each)
    made.close()
    _theirs.close()
    ours.close()
