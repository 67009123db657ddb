"""partway.gateway.apis.asynchronous.locations: inputs and answers, at s3:// and on this machine."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from pathlib import Path
from typing import cast

import pytest

from partway.gateway.apis.asynchronous import locations as module
from partway.gateway.apis.asynchronous.limits import FILE_TIMEOUT, FOLDER_THREADS
from partway.gateway.apis.asynchronous.locations import Locations
from partway.gateway.apis.asynchronous.requests import AsyncAnswer
from partway.gateway.storage.limits import READ_BYTES, WORK_STOP_TIMEOUT
from partway.gateway.storage.places import places as places_module
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.waiting import eventually
from tests.gateway.object_server import serving_objects
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend")


@pytest.fixture
async def server(monkeypatch):
    async with serving_objects(monkeypatch) as server:
        server.buckets["bucket"] = {"in": b"hello"}
        yield server


@pytest.fixture
async def places(tmp_path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    roots = LocalRoots((tmp_path / "in",))
    results = LocalRoots((tmp_path / "out",), setting="local_results")
    return Locations(LoopClock(), lambda: roots, results)


async def content(places, location):
    found = await places.look(location)
    async with aclosing(places.pieces(found)) as pieces:
        read = b"".join([piece async for piece in pieces])
    assert found.size == len(read)
    return read


def answer(data, content_type=""):
    return AsyncAnswer(data, len(data), content_type)


async def test_inputs_are_read_and_answers_put(places, server, tmp_path):
    assert await content(places, "s3://bucket/in") == b"hello"
    await places.put("s3://bucket/out/a", answer(b"yes", "text/x"))
    await places.put("s3://bucket/out/a", answer(b"again", "text/y"))
    assert server.buckets["bucket"]["out/a"] == b"again"
    assert server.types["out/a"] == "text/y"
    large = bytes(range(256)) * (READ_BYTES // 128)
    (tmp_path / "in" / "large").write_bytes(large)
    assert await content(places, f"file://{tmp_path}/in/large") == large
    await places.put(f"{tmp_path}/out/b", answer(b"local"))
    assert (tmp_path / "out" / "b").read_bytes() == b"local"


async def test_a_folder_that_hangs_takes_no_other_s_turns(tmp_path, monkeypatch):
    clock, go_on = FakeClock(), threading.Event()
    resolve = Path.resolve

    def hang(path):
        if "/dead" in str(path):
            go_on.wait(30)

    def resolved(path, strict=False):
        hang(path)
        return resolve(path, strict)

    for name in ("dead", "well"):
        (tmp_path / name).mkdir()
    (tmp_path / "well" / "a").write_bytes(b"a")
    roots = LocalRoots((tmp_path, tmp_path / "dead"))
    monkeypatch.setattr(Path, "resolve", resolved)
    places = Locations(clock, lambda: roots, roots)
    dead = f"{tmp_path}/dead/a"
    hanging = [asyncio.create_task(places.look(dead)) for _ in range(FOLDER_THREADS * 2)]
    try:
        await eventually(lambda: len(clock.armed) == len(hanging))
        assert (await places.look(f"{tmp_path}/well/a")).size == 1
        await places.put(f"{tmp_path}/well/b", answer(b"b"))
        clock.advance(FILE_TIMEOUT)
        await eventually(lambda: sum(each.done() for each in hanging) == FOLDER_THREADS)
        clock.advance(WORK_STOP_TIMEOUT)
        await asyncio.wait(hanging)
        said = [cast("StorageFailed", each.exception()) for each in hanging]
        assert sum(each.has_waited for each in said) == FOLDER_THREADS
        with pytest.raises(StorageFailed, match="all of them hang") as caught:
            await places.look(dead)
        assert caught.value.has_waited
    finally:
        go_on.set()


async def test_a_large_answer_goes_to_s3_in_parts(places, server, tmp_path):
    spooled = tmp_path / "answer"
    data = bytes(range(256)) * (12 << 12)
    spooled.write_bytes(data)
    await places.put("s3://bucket/large", AsyncAnswer(spooled, len(data)))
    assert server.buckets["bucket"]["large"] == data
    assert len([each for each in server.asked if each.startswith("PUT")]) == 3


@pytest.mark.parametrize(
    ("location", "passing", "words"),
    [
        ("s3://bucket/none", False, "no such key"),
        ("s3://B/none", False, "not a bucket's name"),
        ("{}/in/none", False, "No such file"),
        ("{}/elsewhere", False, "must be below one of the local_roots"),
    ],
)
async def test_an_input_that_is_not_there(places, server, tmp_path, location, passing, words):
    with pytest.raises(StorageFailed, match=words) as caught:
        await places.look(location.format(tmp_path))
    assert caught.value.passing is passing


async def test_an_input_that_is_too_large(places, server, monkeypatch):
    monkeypatch.setattr(module, "INPUT_BYTES", 4)
    with pytest.raises(StorageFailed, match="has 5 bytes; an input must have at most 4"):
        await places.look("s3://bucket/in")


async def test_an_answer_that_cannot_be_put(places, server, tmp_path):
    with pytest.raises(StorageFailed, match="must be below one of the local_results"):
        await places.put(f"{tmp_path}/in/a", answer(b""))
    server.refusal = (403, "AccessDenied")
    with pytest.raises(StorageFailed, match=r"denies access .*s3:PutObject") as caught:
        await places.put("s3://bucket/a", answer(b""))
    assert not caught.value.passing
    server.refusal = (503, "SlowDown")
    with pytest.raises(StorageFailed, match="answered 503") as caught:
        await places.put("s3://bucket/a", answer(b""))
    assert caught.value.passing


async def test_few_buckets_are_remembered(places, server, monkeypatch):
    monkeypatch.setattr(places_module, "KNOWN_BUCKETS", 1)
    server.buckets["other"] = {"in": b"other"}
    for _ in range(2):
        assert await content(places, "s3://bucket/in") == b"hello"
        assert await content(places, "s3://other/in") == b"other"
