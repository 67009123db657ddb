"""Choice of the next tokens, for each request by its own temperature and top-p."""

from __future__ import annotations

import torch
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopPLogitsWarper
from transformers.generation.continuous_batching.cb_logits_processors import (
    ContinuousBatchingLogitsProcessorList,
)

from partway.container.models.text.row_sampling import (
    LEAST_TEMPERATURE,
    ROW,
    RowSampler,
    RowSampling,
)
from partway.container.models.text.settings import Sample

#: Tokens among which a nucleus is sought first, on a CPU; sorting a whole vocabulary takes ten
#: times as long.
_CANDIDATES = 256


class TokenSampler(ContinuousBatchingLogitsProcessorList):  # type: ignore[misc]  # no types
    """Draws the tokens of the requests that ask for it.

    transformers then takes the likeliest token of each row. So a greedy request costs nothing here,
    and a drawn token becomes the only possible one of its row. A row with NaN stays NaN.

    transformers carries each request's values to the device; only the computation is replaced. Its
    own sorts the vocabulary for every row.
    """

    def __init__(self) -> None:
        carriers = [TemperatureLogitsWarper(0.5), TopPLogitsWarper(0.5)]  # in the order of a call
        super().__init__(LogitsProcessorList(carriers), per_request_processors=True)
        self._row_sampling = RowSampling.first_of(self)

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, logits_processor_args: torch.Tensor
    ) -> torch.Tensor:
        """Return the scores, each row of a drawn token replaced.

        Args:
            scores: logits, [rows, vocabulary].
            logits_processor_args: nothing, temperatures and top-p, [3, rows], as bits of a 32-bit
                float.
        """
        row_arguments, *others = logits_processor_args[:, : len(scores)]
        scores = self._row_sampling(scores, row_arguments)
        temperature, top_p = (each.view(torch.float32) for each in others)
        draw = self._draw_some if scores.device.type == "cpu" else self._draw_all
        return draw(scores, temperature, top_p)

    def _draw_some(
        self, scores: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor
    ) -> torch.Tensor:
        """Draw for the rows that ask for it; only those of a nucleus need an order."""
        for rows in ((temperature > 0) & (top_p < 1), (temperature > 0) & (top_p >= 1)):
            if rows.any():
                some = scores[rows]
                share = (some / temperature[rows, None]).softmax(-1)
                nucleus = top_p[rows] if (top_p[rows] < 1).any() else None
                scores[rows] = _only(*_draw(share, nucleus, _CANDIDATES), some)
        return scores

    def _draw_all(
        self, scores: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor
    ) -> torch.Tensor:
        """Draw for all rows, and keep what was asked for: a CUDA graph cannot select rows."""
        share = (scores / temperature.clamp(min=LEAST_TEMPERATURE)[:, None]).softmax(-1)
        drawn = _only(*_draw(share, top_p, scores.shape[-1]), scores)
        return torch.where(temperature[:, None] > 0, drawn, scores)


def arguments(sample: Sample, row: RowSampler | None = None) -> dict[str, object]:
    """Return a request's values for :class:`TokenSampler`; a temperature of 0 is greedy.

    Args:
        row: takes the request's tokens by itself; the greedy choice is then the only one left.
    """
    if row is not None:
        return {"temperature": 0.0, "top_p": 1.0, ROW: row}
    greedy = sample.temperature < LEAST_TEMPERATURE
    return {
        "temperature": 0.0 if greedy else float(sample.temperature),
        "top_p": float(sample.top_p),
    }


def _draw(
    share: torch.Tensor, top_p: torch.Tensor | None, candidates: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a token for each row.

    Args:
        share: probabilities, [rows, vocabulary].
        top_p: of each row; None for the whole vocabulary.
        candidates: the number of likeliest tokens to look at first.

    Returns:
        The tokens and the share of all tokens they were drawn from, both [rows, 1].
    """
    tokens = None
    if top_p is not None:
        likely, tokens = share.topk(min(candidates, share.shape[-1]))
        if candidates < share.shape[-1] and (likely.sum(-1) < top_p).any():
            return _draw(share, top_p, share.shape[-1])
        before = likely.cumsum(-1) - likely
        share = likely.masked_fill(before >= top_p[:, None], 0)
    total = share.cumsum(-1, dtype=torch.float64)
    drawn = torch.rand_like(total[:, :1]) * total[:, -1:]
    at = torch.searchsorted(total, drawn, right=True).clamp(max=share.shape[-1] - 1)
    return (at if tokens is None else tokens.gather(1, at)), total[:, -1:]


def _only(tokens: torch.Tensor, share: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Return scores that allow one token in each row; NaN where its share is NaN."""
    return torch.full_like(scores, -torch.inf).scatter_(1, tokens, (share * 0).to(scores.dtype))
