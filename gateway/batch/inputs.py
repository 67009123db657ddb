"""A job's input files below a location, each checked for read permission."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from partway.gateway.batch.input_output import TransformInput, checked_name
from partway.gateway.batch.limits import FILES_PER_TURN, MAX_FILES
from partway.gateway.storage.places.locations import SCHEME, checked_arn
from partway.gateway.storage.places.place import FilePlace, StorageFailed
from partway.gateway.timing.deadlines import in_turns

#: Whether the caller has permission for an action (first) on a resource's ARN (second).
May = Callable[[str, str], bool]


class PlaceInputs:
    """The files whose keys begin with a prefix, as the API's ``S3Prefix`` selects them.

    The gateway reads files with its own credentials, so each file is checked against the caller's
    permissions.

    Args:
        location: as the caller wrote it, for messages.
        key: the prefix.
        may: whether the caller has a permission; None for the operator, who may read all files.
        is_file: whether the key names one file and is no prefix of others.
    """

    def __init__(
        self,
        location: str,
        place: FilePlace,
        key: str,
        may: May | None = None,
        *,
        is_file: bool = False,
    ) -> None:
        self._location = location
        self._place = place
        self._key = key
        self._may = may
        self._is_file = is_file

    async def files(self) -> list[TransformInput]:
        if self._is_file:
            listing = [await self._place.look(self._key)]
        else:
            listing = await self._place.listing(self._key, MAX_FILES)
        # Tools make a key for a folder; its slash is stripped here.
        folders = {each.key.rpartition("/")[0] for each in listing}
        found = []
        async for each in in_turns(listing, FILES_PER_TURN):
            if each.size or each.key not in folders:
                location = self._place.location(each.key)
                checked_name(each.name, location)
                if self._may is not None:
                    check_leave(location, self._may)
                found.append(TransformInput(each.name, each.size, each))
        if not found:
            at_s3 = self._location.startswith(SCHEME)
            one = "a key with this prefix" if at_s3 else "a file, or a folder with files"
            raise StorageFailed(f"{self._location}: there must be {one}")
        return found

    def pieces(self, file: TransformInput) -> AsyncGenerator[bytes, None]:
        return self._place.pieces(file.file)


def check_leave(location: str, may: May) -> None:
    """Return if the caller may read the file at a location.

    Raises:
        StorageFailed: the caller may not, or the location is not in the form that permissions use.
    """
    try:
        resource = checked_arn(location)
    except ValueError as error:
        raise StorageFailed(str(error)) from None
    if not may("s3:GetObject", resource):
        raise StorageFailed(f"the job's creator has no permission for s3:GetObject on {resource}")
