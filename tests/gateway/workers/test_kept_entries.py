"""partway.gateway.workers.kept_entries: the bounds of what a supervisor keeps."""

from __future__ import annotations

import os

import pytest

from partway.gateway.fleet.limits import MAX_LAUNCHED_CONTAINERS
from partway.gateway.workers import kept_entries as module
from partway.gateway.workers.kept_entries import KeptEntries
from partway.gateway.workers.limits import MAX_WORKERS


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@pytest.fixture
def entries():
    entries = KeptEntries()
    yield entries
    entries.close()


def a_descriptor() -> int:
    return os.open("/dev/null", os.O_RDONLY)


def test_an_entry_is_replaced_and_forgotten_with_its_descriptors(entries):
    one, other = a_descriptor(), a_descriptor()
    entries.keep("a", b"1", [one], 0)
    entries.keep("a", b"2", [other], 0)
    assert (is_open(one), is_open(other)) == (False, True)
    entries.forget("a")
    entries.forget("a")
    assert not is_open(other)


@pytest.mark.parametrize(("limit", "value"), [("MAX_KEPT", 2), ("MAX_KEPT_BYTES", 4)])
def test_no_more_is_kept_than_there_is_room_for(entries, monkeypatch, caplog, limit, value):
    monkeypatch.setattr(module, limit, value)
    refused = a_descriptor()
    entries.keep("a", b"12", [], 0)
    entries.keep("b", b"12", [], 0)
    entries.keep("c", b"12", [refused], 0)
    assert [*entries.all] == ["a", "b"]
    assert not is_open(refused)
    assert "keeps no more" in caplog.text
    entries.keep("b", b"34", [], 0)
    assert entries.all["b"].record == b"34"


def test_the_largest_gateway_by_default_has_room(entries):
    """A container has an instance and a program; a slot has sockets and two workers."""
    records = {"instance": MAX_LAUNCHED_CONTAINERS, "program": MAX_LAUNCHED_CONTAINERS}
    records |= {"sockets": MAX_WORKERS, "worker": 2 * MAX_WORKERS}
    for prefix, number in records.items():
        for each in range(number):
            entries.keep(f"{prefix}/{each}", b"x" * 400, [], 0)
    assert len(entries.all) == sum(records.values())


def test_a_status_is_noted_once(entries):
    entries.keep("a", b"", [], 7)
    assert entries.ended(8, 0) is None
    assert entries.ended(7, -9) == "a"
    assert entries.ended(7, 0) is None
    assert entries.all["a"].status == -9
