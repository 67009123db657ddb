"""Files at ``s3://bucket/key``, on S3 and on servers that speak its protocol.

The module uses obstore, one wheel without dependencies (6 MB packed, 15 MB on disk, 30 ms to
import). s3fs pins a botocore older than boto3's, and boto3 is synchronous. obstore signs requests,
retries, and resumes a cut body at the cut. This module translates its errors, which are texts.

Credentials and endpoint come from the variables that AWS's own clients use: ``AWS_ACCESS_KEY_ID``,
``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``, ``AWS_REGION``, ``AWS_ENDPOINT_URL`` and others.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from partway.gateway.network.dialling import is_loopback
from partway.gateway.storage.limits import (
    OBJECT_CONNECT_TIMEOUT,
    OBJECT_PARTS_AT_ONCE,
    OBJECT_PAUSE,
    OBJECT_PIECE,
    OBJECT_PUT_RATE,
    OBJECT_RETRIES,
)
from partway.gateway.storage.places.locations import SCHEME
from partway.gateway.storage.places.place import Content, FoundFile, StorageFailed
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import S3Store

#: Variables with the address of S3; the first that is set wins (obstore's order).
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")

_NO_KEY: Final = "no part of a key may be empty, . or .. here; copy it to another key"

_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,64})</Code>")
_STATUS: Final = re.compile(r"status code: (\d{3})\b")

_T = TypeVar("_T")


class S3Place:
    """The files of one bucket."""

    def __init__(self, bucket: str, clock: Clock) -> None:
        self._bucket = bucket
        self._clock = clock
        self._opened: S3Store | None = None

    async def look(self, key: str) -> FoundFile:
        import obstore

        self._check_key(key)
        store = await self._store()
        try:
            found = await self._soon(key, lambda: obstore.head_async(store, key))
        except StorageFailed as error:
            if error.passing:
                raise
            # S3's answer to HEAD has no body and so no reason; an answer to GET has the same head
            # and a body.
            found = (await self._soon(key, lambda: obstore.get_async(store, key))).meta
        return _file(found, key[: key.rfind("/") + 1])

    async def listing(self, prefix: str, most: int) -> list[FoundFile]:
        import obstore

        # The library lists only whole folders.
        folder = prefix[: prefix.rfind("/") + 1]
        store = await self._store()

        async def begun() -> AsyncIterator[Sequence[ObjectMeta]]:
            return aiter(obstore.list(store, prefix=folder or None))

        pages = await self._soon(prefix, begun)
        found: list[FoundFile] = []
        while page := await self._soon(prefix, lambda: anext(pages, [])):
            found += (_file(each, folder) for each in page if each["path"].startswith(prefix))
            if len(found) > most:
                raise StorageFailed(
                    f"{self.location(prefix)} has more than {most} files; name a prefix with fewer"
                )
        return sorted(found, key=lambda each: each.key)

    async def pieces(self, file: FoundFile) -> AsyncGenerator[bytes, None]:
        """Yield the content of a file in pieces; fail if it is not the content that was looked up.

        Close the generator (:func:`contextlib.aclosing`) to end the connection.

        Raises:
            StorageFailed: the file has changed or is gone, the body was cut, or no data comes.
        """
        import obstore

        store = await self._store()
        same: GetOptions = {"if_match": file.tag} if file.tag else {}
        result = await self._soon(
            file.key, lambda: obstore.get_async(store, file.key, options=same)
        )
        stream = aiter(result.stream(min_chunk_size=OBJECT_PIECE))
        came = 0
        while piece := await self._soon(file.key, lambda: anext(stream, b"")):
            came += len(piece)
            if came > file.size:
                break
            yield bytes(piece)
        if came != file.size:
            raise StorageFailed(
                f"{self.location(file.key)}: {came} of {file.size} bytes came; try again",
                passing=True,
            )

    async def put(
        self, key: str, content: Content, size: int, content_type: str = "", coding: str = ""
    ) -> None:
        import obstore

        attributes = {"Content-Type": content_type, "Content-Encoding": coding}
        self._check_key(key)
        store = await self._store()
        await self._soon(
            key,
            lambda: obstore.put_async(
                store,
                key,
                content,
                attributes={name: value for name, value in attributes.items() if value},
                max_concurrency=OBJECT_PARTS_AT_ONCE,
            ),
            OBJECT_PAUSE + size / OBJECT_PUT_RATE,
        )

    def location(self, key: str) -> str:
        """Return ``s3://BUCKET/KEY``."""
        return f"{SCHEME}{self._bucket}/{key}"

    async def _store(self) -> S3Store:
        if self._opened is None:
            # On a thread, with the library's import: this reads the system's TLS root certificates.
            self._opened = await asyncio.to_thread(_open, self._bucket)
        return self._opened

    async def _soon(
        self, key: str, ask: Callable[[], Awaitable[_T]], seconds: float = OBJECT_PAUSE
    ) -> _T:
        """Wait for a result of the library within a time limit, by default that of a pause."""
        from obstore.exceptions import BaseError

        try:
            async with time_limit(self._clock, seconds):
                return await ask()
        except TimeoutError:
            raise StorageFailed(
                f"{self.location(key)}: nothing has come from {_endpoint()} for {seconds:g} s; "
                "check its load and the network",
                passing=True,
            ) from None
        except (BaseError, OSError, ValueError) as error:
            raise self._in_words(error, key) from error

    def _check_key(self, key: str) -> None:
        """Refuse a key with a slash that the library would drop: it would name another file.

        Raises:
            StorageFailed: the key has such a slash.
        """
        if not key or key.startswith("/") or key.endswith("/"):
            raise StorageFailed(f"{self.location(key)}: {_NO_KEY}")

    def _in_words(self, error: Exception, key: str) -> StorageFailed:
        from obstore.exceptions import InvalidPathError, PreconditionError

        text = str(error)
        code = found[1] if (found := _CODE.search(text)) else ""
        status = int(found[1]) if (found := _STATUS.search(text)) else 0
        url, endpoint = self.location(key), _endpoint()
        passing = False
        if "/latest/" in text:  # the address of a machine's own credentials on EC2
            reason = (
                "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                "AWS_SKIP_SIGNATURE=true for public data"
            )
        elif code == "NoSuchBucket":
            reason = f"{endpoint} has no such bucket"
        elif isinstance(error, FileNotFoundError):
            reason = "the bucket has no such key"
        elif isinstance(error, (InvalidPathError, ValueError)):
            reason = _NO_KEY
        elif isinstance(error, PreconditionError):
            reason, passing = "it has changed while it was read; try again", True
        elif "redirect" in text or code == "AuthorizationHeaderMalformed":
            reason = f"{endpoint} says that the bucket is in another region; set AWS_REGION to it"
        elif status in (401, 403):
            reason = (
                f"{endpoint} denies access ({code or status}); the credentials must allow "
                "s3:GetObject, also s3:ListBucket for a prefix, and s3:PutObject for written "
                "files"
            )
        elif status:
            reason, passing = f"{endpoint} answered {status} {code}".rstrip(), status >= 500
        elif "body" in text.partition("\n")[0]:
            reason, passing = f"the answer of {endpoint} was cut; try again", True
        elif "error sending request" in text:
            reason, passing = f"{endpoint} cannot be reached; check its address", True
        else:
            reason, passing = text.partition("\n")[0], True
        return StorageFailed(f"{url}: {reason}", passing=passing)


