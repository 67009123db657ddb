"""Disks of a few megabytes that tests fill, make read-only, and make room on again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

#: Room for a data directory and a store; what fills it is written in a moment.
_SIZE = "4M"


class SmallDisk:
    """A file system of its own, in memory.

    Attributes:
        path: where it is mounted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Take each block that is left."""
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT)
        with os.fdopen(descriptor, "wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        assert os.statvfs(self.path).f_bavail == 0

    def make_room(self) -> None:
        """Give all of that back."""
        self._ballast.unlink()

    def remount(self, option: str) -> None:
        """Remount it, as ``ro`` or ``rw``."""
        subprocess.run(["mount", "-o", f"remount,{option}", self.path], check=True)


@contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    """Mount such a disk at a folder, which is made; skips where this user may not mount."""
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=0700", "tmpfs", path],
        stderr=subprocess.PIPE,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a disk of a few megabytes needs a user who may mount: {mounted.stderr!r}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
