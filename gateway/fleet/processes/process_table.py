"""The process table: which processes belong together, and which of them listens.

It reads Linux's ``/proc``. On other systems no process is found.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: The variable by which a leash knows the processes of a container, wherever they are. It does not
#: begin with ``PARTWAY_``, since commands refuse unknown variables with that prefix.
MARK: Final = "_PARTWAY_LEASH"

_PROC: Final = Path("/proc")
_MARK: Final = re.compile(rb"(?:^|\0)" + MARK.encode() + rb"=([^\0]*)")

#: Fields of a process's ``stat``, counted from its state on (proc_pid_stat(5)).
_GROUP: Final = 2
_BEGAN: Final = 19

#: Addresses of a listener that receives traffic to every address of the machine.
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104

#: How often marked processes are looked for, since they may start others meanwhile.
_ROUNDS: Final = 5

#: Repeated looks, so that a container that opens its port anew is not taken for another program.
_LOOKS: Final = 3

#: Seconds for a connection within this machine, which is made or refused at once.
_CONNECT_TIMEOUT: Final = 0.25


@dataclass(frozen=True, slots=True)
class _Listener:
    """A listening socket.

    Attributes:
        inode: the system's id of the socket.
    """

    host: str
    port: int
    inode: int

    def hears(self, host: str) -> bool:
        """Say whether it receives traffic to an address of the machine."""
        return self.host in (host, f"::ffff:{host}", *_EVERYWHERE)

    def seen_from(self, port: int) -> str:
        """Return its port, with its address if the port alone is the expected one."""
        if self.port != port:
            return str(self.port)
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


def began(pid: int) -> int | None:
    """Return when a process was started, in the system's ticks; None without such a process."""
    fields = _stat_of(pid)
    return None if fields is None else int(fields[_BEGAN])


def of_group(group: int) -> list[int]:
    return [pid for pid in _all() if _group_of(pid) == group]


def family(pid: int) -> list[int]:
    """Return a process, its descendants, and the rest of its group."""
    found = list(_descendants(pid))
    # A process whose parent has ended is no descendant, but it stays in the group.
    return found + [each for each in of_group(pid) if each not in found]


def marked(marks: Collection[str]) -> list[int]:
    """Return the processes with a mark of a leash; descendants inherit it."""
    return [pid for pid, mark in _marks() if mark in marks]


def marks_from(beginning: str) -> set[str]:
    """Return the marks of all processes that begin so."""
    return {mark for _, mark in _marks() if mark.startswith(beginning)}


def _marks() -> Iterator[tuple[int, str]]:
    """Yield each process that has a mark, with it."""
    for pid in _all():
        with suppress(OSError):  # another user's, or it has ended
            mark = _MARK.search((_PROC / str(pid) / "environ").read_bytes())
            if mark is not None:
                yield pid, mark[1].decode(errors="replace")


def kill_marked(marks: Collection[str]) -> None:
    """Kill all processes with a mark, also those that have left their group.

    A process that has changed its environment is not found; some programs write a title there.
    """
    for _ in range(_ROUNDS):
        found = marked(marks)
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            break


def other_listener(host: str, port: int, pid: int, mark: str) -> str:
    """Find out whether another program receives a container's traffic.

    ``host`` is an IPv4 address of this machine, and ``pid`` leads the container's group.

    Returns:
        The listener, in words; empty if only the container listens, or nothing, or if the system
        does not say.
    """
    others: set[int] = set()
    for _ in range(_LOOKS):
        others = _listening(host, port)
        for each in _relatives(pid, mark):
            held = _sockets_of(each)
            if held is None:  # another user's by now: it may be the one that listens
                return ""
            others -= held
            if not others:
                return ""
    for each in _all():
        if (_sockets_of(each) or set()) & others:
            return f"process {each} ({_name_of(each)})"
    return "a process that this user may not look at"


