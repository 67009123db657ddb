"""partway.gateway.configuration.usable_cpus: affinity, and the limit of a cgroup."""

from __future__ import annotations

import os

import pytest

from partway.gateway.configuration.usable_cpus import usable_cpus


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("max 100000\n", 6),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),  # a part of one
        ("50000 100000\n", 1),
        ("9900000 100000\n", 6),
        ("nonsense", 6),
        (None, 6),
    ],
)
def test_the_smaller_limit_holds(limit, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    path = tmp_path / "cpu.max"
    if limit is not None:
        path.write_text(limit)
    assert usable_cpus(path) == expected


def test_a_system_without_affinity_counts_its_cpus(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cpus(tmp_path / "none") == 1
