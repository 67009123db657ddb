"""The last changes: so many, so large together, and who was away for longer is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.apis.kubernetes import change_history as module
from partway.gateway.apis.kubernetes.change_history import History
from partway.gateway.apis.kubernetes.custom_object import ENDPOINT, CustomObject
from partway.gateway.apis.kubernetes.errors import VersionExpired


def change(version, size=0):
    noted = {"a": "x" * size} if size else {}
    return CustomObject(ENDPOINT, "space", "name", "uid", version, 1, "", annotations=noted)


@given(st.lists(st.integers(0, 400), max_size=30), st.integers(0, 40))
def test_what_is_remembered_is_whole_or_said_to_be_gone(sizes, since):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "HISTORY_CHANGES", 10)
        patch.setattr(module, "HISTORY_BYTES", 3000)
        history = History(5)
        for number, size in enumerate(sizes, 6):
            history.add("ADDED", change(number, size), None)
        kept = [each.version for each, _ in history._kept]
        assert len(kept) <= 10
        assert sum(size for _, size in history._kept) <= 3000
        expected = [number for number in range(6, 6 + len(sizes)) if number > since]
        try:
            told = [each.version for each in history.since(since)]
        except VersionExpired:
            assert since > history.latest or not set(expected) <= set(kept) or since < 5
        else:
            assert told == expected


async def test_each_change_wakes_who_waits(anyio_backend):
    history = History(1)
    waiter, other = history.waiter(), history.waiter()
    history.forget(other)
    history.add("ADDED", change(2), None)
    assert (waiter.is_set(), other.is_set()) == (True, False)
