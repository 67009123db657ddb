"""Containers that a killed gateway has left to its engine, and the orders that take them over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from partway.gateway.fleet.container_ids import hostname_of, instance_of
from partway.gateway.fleet.launchers.engine_answers import ListedContainer
from partway.gateway.fleet.launchers.engine_request import (
    ENDPOINT_LABEL,
    GPUS_LABEL,
    INSTANCE_LABEL,
    MADE_OF_LABEL,
    MODEL_LABEL,
    VARIANT_LABEL,
)
from partway.gateway.fleet.launchers.launcher import LaunchError, Order


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container that a killed gateway has left.

    Attributes:
        created: when it was made, in epoch seconds.
        instance: the id of its instance, or the container's own if the instance has several.
        made: a digest from :func:`.engine_request.made_of`; empty if it has none.
        model: its model directory; None without one.
    """

    id: str
    created: int
    instance: str
    endpoint: str
    variant: str
    made: str
    model: Path | None
    gpus: tuple[str, ...]

    @property
    def whose(self) -> tuple[str, str, str]:
        """The names of endpoint and variant, and the host name, empty for an only container."""
        return self.endpoint, self.variant, hostname_of(self.instance)

    @classmethod
    def of(cls, container: ListedContainer) -> Self:
        labels = container.labels
        model = labels.get(MODEL_LABEL)
        return cls(
            container.id,
            container.created,
            labels.get(INSTANCE_LABEL, ""),
            labels.get(ENDPOINT_LABEL, ""),
            labels.get(VARIANT_LABEL, ""),
            labels.get(MADE_OF_LABEL, ""),
            Path(model) if model else None,
            tuple(filter(None, labels.get(GPUS_LABEL, "").split(","))),
        )


class Leftovers:
    """Leftover containers that run and are neither taken over nor given up.

    1. An order takes a container of its variant that is made of the same. Of several it takes the
       newest, which would have been stopped last.
    2. A container made of something else is given up once an order of its variant is answered. Of
       containers made of the same, as many stay as the variant has instances.
    3. An instance with several containers has an order for each. Its orders take containers that
       belong together, since they share GPUs. If one of those is missing, the order for it finds
       none and starts a new container beside the others.
    4. A container of a kept instance is for that instance alone, since streams may be open on it.
       If it is made of something else, or no order comes, it stays until :meth:`unclaimed`.
    """

    def __init__(self) -> None:
        self._left: list[Leftover] = []
        self._of_kept: dict[str, Leftover] = {}  # by container id of :mod:`.container_ids`
        self._bound: dict[str, str] = {}  # new to old instance

    @property
    def models(self) -> set[Path]:
        left = (*self._left, *self._of_kept.values())
        return {each.model for each in left if each.model is not None}

    def become(self, found: Iterable[Leftover], of_kept: Iterable[Leftover] = ()) -> None:
        """Replace all.

        Args:
            of_kept: those of kept instances.
        """
        self._of_kept = {each.instance: each for each in of_kept}
        self._left = sorted(found, key=lambda each: (each.created, each.instance), reverse=True)

    def claim(self, order: Order, made: str) -> tuple[Leftover | None, tuple[Leftover, ...]]:
        """Find a container for an order.

        ``made`` is a digest of what the order's container is made of; it is empty if unknown.

        Returns:
            The container, if there is one, and those that are given up (rule 2).
        """
        whose = order.endpoint, order.variant.name, hostname_of(order.instance)
        own = [each for each in self._left if each.whose == whose]
        fit = [each for each in own if made and each.made == made][: order.variant.instances]
        taken = next((each for each in fit if self._belongs(each, order)), None)
        if hostname_of(order.instance):
            self._bind(order, taken, {instance_of(each.instance) for each in own})
        kept = [each for each in fit if each is not taken]
        self._left = [each for each in self._left if each not in own or each in kept]
        return taken, tuple(each for each in own if each not in fit)

    def claim_own(self, order: Order, made: str) -> Leftover | None:
        """Find the container of an order's own instance (rule 4); None if it has none.

        Raises:
            LaunchError: it is made of something else.
        """
        found = self._of_kept.get(order.instance)
        if found is None:
            return None
        if not made or found.made != made:
            raise LaunchError(
                "an earlier gateway process has started its container from something else; a new "
                "instance takes its place",
                passing=True,
            )
        return self._of_kept.pop(order.instance)

    @property
    def has_unclaimed(self) -> bool:
        """Whether there are containers of kept instances that no order has taken."""
        return bool(self._of_kept)

    def unclaimed(self, is_awaited: Callable[[str], bool]) -> Iterable[Leftover]:
        """Hand out the containers of kept instances that no order has taken.

        Args:
            is_awaited: whether an order for a container may still come.
        """
        found = [each for name, each in self._of_kept.items() if not is_awaited(name)]
        for each in found:
            del self._of_kept[each.instance]
        return found

    def bound_to(self, instance: str) -> str:
        """Return the instance whose containers an instance's orders take, or an empty string."""
        return self._bound.get(instance, "")

    def _bind(self, order: Order, taken: Leftover | None, with_one: Collection[str]) -> None:
        """Bind an instance's orders to the containers of one old instance (rule 3).

        Args:
            order: the first order that is answered.
            taken: the container it takes.
            with_one: the old instances that have a container for the order, even an unfit one.
        """
        new = instance_of(order.instance)
        if taken is not None:
            self._bound[new] = instance_of(taken.instance)
        elif new not in self._bound:
            for each in self._left:
                old = instance_of(each.instance)
                if each.whose[:2] != (order.endpoint, order.variant.name) or old in with_one:
                    continue
                if hostname_of(each.instance) and old not in self._bound.values():
                    self._bound[new] = old
                    return

    def _belongs(self, leftover: Leftover, order: Order) -> bool:
        """Say whether an order for one of several containers may take a container (rule 3)."""
        if not hostname_of(order.instance):
            return True
        instance = instance_of(leftover.instance)
        bound = self._bound.get(instance_of(order.instance))
        return bound == instance or (bound is None and instance not in self._bound.values())

    def give_up(self, is_wanted: Callable[[str, str], bool]) -> tuple[Leftover, ...]:
        given_up = [each for each in self._left if not is_wanted(each.endpoint, each.variant)]
        self._left = [each for each in self._left if each not in given_up]
        return tuple(given_up)
