"""Ids of instances that outlive a gateway process, so that the next one goes on with them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Self

from partway.gateway.fleet.endpoint import Attached, Variant
from partway.gateway.fleet.instance import Instance
from partway.gateway.kept_state import KeptState
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

#: Begins the name of each entry.
PREFIX: Final = "instance/"
#: The name of an entry that says that there has been a process.
_PROCESS: Final = "fleet"


@dataclasses.dataclass(frozen=True, slots=True)
class KeptInstance:
    """The record of an instance.

    Attributes:
        number: its number within the variant.
        made_of: the digest of :func:`made_of`.
        began: when its first process began it, in epoch seconds.
        drain: the seconds that its open work has when it must end.
        stop: the seconds from SIGTERM to SIGKILL.
        has_served: whether it has been in service.
        is_leaving: whether it drains, or was told to.
    """

    endpoint: str
    variant: str
    number: int
    made_of: str
    began: float
    drain: float
    stop: float
    has_served: bool = False
    is_leaving: bool = False

    def written(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def read(cls, record: bytes) -> Self:
        """Read a record of any version; a member that it lacks has its default."""
        said = json.loads(record)
        names = [each.name for each in dataclasses.fields(cls)]
        return cls(**{name: said[name] for name in names if name in said})


class KeptInstances:
    """Keeps the ids of a fleet's instances, and gives them to the next process's instances.

    1. A new instance has the id of an earlier one of its endpoint and variant that is made of the
       same. It is never one that leaves.
    2. Of several, an instance takes the one with its own number. Otherwise it takes one whose
       number no other instance has, and then one that has served, and then the oldest.
    3. An attached instance takes its own number alone, since its address depends on the number.

    Args:
        kept: keeps the records.
        wall_clock: returns epoch seconds.

    Attributes:
        has_predecessor: whether there has been an earlier process.
        of_predecessor: the ids of all instances of an earlier process.
    """

    def __init__(self, kept: KeptState, wall_clock: Callable[[], float] = time.time) -> None:
        self._kept = kept
        self._wall_clock = wall_clock
        self.has_predecessor = bool(kept.take(_PROCESS))
        kept.keep(_PROCESS, b"")
        #: Records of an earlier process that no instance has taken.
        self._earlier: dict[str, KeptInstance] = {}
        self._records: dict[str, KeptInstance] = {}
        for name, entry in kept.take(PREFIX).items():
            self._earlier[name.removeprefix(PREFIX)] = KeptInstance.read(entry.record)
        self.of_predecessor: Final = frozenset(self._earlier)

    def id_for(self, new: str, endpoint: str, variant: Variant, number: int) -> str:
        """Return the id for an instance that is about to begin.

        Args:
            new: the id for an instance that has no predecessor.
        """
        made = made_of(variant)
        found = self._predecessor(endpoint, variant, number, made)
        if found is None:
            times = variant.times
            limits = (times.drain_timeout, times.stop_timeout)
            record = KeptInstance(
                *(endpoint, variant.name, number, made, self._wall_clock(), *limits)
            )
            self._keep(new, record)
            return new
        record = dataclasses.replace(self._earlier.pop(found), number=number)
        about = {"endpoint": endpoint, "variant": variant.name, "instance": found}
        log.info(LogLine("instance of an earlier gateway process goes on", **about))
        self._keep(found, record)
        return found

    def changed(self, instance: Instance) -> None:
        """Note an instance's state; its end is forgotten."""
        record = self._records.get(instance.id)
        if record is None:
            return
        if instance.over.is_set():
            del self._records[instance.id]
            self._kept.forget(PREFIX + instance.id)
            return
        has_served = record.has_served or instance.has_served
        is_leaving = record.is_leaving or not instance.is_wanted
        now = dataclasses.replace(record, has_served=has_served, is_leaving=is_leaving)
        if now != record:
            self._keep(instance.id, now)

    @property
    def awaited(self) -> Collection[str]:
        """The ids that living instances have, taken over or new."""
        return self._records.keys()

    def unclaimed(self) -> Mapping[str, KeptInstance]:
        """Return the records of an earlier process, by id; from now on nothing takes them."""
        found, self._earlier = self._earlier, {}
        for instance, record in found.items():
            leaving = dataclasses.replace(record, is_leaving=True)
            self._kept.keep(PREFIX + instance, leaving.written())
        return found

    def forget(self, instances: Collection[str]) -> None:
        """Forget instances of an earlier process, which have ended."""
        for each in instances:
            self._kept.forget(PREFIX + each)

    def _keep(self, instance: str, record: KeptInstance) -> None:
        self._records[instance] = record
        self._kept.keep(PREFIX + instance, record.written())

    def _predecessor(self, endpoint: str, variant: Variant, number: int, made: str) -> str | None:
        """Return the id that an instance takes (rules 1 to 3), or None."""
        whose = (endpoint, variant.name, made)
        fit = {
            key: each
            for key, each in self._earlier.items()
            if (each.endpoint, each.variant, each.made_of) == whose and not each.is_leaving
        }
        if isinstance(variant.source, Attached):
            fit = {key: each for key, each in fit.items() if each.number == number}

        def rank(key: str) -> tuple[bool, bool, bool, float]:
            each = fit[key]
            has_taker = each.number < variant.instances
            return each.number != number, has_taker, not each.has_served, each.began

        return min(fit, key=rank, default=None)


def made_of(variant: Variant) -> str:
    """Return a digest that is equal for variants whose instances are interchangeable.

    Members with their default are left out. So a later version of the gateway that knows further
    members has the same digest.
    """
    plain = _plain(dataclasses.replace(variant, instances=1, weight=1.0))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; the members of a dataclass stand beside its class's name."""
    if dataclasses.is_dataclass(value):
        members = {
            each.name: _plain(getattr(value, each.name))
            for each in dataclasses.fields(value)
            if getattr(value, each.name) != each.default
        }
        return {"": type(value).__name__, **members}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)
