"""What a broken platform is: a gateway, and a relay that distorts what it sends or gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from partway.gateway.fleet.stream_policy import StreamPolicy
from tests.gateway.workbench.conformance.platform.relay import Distortion
from tests.gateway.workbench.conformance.platform.trying import HURRIED


@dataclass(frozen=True)
class Broken:
    """One platform with one fault.

    Attributes:
        name: of it.
        breaks: what is wrong with it, in one line.
        root: ids of the checks that must fail, without ``platform.``; every other one passes or
            is blocked.
        distortion: None where the fault is in the gateway's times.
        hurried: those times.
    """

    name: str
    breaks: str
    root: frozenset[str]
    distortion: Callable[[], Distortion] | None
    hurried: StreamPolicy = HURRIED


BROKEN: dict[str, Broken] = {}


def breaks(*root: str) -> Callable[[type[Distortion]], type[Distortion]]:
    """List a distortion: ``SameKey`` is ``same-key``, its docstring says what it breaks."""

    def take(distortion: type[Distortion]) -> type[Distortion]:
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", distortion.__name__).lower()
        assert distortion.__doc__, f"{name} does not say what it breaks"
        listed(name, distortion.__doc__.splitlines()[0], root, distortion)
        return distortion

    return take


def listed(
    name: str,
    what: str,
    root: tuple[str, ...],
    distortion: Callable[[], Distortion] | None,
    hurried: StreamPolicy = HURRIED,
) -> None:
    if name in BROKEN:
        raise ValueError(f"there are two platforms {name}")
    BROKEN[name] = Broken(name, what, frozenset(root), distortion, hurried)
