"""storage.places.s3_place: files at s3://, and what is said of those that cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import aclosing

import pytest

from partway.gateway.storage.limits import OBJECT_PAUSE, OBJECT_PIECE, OBJECT_RETRIES
from partway.gateway.storage.places.place import FoundFile, StorageFailed
from partway.gateway.storage.places.s3_place import S3Place
from partway.gateway.timing.clock import LoopClock
from tests.gateway.object_server import ObjectServer, serving_objects
from tests.gateway.storage.places.contract import Held, PlaceContract, content
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend")

MODEL = bytes(range(256)) * 4000


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ObjectServer]:
    async with serving_objects(monkeypatch) as server:
        server.buckets["bucket"] = {"models/a.tar.gz": MODEL, "models/b/c ä+%20.bin": b"c"}
        yield server


class Bucket:
    def __init__(self, server: ObjectServer) -> None:
        self._server = server

    def write(self, files: Mapping[str, bytes]) -> None:
        self._server.buckets["bucket"] |= files

    def read(self) -> dict[str, bytes]:
        return dict(self._server.buckets["bucket"])


class TestS3Place(PlaceContract):
    @pytest.fixture
    async def held(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Held]:
        async with serving_objects(monkeypatch) as server:
            server.buckets["bucket"] = {}
            yield Held(S3Place("bucket", LoopClock()), "", Bucket(server))


async def refused(what: Awaitable[object]) -> StorageFailed:
    with pytest.raises(StorageFailed) as caught:
        await what
    return caught.value


async def test_a_file_is_looked_up_and_read(server):
    files = S3Place("bucket", LoopClock())
    file = await files.look("models/a.tar.gz")
    assert (file.key, file.size) == ("models/a.tar.gz", len(MODEL))
    assert await content(files, file) == MODEL
    assert server.asked == ["HEAD /bucket/models/a.tar.gz", "GET /bucket/models/a.tar.gz"]


async def test_a_key_is_asked_for_as_it_is(server):
    files = S3Place("bucket", LoopClock())
    assert await content(files, await files.look("models/b/c ä+%20.bin")) == b"c"


async def test_a_list_is_of_all_pages(server):
    server.page = 2
    server.buckets["bucket"] |= {f"models/{n}": b"" for n in range(5)} | {"models2/x": b""}
    found = await S3Place("bucket", LoopClock()).listing("models/", 100)
    keys = [*(f"models/{n}" for n in range(5)), "models/a.tar.gz", "models/b/c ä+%20.bin"]
    assert [file.key for file in found] == keys
    assert [file.size for file in found] == [0, 0, 0, 0, 0, len(MODEL), 1]
    assert server.asked == ["GET /bucket"] * 4


async def test_nothing_begins_so(server):
    assert await S3Place("bucket", LoopClock()).listing("nothing/", 100) == []


# --- What goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "passing", "said"),
    [
        (404, "NoSuchKey", False, "the bucket has no such key"),
        (404, "NoSuchBucket", False, "has no such bucket"),
        (403, "AccessDenied", False, "denies access (AccessDenied); the credentials must allow"),
        (403, "InvalidAccessKeyId", False, "denies access (InvalidAccessKeyId)"),
        (401, "Unauthorized", False, "denies access (Unauthorized)"),
        (301, "PermanentRedirect", False, "is in another region; set AWS_REGION to it"),
        (400, "AuthorizationHeaderMalformed", False, "is in another region; set AWS_REGION to it"),
        (400, "InvalidRequest", False, "answered 400 InvalidRequest"),
        (503, "SlowDown", True, "answered 503 SlowDown"),
    ],
)
@pytest.mark.parametrize("ask", ["look", "list"])
async def test_an_answer_that_says_no(server, status, code, passing, said, ask):
    """S3's reason is in the answer's body, which HEAD has none of."""
    server.refusal = (status, code)
    files = S3Place("bucket", LoopClock())
    if ask == "look":
        error = await refused(files.look("models/a.tar.gz"))
        assert str(error).startswith("s3://bucket/models/a.tar.gz: ")
    else:
        if code == "NoSuchKey":
            said = "answered 404 NoSuchKey"
        error = await refused(files.listing("models/", 10))
        assert str(error).startswith("s3://bucket/models/: ")
    if status == 503 and ask == "look":
        said = "answered 503"
    assert said in str(error)
    assert error.passing is passing
    assert "\n" not in str(error)


async def test_what_is_not_there_and_whose_it_would_be(server):
    missing = await refused(S3Place("bucket", LoopClock()).look("nothing"))
    assert str(missing) == "s3://bucket/nothing: the bucket has no such key"
    nowhere = await refused(S3Place("elsewhere", LoopClock()).look("nothing"))
    assert str(nowhere) == (
        f"s3://elsewhere/nothing: http://127.0.0.1:{server.port} has no such bucket"
    )


async def test_a_server_that_is_overloaded_is_asked_again(server):
    server.refusal = (503, "SlowDown")
    await refused(S3Place("bucket", LoopClock()).look("a"))
    assert server.asked == ["HEAD /bucket/a"] * (1 + OBJECT_RETRIES)


@pytest.mark.parametrize("path", ["a//b", "a/../b", "a/./b", "/a", "a/", "//a", ""])
async def test_a_key_that_no_file_could_have(server, path):
    """The library reads and writes ``a`` where ``/a`` was asked for, which is another file."""
    files = S3Place("bucket", LoopClock())
    server.buckets["bucket"] = {"a": b"another's"}
    await refused(files.put(path, b"mine", 4))
    assert server.buckets["bucket"] == {"a": b"another's"}
    error = await refused(files.look(path))
    assert server.asked == []
    assert str(error).endswith(
        "no part of a key may be empty, . or .. here; copy it to another key"
    )


async def test_a_list_with_such_a_key(server):
    server.buckets["bucket"]["models/../x"] = b""
    error = await refused(S3Place("bucket", LoopClock()).listing("models/", 100))
    assert "no part of a key may be empty, . or .." in str(error)


async def test_a_body_that_was_cut_is_gone_on_with(server):
    server.cut_after = len(MODEL) // 2 + 1  # twice, and there is all of it
    files = S3Place("bucket", LoopClock())
    assert await content(files, await files.look("models/a.tar.gz")) == MODEL


async def test_a_body_that_is_cut_again_and_again(server):
    server.cut_after = 1000
    files = S3Place("bucket", LoopClock())
    error = await refused(content(files, await files.look("models/a.tar.gz")))
    assert f"the answer of http://127.0.0.1:{server.port} was cut; try again" in str(error)
    assert error.passing
    assert len(server.asked) == 2 + OBJECT_RETRIES


@pytest.mark.parametrize("more", [1, -1, -len(MODEL)])
async def test_another_size_than_was_said(server, more):
    files = S3Place("bucket", LoopClock())
    said = (await files.look("models/a.tar.gz")).size + more
    came: list[int] = []

    async def read() -> None:
        async with aclosing(
            files.pieces(FoundFile("models/a.tar.gz", "a.tar.gz", said, ""))
        ) as pieces:
            async for piece in pieces:
                came.append(len(piece))

    assert f"of {said} bytes came; try again" in str(await refused(read()))
    assert sum(came) <= said  # room on disk was taken for so many


async def test_nothing_comes_any_more(server):
    server.stall_after = 3 * OBJECT_PIECE
    clock = FakeClock()
    files = S3Place("bucket", clock)
    file = await files.look("models/a.tar.gz")
    reading = asyncio.ensure_future(refused(content(files, file)))
    await asyncio.wait_for(server.stalled.wait(), 10)
    # What was sent may come as one piece or as three: the time begins again after each.
    while not reading.done():
        clock.advance(OBJECT_PAUSE)
        await asyncio.sleep(0)
    assert f"nothing has come from http://127.0.0.1:{server.port} for 60 s" in str(reading.result())
    assert reading.result().passing


async def test_a_reader_that_is_cancelled_leaves_no_connection(server, no_leaks):
    server.stall_after = 100
    files = S3Place("bucket", LoopClock())
    file = await files.look("models/a.tar.gz")
    reading = asyncio.ensure_future(content(files, file))
    await asyncio.wait_for(server.stalled.wait(), 10)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    server.over.set()  # its own task would wait on


# --- Where S3 is ----------------------------------------------------------------------------------


async def test_an_endpoint_that_nobody_listens_at(server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    error = await refused(S3Place("bucket", LoopClock()).look("a"))
    said = "s3://bucket/a: http://127.0.0.1:9 cannot be reached; check its address"
    assert (str(error), error.passing) == (said, True)


@pytest.mark.parametrize("address", ["nonsense", "ftp://a", "http://", "http://[::1"])
async def test_an_endpoint_that_is_no_address(monkeypatch, address):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", address)
    error = await refused(S3Place("bucket", LoopClock()).look("a"))
    assert "AWS_ENDPOINT_URL is" in str(error)
    assert "it must be an address such as https://" in str(error)
    assert not error.passing


async def test_clear_text_is_for_loopback_alone(monkeypatch):
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://objects.example")
    error = await refused(S3Place("bucket", LoopClock()).look("a"))
    assert "others could read the data on its way; use https" in str(error)


async def test_no_credentials(server, monkeypatch):
    """Then a machine on EC2 is asked for its own, at an address of its own."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{server.port}")
    error = await refused(S3Place("bucket", LoopClock()).look("a"))
    assert "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in str(error)
