"""One page of metrics for all processes of a gateway."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
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
    {"partway_limit", "partway_build_info", "partway_certificate_expiry_timestamp_seconds"}
)
#: The types of metrics that never fall.
_COUNTERS: Final = frozenset({"counter", "histogram", "summary"})
#: The label of series that go with their endpoint.
_ENDPOINT: Final = "endpoint"
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


def counters_of(pages: Iterable[str], endpoints: Collection[str] | None = None) -> str:
    """Return a page with the sums of the counters of processes that have ended.

    Args:
        pages: their pages, or pages that this function has made.
        endpoints: the only endpoints whose series are kept; None for all.
    """

    def takes(family: Metric, labels: Mapping[str, str]) -> bool:
        name = family.name
        never_falls = family.type in _COUNTERS or name.endswith(_BEGIN)
        if not never_falls or name.startswith(_OF_PROCESS) or name in _SAME:
            return False
        return endpoints is None or _ENDPOINT not in labels or labels[_ENDPOINT] in endpoints

    registry = CollectorRegistry()
    registry.register(_Merged({str(number): each for number, each in enumerate(pages)}, takes))
    return generate_latest(registry).decode()


class _Merged(Collector):
    """The sums of pages.

    Args:
        pages: by the names of their processes.
        takes: says which samples count, by their metric and their labels.
    """

    def __init__(
        self,
        pages: Mapping[str, str],
        takes: Callable[[Metric, Mapping[str, str]], bool] = lambda *_: True,
    ) -> None:
        self._pages = pages
        self._takes = takes

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
                    if not self._takes(family, sample.labels):
                        continue
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
