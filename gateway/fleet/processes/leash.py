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

#: A line names a process group that is to end (+) or that has ended (-), or says that we are
#: closing it (.). The pipe's end is ours: then all that are held end, and whatever has our mark,
#: which Linux tells: also what has left its group, and a process that was being started. That one
#: has the mark only once it runs its program, and others start more while they are looked for: so
#: there are several looks, and pauses. Where a group was ever held there is a look, also if none is
#: now: its container's end may not have found all that had left it.
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

    The system closes our end of the pipe even where nothing of ours can run any more, as after
    SIGKILL. Linux could signal the container by itself (PR_SET_PDEATHSIG), but not its workers.
    It is in a session of its own, so that the terminal's Ctrl-C does not reach it.

    Attributes:
        strays: ends what has left the group of a container that was on this leash.
    """

    def __init__(self) -> None:
        self.strays = Strays()
        self._token = secrets.token_hex(8)
        self._numbers = count(1)
        self._groups: set[int] = set()
        # Without the mark of a leash that we are on ourselves: it ends us, and we end what is ours.
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        self._shell = subprocess.Popen(  # noqa: S603 (all of it is ours)
            ["/bin/sh", "-c", _SCRIPT, "sh", f"{MARK}={self._token}."],
            stdin=subprocess.PIPE,
            bufsize=0,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
        assert self._shell.stdin is not None
        # Whoever stops the shell is not to stop us: what it is not told then, it finds by the mark.
        os.set_blocking(self._shell.stdin.fileno(), False)

    def new_mark(self) -> str:
        """Value of :data:`MARK` for one container: it is started with it, and then held."""
        return f"{self._token}.{next(self._numbers)}."

    def hold(self, group: int) -> None:
        """Have this process group killed when we end."""
        self._groups.add(group)
        self._tell(f"+ {group}\n")

    def let_go(self, group: int) -> None:
        """Have this group spared: it is gone, and its number may be another's."""
        if group in self._groups:
            self._groups.remove(group)
            self._tell(f"- {group}\n")

    def close(self) -> None:
        """End the shell; what it still holds is killed."""
        assert self._shell.stdin is not None
        self._tell(".\n")
        self._shell.stdin.close()
        try:
            self._shell.wait(LEASH_TIMEOUT)
        except subprocess.TimeoutExpired:  # somebody has stopped it
            self._shell.kill()
            with suppress(subprocess.TimeoutExpired):
                self._shell.wait(LEASH_TIMEOUT)

    def _tell(self, line: str) -> None:
        assert self._shell.stdin is not None
        with suppress(BrokenPipeError):  # somebody killed it: there is no leash then
            self._shell.stdin.write(line.encode())
