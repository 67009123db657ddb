"""Settings of the language model: environment variables, the only way to configure an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from partway.protocol.limits import MIB


@dataclass(frozen=True, slots=True)
class TextSettings:
    """The settings of the language model.

    Each comes from an environment variable: ``PARTWAY_TEXT_`` and the setting's name in capitals.

    Attributes:
        device: ``auto`` (a GPU if there is one), or torch's name: ``cpu``, ``cuda:1``.
        context: most tokens of a prompt and its reply together; 0 for the model's limit.
        max_new_tokens: most tokens of a reply, unless its request sets a limit.
        generations: most replies, those that wait included; above it a client gets Close 1013, or
            503.
        queued: most requests of one stream that wait for their turn.
        batch_tokens: most tokens of one step, prompts included, and most replies that it computes;
            0 lets the engine choose, on a GPU.
        cache_bytes: size of the cache of keys and values; 0 for most of a GPU's free memory, and 1
            GiB on a CPU.
        threads: number of CPU threads, for a model on the CPU; 0 lets torch choose.
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


#: The environment variable of each setting.
VARIABLES: Final = frozenset(_variable_of(each.name) for each in fields(TextSettings))


@dataclass(frozen=True, slots=True)
class Sample:
    """The sampling of the next token.

    Attributes:
        temperature: 0 takes the likeliest.
        top_p: share of the probability from which the token is drawn.
        top_k: number of the likeliest tokens from which it is drawn; 0 for all.
        seed: makes the draws repeatable.
        top_scores: number of the likeliest tokens that are reported beside the one taken.
        grammar: llguidance's matcher of the tokens that may come; it is copied before its use.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    top_scores: int | None = None
    grammar: Any = None

    @property
    def fits_batch(self) -> bool:
        """Whether the engine can sample this request together with the others of its step.

        Any other request needs a row sampler of its own.
        """
        return not self.top_k and self.seed is self.top_scores is self.grammar is None


#: Cache of keys and values on a CPU, which shares the memory with everything else.
CPU_CACHE_BYTES = 1024 * MIB


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) <= 18):
        raise ValueError(f"{name} is {value[:40]!r}; it must be a whole number, 0 or more")
    return int(value)
