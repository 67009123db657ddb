"""partway.gateway.settings.endpoint_context: times that settings change."""

from __future__ import annotations

import dataclasses

from partway.gateway.fleet.endpoint import InstanceTimes
from partway.gateway.settings.endpoint_context import times_of
from partway.gateway.settings.shared_values import InstanceTable


def test_settings_change_their_own_times():
    base = InstanceTimes(startup_timeout=7, stop_timeout=8)
    changed = times_of(base, {"health_ping_interval": 3.0, "stop_timeout": 9.0, "gpus": 2})
    assert changed == dataclasses.replace(base, ping_interval=3.0, stop_timeout=9.0)


def test_each_key_of_the_table_is_a_time():
    keys = [each.name for each in dataclasses.fields(InstanceTable)]
    for number, key in enumerate(keys, 1000):
        assert number in dataclasses.astuple(times_of(InstanceTimes(), {key: number})), key
