"""Where the symbolic links of an archive lead, told from its names alone."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from partway.gateway.storage.archives.heads import ArchiveError

#: As many links Linux follows in one path (``MAXSYMLINKS``, path_resolution(7)).
_MOST_PASSED: Final = 40


class LinkedWays:
    """The ways along an archive's symbolic links, each of which must stay inside at every step.

    By names, since a folder may be had in which 40 links of a thousand steps each lead to one
    another, and to follow one of them on a disk takes a tenth of a second. A way that leaves the
    archive's own folder and comes back by that folder's name would lead out once that is another.

    Args:
        folders: paths in the archive of its folders, its own left out.
        files: those of its files.
        links: what each of its symbolic links leads to, by its path, as the archive words it.
    """

    def __init__(
        self, folders: Container[str], files: Container[str], links: Mapping[str, str]
    ) -> None:
        self._folders = folders
        self._files = files
        self._links = links
        #: Of each link that has been looked at: where it leads, and how many are passed on the way.
        self._ends: dict[str, tuple[str, int]] = {}
        #: One text for each path at which links end: many may end at one that is long.
        self._texts: dict[str, str] = {}

    def check(self, name: str) -> None:
        """Look at a link, and at those on its way.

        Raises:
            ArchiveError: one of them leads to nothing in the archive, through too many others, or
                out of it.
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
            if at and at not in self._folders:  # a file holds nothing
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
    """What is said of a member that lies, or of a link that leads, outside; no link, no target."""
    link = f", a link to {target!r}," if target else ""
    return ArchiveError(f"the archive's {name!r}{link} leads out of it; leave it out")


def leads_nowhere(name: str, target: str) -> ArchiveError:
    """What is said of a link that leads to nothing that the archive holds."""
    return ArchiveError(f"the archive's {name!r} links to {target!r}, which leads to nothing in it")
