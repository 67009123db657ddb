"""What a gateway that was killed has left to its engine: which order gets which of it."""

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
from partway.gateway.fleet.launchers.launcher import Order


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container that a gateway which was killed has left.

    Attributes:
        id: the container's.
        created: when it was made, in epoch seconds.
        instance: which instance it was, or which container of one that has several.
        endpoint: the name of its endpoint.
        variant: the name of its variant.
        made: of what it is made, by :func:`.engine_request.made_of`; empty where it does not say.
        model: its model directory; None without one.
        gpus: those that it has for itself.
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
        """The names of endpoint and variant, and the container's own, empty for an only one."""
        return self.endpoint, self.variant, hostname_of(self.instance)

    @classmethod
    def of(cls, container: ListedContainer) -> Self:
        """Read a container's labels."""
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
    """Those that run, and have neither been taken over nor given up so far.

    1. An order takes one of its variant's that is made of the same; of several the newest, which is
       the last to have been stopped.
    2. What is made of something else is no order's any more once its variant has one, and of what
       is made of the same no more stay than the variant is to have instances.
    3. Of an instance that has several containers each has an order of its own. Those that belong
       together are taken by orders that do: they share GPUs. One that is missing of them is what
       an order is for that finds none: it belongs to the others too.
    """

    def __init__(self) -> None:
        self._left: list[Leftover] = []
        self._bound: dict[str, str] = {}  # instances of orders, and whose containers these take

    @property
    def models(self) -> set[Path]:
        """The model directories that they use."""
        return {each.model for each in self._left if each.model is not None}

    def become(self, found: Iterable[Leftover]) -> None:
        """Have these, and no others."""
        self._left = sorted(found, key=lambda each: (each.created, each.instance), reverse=True)

    def claim(self, order: Order, made: str) -> tuple[Leftover | None, tuple[Leftover, ...]]:
        """Find one for an order.

        Args:
            order: what is asked for.
            made: of what that is made; empty if nobody can tell.

        Returns:
            It, if there is one, and those that have become nobody's (rule 2).
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

    def bound_to(self, instance: str) -> str:
        """The instance whose containers the orders of another take; empty if there is none."""
        return self._bound.get(instance, "")

    def _bind(self, order: Order, taken: Leftover | None, with_one: Collection[str]) -> None:
        """Have an instance's orders take the containers of one, by the first of them (rule 3).

        Args:
            order: the one that has been answered.
            taken: what it has got.
            with_one: the instances that have one for it, may it be another's.
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
        """Whether an order of one of several may have a container (rule 3)."""
        if not hostname_of(order.instance):
            return True
        instance = instance_of(leftover.instance)
        bound = self._bound.get(instance_of(order.instance))
        return bound == instance or (bound is None and instance not in self._bound.values())

    def give_up(self, is_wanted: Callable[[str, str], bool]) -> tuple[Leftover, ...]:
        """Let go of all but those of the endpoints and variants that are wanted."""
        given_up = [each for each in self._left if not is_wanted(each.endpoint, each.variant)]
        self._left = [each for each in self._left if each not in given_up]
        return tuple(given_up)
