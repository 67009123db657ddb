"""Attention on a CPU, for each request of a step over its own keys alone."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

#: Names among transformers' attention functions: of its own, and of :func:`attend`.
_ALL_KEYS, _OWN_KEYS = "sdpa", "partway_own_keys"


def use_all_keys(model: Any) -> None:
    """Undo :func:`use_own_keys`: transformers makes masks only for attention that it knows."""
    if model.config._attn_implementation == _OWN_KEYS:  # noqa: SLF001
        model.set_attn_implementation(_ALL_KEYS)


def use_own_keys(model: Any) -> None:
    """Let a model on a CPU use :func:`attend`, unless it needs attention of another kind."""
    if model.device.type == "cpu" and model.config._attn_implementation == _ALL_KEYS:  # noqa: SLF001
        model.set_attn_implementation(_OWN_KEYS)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float | None = None,
    **given: Any,
) -> tuple[torch.Tensor, None]:
    """Compute the attention of one layer for all requests of a step.

    transformers' function lays the requests in a row, and multiplies each query with the keys of
    all of them; a mask then hides most products. Here the requests that generate are laid below
    each other, filled up to the longest. A NaN in one does not reach the others.

    Args:
        module: the layer.
        query: [1, heads, queries, size].
        key: of the queries' tokens, [1, key heads, queries, size]; so is ``value``.
        attention_mask: as transformers makes it, [1, 1, queries, keys].
        scaling: factor of the products.
        given: transformers' further arguments, among them the cache and its indices.

    Returns:
        The layer's output, [1, queries, heads, size].
    """
    cache = given["cache"]
    kind = cache.layer_to_allocator[module.layer_idx]
    queries = given["cu_seq_lens_q"].tolist()
    rows = next((n for n, at in enumerate(queries) if at != n), len(queries)) - 1
    read = given["read_index"][kind.index]
    special = any(given.get(name) is not None for name in ("softcap", "position_bias"))
    if special or kind.layer_type != "full_attention" or not len(read) or len(queries) == 2:
        whole, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **given
        )
        return whole, None
    ends = given["cu_seq_lens_k"][kind.layer_type].to(torch.int64)
    lengths = ends.diff()[:rows]
    longest = int(lengths.max()) if rows else 0
    places = torch.arange(longest).expand(rows, longest)
    own = places < lengths[:, None]
    padded = torch.where(own, places + ends[:rows, None], ends[:rows, None])
    spans = ends.tolist()
    given["read_index"] = list(given["read_index"])
    given["read_index"][kind.index] = torch.cat((read[padded.view(-1)], read[spans[rows] :]))
    key, value = cache.update(key, value, module.layer_idx, given)

    outputs, filled = [], rows * longest
    if rows:
        heads, size = key.shape[1], key.shape[3]
        laid = (heads, rows, longest, size)
        output = scaled_dot_product_attention(
            query[0, :, :rows].transpose(0, 1).reshape(rows, heads, -1, size),
            key[0, :, :filled].view(laid).transpose(0, 1),
            value[0, :, :filled].view(laid).transpose(0, 1),
            attn_mask=own[:, None, None],
            scale=scaling,
        )
        outputs.append(output.reshape(1, rows, -1, size))
    for n in range(rows, len(queries) - 1):  # pieces of prompts
        now, keys = slice(queries[n], queries[n + 1]), slice(spans[n], spans[n + 1])
        there = slice(keys.start - spans[rows] + filled, keys.stop - spans[rows] + filled)
        piece, _ = sdpa_attention_forward(
            module,
            query[:, :, now],
            key[:, :, there],
            value[:, :, there],
            attention_mask[..., now, keys],
            scaling=scaling,
        )
        outputs.append(piece)
    return torch.cat(outputs, dim=1), None


AttentionInterface.register(_OWN_KEYS, attend)
