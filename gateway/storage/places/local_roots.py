"""The folders of this machine below which files may be named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from partway.gateway.storage.places.locations import flat_path, path_as_named, path_of_location


class LocalRoots:
    """The folders below which a caller may name files: a caller must not read the gateway's own.

    Args:
        roots: the folders; with none of them nothing may be named.
        kept_out: files and folders that are the gateway's own: neither what is in them may be
            named, nor a folder that they are in.
        setting: what the folders are called under ``[api]``.

    Attributes:
        setting: the same.
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
        """What the gateway's own operator may name: everything but what is the gateway's own."""
        return LocalRoots((Path("/"),), self._kept_out)

    def allow(self, location: str) -> bool:
        """Whether a location is below a folder as both are written.

        Looks at no file: one on a file system that is away would hold up whoever asks.
        :meth:`path_of` says where links lead.
        """
        return self.root_as_written(location) is not None

    def root_as_written(self, location: str) -> Path | None:
        """The innermost folder that a location is below as both are written; None if none is.

        Looks at no file.
        """
        named = path_as_named(location)
        if named is None:
            return None
        below = [root for root in self._roots if named.is_relative_to(flat_path(root))]
        return max(below, key=lambda root: len(root.parts), default=None)

    def path_of(self, location: str) -> Path:
        """The path that a location names, with every link on the way followed.

        Args:
            location: an absolute path, or ``file:///…``.

        Raises:
            ValueError: it is not below one of the folders, wherever links lead, or is the gateway's
                own; the message says so, and what it must be.
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
                f"{self.setting} under [api] in the gateway's settings, and lead nowhere else by "
                "links"
            )
        if any(path.is_relative_to(own) or own.is_relative_to(path) for own in kept_out):
            raise ValueError(
                f"{location!r} leads to what is the gateway's own, such as its data directory or "
                "its keys; it must be elsewhere"
            )
        return path

    def root_of(self, path: Path) -> Path:
        """The folder that a path is below which :meth:`path_of` has returned, likewise.

        Raises:
            ValueError: none is any more.
        """
        root = self._root_of(path, path)
        if root is None:
            raise ValueError(f"{path} is below none of the {self.setting} any more")
        return root

    def _root_of(self, path: Path, named: Path) -> Path | None:
        """The folder that a path is below, wherever links lead; None if it is below none.

        That which the path is below as it was written comes first: one that is on a file system
        that is away is not looked at where it need not be.
        """
        of_others = [not flat_path(named).is_relative_to(flat_path(root)) for root in self._roots]
        for _, root in sorted(zip(of_others, self._roots, strict=True), key=lambda each: each[0]):
            if path.is_relative_to(there := root.resolve()):
                return there
        return None
