"""gateway.apis.asynchronous.spool_quota: what one endpoint and one sender may have on disk."""

from __future__ import annotations

import pytest

from partway.gateway.apis.asynchronous.spool_quota import SpoolFull, SpoolQuota, SpoolShare


def kept(room, size, *, endpoint="e", sender="", is_answer=False):
    """Take so many bytes."""
    share = SpoolShare(endpoint, sender, is_answer)
    room.check(share, size)
    room.count(share, size)
    return share


def test_an_endpoint_has_half_and_so_has_a_sender():
    room = SpoolQuota(80)
    kept(room, 30, is_answer=True)
    with pytest.raises(SpoolFull, match=r"of endpoint 'e' have 30 bytes .* \(a part of async_quot"):
        kept(room, 11)
    kept(room, 20, endpoint="a", sender="x")
    share = kept(room, 10, endpoint="b", sender="x", is_answer=True)
    with pytest.raises(SpoolFull, match=r"of 'x' have 30 bytes on disk; they may have at most 40"):
        kept(room, 11, endpoint="c", sender="x")
    room.count(share, -10)
    assert room.used == 50
    kept(room, 20, endpoint="b", sender="x")
    with pytest.raises(
        SpoolFull, match=r"have 70 bytes on disk; they may have at most 80 \(async_q"
    ):
        kept(room, 11, endpoint="c", sender="y")


def test_answers_leave_room_for_bodies():
    room = SpoolQuota(80)
    kept(room, 35, endpoint="a", sender="x", is_answer=True)
    kept(room, 35, endpoint="b", sender="y", is_answer=True)
    with pytest.raises(
        SpoolFull, match=r"answers to asynchronous requests have 70 bytes .* most 70"
    ):
        kept(room, 1, endpoint="c", sender="z", is_answer=True)
    kept(room, 10, endpoint="c", sender="z")
