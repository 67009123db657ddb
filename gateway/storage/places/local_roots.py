"""The folders of this machine that callers may name files in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from partway.gateway.storage.places.locations import flat_path, path_as_named, path_of_location


class LocalRoots:
    """The folders below which callers may name files; the gateway's own files are excluded.

    Args:
        roots: the folders; if there are none, callers may name no file.
        kept_out: the gateway's own files and folders. Callers may name neither these nor a folder
            that contains them.
        setting: the setting under ``[api]`` that lists the folders.
    """

    def __init__(
        self,
        roots: Iterable[Path] = (),
        kept_out: Iterable[Path] = (),
        setting: str = "local_roots",
    ) -> None:
        self.setting = setting
        self._roots = tuple(roots)
        self._kept_out = tuple(kept_out)

    @property
    def for_operator(self) -> LocalRoots:
        """The roots for the gateway's operator: everything except the gateway's own files."""
        return LocalRoots((Path("/"),), self._kept_out)

    def allow(self, location: str) -> bool:
        """Whether a location is below one of the folders, by its text.

        No file is looked at: a file system that does not answer would block the caller.
        :meth:`path_of` follows links.
        """
        return self.root_as_written(location) is not None

    def root_as_written(self, location: str) -> Path | None:
        """Return the innermost folder that contains a location by its text; None if no folder does.

        No file is looked at.
        """
        named = path_as_named(location)
        if named is None:
            return None
        below = [root for root in self._roots if named.is_relative_to(flat_path(root))]
        return max(below, key=lambda root: len(root.parts), default=None)

    def path_of(self, location: str) -> Path:
        """Return the path that a location names, with all links followed.

        Args:
            location: an absolute path, or ``file:///…``.

        Raises:
            ValueError: the path is not below one of the folders after links are followed, or is the
                gateway's own. The message says what it must be.
        """
        named = path_of_location(location)
        try:
            path = None if named is None else named.resolve()
            kept_out = [own.resolve() for own in self._kept_out]
            root = None if path is None or named is None else self._root_of(path, named)
        except (OSError, RuntimeError):  # links in a circle
            path = root = None
        if path is None or root is None:
            raise ValueError(
                f"{location!r} is a path of the gateway's machine; it must be below one of the "
                f"{self.setting} under [api] in the gateway's settings, and no link in it may lead "
                "elsewhere"
            )
        if any(path.is_relative_to(own) or own.is_relative_to(path) for own in kept_out):
            raise ValueError(
                f"{location!r} leads to data of the gateway itself, such as its data directory or "
                "its keys; it must be elsewhere"
            )
        return path

    def root_of(self, path: Path) -> Path:
        """Return the root, with its links followed, that contains a path of :meth:`path_of`.

        Raises:
            ValueError: no folder contains the path now.
        """
        root = self._root_of(path, path)
        if root is None:
            raise ValueError(f"{path} is no longer in one of the {self.setting}")
        return root

    def _root_of(self, path: Path, named: Path) -> Path | None:
        """Return the folder that contains a path, with links followed; None if none does.

        Folders that contain the path by its text come first. So a folder on a file system that does
        not answer is not looked at without need.
        """
        of_others = [not flat_path(named).is_relative_to(flat_path(root)) for root in self._roots]
        for _, root in sorted(zip(of_others, self._roots, strict=True), key=lambda each: each[0]):
            if path.is_relative_to(there := root.resolve()):
                return there
        return None
