"""One page of metrics for all processes of a gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

#: The label of series that each process has for itself.
_PROCESS: Final = "worker"
_PARENT: Final = "parent"
#: Metrics of one process.
_OF_PROCESS: Final = "process_"
#: Metrics that are the same in each process.
_SAME: Final = frozenset(
    {"partway_limit", "partway_build", "partway_certificate_expiry_timestamp_seconds"}
)
#: When a counter began, which Prometheus' library adds to each.
_BEGIN: Final = "_created"


def merged_pages(own: str, others: Mapping[str, str]) -> bytes:
    """Return a page with the sums of all processes; metrics of one process have its name.

    Args:
        own: the parent's page.
        others: the pages of workers, by their names.
    """
    registry = CollectorRegistry()
    registry.register(_Merged({_PARENT: own, **others}))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, pages: Mapping[str, str]) -> None:
        self._pages = pages

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        sums: dict[tuple[str, str, tuple[tuple[str, str], ...]], float] = {}
        for process, page in self._pages.items():
            for family in text_string_to_metric_families(page):
                name = family.name
                if name in _SAME and name in families and process != _PARENT:
                    continue
                families.setdefault(name, Metric(name, family.documentation, family.type))
                for sample in family.samples:
                    labels = tuple(sample.labels.items())
                    if name.startswith(_OF_PROCESS):
                        labels = (*labels, (_PROCESS, process))
                    key = name, sample.name, labels
                    if name.endswith(_BEGIN):
                        sums[key] = min(sums.get(key, sample.value), sample.value)
                    else:
                        sums[key] = sums.get(key, 0.0) + sample.value
        for (name, sample_name, labels), value in sums.items():
            families[name].add_sample(sample_name, dict(labels), value)
        return families.values()
