"""The leash: no container outlives this process, however this process ends."""

from __future__ import annotations

import os
import secrets
import subprocess
from contextlib import suppress
from itertools import count
from typing import Final

from partway.gateway.fleet.limits import LEASH_TIMEOUT
from partway.gateway.fleet.processes.process_table import MARK, Strays

#: Each line names a process group to kill later (+), one that has ended (-), or an orderly close
#: (.). When the pipe ends, the script kills all groups it holds. On Linux it also kills every
#: process with our mark: those that left their group, and one that was being started. A process has
#: the mark only once it runs its program, and others may be started during a look. So there are
#: several looks, with pauses. If a group was ever held, there is a look even if none is held now:
#: processes that left the group may have survived its container.
_SCRIPT: Final = """
held='' groups=' ' pauses='0 0 0 1 1'
while read -r what group; do
    case $what in
        +) held=yes groups="$groups$group " ;;
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


class Leash:
    """A shell that waits for the end of a pipe, and then kills process groups.

    The system closes our end of the pipe even if this process is killed with SIGKILL. Linux could
    signal the container by itself (PR_SET_PDEATHSIG), but not its workers. The shell has a session
    of its own, so that the terminal's Ctrl-C does not reach it.

    Attributes:
        strays: kills processes that have left the group of a container on this leash.
    """

    def __init__(self) -> None:
        self.strays = Strays()
        self._token = secrets.token_hex(8)
        self._numbers = count(1)
        self._groups: set[int] = set()
        # Without the mark of an outer leash: that one ends us, and this shell ends our containers.
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        self._shell = subprocess.Popen(  # noqa: S603 (constant words)
            ["/bin/sh", "-c", _SCRIPT, "sh", f"{MARK}={self._token}."],
            stdin=subprocess.PIPE,
            bufsize=0,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
        assert self._shell.stdin is not None
        # A stopped shell must not block us; it finds by the mark what it was not told.
        os.set_blocking(self._shell.stdin.fileno(), False)

    def new_mark(self) -> str:
        """Return a new value of :data:`MARK`, with which one container is started."""
        return f"{self._token}.{next(self._numbers)}."

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
        assert self._shell.stdin is not None
        self._tell(".\n")
        self._shell.stdin.close()
        try:
            self._shell.wait(LEASH_TIMEOUT)
        except subprocess.TimeoutExpired:  # the shell was stopped
            self._shell.kill()
            with suppress(subprocess.TimeoutExpired):
                self._shell.wait(LEASH_TIMEOUT)

    def _tell(self, line: str) -> None:
        assert self._shell.stdin is not None
        with suppress(BrokenPipeError):  # the shell was killed: there is no leash then
            self._shell.stdin.write(line.encode())
