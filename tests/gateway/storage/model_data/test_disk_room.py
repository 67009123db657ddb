"""storage.model_data.disk_room: what model data takes of the disk, and what is too much."""

from __future__ import annotations

import threading

import pytest

from partway.gateway.storage.model_data.disk_room import DiskRoom, NoRoom

BLOCK = 4096


def test_files_take_their_blocks_and_one_more():
    room = DiskRoom(1 << 20)
    share = room.share()
    for size, blocks in ((0, 1), (1, 2), (BLOCK, 2), (BLOCK + 1, 3)):
        before = room.used
        share.take_file(size)
        assert room.used - before == blocks * BLOCK
    assert share.taken == room.used
    share.give_back()
    share.give_back()
    assert (share.taken, room.used) == (0, 0)


def test_what_never_fits():
    with pytest.raises(NoRoom) as caught:
        DiskRoom(10 * BLOCK).share().take_file(1 << 20)
    assert not caught.value.passing
    said = "it needs more than the 0.0 MiB that all model data may use on disk; raise model_data_"
    assert str(caught.value) == said + "quota"


def test_what_fits_once_others_have_gone():
    room = DiskRoom(3 << 20)
    other, share = room.share(), room.share()
    other.take_file(2 << 20)
    with pytest.raises(NoRoom, match=r"the 3\.0 MiB .* other data uses 2\.0 MiB") as caught:
        share.take_file(2 << 20)
    assert caught.value.passing
    other.give_back()
    share.take_file(2 << 20)


def test_what_is_there_for_its_sake_alone_does_not_go_first():
    """A download goes only when it is unpacked: beside one another they never fit."""
    room = DiskRoom(3 << 20)
    download = room.share()
    download.take_file(2 << 20)
    with pytest.raises(NoRoom) as caught:
        room.share(download).take_file(2 << 20)
    assert not caught.value.passing


def test_threads_share_it():
    room = DiskRoom(8 * 1000 * BLOCK)

    def take() -> None:
        share = room.share()
        for _ in range(1000):
            share.take_file(0)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert room.used == 8 * 1000 * BLOCK
