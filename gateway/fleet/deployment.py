"""One endpoint as it runs: its version, and the next one beside it until that takes over."""

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
from partway.gateway.fleet.processes.commands import warn_of_variables
from partway.gateway.fleet.routing.router import RoutedVariant
from partway.gateway.fleet.status import EndpointState, EndpointStatus, VariantStatus
from partway.gateway.timing.clock import Clock
from partway.log_lines import LogLine, TextLines

log = logging.getLogger("partway.fleet")


@dataclass(frozen=True, slots=True)
class _Version:
    """An endpoint's groups, by their variants' names.

    Attributes:
        number: counted from 1.
        endpoint: what it is of.
        groups: may be another version's too, where a variant's instances stay what they were.
    """

    number: int
    endpoint: Endpoint
    groups: Mapping[str, Group]

    def is_complete(self, serving: _Version | None) -> bool:
        """Whether nothing has to come up any more for it to take over from what serves.

        What it keeps as it is may be out of service: it would be without the change too. But what
        has nothing in service takes no streams from what has.
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
        """Whether no instance is in service, and none is started any more."""
        return all(each.given_up and not each.in_rotation for each in self.groups.values())

    @property
    def has_some_of_each(self) -> bool:
        """Whether each variant has an instance in service."""
        return all(group.in_rotation for group in self.groups.values())

    def kept(self, name: str, serving: _Version | None) -> int:
        """How many instances of a variant it keeps, in service or not."""
        if serving is None or serving.groups.get(name) is not self.groups[name]:
            return 0
        return serving.variant(name).instances

    @property
    def takes_streams(self) -> bool:
        """Whether any of it is in service."""
        return any(each.in_rotation for each in self.groups.values())

    def variant(self, name: str) -> Variant:
        return next(each for each in self.endpoint.variants if each.name == name)

    def trouble(self, serving: _Version | None = None) -> str:
        """Why it does not come up beside what serves; empty as long as it may."""
        for variant in self.endpoint.variants:
            group = self.groups[variant.name]
            started = variant.instances > self.kept(variant.name, serving)
            if group.given_up and (started or self.is_lost):
                return group.trouble
        return ""


class Deployment:
    """One endpoint.

    1. A change begins beside what serves. A variant whose instances stay what they were keeps them:
       more of them are started at once, fewer there are only after the takeover.
    2. When each variant has as many instances in service as it is to have, the change takes over,
       and what it has not kept drains.
    3. If one of its variants gives up, all that it started is stopped; what served goes on as
       before, and the reason is told. Where nothing served before, what has come up does, if that
       is some of each variant.
    4. A change in the midst of another takes its place, and keeps of it what it would start too.

    Args:
        endpoint: as it is to be.
        maker: makes what makes the instances of one variant of an endpoint.
        clock: measures waits.
        wall_clock: returns epoch seconds, for people.
        on_change: called when any of it has changed.
        awaited: whether somebody has just asked for it, and waits; else the gateway's start is to
            bring it back. Whatever changes it is asked for.

    Attributes:
        endpoint: as it was asked for last.
        state: how it is.
        reason: why it, or its last change, has failed; empty otherwise.
        is_ending: whether it is being deleted, or stops with the gateway.
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
        self._restarts: Counter[str] = Counter()  # by variant, of groups that are gone
        self._news = asyncio.Event()
        self.is_ending = False
        self._tell_state()
        self._begin(endpoint, awaited=awaited)

    # --- What there is ---------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether it has come up, has failed to, or is to go."""
        return self.state not in {EndpointState.CREATING, EndpointState.UPDATING}

    def routed(self) -> tuple[RoutedVariant, ...]:
        """The variants as streams and requests find them."""
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
        """How it is, as a value; variants of two versions are shown as one.

        Numbers are those of the version in force, whatever is asked for beside it.
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
        """The variants of the version in force, and those that only a coming version has.

        Of an endpoint that has failed, with no version left, those that were asked for.
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
        """Which change was given up, and what serves on; empty where none was."""
        serving = self._serving
        if serving is None or not self.reason or serving.number == self._versions:
            return ""
        asked, serves = self.endpoint.config, serving.endpoint.config
        if asked == serves:  # a restart, or endpoints of the settings
            return "the last change was given up, and what was before serves on"
        return f"the update to {asked} was given up, and {serves} serves on"

    @property
    def instances(self) -> list[Instance]:
        """All its instances, of whatever version."""
        return [instance for group in self._groups() for instance in group.instances]

    @property
    def containers(self) -> int:
        """How many containers it has or is to have, those of what comes beside what serves too."""
        return sum(group.containers for group in self._groups())

    def further_containers(self, endpoint: Endpoint, *, anew: bool) -> int:
        """How many more containers there would be while :meth:`change` is under way."""
        known = {} if anew else self._groups_by_name()
        further = 0
        for variant in endpoint.variants:
            kept = _alike(known, variant)
            stay = 0 if kept is None else kept.staying_containers
            further += max(0, variant.instances * variant.launched - stay)
        return further

    # --- What there is to be ---------------------------------------------------------------------

    def change(self, endpoint: Endpoint, *, anew: bool = False) -> None:
        """Make it another (rules 1 and 4).

        Args:
            endpoint: as it is to be.
            anew: whether nothing of what serves is kept, though it may be what it is to be.
        """
        # If it has failed, it is tried again.
        if endpoint == self.endpoint and not self.reason and not anew:
            return
        self.endpoint = endpoint
        self._begin(endpoint, keep=not anew)

    def restart(self) -> None:
        """Start new instances beside those that are there, which they replace when in service."""
        self._begin(self.endpoint, keep=False)

    def delete(self) -> None:
        """Take nothing new, drain, and stop every instance."""
        self._end(EndpointState.DELETING)

    def stop(self) -> None:
        """The same at the gateway's end: the endpoint itself stays."""
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
        """Wait until nothing of it is left."""
        await asyncio.gather(*(each.over.wait() for each in self.instances))

    async def settled(self) -> None:
        """Wait until it has come up, has failed to, or is to go."""
        while not self.is_settled:
            self._news.clear()
            await self._news.wait()

    # --- How it becomes that ---------------------------------------------------------------------

    def _begin(self, endpoint: Endpoint, *, keep: bool = True, awaited: bool = True) -> None:
        self._versions += 1
        self.reason = ""
        if self._serving is None and self._coming is not None and self._coming.takes_streams:
            self._serving, self._coming = self._coming, None  # rule 1 holds for a part of it too
        if self._serving is not None and self._serving.is_lost:
            # Nothing goes on as before: whatever comes up serves.
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
        """The groups that a change may keep: those that come up already before those that serve."""
        versions = (self._serving, self._coming)
        return {k: v for each in versions if each is not None for k, v in each.groups.items()}

    def _group(self, endpoint: Endpoint, variant: Variant, *, awaited: bool) -> Group:
        warn_of_variables(endpoint.name, variant)
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
        """Serve by the version that has come up (rule 2)."""
        leaving = _only_in(self._serving, coming)
        self._serving, self._coming = coming, None
        self.reason = ""
        self._become(EndpointState.IN_SERVICE)
        self._leave(leaving)
        for variant in coming.endpoint.variants:
            coming.groups[variant.name].become(variant)

    def _coming_failed(self, trouble: str) -> None:
        """Go on as before (rule 3)."""
        coming = self._coming
        if self._serving is None and coming is not None and coming.has_some_of_each:
            self._take_over(coming)
            self.reason = trouble
            line = "endpoint has fewer instances than it is to have"
            log.error(LogLine(line, endpoint=self.endpoint.name, reason=TextLines(trouble)))
            return
        self._give_up_coming()
        self.reason = trouble
        if self._serving is None:
            self._become(EndpointState.FAILED)
        else:
            line = "change failed, what was before serves on"
            log.error(LogLine(line, endpoint=self.endpoint.name, reason=TextLines(trouble)))
            self._become(EndpointState.IN_SERVICE)
            self._look_at_service()

    def _give_up_coming(self) -> None:
        coming, self._coming = self._coming, None
        self._leave(_only_in(coming, self._serving))
        self._serve_as_before()

    def _serve_as_before(self, but: _Version | None = None) -> None:
        """Have as many instances as what serves is to have, but for what a version keeps of it."""
        serving = self._serving
        for group in _only_in(serving, but):
            assert serving is not None, "the group is of it"
            group.become(serving.variant(group.variant.name))

    def _look_at_service(self) -> None:
        """Say whether what serves still does: all its variants may have given up."""
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
    """The group whose instances are those of a variant, and that another version may keep."""
    group = known.get(variant.name)
    if group is None or group.given_up or not _runs_alike(group.variant, variant):
        return None
    return group


def _runs_alike(one: Variant, other: Variant) -> bool:
    """Whether an instance of one variant is what one of the other would be."""

    def bare(variant: Variant) -> Variant:
        return dataclasses.replace(variant, instances=1, weight=1.0)

    return bare(one) == bare(other)


def _only_in(version: _Version | None, *others: _Version | None) -> list[Group]:
    """The groups of a version that are in none of the others."""
    if version is None:
        return []
    kept = [group for each in others if each is not None for group in each.groups.values()]
    return [group for group in version.groups.values() if group not in kept]
