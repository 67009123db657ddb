"""A server of objects as S3 is one: GET, HEAD, PUT, lists of one page after the other, and faults.

A large object comes in parts, as S3's clients send it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

import pytest
from aiohttp import web

KEY_ID = "AKIATEST"


@dataclass
class ObjectServer:
    """What the server has, what it was asked, and what it is to spoil.

    Attributes:
        buckets: bytes by key, by bucket.
        asked: method and path of each request.
        parts: of an object that comes in parts, by their numbers.
        types: what objects that were put are said to be, by key.
        codings: ``Content-Encoding`` of objects that were put with one, by key.
        key_id: how the credential begins that every request must be signed with.
        page: how many keys are on one page of a list.
        refusal: status and S3's code of every answer, if there is to be one.
        cut_after: how many bytes of a body are sent before the connection is cut, each time.
        stall_after: how many bytes of a body are sent before nothing more comes.
    """

    buckets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    parts: dict[int, bytes] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    codings: dict[str, str] = field(default_factory=dict)
    key_id: str = f"{KEY_ID}/"
    page: int = 1000
    refusal: tuple[int, str] | None = None
    cut_after: int | None = None
    stall_after: int | None = None
    port: int = 0
    stalled: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        if f"Credential={self.key_id}" not in request.headers.get("Authorization", ""):
            return refusal(403, "AccessDenied")
        if self.refusal is not None:
            return refusal(*self.refusal)
        name, _, key = request.path.removeprefix("/").partition("/")
        bucket = self.buckets.get(name)
        if bucket is None:
            return refusal(404, "NoSuchBucket")
        if request.method in ("PUT", "POST"):
            return await self._put(bucket, key, request)
        if "list-type" in request.query:
            return self._page(bucket, request)
        if key not in bucket:
            return refusal(404, "NoSuchKey")
        return await self._object(bucket[key], request)

    async def _put(self, bucket: dict[str, bytes], key: str, request: web.Request) -> web.Response:
        data = await request.read()
        if "uploads" in request.query:
            return _result("InitiateMultipartUpload", "<UploadId>1</UploadId>")
        if "partNumber" in request.query:
            self.parts[int(request.query["partNumber"])] = data
        elif request.method == "POST":
            bucket[key] = b"".join(self.parts[number] for number in sorted(self.parts))
            self.parts.clear()
            return _result("CompleteMultipartUpload", f'<ETag>"{etag(bucket[key])}"</ETag>')
        else:
            bucket[key] = data
            self.types[key] = request.headers.get("Content-Type", "")
            if (coding := request.headers.get("Content-Encoding")) is not None:
                self.codings[key] = coding
        return web.Response(headers={"ETag": f'"{etag(data)}"'})

    def _page(self, bucket: dict[str, bytes], request: web.Request) -> web.Response:
        begins = request.query.get("prefix", "")
        after = request.query.get("continuation-token", "")
        keys = sorted(key for key in bucket if key.startswith(begins) and key > after)
        more = len(keys) > self.page
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(bucket[key])}</Size>"
            f"<ETag>&quot;{etag(bucket[key])}&quot;</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in keys[: self.page]
        )
        last = escape(keys[self.page - 1]) if more else ""
        token = f"<NextContinuationToken>{last}</NextContinuationToken>" if more else ""
        return web.Response(
            text=f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{token}{contents}</ListBucketResult>",
            content_type="application/xml",
        )

    async def _object(self, data: bytes, request: web.Request) -> web.StreamResponse:
        if request.headers.get("If-Match", f'"{etag(data)}"') != f'"{etag(data)}"':
            return refusal(412, "PreconditionFailed")
        wanted = request.http_range
        part = data[wanted]
        begins = wanted.start or 0
        response = web.StreamResponse(status=200 if wanted.start is None else 206)
        response.headers["ETag"] = f'"{etag(data)}"'
        response.headers["Last-Modified"] = "Thu, 01 Jan 2026 00:00:00 GMT"
        response.content_length = len(part)
        if response.status == 206:
            last = begins + len(part) - 1
            response.headers["Content-Range"] = f"bytes {begins}-{last}/{len(data)}"
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        if self.cut_after is not None:
            await response.write(part[: self.cut_after])
            assert request.transport is not None
            request.transport.close()
        elif self.stall_after is not None:
            await response.write(part[: self.stall_after])
            self.stalled.set()
            await self.over.wait()
        else:
            await response.write(part)
        return response


def _result(operation: str, content: str) -> web.Response:
    text = f"<{operation}Result>{content}</{operation}Result>"
    return web.Response(text=text, content_type="application/xml")


def etag(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def refusal(status: int, code: str) -> web.Response:
    text = f"<Error><Code>{code}</Code><Message>as the test says</Message></Error>"
    return web.Response(status=status, text=text, content_type="application/xml")


@asynccontextmanager
async def serving_objects(environment: pytest.MonkeyPatch) -> AsyncIterator[ObjectServer]:
    """Run a server, with the variables set by which a client finds it."""
    server = ObjectServer()
    application = web.Application(client_max_size=2**30)
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.port = runner.addresses[0][1]
        for name in ("AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "HTTP_PROXY"):
            environment.delenv(name, raising=False)
        environment.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
        yield server
    finally:
        server.over.set()
        await runner.cleanup()
