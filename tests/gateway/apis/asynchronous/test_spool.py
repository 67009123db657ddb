"""gateway.apis.asynchronous.spool: room for bodies, answers on disk, and no more than may be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from partway.gateway.apis.asynchronous.limits import PIECE_BYTES
from partway.gateway.apis.asynchronous.spool import Spool
from partway.gateway.apis.asynchronous.spool_quota import SpoolFull
from partway.gateway.storage import files
from partway.protocol.limits import MIB
from tests.gateway.apis.asynchronous.a_request import a_request
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend")


@pytest.fixture
async def spool(tmp_path):
    return Spool(tmp_path, 6 * PIECE_BYTES, FakeClock())


async def test_a_body_counts_until_it_is_dropped(spool, tmp_path):
    await spool.take_room(a_request(id="a", length=100))
    assert spool.used == 100
    await spool.drop("a")
    assert (spool.used, list(tmp_path.iterdir())) == (0, [])


async def test_an_answer_grows_and_goes(spool):
    path = await spool.append_answer(a_request(id="a"), b"one ")
    assert await spool.append_answer(a_request(id="a"), b"two") == path
    assert path.read_bytes() == b"one two"
    assert spool.used == 7
    await spool.drop_answer("a")
    assert not path.exists()
    assert spool.used == 0


async def test_there_is_only_so_much(spool):
    one, another = a_request(id="a", length=2 * PIECE_BYTES), a_request("other", id="b")
    await spool.take_room(one)
    path = await spool.append_answer(one, bytes(PIECE_BYTES))
    assert path.stat().st_mode & 0o777 == 0o600
    for more in (spool.take_room(a_request(id="c")), spool.append_answer(one, b"x")):
        with pytest.raises(SpoolFull, match=r"of endpoint 'e' have 3145728 bytes on disk"):
            await more
    await spool.append_answer(another, bytes(3 * PIECE_BYTES))
    with pytest.raises(SpoolFull, match=r"at most 6291456 \(async_quota\); try again"):
        await spool.append_answer(a_request("third"), b"x")
    await spool.drop("a")
    await spool.take_room(one)


async def test_a_disk_that_has_little_left_is_left_to_all_else(spool, tmp_path, monkeypatch):
    """Behind a 503 the journal and the control plane can still write."""
    free = 300 * MIB
    monkeypatch.setattr(files, "disk_usage", lambda _: SimpleNamespace(total=1 << 40, free=free))
    await spool.take_room(a_request(id="a"))
    free = 256 * MIB
    for more in (spool.take_room(a_request(id="b")), spool.append_answer(a_request(id="b"), b"x")):
        with pytest.raises(SpoolFull, match="268435456 of them are reserved"):
            await more
    assert list(tmp_path.iterdir()) == []
    await spool.drop("b")
    assert spool.used == 4


async def test_what_another_gateway_has_left(spool, tmp_path):
    await spool.append_answer(a_request(id="wanted"), b"half an ans")
    after = Spool(tmp_path, 6 * PIECE_BYTES, FakeClock())
    await after.take_over([a_request(id="wanted"), a_request(id="other", input="s3://b/c")])
    assert after.used == 4
    assert list(tmp_path.iterdir()) == []
    await after.drop("wanted")
    assert after.used == 0


async def test_a_disk_that_does_not_take_it(spool, tmp_path):
    (tmp_path / "a.answer").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        await spool.append_answer(a_request(id="a"), b"x")
    await spool.drop("a")
    assert spool.used == 0
    assert not (tmp_path / "elsewhere").exists()
