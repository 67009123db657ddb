"""Settings of the language model: environment variables, the only way to configure an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from partway.container.settings import Settings
from partway.protocol.limits import MIB

_MOST: Final = 10**18 - 1
#: Whole numbers; for some settings 0 lets the engine choose.
Number = Annotated[int, Field(ge=0, le=_MOST)]
PositiveNumber = Annotated[int, Field(ge=1, le=_MOST)]


class TextSettings(Settings, prefix="PARTWAY_TEXT_"):
    """The settings of the language model.

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
    context: Number = 0
    max_new_tokens: PositiveNumber = 512
    generations: PositiveNumber = 256
    queued: PositiveNumber = 16
    batch_tokens: Number = 0
    cache_bytes: Number = 0
    threads: Number = 0


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
