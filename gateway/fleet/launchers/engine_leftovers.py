"""What a gateway that was killed has left to its engine: which order gets which of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from partway.gateway.fleet.launchers.engine_client import ListedContainer
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
        instance: which instance it was.
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
    """

    def __init__(self) -> None:
        self._left: list[Leftover] = []

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
        whose = order.endpoint, order.variant.name
        own = [each for each in self._left if (each.endpoint, each.variant) == whose]
        fit = [each for each in own if made and each.made == made][: order.variant.instances]
        self._left = [each for each in self._left if each not in own or each in fit[1:]]
        return (fit[0] if fit else None), tuple(each for each in own if each not in fit)

    def give_up(self, is_wanted: Callable[[str, str], bool]) -> tuple[Leftover, ...]:
        """Let go of all but those of the endpoints and variants that are wanted."""
        given_up = [each for each in self._left if not is_wanted(each.endpoint, each.variant)]
        self._left = [each for each in self._left if each not in given_up]
        return tuple(given_up)
