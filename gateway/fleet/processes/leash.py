"""The leash: no container outlives the gateway, however the gateway ends."""

from __future__ import annotations

import asyncio
import os
import secrets
import select
import signal
import subprocess
from collections.abc import Collection
from contextlib import suppress
from itertools import count
from typing import Final, TypeAlias

from partway.gateway.fleet.limits import LEASH_TIMEOUT
from partway.gateway.fleet.processes.process_table import MARK, Strays, marks_from
from partway.gateway.kept_state import NOTHING_KEPT, KeptEntry, KeptState

#: The name of its kept entry.
ENTRY: Final = "leash"

#: Each line names a process group to kill later (+), one that has ended (-), all that were named
#: (=), or an orderly close (.). When the pipe ends, the script kills all groups it holds. On Linux
#: it also kills every process with our mark: those that left their group, and one that was being
#: started. A process has the mark only once it runs its program, and others may be started during a
#: look. So there are several looks, with pauses. If a group was ever held, there is a look even if
#: none is held now: processes that left the group may have survived its container.
_SCRIPT: Final = """
held='' groups=' ' pauses='0 0 0 1 1'
while read -r what group; do
    case $what in
        +) held=yes groups="$groups$group " ;;
        =) groups=' ' ;;
        -) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
        .) [ -z "$held" ] && exit; pauses='0 0' ;;
    esac
done
for group in $groups; do kill -KILL "-$group"; done
for pause in $pauses; do
    sleep "$pause"
    for path in $(grep -Fls -e "$1" /proc/[0-9]*/environ); do
        process=${path#/proc/}
        kill -KILL "${process%/environ}"
    done
done
"""


class _KeptShell:
    """A shell that an earlier process has started; it has the few methods of Popen that are used.

    Raises:
        ProcessLookupError: it has ended.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def wait(self, timeout: float) -> None:
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        if not poll.poll(timeout * 1000):
            raise subprocess.TimeoutExpired("sh", timeout)
        os.close(self._handle)

    def kill(self) -> None:
        signal.pidfd_send_signal(self._handle, signal.SIGKILL)


class Leash:
    """A shell that waits for the end of a pipe, and then kills process groups.

    The system closes our end of the pipe even if this process is killed with SIGKILL. Linux could
    signal the container by itself (PR_SET_PDEATHSIG), but not its workers. The shell has a session
    of its own, so that the terminal's Ctrl-C does not reach it.

    Args:
        kept: has the shell and its pipe outlive this process.
        earlier: an earlier process's shell, which is taken over, and holds no group then.

    Attributes:
        strays: kills processes that have left the group of a container on this leash.
    """

    def __init__(self, kept: KeptState = NOTHING_KEPT, earlier: KeptEntry | None = None) -> None:
        self.strays = Strays()
        self._kept = kept
        self._numbers = count(1)
        self._groups: set[int] = set()
        self._token = secrets.token_hex(8) if earlier is None else earlier.record.decode()
        #: Begins the marks that this process gives.
        self._own = f"{self._token}.{secrets.token_hex(4)}."
        self._shell, self._pipe = self._taken_over(earlier) or self._started()
        # A stopped shell must not block us; it finds by the mark what it was not told.
        os.set_blocking(self._pipe, False)
        kept.keep(ENTRY, self._token.encode(), [self._pipe], self._shell.pid)

    def _taken_over(self, earlier: KeptEntry | None) -> tuple[_Shell, int] | None:
        """Take over an earlier process's shell; return None if it has ended."""
        if earlier is None:
            return None
        (pipe,) = earlier.descriptors
        with suppress(ProcessLookupError):
            if earlier.status is None:
                shell = _KeptShell(earlier.pid)
                with suppress(BrokenPipeError, BlockingIOError):
                    os.write(pipe, b"=\n")  # groups that have ended meanwhile are not known
                return shell, pipe
        os.close(pipe)
        return None

    def _started(self) -> tuple[_Shell, int]:
        # Without the mark of an outer leash: that one ends us, and this shell ends our containers.
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        its_end, pipe = os.pipe()
        try:
            shell = subprocess.Popen(  # noqa: S603 (constant words)
                ["/bin/sh", "-c", _SCRIPT, "sh", f"{MARK}={self._token}."],
                stdin=its_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=environment,
            )
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(its_end)
        return shell, pipe

    def new_mark(self) -> str:
        """Return a new value of :data:`MARK`, with which one container is started."""
        return f"{self._own}{next(self._numbers)}."

    async def kill_lost(self, but: Collection[str]) -> None:
        """Kill the programs of earlier processes that were not kept, as one that was being started.

        Args:
            but: the marks of programs that were.
        """
        marks = await asyncio.to_thread(marks_from, f"{self._token}.")
        lost = [each for each in marks if not each.startswith(self._own) and each not in but]
        await asyncio.gather(*map(self.strays.kill, lost))

    def hold(self, group: int) -> None:
        """Have this process group killed when we end."""
        self._groups.add(group)
        self._tell(f"+ {group}\n")

    def let_go(self, group: int) -> None:
        """Spare this process group: it has ended, and another group may have its number."""
        if group in self._groups:
            self._groups.remove(group)
            self._tell(f"- {group}\n")

    def close(self) -> None:
        """End the shell; groups that it still holds are killed."""
        self._tell(".\n")
        os.close(self._pipe)
        self._groups.clear()  # there is nobody left to tell
        self._kept.forget(ENTRY)
        try:
            self._shell.wait(LEASH_TIMEOUT)
        except subprocess.TimeoutExpired:  # the shell was stopped
            self._shell.kill()
            with suppress(subprocess.TimeoutExpired):
                self._shell.wait(LEASH_TIMEOUT)

    def _tell(self, line: str) -> None:
        # There is no leash if the shell was killed; a stopped one has a full pipe.
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(self._pipe, line.encode())


_Shell: TypeAlias = subprocess.Popen[bytes] | _KeptShell
