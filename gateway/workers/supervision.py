"""The gateway process's side of its supervisor: it forks workers, and keeps what must outlive."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from partway.gateway.kept_state import KeptEntry
from partway.gateway.workers.kept_entries import close_descriptors
from partway.gateway.workers.limits import FORK_TIMEOUT
from partway.gateway.workers.supervisor_packets import (
    FORKED,
    NEWS,
    EntryEnded,
    ForgetEntry,
    ForkWorker,
    HandsOver,
    IsUp,
    KeepEntry,
    Signalled,
    ToSupervisor,
    received_packet,
    send_packet,
)
from partway.log_lines import LogLine

log = logging.getLogger("partway.workers")


class WorkersError(Exception):
    """A gateway cannot start its workers; the message says why."""


class SupervisorGone(WorkersError):
    """The supervisor has ended or is stuck, so no worker can be started."""


class Supervision:
    """The means of one gateway process; it is :class:`partway.gateway.kept_state.KeptState` too.

    Attributes:
        is_first: whether no gateway process before it has taken requests.
        generation: how many upgrades there have been.
        upgrade_failure: why the earlier gateway process has handed over in vain; empty if it has
            not.

    Args:
        control: takes packets for the supervisor.
        news: brings those of the supervisor.
        kept: the entries of earlier gateway processes.
    """

    def __init__(
        self,
        control: socket.socket,
        news: socket.socket,
        kept: Mapping[str, KeptEntry],
        *,
        is_first: bool,
        generation: int = 0,
        upgrade_failure: str = "",
    ) -> None:
        control.settimeout(FORK_TIMEOUT)  # the loop waits for its answers
        news.setblocking(False)
        self.is_first = is_first
        self.generation = generation
        self.upgrade_failure = upgrade_failure
        #: Called when the supervisor is stuck: it does not know all that it must keep.
        self.on_stuck: Callable[[SupervisorGone], object] = lambda _: None
        self._control = control
        self._news = news
        self._kept = dict(kept)
        #: Taken entries whose process may end.
        self._taken: dict[str, KeptEntry] = {}

    # --- Workers ---------------------------------------------------------------------------------

    def fork(self, order: object, descriptors: Sequence[int]) -> tuple[int, int]:
        """Start a worker; this takes milliseconds.

        Args:
            order: anything that pickle takes.
            descriptors: the worker has copies of them, in this order.

        Returns:
            Its process id, and a descriptor of the process.

        Raises:
            OSError: no process, or no descriptor, can be had now.
            SupervisorGone: the supervisor has ended, or is stuck.
        """
        memory = os.memfd_create("partway-order")
        try:
            os.pwrite(memory, pickle.dumps(order), 0)
            send_packet(self._control, ForkWorker(1 + len(descriptors)), [memory, *descriptors])
            data, handles = received_packet(self._control)
        except TimeoutError as error:
            raise self._stuck(error) from None
        except OSError as error:
            raise SupervisorGone(
                f"the process that starts workers takes no order ({error}): restart the gateway"
            ) from None
        finally:
            os.close(memory)
        if not data:
            raise SupervisorGone("the process that starts workers has ended: restart the gateway")
        answer = FORKED.decode(data)
        if not answer.pid:
            raise OSError(answer.error, os.strerror(answer.error))
        if not handles:
            raise OSError(f"there is no room for a descriptor of process {answer.pid}")
        return answer.pid, handles[0]

    # --- KeptState -------------------------------------------------------------------------------

    def keep(self, name: str, record: bytes, descriptors: Sequence[int] = (), pid: int = 0) -> None:
        self._drop(name)
        self._say(KeepEntry(name, record, pid, len(descriptors)), descriptors)

    def forget(self, name: str) -> None:
        self._drop(name)
        self._say(ForgetEntry(name))

    def take(self, prefix: str) -> dict[str, KeptEntry]:
        names = [each for each in self._kept if each.startswith(prefix)]
        found = {name: self._kept.pop(name) for name in names}
        self._taken |= found
        return found

    def _drop(self, name: str) -> None:
        """Forget an entry of an earlier process; the descriptors of a taken one are its taker's."""
        self._taken.pop(name, None)
        entry = self._kept.pop(name, None)
        if entry is not None:
            close_descriptors(entry.descriptors)

    def _say(self, message: ToSupervisor, descriptors: Sequence[int] = ()) -> None:
        try:
            send_packet(self._control, message, descriptors)
        except TimeoutError as error:
            self._stuck(error)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the supervisor has ended, and its news say so
        except OSError as error:  # the packet is too large
            kind = type(message).__name__
            line = LogLine("the supervisor is not told", message=kind, reason=str(error))
            log.error(line)  # noqa: TRY400 (the trace says nothing)

    def _stuck(self, error: TimeoutError) -> SupervisorGone:
        """Leave a supervisor that takes or answers nothing; a late answer would confuse."""
        self.close()
        gone = SupervisorGone(
            f"the process that starts workers does not answer ({error}): restart the gateway"
        )
        self.on_stuck(gone)
        return gone

    # --- News ------------------------------------------------------------------------------------

    def is_up(self) -> None:
        """Say that the gateway takes requests."""
        self._say(IsUp())

    def hands_over(self) -> None:
        """Say that this process ends now, for one of new code."""
        self._say(HandsOver())

    def follow(
        self,
        on_stop: Callable[[], object],
        on_reload: Callable[[], object],
        on_upgrade: Callable[[], object],
        on_gone: Callable[[], object],
    ) -> None:
        """Act on the supervisor's news from now on.

        Args:
            on_stop: called for each SIGTERM and SIGINT.
            on_reload: called for each SIGHUP.
            on_upgrade: called for each SIGUSR2.
            on_gone: called when the supervisor has ended.
        """
        loop = asyncio.get_running_loop()

        def come() -> None:
            with suppress(BlockingIOError):
                while True:
                    data, _ = received_packet(self._news)
                    if not data:
                        loop.remove_reader(self._news)
                        on_gone()
                        return
                    match NEWS.decode(data):
                        case EntryEnded(name, status):
                            if (entry := self._taken.get(name) or self._kept.get(name)) is not None:
                                entry.ended(status)
                        case Signalled(signal.SIGHUP):
                            on_reload()
                        case Signalled(signal.SIGUSR2):
                            on_upgrade()
                        case Signalled():
                            on_stop()

        loop.add_reader(self._news, come)

    def close(self) -> None:
        self._control.close()
