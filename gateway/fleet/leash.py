"""The leash: no container outlives this process, however this process ends."""

from __future__ import annotations

import subprocess
from contextlib import suppress

from partway.gateway.limits import LEASH_TIMEOUT

#: Each line names the process group to end, or none. The pipe's end is ours: then it is done.
_SCRIPT = (
    'group=; while read -r next; do group=$next; done; [ -z "$group" ] || kill -KILL "-$group"'
)


class Leash:
    """A shell that waits for the end of a pipe, and then kills a process group.

    The system closes our end of the pipe even where nothing of ours can run any more, as after
    SIGKILL. Linux could signal the container by itself (PR_SET_PDEATHSIG), but not its workers.
    It is in a session of its own, so that the terminal's Ctrl-C does not reach it.
    """

    def __init__(self) -> None:
        self._shell = subprocess.Popen(  # noqa: S603 (all of it is ours)
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def hold(self, group: int) -> None:
        """Have this process group killed when we end."""
        self._tell(f"{group}\n")

    def let_go(self) -> None:
        """Have nothing killed: the group is gone, and its number may be another's."""
        self._tell("\n")

    def close(self) -> None:
        """End the shell; what it still holds is killed."""
        assert self._shell.stdin is not None
        with suppress(BrokenPipeError):
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
            self._shell.stdin.flush()
