"""The targets of an archive's symbolic links, resolved by names alone."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from partway.gateway.storage.archives.heads import ArchiveError

#: Linux follows as many links in one path (``MAXSYMLINKS``, path_resolution(7)).
_MOST_PASSED: Final = 40


class LinkedWays:
    """Resolves an archive's symbolic links, each of which must stay inside at every step.

    The links are resolved by name. On a disk, 40 links of a thousand steps each could lead to one
    another. To follow one of them would take a tenth of a second. A link that leaves the archive's
    folder and returns by the folder's name is refused: it leads outside once the folder is renamed.

    Args:
        folders: the paths of the archive's folders, without its own.
        files: the paths of the archive's files.
        links: the paths of the archive's symbolic links, each with its literal target.
    """

    def __init__(
        self, folders: Container[str], files: Container[str], links: Mapping[str, str]
    ) -> None:
        self._folders = folders
        self._files = files
        self._links = links
        #: For each resolved link, its final path and the number of links on the way.
        self._ends: dict[str, tuple[str, int]] = {}
        #: One string object for each final path, which may be long and shared by many links.
        self._texts: dict[str, str] = {}

    def check(self, name: str) -> None:
        """Check a link and the links on its way.

        Raises:
            ArchiveError: one of them leads to nothing in the archive, passes too many other links,
                or leads out of the archive.
        """
        self._end(name, 1)

    def _end(self, name: str, depth: int) -> tuple[str, int]:
        known = self._ends.get(name)
        if known is not None:
            return known
        target = self._links[name]
        if depth > _MOST_PASSED:
            raise leads_nowhere(name, target)
        at, passed = name.rpartition("/")[0], 1
        for part in target.split("/"):
            if at and at not in self._folders:  # a file holds no other files
                raise leads_nowhere(name, target)
            if part == "..":
                if not at:
                    raise leads_out(name, target)
                at = at.rpartition("/")[0]
            elif part not in ("", "."):
                at = f"{at}/{part}" if at else part
                if at in self._links:
                    at, more = self._end(at, depth + 1)
                    passed += more
                elif at not in self._folders and at not in self._files:
                    raise leads_nowhere(name, target)
        if passed > _MOST_PASSED:
            raise leads_nowhere(name, target)
        end = self._texts.setdefault(at, at), passed
        self._ends[name] = end
        return end


def leads_out(name: str, target: str) -> ArchiveError:
    """Return the error for a member or a link outside the archive; a member has no target."""
    link = f", a link to {target!r}," if target else ""
    return ArchiveError(f"the archive's {name!r}{link} leads out of it; leave it out")


def leads_nowhere(name: str, target: str) -> ArchiveError:
    """Return the error for a link to something that the archive does not hold."""
    return ArchiveError(f"the archive's {name!r} links to {target!r}, which leads to nothing in it")
