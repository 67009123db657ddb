"""Logits that are not numbers: the request that has them ends, and no other one."""

from __future__ import annotations

from typing import Any

import torch

# Far enough apart for any sampling, within every precision.
_HIGH, _LOW = 1e4, -1e4


def mark_broken(model: Any, tokenizer: Any, ends: frozenset[int]) -> int | None:
    """Have a model answer logits that are not numbers with one certain token.

    Sampling from such a row fails with the whole batch; on a GPU it takes the device's context
    along. The largest of them, on the other hand, looks like any other token.

    Args:
        model: the model, whose output layer gets a hook, which is part of CUDA graphs too.
        tokenizer: the model's.
        ends: the tokens that end a reply.

    Returns:
        The token, which from here on means broken logits and nothing else; None where the
        vocabulary has no token to spare, and nothing is done.
    """
    layer = model.get_output_embeddings()
    if layer is None:
        return None
    token = _spare(tokenizer, int(layer.weight.shape[0]), ends)
    if token is not None:
        layer.register_forward_hook(lambda *call: _marked(call[-1], token))
    return token


def _marked(logits: torch.Tensor, token: int) -> torch.Tensor:
    total = logits.sum(dim=-1, keepdim=True, dtype=torch.float32)  # of a NaN with anything: NaN
    broken = total.isnan() | (total == torch.inf)
    logits = logits.masked_fill(broken, _LOW)
    logits[..., token] = torch.where(broken[..., 0], _HIGH, -torch.inf).to(logits.dtype)
    return logits


def _spare(tokenizer: Any, size: int, ends: frozenset[int]) -> int | None:
    """A token that no reply needs: padding, or one that the tokenizer does not know."""
    if tokenizer.pad_token_id is not None and tokenizer.pad_token_id not in ends:
        return int(tokenizer.pad_token_id)
    return len(tokenizer) if len(tokenizer) < size else None
