"""The supervisor: the process that was started; it forks the gateway process and the workers.

It runs neither loop nor threads, and knows nothing of requests, so that it does not fail. A fork
shares its memory, in which everything is imported, and inherits nothing that runs. When the gateway
process ends unasked, the next one gets all entries that it has kept.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import pickle
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias

from partway.gateway.workers.kept_entries import KeptEntries, close_descriptors
from partway.gateway.workers.limits import PROVEN_AFTER, RESTART_LONGEST, RESTART_SHORTEST
from partway.gateway.workers.supervision import Supervision
from partway.gateway.workers.supervisor_packets import (
    TO_SUPERVISOR,
    EntryEnded,
    ForgetEntry,
    Forked,
    ForkWorker,
    HandsOver,
    IsUp,
    KeepEntry,
    News,
    Signalled,
    packet_pair,
    received_packet,
    send_packet,
)
from partway.gateway.workers.supervisor_upgrade import execute, resumed_state
from partway.log_lines import LogLine

log = logging.getLogger("partway.workers")

#: The signals that are for the gateway process; a terminal sends SIGINT to all processes itself.
_FOR_PARENT: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
#: Signals of one kind that wait for a gateway process: the second end hastens the first.
_MOST_UNSENT: Final = 2
_HANDLED: Final = {*_FOR_PARENT, signal.SIGCHLD}

_PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h

#: Runs a gateway process, and returns its exit status.
RunParent: TypeAlias = Callable[[Supervision], int]

#: Runs a worker by its order and with its descriptors, and returns its exit status.
RunWorker: TypeAlias = Callable[[Any, Sequence[int]], int]


@dataclass(slots=True, eq=False)
class _Parent:
    """The running gateway process.

    Attributes:
        control: brings its packets; None once it has closed it.
        news: takes what it must know.
        unsent: news that it has not taken yet.
        up_at: when it took requests, in seconds of the monotonic clock.
    """

    pid: int
    control: socket.socket | None
    news: socket.socket
    unsent: deque[News] = field(default_factory=deque)
    up_at: float | None = None

    def close(self) -> None:
        self.news.close()
        if self.control is not None:
            self.control.close()


class GatewaySupervisor:
    """Runs gateway processes one after the other, until one ends as it was told to.

    1. A gateway process that ends unasked is followed by another one: after 0.1 s, and after up to
       10 s if each ends soon.
    2. The end of the first one before it takes requests is the end of the whole.
    3. SIGTERM, SIGINT, SIGHUP and SIGUSR2 are passed on as news. If no process runs, SIGTERM and
       SIGINT wait for the next one, which reads the settings anyway.
    4. It reaps its children, which those of a dead gateway process are too, and notes the exit
       status of those that have an entry.
    5. If a signal kills a gateway process while it ends, one more finishes the drain.
    6. When a gateway process hands over, it executes its command line, which may be new code, and
       goes on as the same process with the same entries. SIGTERM or SIGINT during that is for the
       next gateway process, of the same code.
    """

    def __init__(self, run_parent: RunParent, run_worker: RunWorker) -> None:
        self._run_parent = run_parent
        self._run_worker = run_worker
        state = resumed_state()
        self._generation = state.generation
        self._entries = KeptEntries()
        for name, each in state.kept():
            self._entries.keep(name, each.record, each.descriptors, each.pid)
            self._entries.all[name].status = each.status
        self._parent: _Parent | None = None
        #: Signals for the next gateway process, which ends it.
        self._waiting: deque[News] = deque()
        self._has_been_up = state.generation > 0
        self._hands_over = False
        #: Why new code could not be executed; empty once a gateway process has taken note.
        self._upgrade_failure = ""
        self._is_stopping = False
        #: Whether a gateway process has been killed while it ended, and another one ends instead.
        self._ends_again = False
        self._status: int | None = None
        self._pause = RESTART_SHORTEST
        self._starts_at = 0.0
        self._signals, self._wakeup = socket.socketpair()

    def run(self) -> int:
        """Return the exit status of the last gateway process; no thread may run yet."""
        self._prepare()
        self._reap()
        try:
            while self._status is None:
                if self._parent is None and time.monotonic() >= self._starts_at:
                    self._start_parent()
                self._wait()
        finally:
            self._undo()
        return self._status

    def _prepare(self) -> None:
        _become_subreaper()
        for each in (self._signals, self._wakeup):
            each.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        for number in _HANDLED:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        gc.collect()
        gc.freeze()  # a collection would write to pages that all share

    def _undo(self) -> None:
        signal.set_wakeup_fd(-1)
        for each in _HANDLED:
            signal.signal(each, signal.SIG_DFL)
        self._close()

    def _close(self) -> None:
        """Close everything; a process that was forked has copies."""
        self._signals.close()
        self._wakeup.close()
        self._entries.close()
        if self._parent is not None:
            self._parent.close()

    # --- The loop --------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait until something happens, and act on it."""
        parent, poll = self._parent, select.poll()
        poll.register(self._signals, select.POLLIN)
        timeout = None
        if parent is None:
            timeout = 1000 * max(0.0, self._starts_at - time.monotonic())
        else:
            if parent.control is not None:
                poll.register(parent.control, select.POLLIN)
            if parent.unsent:
                poll.register(parent.news, select.POLLOUT)
        poll.poll(timeout)
        if parent is not None:
            self._take_packets(parent)
            _send_news(parent)
        self._take_signals()
        self._reap()

    def _take_signals(self) -> None:
        with suppress(BlockingIOError):
            for number in self._signals.recv(4096):
                self._signalled(number)

    def _signalled(self, number: int) -> None:
        if number not in _FOR_PARENT:  # SIGCHLD
            return
        if number in _ENDING:
            self._is_stopping = True
            self._starts_at = 0.0
        told = Signalled(number)
        unsent = self._waiting if self._parent is None else self._parent.unsent
        if (self._parent or _ends(told)) and unsent.count(told) < _MOST_UNSENT:
            unsent.append(told)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._ended(pid, os.waitstatus_to_exitcode(status))

    def _ended(self, pid: int, status: int) -> None:
        parent = self._parent
        if parent is not None and parent.pid == pid:
            self._take_packets(parent)
            self._parent_ended(parent, status)
        elif (name := self._entries.ended(pid, status)) is not None and parent is not None:
            parent.unsent.append(EntryEnded(name, status))

    # --- The gateway process ---------------------------------------------------------------------

    def _start_parent(self) -> None:
        control, their_control = packet_pair()
        news, their_news = packet_pair()
        for each in (control, news):
            each.setblocking(False)
        pid = _forked()
        if pid == 0:
            control.close()
            news.close()
            self._signals.close()
            self._wakeup.close()
            means = Supervision(
                *(their_control, their_news, self._entries.all),
                is_first=not self._has_been_up,
                generation=self._generation,
                upgrade_failure=self._upgrade_failure,
            )
            _run(lambda: self._run_parent(means), "the gateway process has failed")
        their_control.close()
        their_news.close()
        waiting, self._waiting = self._waiting, deque()
        self._parent = _Parent(pid, control, news, waiting)
        if pid < 0:
            log.error(LogLine("no gateway process can be forked", reason=os.strerror(-pid)))
            self._parent_ended(self._parent, 1)

    def _parent_ended(self, parent: _Parent, status: int) -> None:
        parent.close()
        self._parent = None
        self._waiting.extend(each for each in parent.unsent if _ends(each))
        if self._is_stopping and not self._waiting:
            was_killed = status < 0 and self._has_been_up and not self._ends_again
            if self._hands_over or was_killed:
                self._ends_again |= was_killed
                self._waiting.append(Signalled(signal.SIGTERM))
        if (self._is_stopping and not self._waiting) or not self._has_been_up:
            self._status = (128 - status if status < 0 else status) or int(not self._is_stopping)
            return
        if self._hands_over:
            self._execute()
        self._hands_over = False
        now = time.monotonic()
        if parent.up_at is not None and now - parent.up_at > PROVEN_AFTER:
            self._pause = RESTART_SHORTEST
        line = "the gateway process has ended; another one starts"
        log.error(LogLine(line, status=status, pause=self._pause))
        is_awaited = self._waiting and parent.pid > 0  # else the fork has failed
        self._starts_at = 0.0 if is_awaited else now + self._pause
        self._pause = min(2 * self._pause, RESTART_LONGEST)

    def _execute(self) -> None:
        """Go on with new code; return only if there is none, or if the end has come."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)  # until the new code handles them
        try:
            self._take_signals()  # nobody else would
            if not self._is_stopping:
                execute(self._generation + 1, self._entries.all.items())
        except OSError as error:
            self._upgrade_failure = f"the new code cannot be executed: {error}"
            log.error(self._upgrade_failure)  # noqa: TRY400 (the trace says nothing)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)

    def _take_packets(self, parent: _Parent) -> None:
        while parent.control is not None:
            try:
                data, descriptors = received_packet(parent.control)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                parent.control.close()
                parent.control = None
                return
            match TO_SUPERVISOR.decode(data):
                case ForkWorker(number):
                    self._fork_worker(parent.control, number, descriptors)
                case KeepEntry(name, record, pid, number):
                    if len(descriptors) < number:  # there was no room for all
                        close_descriptors(descriptors)
                        log.error(LogLine("the supervisor has no more descriptors", name=name))
                    else:
                        self._entries.keep(name, record, descriptors, pid)
                case ForgetEntry(name):
                    self._entries.forget(name)
                case HandsOver():
                    self._hands_over = True
                case IsUp():
                    self._has_been_up = True
                    self._upgrade_failure = ""
                    parent.up_at = time.monotonic()

    # --- Workers ---------------------------------------------------------------------------------

    def _fork_worker(self, control: socket.socket, number: int, descriptors: Sequence[int]) -> None:
        pid = -errno.EMFILE if len(descriptors) < number else _forked()
        if pid == 0:
            self._close()
            order = os.pread(descriptors[0], os.fstat(descriptors[0]).st_size, 0)
            os.close(descriptors[0])
            _run(
                lambda: self._run_worker(pickle.loads(order), descriptors[1:]),  # noqa: S301
                "a worker has failed",
            )
        close_descriptors(descriptors)
        answer, handles = Forked(0, -pid), []
        if pid > 0:
            try:
                answer, handles = Forked(pid), [os.pidfd_open(pid)]  # nobody has reaped it
            except OSError as error:
                os.kill(pid, signal.SIGKILL)
                answer = Forked(0, error.errno or errno.EMFILE)
        with suppress(OSError):  # the gateway process has ended, and the worker ends with it
            send_packet(control, answer, handles)
        close_descriptors(handles)


def _ends(news: News) -> bool:
    return isinstance(news, Signalled) and news.number in _ENDING


def _become_subreaper() -> None:
    """Have the orphans of a dead gateway process become this process's children."""
    try:
        import ctypes  # hardened systems may refuse it

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, MemoryError, OSError) as error:
        line = "the end of a program that outlives a gateway process is seen by its pings alone"
        log.warning(LogLine(line, reason=str(error)))


def _send_news(parent: _Parent) -> None:
    with suppress(OSError):  # it takes nothing now, or has ended
        while parent.unsent:
            send_packet(parent.news, parent.unsent[0])
            parent.unsent.popleft()


def _forked() -> int:
    """Fork; return as :func:`os.fork` does, or a negative error number.

    No signal comes between the fork and the child's own handlers: the child shares the supervisor's
    wakeup descriptor, which would get the signal twice.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    try:
        pid = os.fork()
    except OSError as error:
        return -(error.errno or errno.EAGAIN)
    else:
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # Not SIG_IGN: the programs that this process starts would ignore them too.
            for number in _FOR_PARENT:
                signal.signal(number, _noted)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)


def _run(work: Callable[[], int], failure: str) -> NoReturn:
    """Run this process to its end."""
    status = 1
    try:
        status = work()
    except Exception:  # os._exit would drop it
        log.exception(failure)
    finally:
        for each in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it
                each.flush()
        os._exit(status)


def _noted(*_: object) -> None:
    """Take a signal: the wakeup descriptor has its number, and other processes obey orders."""
