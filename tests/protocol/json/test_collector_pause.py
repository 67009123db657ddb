"""partway.protocol.json.collector_pause: paused in a block, and as it was behind it."""

from __future__ import annotations

import gc

import pytest

from partway.protocol.json.collector_pause import collector_paused


@pytest.fixture(autouse=True)
def collector():
    """Has the collector on behind each test."""
    gc.enable()
    yield
    gc.enable()


def test_the_collector_is_paused_in_the_block_alone():
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_after_a_fault_the_collector_is_on_again():
    with pytest.raises(ZeroDivisionError), collector_paused():
        1 / 0  # noqa: B018 (the fault)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_blocks_overlap():
    first, second = collector_paused(), collector_paused()
    first.__enter__()
    second.__enter__()
    second.__exit__(None, None, None)
    assert not gc.isenabled()
    first.__exit__(None, None, None)
    assert gc.isenabled()
