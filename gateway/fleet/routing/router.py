"""The router: it chooses an instance for each stream or request, by a table and by open work."""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from types import TracebackType
from typing import Self, TypeAlias

from partway.gateway.fleet.endpoint import Place, check_name
from partway.gateway.fleet.limits import MAX_MOVES
from partway.gateway.fleet.routing.least_loaded import LeastLoaded
from partway.gateway.fleet.routing.session_affinity import NO_SESSION, StickySession, mark_of
from partway.gateway.quota import NamedCounts
from partway.protocol.errors import InputValidationError, ServiceUnavailable, UnknownEndpoint


@dataclass(frozen=True, slots=True)
class RoutedInstance:
    """An instance that takes streams and requests.

    Attributes:
        key: its name in every gateway that has it; empty if no other gateway knows it by a name.
        mark: the mark of its sessions. The mark of a container that was not launched outlives the
            gateway, and with a key it is the same in other gateways.
    """

    id: str
    place: Place
    key: str = ""
    mark: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        place = self.place
        name = self.id if place.has_log else f"{place.variant} {self.key or place.url}"
        object.__setattr__(self, "mark", mark_of(name))


@dataclass(frozen=True, slots=True)
class RoutedVariant:
    """A variant, with its instances that take streams and requests.

    Attributes:
        weight: the variant's share of the sum of all weights.
        instances: may be empty.
        trouble: why there are no instances, for clients; empty while there are some.
    """

    name: str
    weight: float
    instances: tuple[RoutedInstance, ...]
    trouble: str = ""


#: Variants by endpoint name. The table is a value, so another process can have a copy.
RoutingTable: TypeAlias = Mapping[str, tuple[RoutedVariant, ...]]


class InstanceLoad:
    """The open work of one instance.

    Attributes:
        served: how many leases this process has given for it in all.
        among: the loads that it is compared with; None while it is in no table.
        on_emptied: called when this process has nothing open on it; by default,
            :meth:`check_idle`.
        on_idle: called when nothing is open on it, in any process.
        on_unreachable: called when the instance did not take a connection.
    """

    __slots__ = (
        *("_counts", "_router", "among", "instance", "leases", "on_emptied", "on_idle"),
        *("on_unreachable", "served"),
    )

    def __init__(self, instance: str, router: Router, counts: NamedCounts | None = None) -> None:
        self._counts = counts
        self._router = router
        self.instance = instance
        self.leases: set[Lease] = set()
        self.served = 0
        self.among: LeastLoaded[str] | None = None
        self.on_emptied: Callable[[], object] = self.check_idle
        self.on_idle: Callable[[], object] = lambda: None
        self.on_unreachable: Callable[[], object] = lambda: None

    @property
    def streams(self) -> int:
        """How many streams are open on it, in all processes."""
        if self._counts is not None:
            return self._counts.total(self._named(is_stream=True))
        return sum(lease.is_stream for lease in self.leases)

    @property
    def requests(self) -> int:
        """How many requests are under way on it, in all processes."""
        if self._counts is not None:
            return self._counts.total(self._named(is_stream=False))
        return sum(not lease.is_stream for lease in self.leases)

    @property
    def open(self) -> int:
        """How many streams and requests there are on it, in all processes."""
        return len(self.leases) if self._counts is None else self.streams + self.requests

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open on it, and no other process may open anything."""
        return not (self._router.choosers[self.instance] or self.open)

    def cut(self, *, is_lost: bool = False) -> None:
        """End open work: the instance's time to drain is over, or it cannot be reached."""
        for lease in list(self.leases):
            lease.cut(is_lost=is_lost)
        self._router.on_cut(self.instance, is_lost)

    def take(self, lease: Lease) -> None:
        leases = self.leases
        leases.add(lease)
        self.served += 1
        if self._counts is not None:
            self._counts.add(self._named(is_stream=lease.is_stream), 1)
        if self.among is not None:
            self.among.has(self.instance, len(leases))

    def give_back(self, lease: Lease) -> None:
        """Remove a lease; a second call has no effect."""
        leases = self.leases
        if lease in leases:
            leases.remove(lease)
            if self._counts is not None:
                self._counts.add(self._named(is_stream=lease.is_stream), -1)
            if self.among is not None:
                self.among.has(self.instance, len(leases))
            if not leases:
                self.on_emptied()

    def check_idle(self) -> None:
        """Call :attr:`on_idle` if it is idle; another process may have changed that."""
        if self.is_idle:
            self.on_idle()

    def _named(self, *, is_stream: bool) -> str:
        # No quota is named so: its counts have the names of owners, which are anything.
        return f"instance {self.instance} {'streams' if is_stream else 'requests'}"


