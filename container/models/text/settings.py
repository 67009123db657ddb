"""What can be set of a language model, by environment: an image is configured by nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Self

from partway.protocol.limits import MIB


@dataclass(frozen=True, slots=True)
class TextSettings:
    """The settings, each an environment variable: ``PARTWAY_TEXT_`` and its name in capitals.

    Attributes:
        device: ``auto`` (a GPU where there is one), or as torch names it: ``cpu``, ``cuda:1``.
        context: most tokens of a prompt and its reply together; 0 for as many as the model knows.
        max_new_tokens: most tokens of a reply, unless its request says so.
        generations: how many replies may be under way; over it a client gets Close 1013, or 503.
        queued: how many requests of one stream may wait for their turn.
        batch_tokens: tokens of one step, prompts' included; 0 lets the engine choose, on a GPU.
        cache_bytes: for keys and values; 0 for most of what a GPU has left, and 1 GiB elsewhere.
        threads: how many the CPU uses, for a model that runs there; 0 lets torch choose.
    """

    device: str = "auto"
    context: int = 0
    max_new_tokens: int = 512
    generations: int = 256
    queued: int = 16
    batch_tokens: int = 0
    cache_bytes: int = 0
    threads: int = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings; a variable that is empty counts as unset.

        Raises:
            ValueError: a variable is not a number, or is out of range; the message names it.
        """
        found: dict[str, str | int] = {}
        for each in fields(cls):
            name = _variable_of(each.name)
            value = environment.get(name, "")
            if value:
                found[each.name] = value if each.name == "device" else _number(name, value)
        settings = cls(**found)  # type: ignore[arg-type]  # the fields' own kinds
        for needed in ("max_new_tokens", "generations", "queued"):
            if not getattr(settings, needed):
                raise ValueError(f"{_variable_of(needed)} is 0; it must be 1 or more")
        return settings


def _variable_of(name: str) -> str:
    return f"PARTWAY_TEXT_{name.upper()}"


#: The variable of each setting.
VARIABLES: Final = frozenset(_variable_of(each.name) for each in fields(TextSettings))


@dataclass(frozen=True, slots=True)
class Sample:
    """How the next token is chosen.

    Attributes:
        temperature: 0 takes the likeliest.
        top_p: share of the likelihood from which the token is drawn.
    """

    temperature: float = 1.0
    top_p: float = 1.0


#: Of keys and values on a CPU, where it shares the memory with everything else.
CPU_CACHE_BYTES = 1024 * MIB


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) <= 18):
        raise ValueError(f"{name} is {value[:40]!r}; it must be a whole number, 0 or more")
    return int(value)
