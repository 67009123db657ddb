"""Sampling of single rows of a batch, for requests that ask for more than the engine offers.

:mod:`~partway.container.models.text.token_sampler` samples all rows of a step together. A row with
a seed, ``top_k``, a grammar or a report of probabilities is sampled here first, by itself. Its
logits are then replaced: the token that was taken is left as the only one possible, so that the
engine takes it too. Other rows pass through.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

import numpy as np
import torch
from transformers.generation.continuous_batching.cb_logits_processors import (
    ContinuousBatchingLogitsProcessor,
)
from transformers.generation.continuous_batching.requests import FutureRequestState

from partway.container.models.text.settings import Sample
from partway.container.models.text.token_scores import TokenScore

#: A smaller temperature counts as 0: logits of 1e4 divided by this one are still finite.
LEAST_TEMPERATURE: Final = 1e-4

#: Tokens among which a nucleus is sought first. Sorting a whole vocabulary takes ten times as long.
_CANDIDATES: Final = 2048

#: The member of a request to the engine that holds its row.
ROW: Final = "row"


class RowSampler:
    """The sampling of one request to the engine; only the engine's thread calls it.

    Args:
        said: the tokens of the reply that the request's prompt has already.

    Attributes:
        scores: of each token that was taken, if the sampling asks for them.
        failure: why no token of the grammar can be found; None while there is one.
    """

    def __init__(self, sample: Sample, said: Sequence[int] = ()) -> None:
        self._sample = sample
        self._random = random.Random(sample.seed)  # noqa: S311 (no secret is drawn)
        for _ in said:  # the reply goes on where it was
            self._random.random()
        self.scores: list[TokenScore] = []
        self.failure: str | None = None
        self._grammar = None
        if sample.grammar is not None:
            self._grammar = sample.grammar.deep_copy()
            self._grammar.consume_tokens(list(said))

    def __deepcopy__(self, memo: object) -> Self:
        """Return the row itself: the engine copies a request that it starts anew."""
        return self

    def take(self, logits: torch.Tensor) -> int:
        """Return the next token.

        Args:
            logits: the row's, one for each token of the vocabulary; they are not changed.
        """
        token = self._drawn(self._allowed(logits))
        if self._grammar is not None and not self._grammar.consume_token(token):
            self.failure = self.failure or "the answer's form is too complex for this place in it"
        if self._sample.top_scores is not None:
            self.scores.append(_score(logits, token, self._sample.top_scores))
        return token

    def _allowed(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the logits; those of tokens that the grammar forbids are minus infinity."""
        if self._grammar is None:
            return logits
        mask = np.frombuffer(self._grammar.compute_bitmask(), dtype=np.uint8)
        bits = np.unpackbits(mask, count=logits.shape[0], bitorder="little").view(np.bool_)
        allowed = torch.from_numpy(bits).to(logits.device)
        return logits.masked_fill(~allowed, -torch.inf)

    def _drawn(self, logits: torch.Tensor) -> int:
        sample = self._sample
        place = self._random.random()
        if sample.temperature < LEAST_TEMPERATURE:
            return int(logits.argmax())
        logits = logits / sample.temperature
        if sample.top_k:
            least = logits.topk(min(sample.top_k, logits.shape[0])).values[-1]
            logits = logits.masked_fill(logits < least, -torch.inf)
        probabilities = logits.softmax(dim=-1, dtype=torch.float64)
        if sample.top_p < 1:
            probabilities = _nucleus(probabilities, sample.top_p)
        sums = probabilities.cumsum(dim=-1)
        drawn = int(torch.searchsorted(sums, sums[-1] * place, right=True))
        return min(drawn, int(probabilities.nonzero()[-1]))  # rounding may lead past the last one


def _nucleus(probabilities: torch.Tensor, share: float) -> torch.Tensor:
    """Keep the likeliest tokens that together have a share of the probability, at least one."""
    size = probabilities.shape[0]
    ordered, tokens = probabilities.topk(min(_CANDIDATES, size))
    sums = ordered.cumsum(dim=-1)
    if ordered.shape[0] < size and sums[-1] < share:
        ordered, tokens = probabilities.sort(descending=True)
        sums = ordered.cumsum(dim=-1)
    kept = tokens[sums - ordered < share]
    return torch.zeros_like(probabilities).index_copy(0, kept, probabilities[kept])


def _score(logits: torch.Tensor, token: int, count: int) -> TokenScore:
    logprobs = logits.log_softmax(dim=-1, dtype=torch.float32)
    best = logprobs.topk(min(count, logprobs.shape[0]))
    top = tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
    return TokenScore(token, float(logprobs[token]), top)


class RowSampling(ContinuousBatchingLogitsProcessor):  # type: ignore[misc]  # it has no types
    """The processor of logits that lets each :class:`RowSampler` of a step take its token."""

    supported_kwargs: ClassVar[dict[str, type]] = {ROW: RowSampler}
    ignored_kwargs: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._rows: list[tuple[int, RowSampler]] = []

    @classmethod
    def first_of(cls, processors: Any) -> Self:
        """Put a new processor before the others of an engine, a list of transformers' kind."""
        added = cls()
        processors.logits_processor.insert(0, added)
        processors.tensors_required += 1
        processors.supported_keys[ROW] = RowSampler
        processors.do_processing = True
        return added

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        int32_tensor.zero_()

    def prepare_tensor_args(
        self, requests_with_new_token: list[FutureRequestState]
    ) -> torch.Tensor:
        arguments = [each.state.logit_processor_kwargs for each in requests_with_new_token]
        self._rows = [(at, each[ROW]) for at, each in enumerate(arguments) if ROW in each]
        return torch.zeros(len(arguments), dtype=torch.int32)

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        for at, row in self._rows:
            logits = scores[at]
            if bool(torch.isfinite(logits.max())):  # otherwise the engine finds the fault
                token = row.take(logits)
                logits.fill_(-torch.inf)
                logits[token] = 0.0
        return scores
