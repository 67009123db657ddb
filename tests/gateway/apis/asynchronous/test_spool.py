"""gateway.apis.asynchronous.spool: bodies and answers on disk, and no more than there may be."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import aclosing
from types import SimpleNamespace

import pytest

from partway.gateway.apis.asynchronous.limits import PIECE_BYTES
from partway.gateway.apis.asynchronous.spool import Spool
from partway.gateway.apis.asynchronous.spool_room import SpoolFull
from partway.gateway.storage import files
from partway.protocol.limits import MIB
from tests.gateway.apis.asynchronous.a_request import a_request
from tests.gateway.fleet.processes import eventually
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend")


async def body_of(spool, whose):
    async with aclosing(spool.body(whose)) as pieces:
        return [piece async for piece in pieces]


@pytest.fixture
async def spool(tmp_path):
    return Spool(tmp_path, 6 * PIECE_BYTES, FakeClock())


async def test_a_body_is_kept_and_read_in_pieces(spool, tmp_path):
    body = bytes(range(256)) * (PIECE_BYTES // 256) + b"end"
    await spool.keep_body(a_request(id="a"), body)
    assert spool.body_size("a") == spool.used == len(body)
    assert await body_of(spool, "a") == [body[:PIECE_BYTES], b"end"]
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    await spool.drop("a")
    assert (spool.used, spool.body_size("a"), list(tmp_path.iterdir())) == (0, None, [])


async def test_an_answer_grows_and_goes(spool):
    path = await spool.append_answer(a_request(id="a"), b"one ")
    assert await spool.append_answer(a_request(id="a"), b"two") == path
    assert path.read_bytes() == b"one two"
    assert spool.used == 7
    await spool.drop_answer("a")
    assert not path.exists()
    assert spool.used == 0


async def test_there_is_only_so_much(spool):
    one, another = a_request(id="a"), a_request("other", id="b")
    await spool.keep_body(one, bytes(2 * PIECE_BYTES))
    await spool.append_answer(one, bytes(PIECE_BYTES))
    for more in (spool.keep_body(a_request(id="c"), b"x"), spool.append_answer(one, b"x")):
        with pytest.raises(SpoolFull, match=r"of endpoint 'e' have 3145728 bytes on disk"):
            await more
    await spool.keep_body(another, bytes(3 * PIECE_BYTES))
    with pytest.raises(SpoolFull, match=r"6291456 at most \(async_quota\); try again"):
        await spool.append_answer(a_request("third"), b"x")
    await spool.drop("a")
    await spool.keep_body(one, b"x")


async def test_a_disk_that_has_little_left_is_left_to_all_else(spool, tmp_path, monkeypatch):
    """Behind a 503 the journal and the control plane can still write."""
    free = 300 * MIB
    monkeypatch.setattr(files, "disk_usage", lambda _: SimpleNamespace(total=1 << 40, free=free))
    await spool.keep_body(a_request(id="a"), b"x")
    free = 256 * MIB
    for more in (
        spool.keep_body(a_request(id="b"), b"x"),
        spool.append_answer(a_request(id="b"), b"x"),
    ):
        with pytest.raises(SpoolFull, match="268435456 of them are not for bodies and answers"):
            await more
    assert [each.name for each in tmp_path.iterdir()] == ["a.body"]
    await spool.drop("b")
    assert spool.used == 1


async def test_what_another_gateway_has_left(spool, tmp_path):
    await spool.keep_body(a_request(id="wanted"), b"body")
    await spool.keep_body(a_request(id="stray"), b"stray")
    await spool.append_answer(a_request(id="wanted"), b"half an ans")
    after = Spool(tmp_path, PIECE_BYTES, FakeClock())
    await after.take_over([a_request(id="wanted"), a_request(id="gone")])
    assert (after.used, after.body_size("gone")) == (4, None)
    assert await body_of(after, "wanted") == [b"body"]
    assert len(list(tmp_path.iterdir())) == 1


async def test_a_disk_that_does_not_take_it(spool, tmp_path):
    (tmp_path / "a.body").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="File exists"):
        await spool.keep_body(a_request(id="a"), b"x")
    await spool.drop("a")
    assert spool.used == 0
    assert not (tmp_path / "elsewhere").exists()


async def test_a_body_that_is_cut_off_leaves_no_file(spool, tmp_path, monkeypatch):
    writes, may_go_on = threading.Event(), threading.Event()
    fsync = os.fsync

    def slow(descriptor):
        writes.set()
        may_go_on.wait(60)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    keeping = asyncio.create_task(spool.keep_body(a_request(id="a"), b"body"))
    await eventually(writes.is_set)
    keeping.cancel()
    await asyncio.sleep(0)
    may_go_on.set()
    await asyncio.wait((keeping,))
    assert keeping.cancelled()
    assert list(tmp_path.iterdir()) == []
    assert spool.used == 4  # the disk may have it yet, as far as is known
    await spool.drop("a")
    assert spool.used == 0