def _file(found: ObjectMeta, folder: str) -> FoundFile:
    key = found["path"]
    return FoundFile(key, key.removeprefix(folder), found["size"], found["e_tag"] or "")


def _endpoint() -> str:
    return next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "S3")


def _open(bucket: str) -> S3Store:
    """Open a bucket; this sends nothing.

    Raises:
        StorageFailed: the endpoint's address cannot be used.
    """
    from obstore.store import S3Store

    endpoint = _endpoint()
    in_clear = False
    if endpoint != "S3":
        in_clear = _check_endpoint(endpoint)
    return S3Store(
        bucket,
        client_options={
            "allow_http": in_clear,
            "connect_timeout": timedelta(seconds=OBJECT_CONNECT_TIMEOUT),
            # The limit of a whole body, which may be large; pauses are checked by this module.
            "timeout": timedelta(days=1),
            # No connection is kept: files are few and large.
            "pool_max_idle_per_host": "0",
        },
        retry_config={
            "max_retries": OBJECT_RETRIES,
            "retry_timeout": timedelta(seconds=OBJECT_PAUSE),
        },
    )


def _check_endpoint(endpoint: str) -> bool:
    """Return whether an endpoint uses clear text.

    Raises:
        StorageFailed: the endpoint is no valid address, or would send signed requests in clear text
            over a network.
    """
    try:
        parts = urlsplit(endpoint)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise StorageFailed(
            f"AWS_ENDPOINT_URL is {endpoint!r}; it must be an address such as "
            "https://objects.example or http://127.0.0.1:9000"
        )
    in_clear = parts.scheme == "http"
    allowed = is_loopback(host) or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"
    if in_clear and not allowed:
        raise StorageFailed(
            f"AWS_ENDPOINT_URL is {endpoint!r}: others could read the data on its way; use https "
            "or set AWS_ALLOW_HTTP=true"
        )
    return in_clear
