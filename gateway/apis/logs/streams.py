"""Log groups of endpoints and jobs, with one stream for each container that has printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partway.gateway.apis.logs.inputs import NoSuchLog
from partway.gateway.arns import Arns
from partway.gateway.fleet.output.log_files import INSTANCE_ID
from partway.gateway.fleet.output.log_names import container_of, group_of, log_arn, stream_name
from partway.gateway.fleet.output.reader import Printed, printed_instances
from partway.gateway.fleet.states import OVER
from partway.gateway.fleet.status import EndpointStatus


@dataclass(frozen=True, slots=True)
class LogStreams:
    """The readable logs at one moment; the methods read files and run on a thread.

    Attributes:
        folder: the folder of the instances' output; None if nothing is kept.
        living: the names of endpoints, by the ids of their containers that may still print.
    """

    folder: Path | None
    endpoints: frozenset[str]
    living: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path | None, endpoints: Iterable[EndpointStatus]) -> LogStreams:
        there = tuple(endpoints)
        living = {
            container: endpoint.name
            for endpoint in there
            for variant in endpoint.variants
            for instance in variant.instances
            for container in instance.container_ids
            if instance.state not in OVER
        }
        return cls(folder, frozenset(each.name for each in there), living)

    def groups(self) -> dict[str, int | None]:
        """Return the names of all log groups, each with its first time if known."""
        began: dict[str, int | None] = {group_of(name): None for name in self.endpoints}
        for instance, endpoint in self._printed().items():
            found = self.times(instance)
            group = group_of(endpoint)
            if found is not None:
                began[group] = min(found[0], began.get(group) or found[0])
        return began

    def streams(self, group: str) -> dict[str, str]:
        """Return the names of a group's streams with their instances; some may have no output.

        Raises:
            NoSuchLog: there is no such group.
        """
        found = {
            stream_name(endpoint, instance): instance
            for instance, endpoint in {**self.living, **self._printed()}.items()
            if group_of(endpoint) == group
        }
        if not found and group not in map(group_of, self.endpoints):
            raise NoSuchLog("group")
        return found

    def times(self, instance: str) -> tuple[int, int] | None:
        """Return when an instance first and last printed; None if its output is gone."""
        printed, _ = self.opened(instance)
        if printed is None:
            return None
        with printed:
            return printed.first_time, printed.last_time

    def opened(self, instance: str) -> tuple[Printed | None, bool]:
        """Open the output of an instance; return also whether the instance prints nothing more."""
        if self.folder is None:
            return None, True
        return Printed.opened(self.folder, instance), instance not in self.living

    def stream(self, group: str, name: str) -> tuple[Printed | None, bool]:
        """Open a stream (None if empty); return also whether its instance prints nothing more.

        Raises:
            NoSuchLog: there is no such group, or no such stream in the group.
        """
        instance = container_of(name)
        if INSTANCE_ID.fullmatch(instance):
            printed, over = self.opened(instance)
            if printed is not None:
                endpoint = printed.endpoint
                if group_of(endpoint) == group and stream_name(endpoint, instance) == name:
                    return printed, over
                printed.close()
        if name in self.streams(group):
            return None, False
        raise NoSuchLog("stream")

    def _printed(self) -> Mapping[str, str]:
        return {} if self.folder is None else printed_instances(self.folder)


def group_shown(arns: Arns, name: str, began: int | None) -> dict[str, Any]:
    arn = arns.of(f"log-group:{name}", service="logs")
    shown = {
        "logGroupName": name,
        "arn": f"{arn}:*",
        "logGroupArn": arn,
        "metricFilterCount": 0,
        "storedBytes": 0,
        "logGroupClass": "STANDARD",
    }
    return shown if began is None else {**shown, "creationTime": began}


def stream_shown(arns: Arns, group: str, name: str, times: tuple[int, int]) -> dict[str, Any]:
    """Return a log stream as DescribeLogStreams does; ``storedBytes`` is 0, as in AWS's answers."""
    first, last = times
    return {
        "logStreamName": name,
        "creationTime": first,
        "firstEventTimestamp": first,
        "lastEventTimestamp": last,
        "lastIngestionTime": last,
        "arn": log_arn(arns, group, name),
        "storedBytes": 0,
    }