class Lease:
    """One stream's or request's place on an instance, from the choice to the end.

    A context that gives the place back at its end.

    Attributes:
        is_stream: whether a stream or a request has it.
    """

    __slots__ = (
        "_cut_as_lost",
        "_load",
        "_on_cut",
        "_on_loss",
        "_router",
        "_tried",
        "instance",
        "is_stream",
        "place",
        "variant",
    )

    def __init__(self, router: Router, chosen: _Chosen, *, is_stream: bool = True) -> None:
        self.is_stream = is_stream
        self._router = router
        self._on_cut: Callable[[], object] | None = None
        self._on_loss: Callable[[], object] | None = None
        self._cut_as_lost: bool | None = None
        self._tried: tuple[str, ...] = ()
        self._take(chosen)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Give the place back; a second call has no effect."""
        self._on_cut = self._on_loss = None  # drop the references to the holder
        self._load.give_back(self)

    def unreachable(self) -> None:
        """Report that the instance did not take a connection, so that it is pinged early."""
        self._load.on_unreachable()

    def move(self) -> bool:
        """Move to an instance that was not tried, because this one did not take the request.

        Returns:
            Whether the variant had one, and few enough were tried.
        """
        self.unreachable()
        self._tried = (*self._tried, self.instance.id)
        if len(self._tried) > MAX_MOVES:
            return False
        other = self._router._other(self, self._tried)  # noqa: SLF001
        if other is None:
            return False
        self._load.give_back(self)
        self._take(other)
        return True

    def ends_by(self, end: Callable[[], object], lost: Callable[[], object] | None = None) -> None:
        """Have ``end`` called if the instance's time to drain is over before the lease ends.

        ``lost`` is called instead if the instance cannot be reached any more.
        """
        self._on_cut, self._on_loss = end, lost
        if self._cut_as_lost is not None:
            self.cut(is_lost=self._cut_as_lost)

    def cut(self, *, is_lost: bool = False) -> None:
        """Call the function given to :meth:`ends_by`, now or as soon as it is given."""
        self._cut_as_lost = is_lost
        end = (self._on_loss if is_lost else None) or self._on_cut
        self._on_cut = self._on_loss = None
        if end is not None:
            end()

    def _take(self, chosen: _Chosen) -> None:
        self.instance = chosen.instance
        self.place: Place = chosen.instance.place
        self.variant = chosen.variant
        self._cut_as_lost = None
        # Kept here, since the router forgets an ended instance while leases on it may still be
        # open.
        self._load = chosen.load
        self._load.take(self)


@dataclass(frozen=True, slots=True, eq=False)
class _Chosen:
    variant: str
    instance: RoutedInstance
    load: InstanceLoad


@dataclass(slots=True)
class _Route:
    """One endpoint, prepared for choices."""

    variants: tuple[RoutedVariant, ...]
    #: The only possible choice; None for several choices, and for no choice.
    only: _Chosen | None = None
    names: list[str] = field(default_factory=list)  # of variants with instances and a weight
    marks: list[float] = field(default_factory=list)  # sums of their weights
    by_variant: dict[str, LeastLoaded[str]] = field(default_factory=dict)
    by_id: dict[str, _Chosen] = field(default_factory=dict)
    by_mark: dict[str, _Chosen] = field(default_factory=dict)


class Router:
    """Chooses instances from a table: the variant by weight, then the least loaded instance.

    Args:
        rng: decides ties, and by weights.
        counts: shared with the routers of other processes; None for the only process.

    Attributes:
        loads: the load of each instance that has had one, by its id, until :meth:`forget`.
        choosers: how many other processes may choose an instance that is in no table here, by id.
        on_cut: called with an instance's id when its work in other processes is to end, and whether
            the instance cannot be reached.
    """

    def __init__(self, rng: random.Random | None = None, counts: NamedCounts | None = None) -> None:
        self._counts = counts
        self._rng = rng or random.Random()  # noqa: S311 (no secret)
        self._snapshot: RoutingTable | None = None
        self._routes: dict[str, _Route] = {}
        self.loads: dict[str, InstanceLoad] = {}
        self.choosers: Counter[str] = Counter()
        self.on_cut: Callable[[str, bool], object] = lambda *_: None

    @property
    def table(self) -> RoutingTable:
        """A snapshot of the current table; later changes do not appear in it."""
        if self._snapshot is None:
            self._snapshot = {name: route.variants for name, route in self._routes.items()}
        return self._snapshot

    def find(self, endpoint: str) -> tuple[RoutedVariant, ...] | None:
        """Return the variants of an endpoint; None if it is not in the table."""
        route = self._routes.get(endpoint)
        return None if route is None else route.variants

    def variants(self, endpoint: str) -> tuple[RoutedVariant, ...]:
        """Return the variants of an endpoint; none if it is not in the table."""
        return self.find(endpoint) or ()

    def update(self, endpoint: str, variants: tuple[RoutedVariant, ...] | None) -> None:
        """Replace an endpoint's variants; existing leases stay where they are.

        The cost does not depend on the number of other endpoints. ``variants`` is None if the
        endpoint is gone.
        """
        before = self._routes.get(endpoint)
        if before is not None:
            if before.variants == variants:
                return
            for chosen in before.by_id.values():
                chosen.load.among = None
        if variants is None:
            self._routes.pop(endpoint, None)
        else:
            self._routes[endpoint] = self._ready(variants)
        self._snapshot = None

    def instances_of(self, endpoint: str) -> int:
        """Return how many instances of an endpoint take streams and requests now."""
        return sum(len(each.instances) for each in self.variants(endpoint) if each.weight > 0)

    def load(self, instance: str) -> InstanceLoad:
        """Return the load of an instance; the instance may not be in the table yet."""
        found = self.loads.get(instance)
        if found is None:
            found = self.loads[instance] = InstanceLoad(instance, self, self._counts)
        return found

    def forget(self, instance: str) -> None:
        self.loads.pop(instance, None)

    def check(self, endpoint: str) -> None:
        """Refuse an endpoint that does not exist.

        Raises:
            InputValidationError: no endpoint has the name, or it cannot be a name (4-6, 4-7).
        """
        self._route(endpoint)

    def lease(
        self,
        endpoint: str,
        variant: str = "",
        session: StickySession = NO_SESSION,
        *,
        is_stream: bool = True,
    ) -> Lease:
        """Choose an instance.

        Args:
            endpoint: the endpoint's name.
            variant: the required variant; empty for any, by weight.
            session: goes to the instance that has begun it, if it still serves, and else to one
                that depends on the id alone.
            is_stream: whether it is for a stream or for a request.

        Raises:
            InputValidationError: no endpoint has the name, or it cannot be a name (4-6, 4-7); or
                the endpoint has no such variant.
            ServiceUnavailable: no instance takes any now.
        """
        route = self._routes.get(endpoint) or self._route(endpoint)
        known = route.by_mark.get(session.mark)
        if known is None or variant not in ("", known.variant):
            known = (None if variant else route.only) or self._choose(
                endpoint, route, variant, session
            )
        return Lease(self, known, is_stream=is_stream)

    def _route(self, endpoint: str) -> _Route:
        check_name(endpoint)
        route = self._routes.get(endpoint)
        if route is None:
            raise UnknownEndpoint(f"there is no endpoint {endpoint!r}")
        return route

    def _choose(
        self, endpoint: str, route: _Route, variant: str, session: StickySession
    ) -> _Chosen:
        if variant:
            wanted = self._variant(route, variant)
            if not wanted.instances:
                raise _absent(endpoint, [wanted])
        elif len(route.names) == 1:
            variant = route.names[0]
        elif not route.names:
            raise _absent(endpoint, route.variants)
        else:
            mark = (session.fraction if session.id else self._rng.random()) * route.marks[-1]
            variant = route.names[bisect(route.marks, mark, hi=len(route.marks) - 1)]
        if session.id:
            instances = self._variant(route, variant).instances
            return route.by_id[max(instances, key=lambda each: session.rank(each.mark)).id]
        instance = route.by_variant[variant].choose()
        assert instance is not None, "the variant has some"
        return route.by_id[instance]

    @staticmethod
    def _variant(route: _Route, name: str) -> RoutedVariant:
        for each in route.variants:
            if each.name == name:
                return each
        known = ", ".join(repr(each.name) for each in route.variants)
        raise InputValidationError(
            f"the endpoint has no variant {name!r}; it has {known}", "VariantNotFound"
        )

    def _ready(self, variants: tuple[RoutedVariant, ...]) -> _Route:
        route = _Route(variants)
        for variant in variants:
            least = route.by_variant[variant.name] = self._least_loaded()
            for instance in variant.instances:
                load = self.load(instance.id)
                # A single instance needs no comparison of loads.
                load.among = least if len(variant.instances) > 1 else None
                least.has(instance.id, len(load.leases))
                chosen = _Chosen(variant.name, instance, load)
                route.by_id[instance.id] = route.by_mark[instance.mark] = chosen
        heard = [each for each in variants if each.instances and each.weight > 0]
        route.names = [each.name for each in heard]
        route.marks = list(accumulate(each.weight for each in heard))
        if len(heard) == 1 and len(heard[0].instances) == 1:
            route.only = route.by_id[heard[0].instances[0].id]
        return route

    def _least_loaded(self) -> LeastLoaded[str]:
        if self._counts is None:
            return LeastLoaded(self._rng)
        from partway.gateway.fleet.routing.little_loaded import LittleLoaded  # with workers

        return LittleLoaded(lambda instance: self.load(instance).open, self._rng)

    # --- For leases ------------------------------------------------------------------------------

    def _other(self, lease: Lease, tried: tuple[str, ...]) -> _Chosen | None:
        route = self._routes.get(lease.place.endpoint)
        least = None if route is None else route.by_variant.get(lease.variant)
        if route is None or least is None:
            return None
        other = least.choose(but=tried)
        return None if other is None else route.by_id[other]


def _absent(endpoint: str, variants: Iterable[RoutedVariant]) -> ServiceUnavailable:
    """Explain to clients why no instance is available, without details of the machines."""
    why = "; ".join(
        f"variant {each.name!r}: {each.trouble or 'its weight is 0'}" for each in variants
    )
    return ServiceUnavailable(f"no instance of endpoint {endpoint!r} is in service: {why}")
