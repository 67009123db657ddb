"""Metrics of the gateway's process, its version, its limits and its certificate."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from partway import __version__

_PROCESS = Path("/proc/self")


class ProcessMetrics(Collector):
    """Metrics of one process; those of ``process_*`` have the names of every Prometheus client.

    The collector of prometheus_client reads ``/proc/stat``, which a hardened systemd unit hides
    (``ProcSubset=pid``). This one reads ``/proc/self`` alone. A system without it has no metrics of
    memory and descriptors.

    Args:
        limits: the limits that are set, by the settings' names.
    """

    def __init__(self, registry: CollectorRegistry, limits: Mapping[str, int]) -> None:
        self._limits = limits
        self._started = _start_time()
        self._certificate_ends: Callable[[], float] | None = None
        registry.register(self)

    def watch_certificate(self, ends: Callable[[], float]) -> None:
        """Expose when the certificate of the TLS port ends.

        Args:
            ends: returns it, in epoch seconds.
        """
        self._certificate_ends = ends

    def collect(self) -> Iterable[Metric]:
        cpu = "CPU seconds of the process, of user and system"
        yield CounterMetricFamily("process_cpu_seconds", cpu, time.process_time())
        yield _gauge("process_start_time_seconds", "Start of the process", self._started)
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        yield _gauge("process_max_fds", "File descriptors that the process may have", limit)
        with suppress(OSError):
            open_now = sum(1 for _ in (_PROCESS / "fd").iterdir()) - 1  # without the one that lists
            yield _gauge("process_open_fds", "File descriptors that are open", open_now)
            pages = (_PROCESS / "statm").read_text().split()
            virtual, resident = (int(each) * resource.getpagesize() for each in pages[:2])
            yield _gauge("process_virtual_memory_bytes", "Virtual memory", virtual)
            yield _gauge("process_resident_memory_bytes", "Resident memory", resident)
        version = {"version": __version__}
        yield InfoMetricFamily("partway_build", "The version of Partway", version)
        limits = GaugeMetricFamily(
            "partway_limit", "Limits that are set, by their settings", labels=["setting"]
        )
        for setting, most in self._limits.items():
            limits.add_metric([setting], most)
        yield limits
        if self._certificate_ends is not None:
            yield _gauge(
                "partway_certificate_expiry_timestamp_seconds",
                "When the TLS port's certificate ends",
                self._certificate_ends(),
            )


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value)


def _start_time() -> float:
    """When this process began, in epoch seconds; now, where the system does not say."""
    now = time.time()
    with suppress(OSError, AttributeError):
        # Field 22 of proc(5)'s stat: ticks from the machine's start. The name may have spaces.
        ticks = int((_PROCESS / "stat").read_text().rpartition(")")[2].split()[19])
        return now - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    return now
