"""Language models made on the spot: the right shape, random weights, nothing to download.

Their replies are visible ASCII characters, one to each token, and never end by themselves. So
characters are tokens, and every reply has the length that was asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

_END = "<|end|>"
_PAD = "<|pad|>"
_CONTEXT = 2048
_SEED = 5
#: The characters of a model's replies; in the alphabet of byte-level tokenizers each is one token.
ALPHABET = frozenset(map(chr, range(0x21, 0x7F)))
_SIZES_FILE = "sizes.json"


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama's measures."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_value_heads: int
    vocabulary: int
    precision: str


#: As SmolLM2-135M, but with an output layer of its own.
SMALL = Shape(576, 1536, 30, 9, 3, 49_152, "bfloat16")
BILLION = Shape(2048, 8192, 16, 32, 8, 32_000, "bfloat16")


@dataclass(frozen=True, slots=True)
class Made:
    """A model in a directory.

    Attributes:
        parameters: how many.
        step_bytes: weights that one step reads: all but the table of input embeddings.
    """

    path: Path
    parameters: int
    step_bytes: int


def make(path: Path, shape: Shape) -> Made:
    """Make a model in a directory, unless an earlier call has."""
    sizes = path / _SIZES_FILE
    if sizes.is_file():
        return Made(path, **json.loads(sizes.read_text()))
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(path)
    torch.manual_seed(_SEED)
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        max_position_embeddings=_CONTEXT,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, shape.precision))
    said = torch.zeros(config.vocab_size, 1, dtype=model.dtype)
    said[[tokenizer.convert_tokens_to_ids(each) for each in sorted(ALPHABET)]] = 1
    with torch.no_grad():
        # The others' logits are 0, and the largest of 94 random ones is above it.
        model.get_output_embeddings().weight.mul_(said)
    model.save_pretrained(path)
    parameters = sum(each.numel() for each in model.parameters())
    read = parameters - model.get_input_embeddings().weight.numel()
    made = Made(path, parameters, read * model.dtype.itemsize)
    found = {"parameters": made.parameters, "step_bytes": made.step_bytes}
    sizes.write_text(json.dumps(found))  # written last, so that a directory with it is whole
    return made


def _tokenizer() -> PreTrainedTokenizerFast:
    """One token for each byte, and no chat template: a prompt is continued as it stands."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: n for n, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([_END, _PAD])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=_END, pad_token=_PAD)
