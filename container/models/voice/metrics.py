"""Metrics of the engines, which ``GET /metrics`` shows beside the runtime's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from partway.container.models.voice.engine_set import Engines

_PREFIX: Final = "partway_voice_"


class VoiceMetrics(Collector):
    """The jobs of the engines' threads, and the metrics that engines have of their own.

    The label ``engine`` is the engine's word in errors. The metrics of an engine's own are in its
    attribute ``metrics``, a registry.
    """

    def __init__(self, engines: Engines) -> None:
        self._pools = engines.pools
        found = (getattr(engine, "metrics", None) for engine in engines.loaded)
        self._own = [each for each in found if isinstance(each, CollectorRegistry)]

    def collect(self) -> Iterator[Metric]:
        yield from self._jobs()
        for registry in self._own:
            yield from registry.collect()

    def _jobs(self) -> Iterator[Metric]:
        labels = ["engine"]
        running = GaugeMetricFamily(
            f"{_PREFIX}jobs_running", "Jobs that engines compute", labels=labels
        )
        waiting = GaugeMetricFamily(
            f"{_PREFIX}jobs_waiting", "Jobs that wait for an engine", labels=labels
        )
        refused = CounterMetricFamily(
            f"{_PREFIX}jobs_refused", "Jobs for which no engine was free", labels=labels
        )
        for pool in self._pools:
            figures = pool.figures
            running.add_metric([pool.name], figures.running)
            waiting.add_metric([pool.name], figures.waiting)
            refused.add_metric([pool.name], figures.refused)
        yield from (running, waiting, refused)
