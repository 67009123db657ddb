"""The deployment of one endpoint: the version that serves, and the next version beside it."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from partway.gateway.fleet.endpoint import Endpoint, Variant
from partway.gateway.fleet.instance import Instance
from partway.gateway.fleet.instance_group import Group, MakeInstance
from partway.gateway.fleet.routing.router import RoutedVariant
from partway.gateway.fleet.status import EndpointState, EndpointStatus, VariantStatus
from partway.gateway.timing.clock import Clock
from partway.log_lines import LogLine, TextLines

log = logging.getLogger("partway.fleet")


@dataclass(frozen=True, slots=True)
class _Version:
    """One version of an endpoint: a group of instances for each variant.

    Attributes:
        number: counted from 1.
        groups: by variant name. Two versions share the group of a variant that the change leaves as
            it is.
    """

    number: int
    endpoint: Endpoint
    groups: Mapping[str, Group]

    def is_complete(self, serving: _Version | None) -> bool:
        """Say whether this version can take over from the one that serves.

        Instances that are kept may be out of service, since they would be so without the change
        too. But a version with nothing in service takes no streams from one that has some.
        """
        if serving is not None and serving.takes_streams and not self.takes_streams:
            return False
        return all(
            self.groups[each.name].in_rotation >= each.instances
            or each.instances <= self.kept(each.name, serving)
            for each in self.endpoint.variants
        )

    @property
    def is_lost(self) -> bool:
        """Whether no instance is in service and none will be started."""
        return all(each.given_up and not each.in_rotation for each in self.groups.values())

    @property
    def has_some_of_each(self) -> bool:
        return all(group.in_rotation for group in self.groups.values())

    def kept(self, name: str, serving: _Version | None) -> int:
        """Return how many instances of a variant are kept, in service or not."""
        if serving is None or serving.groups.get(name) is not self.groups[name]:
            return 0
        return serving.variant(name).instances

    @property
    def takes_streams(self) -> bool:
        return any(each.in_rotation for each in self.groups.values())

    def variant(self, name: str) -> Variant:
        return next(each for each in self.endpoint.variants if each.name == name)

    def trouble(self, serving: _Version | None = None) -> str:
        """Say why this version does not come up; empty as long as it may."""
        for variant in self.endpoint.variants:
            group = self.groups[variant.name]
            started = variant.instances > self.kept(variant.name, serving)
            if group.given_up and (started or self.is_lost):
                return group.trouble
        return ""


class Deployment:
    """One endpoint, and the change of its version.

    1. A change starts new instances beside those that serve. A variant whose instances stay the
       same keeps them: more are started at once, but fewer only after the takeover.
    2. The change takes over when each variant has all its instances in service. Instances that the
       new version does not keep drain.
    3. If one of the new variants gives up, everything that the change started is stopped, and the
       reason is reported. The old version serves on. Where no version served, the new one serves
       all the same if each variant has some instance.
    4. A new change replaces a change that is under way, and keeps the instances that both would
       start.

    Args:
        wall_clock: returns epoch seconds, for people.
        awaited: whether a caller has just asked for the endpoint and waits for the outcome; false
            when the gateway's start brings the endpoint back. Later changes are always awaited.

    Attributes:
        endpoint: the endpoint as it was last asked for.
        reason: why the endpoint, or its last change, has failed; empty otherwise.
        is_ending: whether the endpoint is being deleted, or stops with the gateway.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        maker: Callable[[Endpoint], MakeInstance],
        clock: Clock,
        wall_clock: Callable[[], float],
        on_change: Callable[[], object],
        *,
        awaited: bool = True,
    ) -> None:
        self.endpoint = endpoint
        self.state = EndpointState.CREATING
        self.reason = ""
        self._maker = maker
        self._clock = clock
        self._wall_clock = wall_clock
        self._on_change = on_change
        self._since = wall_clock()
        self._versions = 0
        self._serving: _Version | None = None
        self._coming: _Version | None = None
        self._leaving: list[Group] = []
        self._restarts: Counter[str] = Counter()  # by variant, of groups that have ended
        self._news = asyncio.Event()
        self.is_ending = False
        self._tell_state()
        self._begin(endpoint, awaited=awaited)

    # --- Reading its state ------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether the endpoint has come up, has failed to come up, or is ending."""
        return self.state not in {EndpointState.CREATING, EndpointState.UPDATING}

    def routed(self) -> tuple[RoutedVariant, ...]:
        version = self._serving or self._coming
        if version is None or self.is_ending:
            return tuple(
                RoutedVariant(each.name, each.weight, (), self._absence())
                for each in self.endpoint.variants
            )
        policy = version.endpoint.policy
        return tuple(
            dataclasses.replace(version.groups[each.name].routed(policy), weight=each.weight)
            for each in version.endpoint.variants
        )

    def status(self) -> EndpointStatus:
        """Return the status as a value; variants of two versions are shown as one.

        Numbers are those of the version that serves.
        """
        in_force = self._serving or self._coming
        shown = self._variants_in_force(in_force)
        for group in self._groups():
            one = group.status()
            serves = in_force is not None and in_force.groups.get(one.name) is group
            known = shown.get(one.name) or dataclasses.replace(
                one, desired=0, restarts=0, trouble="", instances=()
            )
            shown[one.name] = dataclasses.replace(
                known,
                serving=one.serving if serves else known.serving,
                restarts=known.restarts + one.restarts,
                trouble=known.trouble or one.trouble,
                instances=known.instances + one.instances,
            )
        return EndpointStatus(
            self.endpoint.name,
            self.state,
            self.reason,
            self._since,
            tuple(shown.values()),
            is_latest=self._serving is not None and self._serving.number == self._versions,
            note=self._note(),
        )

    def _variants_in_force(self, in_force: _Version | None) -> dict[str, VariantStatus]:
        """Return the variants of the serving version, and those that only the next version has.

        An endpoint that has failed may have no version left; its variants are then those asked for.
        """
        endpoints = [each.endpoint for each in (in_force, self._coming) if each is not None]
        return {
            each.name: VariantStatus(
                each.name, each.weight, each.instances, 0, self._restarts[each.name], "", ()
            )
            for endpoint in reversed(endpoints or [self.endpoint])
            for each in endpoint.variants
        }

    def _note(self) -> str:
        """Say which change was given up and what serves on; empty if none was."""
        serving = self._serving
        if serving is None or not self.reason or serving.number == self._versions:
            return ""
        asked, serves = self.endpoint.config, serving.endpoint.config
        if asked == serves:  # a restart, or an endpoint of the settings
            return "the last change was given up; the previous version still serves"
        return f"the update to {asked} was given up; {serves} still serves"

    @property
    def instances(self) -> list[Instance]:
        return [instance for group in self._groups() for instance in group.instances]

    @property
    def containers(self) -> int:
        """How many containers the endpoint has or will have, those of the next version included."""
        return sum(group.containers for group in self._groups())

    def further_containers(self, endpoint: Endpoint, *, anew: bool) -> int:
        """Return how many containers :meth:`change` adds while it is under way."""
        known = {} if anew else self._groups_by_name()
        further = 0
        for variant in endpoint.variants:
            kept = _alike(known, variant)
            stay = 0 if kept is None else kept.staying_containers
            further += max(0, variant.instances * variant.launched - stay)
        return further

    # --- Changes ----------------------------------------------------------------------------------

    def change(self, endpoint: Endpoint, *, anew: bool = False) -> None:
        """Change the endpoint (rules 1 and 4).

        With ``anew``, instances that already match are replaced too.
        """
        # A change that failed is tried again.
        if endpoint == self.endpoint and not self.reason and not anew:
            return
        self.endpoint = endpoint
        self._begin(endpoint, keep=not anew)

    def restart(self) -> None:
        """Replace all instances by new ones, once the new ones are in service."""
        self._begin(self.endpoint, keep=False)

    def delete(self) -> None:
        """Refuse new work, drain and stop every instance."""
        self._end(EndpointState.DELETING)

    def stop(self) -> None:
        """Stop as for :meth:`delete`, but keep the endpoint: the gateway is stopping."""
        self._end(EndpointState.STOPPING)

    def _end(self, state: EndpointState) -> None:
        self.is_ending = True
        self.reason = ""
        self._become(state)
        self._leaving = list(self._groups())
        self._serving = self._coming = None
        for group in self._leaving:
            group.stop()
        self._changed()

    def hasten(self) -> None:
        """Cut what still drains."""
        for group in self._leaving:
            group.hasten()

    async def gone(self) -> None:
        await asyncio.gather(*(each.over.wait() for each in self.instances))

    async def settled(self) -> None:
        while not self.is_settled:
            self._news.clear()
            await self._news.wait()

    # --- How a change proceeds --------------------------------------------------------------------

    def _begin(self, endpoint: Endpoint, *, keep: bool = True, awaited: bool = True) -> None:
        self._versions += 1
        self.reason = ""
        if self._serving is None and self._coming is not None and self._coming.takes_streams:
            self._serving, self._coming = self._coming, None  # rule 1 holds
        if self._serving is not None and self._serving.is_lost:
            # The old version serves nothing, so any instance that comes up serves.
            self._leave(_only_in(self._serving, self._coming))
            self._serving = None
        serving, superseded = self._serving, self._coming
        known = self._groups_by_name() if keep else {}
        groups: dict[str, Group] = {}
        for variant in endpoint.variants:
            kept = _alike(known, variant)
            groups[variant.name] = kept or self._group(endpoint, variant, awaited=awaited)
        self._coming = coming = _Version(self._versions, endpoint, groups)
        self._become(EndpointState.CREATING if serving is None else EndpointState.UPDATING)
        self._leave(_only_in(superseded, serving, coming))
        self._serve_as_before(but=coming)
        for variant in endpoint.variants:
            most = max(coming.kept(variant.name, serving), variant.instances)
            groups[variant.name].become(dataclasses.replace(variant, instances=most))
        self._changed()

    def _groups_by_name(self) -> dict[str, Group]:
        """Return the groups that a change may keep, the next version's before the serving ones."""
        versions = (self._serving, self._coming)
        return {k: v for each in versions if each is not None for k, v in each.groups.items()}

    def _group(self, endpoint: Endpoint, variant: Variant, *, awaited: bool) -> Group:
        make = self._maker(endpoint)
        return Group(
            *(endpoint.name, variant, self._versions, make, self._clock),
            on_change=self._changed,
            awaited=awaited,
        )

    def _changed(self) -> None:
        coming = self._coming
        if coming is not None:
            if coming.is_complete(self._serving):
                self._take_over(coming)
            elif trouble := coming.trouble(self._serving):
                self._coming_failed(trouble)
        elif not self.is_ending:
            self._look_at_service()
        for group in self._leaving:
            if group.is_gone:
                self._restarts[group.variant.name] += group.restarts
        self._leaving = [group for group in self._leaving if not group.is_gone]
        self._on_change()
        self._news.set()

    def _take_over(self, coming: _Version) -> None:
        """Make the next version the one that serves (rule 2)."""
        leaving = _only_in(self._serving, coming)
        self._serving, self._coming = coming, None
        self.reason = ""
        self._become(EndpointState.IN_SERVICE)
        self._leave(leaving)
        for variant in coming.endpoint.variants:
            coming.groups[variant.name].become(variant)

    def _coming_failed(self, trouble: str) -> None:
        """Return to the version that serves (rule 3)."""
        coming = self._coming
        if self._serving is None and coming is not None and coming.has_some_of_each:
            self._take_over(coming)
            self.reason = trouble
            line = "endpoint has fewer instances than desired"
            log.error(LogLine(line, endpoint=self.endpoint.name, reason=TextLines(trouble)))
            return
        self._give_up_coming()
        self.reason = trouble
        if self._serving is None:
            self._become(EndpointState.FAILED)
        else:
            line = "change failed, the previous version still serves"
            log.error(LogLine(line, endpoint=self.endpoint.name, reason=TextLines(trouble)))
            self._become(EndpointState.IN_SERVICE)
            self._look_at_service()

    def _give_up_coming(self) -> None:
        coming, self._coming = self._coming, None
        self._leave(_only_in(coming, self._serving))
        self._serve_as_before()

    def _serve_as_before(self, but: _Version | None = None) -> None:
        """Restore the serving version's instance counts, except in groups that ``but`` has too."""
        serving = self._serving
        for group in _only_in(serving, but):
            assert serving is not None, "the group belongs to the serving version"
            group.become(serving.variant(group.variant.name))

    def _look_at_service(self) -> None:
        """Update the state: the serving version fails if all its variants have given up."""
        serving = self._serving
        if serving is None:
            return
        groups = serving.groups.values()
        if any(group.in_rotation or not group.given_up for group in groups):
            if self.state is EndpointState.FAILED:
                self.reason = ""
            self._become(EndpointState.IN_SERVICE)
        elif self.state is not EndpointState.FAILED:
            self.reason = serving.trouble()
            self._become(EndpointState.FAILED)

    def _leave(self, groups: Iterable[Group]) -> None:
        for group in groups:
            self._leaving.append(group)
            group.stop()

    def _groups(self) -> list[Group]:
        versions = (self._serving, self._coming)
        found = [group for each in versions if each is not None for group in each.groups.values()]
        return list(dict.fromkeys((*found, *self._leaving)))

    def _absence(self) -> str:
        if self.state is EndpointState.STOPPING:
            return "the gateway is stopping"
        return "the endpoint is being deleted" if self.is_ending else "its instances do not start"

    def _become(self, state: EndpointState) -> None:
        if state is self.state:
            return
        self.state = state
        self._since = self._wall_clock()
        self._tell_state()

    def _tell_state(self) -> None:
        level = logging.DEBUG if self.endpoint.is_attached else logging.INFO
        if self.state is EndpointState.FAILED:
            level = logging.ERROR
        fields = {"reason": TextLines(self.reason)} if self.reason else {}
        line = LogLine("endpoint", endpoint=self.endpoint.name, state=str(self.state), **fields)
        log.log(level, line)


def _alike(known: Mapping[str, Group], variant: Variant) -> Group | None:
    """Return the group that can be kept for a variant, or None."""
    group = known.get(variant.name)
    if group is None or group.given_up or not _runs_alike(group.variant, variant):
        return None
    return group


def _runs_alike(one: Variant, other: Variant) -> bool:
    """Say whether the instances of two variants are interchangeable."""

    def bare(variant: Variant) -> Variant:
        return dataclasses.replace(variant, instances=1, weight=1.0)

    return bare(one) == bare(other)


def _only_in(version: _Version | None, *others: _Version | None) -> list[Group]:
    """Return the groups of a version that none of the others has."""
    if version is None:
        return []
    kept = [group for each in others if each is not None for group in each.groups.values()]
    return [group for group in version.groups.values() if group not in kept]
