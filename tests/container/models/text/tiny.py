"""Small language models, made on the spot: Llama's shape, and a tokenizer of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

END, USER, ASSISTANT, SYSTEM, PAD = "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|pad|>"
CHAT = (
    "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
CONTEXT = 512
_BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def tokenizer(merged: Sequence[str] = (), *, chat: bool = True) -> PreTrainedTokenizerFast:
    """One token for each byte, for each special word, and for some pairs of bytes.

    No token is to spare: padding has the end's, as in many a model.

    Args:
        merged: pairs, in byte level's alphabet.
        chat: whether it has a chat template.
    """
    vocabulary = {character: number for number, character in enumerate(_BYTES)}
    for pair in merged:
        vocabulary[pair] = len(vocabulary)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[(pair[0], pair[1]) for pair in merged]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([END, USER, ASSISTANT, SYSTEM, PAD])
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=END)
    if chat:
        fast.chat_template = CHAT
    return fast


def config(fast: PreTrainedTokenizerFast, hidden: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(fast),
        hidden_size=hidden,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
        bos_token_id=None,
        tie_word_embeddings=False,
    )


def make_noise(folder: Path, *, seed: int = 0, chat: bool = True, window: int = 0) -> Path:
    """A model of random weights: every byte may follow every other, most of them are no UTF-8.

    Args:
        window: tokens that a layer looks back on; 0 for all.
    """
    fast = tokenizer(chat=chat)
    torch.manual_seed(seed)
    shape = config(fast, 64)
    model: LlamaForCausalLM | MistralForCausalLM = LlamaForCausalLM(shape)
    if window:
        sliding = {**shape.to_dict(), "model_type": "mistral", "sliding_window": window}
        model = MistralForCausalLM(MistralConfig.from_dict(sliding))
    with torch.no_grad():
        model.lm_head.weight[fast.eos_token_id] = 0
        model.lm_head.weight.mul_(3)  # so that rounding decides nothing
    return save(model, fast, folder)


def make_chain(
    folder: Path, text: str, merged: Sequence[str] = (), added: Sequence[str] = ()
) -> Path:
    """A model that says a text for ever, whatever comes before.

    Each token has one successor, so no token may come twice in the text. What follows a token that
    is not in it is the text's beginning. Words that are added are one token each.
    """
    fast = tokenizer(merged)
    fast.add_tokens(list(added))
    chain = fast(text)["input_ids"]
    assert len(set(chain)) == len(chain), "a token comes twice"
    size = len(fast)
    hidden = -(-size // 8) * 8
    model = LlamaForCausalLM(config(fast, hidden))
    after = dict(zip(chain, [*chain[1:], chain[0]], strict=True))
    with torch.no_grad():
        for layer in model.model.layers:  # each layer adds nothing
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(size, hidden))
        model.lm_head.weight.zero_()
        for token in range(size):
            # So large that nothing else is ever drawn, at a temperature of 1.
            model.lm_head.weight[after.get(token, chain[0]), token] = 4
    return save(model, fast, folder)


def save(model: PreTrainedModel, fast: PreTrainedTokenizerFast, folder: Path) -> Path:
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
