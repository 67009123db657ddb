"""Files at ``s3://bucket/prefix`` as a job's input and output."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing, asynccontextmanager

from partway.gateway.clock import Clock
from partway.gateway.storage.places.s3_place import (
    SCHEME,
    ObjectFile,
    ObjectFiles,
    ObjectFilesError,
    split_url,
)
from partway.gateway.transform.gathering import GatheredFile, Gathering
from partway.gateway.transform.limits import FILES_PER_TURN, MAX_FILES
from partway.gateway.transform.storage import (
    StorageFailed,
    TransformInput,
    checked_name,
    output_name,
)
from partway.gateway.waiting import in_turns


def bucket_and_key(url: str) -> tuple[str, str]:
    """The parts of an ``s3://`` URL.

    Raises:
        StorageFailed: it names no bucket.
    """
    try:
        return split_url(url)
    except ObjectFilesError as error:
        raise StorageFailed(str(error)) from None


class ObjectInputs:
    """The files of a bucket whose keys begin with a prefix, as the API's ``S3Prefix`` has them.

    Args:
        url: bucket and prefix.
        clock: measures the times.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        bucket, self._prefix = bucket_and_key(url)
        self._url = url
        self._files = ObjectFiles(bucket, clock)
        # Names are relative to the folder that the prefix is in: part- has part-0.csv.
        self._folder = self._prefix[: self._prefix.rfind("/") + 1]

    async def files(self) -> list[TransformInput]:
        """All of them; see :class:`~.storage.InputPlace`."""
        try:
            listing = await self._files.listing(self._prefix, MAX_FILES)
        except ObjectFilesError as error:
            raise StorageFailed(str(error)) from None
        # A key that stands for a folder, which tools make, has lost its slash here.
        folders = {each.key.rpartition("/")[0] for each in listing}
        found = [
            TransformInput(self._name(each), each.size, each)
            async for each in in_turns(listing, FILES_PER_TURN)
            if each.size or each.key not in folders
        ]
        if not found:
            raise StorageFailed(f"{self._url}: there must be a key that begins so")
        return found

    async def pieces(self, file: TransformInput) -> AsyncGenerator[bytes, None]:
        """The bytes of one; see :class:`~.storage.InputPlace`."""
        assert isinstance(file.file, ObjectFile), "it was listed here"
        try:
            async with aclosing(self._files.pieces(file.file)) as pieces:
                async for piece in pieces:
                    yield piece
        except ObjectFilesError as error:
            raise StorageFailed(str(error)) from None

    def _name(self, file: ObjectFile) -> str:
        return checked_name(file.key[len(self._folder) :], self._url)


class ObjectOutputs:
    """A prefix of a bucket; an output is gathered on this machine and put there whole.

    Args:
        url: bucket and prefix, with ``/`` behind it or without.
        content_type: of the output; empty if it is not known.
        gathering: where it is gathered.
        clock: measures the times.
    """

    def __init__(self, url: str, content_type: str, gathering: Gathering, clock: Clock) -> None:
        bucket, key = bucket_and_key(url)
        self._bucket = bucket
        self._prefix = f"{key.rstrip('/')}/" if key.rstrip("/") else ""
        self._content_type = content_type
        self._gathering = gathering
        self._files = ObjectFiles(bucket, clock)

    async def present(self, names: Collection[str]) -> set[str]:
        """Which outputs are there; see :class:`~.storage.OutputPlace`."""
        try:
            # Outputs of other inputs may be there besides.
            listing = await self._files.listing(self._prefix, 2 * MAX_FILES)
        except ObjectFilesError as error:
            raise StorageFailed(str(error)) from None
        keys = {each.key for each in listing}
        return {name for name in names if self._key(name) in keys}

    @asynccontextmanager
    async def output(self, name: str) -> AsyncIterator[_ObjectOutput]:
        """One output; see :class:`~.storage.OutputPlace`."""
        async with self._gathering.file() as gathered:
            yield _ObjectOutput(self._files, self._key(name), self._content_type, gathered)

    def location(self, name: str) -> str:
        """Where the output of a file belongs, for people."""
        return f"{SCHEME}{self._bucket}/{self._key(name)}"

    def _key(self, name: str) -> str:
        return self._prefix + output_name(name)


class _ObjectOutput:
    """An output on its way to a bucket.

    Args:
        files: the bucket's.
        key: of the output.
        content_type: of the output.
        gathered: where it is gathered.
    """

    def __init__(
        self, files: ObjectFiles, key: str, content_type: str, gathered: GatheredFile
    ) -> None:
        self.write = gathered.write
        self.restart = gathered.restart
        self._files = files
        self._key = key
        self._content_type = content_type
        self._gathered = gathered

    async def finish(self) -> None:
        """Have it appear; see :class:`~.storage.OutputFile`."""
        try:
            size = self._gathered.size
            content = self._gathered.whole() if size else b""
            await self._files.put(self._key, content, size, self._content_type)
        except ObjectFilesError as error:
            raise StorageFailed(str(error)) from None
