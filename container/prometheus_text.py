"""The runtime's figures and the author's metrics in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from partway.container.figures import SECONDS, Figures
from partway.container.workers import JobFigures

__all__ = ["CONTENT_TYPE_LATEST", "metrics_text"]

_PREFIX: Final = "partway_container_"


def metrics_text(
    figures: Mapping[str, Figures], jobs: JobFigures | None, own: CollectorRegistry
) -> bytes:
    """Return all metrics.

    Args:
        figures: by kind, ``stream`` or ``request``.
        jobs: of the model's workers; None without workers.
        own: the author's registry.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(figures, jobs))
    return generate_latest(registry) + generate_latest(own)


class _Families(Collector):
    def __init__(self, figures: Mapping[str, Figures], jobs: JobFigures | None) -> None:
        self._figures = figures
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        now = GaugeMetricFamily(f"{_PREFIX}open", "Open now, by kind", labels=["kind"])
        begun = CounterMetricFamily(f"{_PREFIX}begun", "Let in, by kind", labels=["kind"])
        refused = CounterMetricFamily(
            f"{_PREFIX}refused", "Refused before they began, by reason", labels=["kind", "reason"]
        )
        ended = CounterMetricFamily(
            f"{_PREFIX}ended", "Ended, by outcome", labels=["kind", "outcome"]
        )
        seconds = HistogramMetricFamily(
            f"{_PREFIX}seconds", "From the beginning to the end", labels=["kind"]
        )
        for kind, figures in self._figures.items():
            now.add_metric([kind], figures.open)
            begun.add_metric([kind], figures.begun)
            for reason, number in figures.refused.items():
                refused.add_metric([kind, reason], number)
            for outcome, number in figures.ended.items():
                ended.add_metric([kind, outcome], number)
            bounds = [*map(str, SECONDS), "+Inf"]
            classes = list(zip(bounds, accumulate(map(float, figures.durations)), strict=True))
            seconds.add_metric([kind], classes, figures.seconds)
        yield from (now, begun, refused, ended, seconds)
        if self._jobs is not None:
            yield GaugeMetricFamily(
                f"{_PREFIX}jobs_running", "Jobs that workers compute", self._jobs.running
            )
            yield GaugeMetricFamily(
                f"{_PREFIX}jobs_waiting", "Jobs that wait for a worker", self._jobs.waiting
            )
            yield CounterMetricFamily(
                f"{_PREFIX}jobs_refused", "Jobs for which no worker was free", self._jobs.refused
            )
