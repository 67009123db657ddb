"""Open streams of pods, as the gateways' metrics tell them: pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from partway.gateway.operator.limits import LAST_STREAMS_COUNT

#: On each gateway's page, also of one without an instance.
_TYPE: Final = b"# TYPE partway_instance_outstanding gauge\n"
_SAMPLE: Final = re.compile(rb"^partway_instance_outstanding\{(.*)\} (\S+)$", re.MULTILINE)
#: It takes linear time, also for a page that is no gateway's.
_LABEL: Final = re.compile(rb'(?<!\w)(\w++)="((?:[^"\\]|\\.)*+)"')


class UnreadablePage(ValueError):
    """A page is no gateway's page of metrics."""


@dataclass(frozen=True, slots=True)
class GatewayStreams:
    """The streams and requests under way at one gateway.

    Attributes:
        total: also those on instances that are no pods.
        by_instance: by the ends of the instances' ids, after endpoint and variant; none is 0.
    """

    total: int = 0
    by_instance: Mapping[str, int] = field(default_factory=dict)

    def of_pods(self, pods: Container[str]) -> GatewayStreams:
        """Return the same total, and the streams of these pods alone, by their short ids.

        So no page fills the memory.
        """
        by_pod: Counter[str] = Counter()
        for instance, streams in self.by_instance.items():
            # A pod that an endpoint has twice, such as after a change, has a number behind it.
            pod = instance if instance in pods else instance.rpartition("-")[0]
            if pod in pods:
                by_pod[pod] += streams
        return GatewayStreams(self.total, by_pod)


NO_STREAMS: Final = GatewayStreams()


def open_streams(page: bytes) -> GatewayStreams:
    """Read a gateway's page of metrics.

    prometheus_client's own parser takes 20 times as long.

    Raises:
        UnreadablePage: the page is another's, or not valid.
    """
    if _TYPE not in page:
        raise UnreadablePage("the page has no partway_instance_outstanding")
    by_instance: Counter[str] = Counter()
    try:
        for labels, value in _SAMPLE.findall(page):
            if streams := _count(value):
                of = dict(_LABEL.findall(labels))
                before = b"%b-%b-" % (of[b"endpoint"], of[b"variant"])
                by_instance[of[b"instance"].removeprefix(before).decode()] += streams
    except (ValueError, KeyError, OverflowError) as error:
        why = f"a sample of partway_instance_outstanding is invalid: {error}"
        raise UnreadablePage(why) from error
    return GatewayStreams(by_instance.total(), by_instance)


def _count(value: bytes) -> int:
    if (count := int(float(value))) < 0:
        raise ValueError(f"{count} is negative")
    return count


@dataclass(slots=True)
class _Told:
    """The last word of a gateway, and when it came."""

    streams: GatewayStreams
    at: float
    is_first: bool = True


class ToldStreams:
    """The last word of each gateway.

    1. If a gateway is silent, its last streams count for LAST_STREAMS_COUNT.
    2. Afterwards its streams are *unknown*: any pod may have some of them.
    3. A gateway that is gone has no streams.
    """

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def know(self, gateways: Collection[str], now: float) -> None:
        """Know exactly these gateways, by keys; a new one has as long to answer as a silent one."""
        self._told = {each: self._told.get(each) or _Told(NO_STREAMS, now) for each in gateways}

    def tell(self, gateway: str, streams: GatewayStreams, now: float) -> None:
        self._told[gateway] = _Told(streams, now, is_first=False)

    def has_told(self, gateway: str) -> bool:
        """Whether a gateway has told its streams once."""
        return not self._told[gateway].is_first

    def of(self, gateway: str) -> GatewayStreams:
        return self._told[gateway].streams

    def unknown(self, now: float) -> set[str]:
        """Return the gateways whose streams are unknown."""
        return {key for key, told in self._told.items() if now - told.at > LAST_STREAMS_COUNT}

    def by_pod(self) -> Counter[str]:
        """Return the sums of all gateways, for pods by their short ids."""
        sums: Counter[str] = Counter()
        for told in self._told.values():
            sums.update(told.streams.by_instance)
        return sums