def listening_elsewhere(host: str, port: int, pid: int) -> str:
    """Say that nothing listens on a program's port, and where the program listens instead.

    Args:
        host: an IPv4 address of this machine.
        port: the port there, on which the program must listen.
        pid: the program's process, which leads its group.

    Returns:
        Words such as "nothing listens on 26933; this process listens on 18999". Empty if any
        process listens on the port. The second half is missing on a system without such tables.
    """
    listeners = _listeners()
    if listeners is None:
        return "" if _accepts(host, port) else f"nothing listens on {port}"
    if any(each.port == port and each.hears(host) for each in listeners):
        return ""
    held = set[int]().union(*(_sockets_of(each) or set() for each in family(pid)))
    own = sorted({each.seen_from(port) for each in listeners if each.inode in held})
    return f"nothing listens on {port}; this process listens on {', '.join(own) or 'no port'}"


def _accepts(host: str, port: int) -> bool:
    with socket.socket() as tried:
        tried.settimeout(_CONNECT_TIMEOUT)
        return tried.connect_ex((host, port)) == 0


def _descendants(pid: int) -> Iterator[int]:
    found = [pid]
    for each in found:
        yield each
        for task in (_PROC / str(each) / "task").glob("*/children"):
            with suppress(OSError):
                found += [int(child) for child in task.read_text().split()]


def _relatives(pid: int, mark: str) -> Iterator[int]:
    """Yield a container's processes, first those that are cheapest to find."""
    yield from _descendants(pid)
    yield from of_group(pid)
    yield from marked({mark})


def _all() -> Iterator[int]:
    with suppress(OSError):
        for name in os.listdir(_PROC):  # noqa: PTH208 (of a thousand processes)
            if name.isdecimal():
                yield int(name)


def _group_of(pid: int) -> int | None:
    fields = _stat_of(pid)
    return None if fields is None else int(fields[_GROUP])


def _stat_of(pid: int) -> list[str] | None:
    """Return the fields of a process's ``stat`` from its state on; None without such a process."""
    with suppress(OSError):
        # The name, in parentheses, may hold anything.
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
        return stat.rpartition(")")[2].split()
    return None


def _name_of(pid: int) -> str:
    with suppress(OSError):
        return (_PROC / str(pid) / "comm").read_text(errors="replace").strip()
    return "unknown"


def _sockets_of(pid: int) -> set[int] | None:
    """Return a process's sockets, by inode; None if we may not look at it."""
    found = set()
    try:
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                kind, _, inode = str(descriptor.readlink()).partition(":")
                if kind == "socket":
                    found.add(int(inode.strip("[]")))
    except PermissionError:
        return None
    except OSError:  # it has ended
        return set()
    return found


def _listening(host: str, port: int) -> set[int]:
    """Return the sockets, by inode, that receive traffic to an address."""
    found = _listeners() or []
    return {each.inode for each in found if each.port == port and each.hears(host)}


def _listeners() -> list[_Listener] | None:
    """Return every listening TCP socket; None if the system has no such table."""
    found: list[_Listener] | None = None
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            lines = (_PROC / "self/net" / table).read_text().splitlines()[1:]
            found = [] if found is None else found
            for line in lines:
                _, local, _, state, *more = line.split()
                if state == "0A":
                    host, _, port = local.partition(":")
                    found.append(_Listener(_address_of(host), int(port, 16), int(more[5])))
    return found


def _address_of(written: str) -> str:
    """Decode an address of the table: words of 32 bits in the machine's own byte order."""
    words = (int(written[at : at + 8], 16) for at in range(0, len(written), 8))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


class Strays:
    """Kills processes that containers have left behind.

    A look at all processes takes milliseconds, and many containers may end at once. Calls during a
    look share the next one.
    """

    def __init__(self) -> None:
        #: By mark, an event that is set once the mark has been looked for.
        self._wanted: dict[str, asyncio.Event] = {}
        self._looking: asyncio.Task[None] | None = None

    async def kill(self, mark: str) -> None:
        """On Linux, kill all processes with a mark of a leash.

        Args:
            mark: the mark of a container that has ended.
        """
        looked_for = self._wanted.setdefault(mark, asyncio.Event())
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="strays of containers")
        await looked_for.wait()

    async def _look(self) -> None:
        """Look until no mark is left, whether or not a caller still waits."""
        try:
            while marks := tuple(self._wanted):
                await asyncio.to_thread(kill_marked, marks)
                self._looked_for(marks)
        finally:  # the leash's end finds the rest
            self._looked_for(tuple(self._wanted))
            self._looking = None

    def _looked_for(self, marks: Iterable[str]) -> None:
        for mark in marks:
            self._wanted.pop(mark).set()
