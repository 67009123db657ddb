"""The files that a job reads: those of a place below a location, each with leave."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from partway.gateway.batch.input_output import TransformInput, checked_name
from partway.gateway.batch.limits import FILES_PER_TURN, MAX_FILES
from partway.gateway.storage.places.locations import SCHEME, checked_arn
from partway.gateway.storage.places.place import FilePlace, StorageFailed
from partway.gateway.timing.deadlines import in_turns

#: Whether somebody may do something: an action, and a resource's ARN.
May = Callable[[str, str], bool]


class PlaceInputs:
    """The files whose keys begin with a prefix, as the API's ``S3Prefix`` has them.

    The gateway reads them with its own credentials, so leave for each file is asked of the caller.

    Args:
        location: as it was given, for messages.
        place: has the files.
        key: the prefix.
        may: whether the caller may do something; None for the operator, who may read all.
        is_file: whether the key is a file's, and no other file is meant that begins so.
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
        """All of them; see :class:`~.input_output.InputPlace`."""
        if self._is_file:
            listing = [await self._place.look(self._key)]
        else:
            listing = await self._place.listing(self._key, MAX_FILES)
        # A key that stands for a folder, which tools make, has lost its slash here.
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
            one = "a key that begins so" if at_s3 else "a file, or a folder with files"
            raise StorageFailed(f"{self._location}: there must be {one}")
        return found

    def pieces(self, file: TransformInput) -> AsyncGenerator[bytes, None]:
        """The bytes of one; see :class:`~.input_output.InputPlace`."""
        return self._place.pieces(file.file)


def check_leave(location: str, may: May) -> None:
    """Go on if somebody may read the file at a location.

    Raises:
        StorageFailed: they may not, or it is written in another way than leave is asked for.
    """
    try:
        resource = checked_arn(location)
    except ValueError as error:
        raise StorageFailed(str(error)) from None
    if not may("s3:GetObject", resource):
        raise StorageFailed(f"who has made the job has no leave for s3:GetObject on {resource}")
