"""partway.gateway.cli.process: descriptors and signals; the rest is tested with the commands."""

from __future__ import annotations

import dataclasses
import resource
import signal

import pytest

from partway.gateway.cli.process import (
    descriptors_of,
    raise_descriptor_limit,
    run_loop,
    stop_on_signals,
)
from partway.gateway.containers.limits import MAX_IDLE_CONNECTIONS
from partway.gateway.limits import MAX_FORWARDED
from partway.gateway.settings.settings import Settings


def test_each_connection_is_a_descriptor():
    loaded = Settings(max_connections=1000, max_streams=100, max_requests=10)
    assert descriptors_of(loaded) == 1110 + MAX_IDLE_CONNECTIONS
    assert descriptors_of(loaded, 3) == 1310 + MAX_IDLE_CONNECTIONS
    with_workers = dataclasses.replace(loaded, workers=2)
    assert descriptors_of(with_workers) == 1110 + MAX_IDLE_CONNECTIONS + MAX_FORWARDED


@pytest.mark.parametrize(("needed", "warns"), [(100, False), (101, True)])
def test_a_limit_that_is_too_low_is_said(monkeypatch, caplog, needed, warns):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (50, 100))
    set_to = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_to.append(limits))
    raise_descriptor_limit(needed)
    assert set_to == [(100, 100)]
    assert ("the limit of open files is too low" in caplog.text) is warns


def test_signals_do_after_a_loop_what_they_did_before():
    async def main():
        stop_on_signals(again=lambda: None)
        return 0

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(each) for each in numbers]
    assert run_loop(main()) == 0
    assert [signal.getsignal(each) for each in numbers] == before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
