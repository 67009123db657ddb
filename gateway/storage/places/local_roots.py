"""Paths of this machine that callers of the API may name in the place of one in S3."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_FILE: Final = "file:"


def is_local(location: str) -> bool:
    """Whether a location is meant to be on this machine: an absolute path, or a ``file:`` URL."""
    return location.startswith(("/", _FILE))


def plain_path(location: str) -> str:
    """The path that a location names, if it is written as leave is asked for it.

    A path has many spellings, and who may have one of them must not have what another leads to.

    Raises:
        ValueError: it is written in another way; the message says what it must be.
    """
    named = _written(location)
    parts = [] if named is None else named.split("/")[1:]
    if named is None or any(each in ("", ".", "..") for each in parts):
        raise ValueError(
            f"{location!r} must be an absolute path, or file:// and one, no part of it empty, . or "
            ".. and nothing in it percent-encoded"
        )
    return named


def path_as_named(location: str) -> Path | None:
    """The path that a location names, with ``..`` resolved by its text; None if it names none.

    Looks at no file, so it says nothing of links.
    """
    try:
        named = _named(location)
    except ValueError:  # a URL that is none
        return None
    return None if named is None else _flat(named)


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
        below = [root for root in self._roots if named.is_relative_to(_flat(root))]
        return max(below, key=lambda root: len(root.parts), default=None)

    def path_of(self, location: str) -> Path:
        """The path that a location names, with every link on the way followed.

        Args:
            location: an absolute path, or ``file:///…``.

        Raises:
            ValueError: it is not below one of the folders, wherever links lead, or is the gateway's
                own; the message says so, and what it must be.
        """
        named = _named(location)
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
        of_others = [not _flat(named).is_relative_to(_flat(root)) for root in self._roots]
        for _, root in sorted(zip(of_others, self._roots, strict=True), key=lambda each: each[0]):
            if path.is_relative_to(there := root.resolve()):
                return there
        return None


def _flat(path: Path) -> Path:
    """A path without what leads up again."""
    return Path(os.path.normpath(path))


def _named(location: str) -> Path | None:
    """What a location names; None if that is nothing on this machine."""
    written = _written(location, decoded=unquote)
    return None if written is None else Path(written)


def _encoded_never(path: str) -> str:
    return "" if "%" in path else path


def _written(location: str, decoded: Callable[[str], str] = _encoded_never) -> str | None:
    """The path that a location has, letter by letter; None if that is nothing on this machine.

    Args:
        location: an absolute path, or ``file:///…``.
        decoded: what the path of a URL stands for.
    """
    if location.startswith(_FILE):
        parts = urlsplit(location)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            return None
        location = decoded(parts.path)
    return location if location.startswith("/") and "\0" not in location else None
