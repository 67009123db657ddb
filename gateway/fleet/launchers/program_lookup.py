"""Finding a command's program, and explaining a failed start."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.storage.disk_refusals import FULL
from partway.gateway.storage.files import is_file_or_folder, is_folder

#: No file descriptor is left, which says nothing about the program.
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})

#: Resources that others give back: descriptors, and room for the folder of a program without a
#: model.
_WAITED_FOR: Final = _NO_DESCRIPTOR | FULL

#: Errors that may pass: too few processes, descriptors, memory or disk space for now.
_PASSING: Final = _WAITED_FOR | {errno.EAGAIN, errno.ENOMEM}


def find_program(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None
) -> str:
    """Find a program as the system would, and then beside the Python that runs the gateway.

    ``partway-container`` of a virtual environment that is not activated is not in the ``PATH``.
    ``environment`` is added to this process's variables, and its ``PATH`` goes first. ``cwd`` is
    None for this process's working directory.

    Raises:
        LaunchError: the program or folder is missing, cannot be executed, or has a NUL in its
            words.
    """
    name = command[0]
    if "\0" in "".join((*command, *environment, *environment.values())):
        raise LaunchError(
            f"{name!r} cannot be started: its command and environment must be without NUL "
            "characters",
            passing=False,
        )
    if cwd is not None and not is_folder(cwd):
        raise LaunchError(f"{cwd}: there is no such folder to run {name!r} in", passing=False)
    if "/" in name:
        path = Path(cwd or "", name)
        if not is_file_or_folder(path):
            raise LaunchError(f"{path}: there is no such program", passing=False)
        if not path.is_file() or not os.access(path, os.X_OK):
            raise LaunchError(f"{path}: it must be an executable file: chmod +x", passing=False)
        return name
    path_list = environment.get("PATH", os.environ.get("PATH", os.defpath))
    if shutil.which(name, path=path_list) is not None:
        return name
    beside = Path(sys.executable).parent
    found = shutil.which(name, path=str(beside))
    if found is None:
        raise LaunchError(
            f"there is no program {name!r} in PATH ({path_list}) or in {beside}; give its path, or "
            "change PATH",
            passing=False,
        )
    return found


def launch_error(error: OSError, name: str) -> LaunchError:
    """Return the reason why the system does not start a program that exists."""
    if error.errno in _PASSING:
        why = f"{name!r} cannot be started now: {os.strerror(error.errno or 0)}"
        return LaunchError(why, passing=True, waits=error.errno in _WAITED_FOR)
    if error.errno == errno.ENOEXEC:
        return LaunchError(
            f"{name!r} cannot be started: it must be a program built for this machine, or a script "
            "that begins with #!",
            passing=False,
        )
    if error.errno == errno.ENOENT:  # the program is there
        return LaunchError(
            f"{name!r} cannot be started: its first line names an interpreter that does not exist",
            passing=False,
        )
    return LaunchError(
        f"{name!r} cannot be started: {os.strerror(error.errno or 0)}", passing=False
    )
