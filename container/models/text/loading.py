"""Loading of a model and its tokenizer, from a directory in Hugging Face's layout."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import is_flash_attn_2_available, is_flash_attn_3_available
from transformers.utils import logging as reports

from partway.container.models.text.settings import Sample, TextSettings

_T = TypeVar("_T")
_LOCAL: Any = {"local_files_only": True, "trust_remote_code": False}


class NotLoadable(Exception):
    """The model directory is incomplete or damaged; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model, ready for an engine.

    Attributes:
        model: the model on its device, in the precision of its weights.
        tokenizer: the model's tokenizer, with its chat template, if there is one.
        context: most tokens of a prompt and its reply together.
        ends: the tokens that end a reply.
        sample: the default sampling of tokens.
        decode: returns the text of some tokens, without special ones.
    """

    model: Any
    tokenizer: Any
    context: int
    ends: frozenset[int]
    sample: Sample
    decode: Callable[[list[int]], str]


def load(model_dir: Path, settings: TextSettings) -> Loaded:
    """Load everything; the weights take most of the time.

    Only safetensors are read, and a model's own code is never run.

    Raises:
        NotLoadable: a file is missing or damaged, or there is not enough memory.
    """
    if not (model_dir / "config.json").is_file():
        raise NotLoadable(
            f"there is no config.json in {model_dir}: put a model there as Hugging Face's "
            "save_pretrained() writes it (config.json, *.safetensors, tokenizer.json)"
        )
    _quiet()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    config = explained(
        model_dir, "config.json", lambda: AutoConfig.from_pretrained(model_dir, **_LOCAL)
    )
    tokenizer = explained(
        model_dir, "the tokenizer", lambda: AutoTokenizer.from_pretrained(model_dir, **_LOCAL)
    )
    model = _weights(model_dir, device_of(settings.device))
    generation = model.generation_config
    known = getattr(config.get_text_config(), "max_position_embeddings", None) or 2**31
    return Loaded(
        model=model,
        tokenizer=tokenizer,
        context=min(known, settings.context or known),
        ends=_ends(generation.eos_token_id, tokenizer.eos_token_id),
        sample=_sample(generation),
        decode=_decode(tokenizer),
    )


def _quiet() -> None:
    """Route transformers' log to the normal log, and disable its progress bars."""
    reports.disable_progress_bar()
    reports.disable_default_handler()
    reports.enable_propagation()


def device_of(name: str) -> torch.device:
    """Return the device that a setting names.

    Raises:
        NotLoadable: the machine has no device of that name.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise NotLoadable(f"PARTWAY_TEXT_DEVICE is {name!r}: {_first_line(error)}") from error
    return device


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device, or the machine, has run out of memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)  # torch on a CPU


def _weights(model_dir: Path, device: torch.device) -> Any:
    if not any(model_dir.glob("*.safetensors")):
        raise NotLoadable(
            f"there is no *.safetensors in {model_dir}: other formats may run code, and are not "
            "read; save_pretrained() writes safetensors"
        )

    def read() -> Any:
        model, report = AutoModelForCausalLM.from_pretrained(
            model_dir,
            dtype="auto",
            use_safetensors=True,
            attn_implementation=_attention(device),
            output_loading_info=True,
            **_LOCAL,
        )
        # transformers would fill missing weights with noise, and only warn.
        missing = sorted(report["missing_keys"]) + sorted(map(str, report["mismatched_keys"]))
        if missing:
            raise NotLoadable(
                f"the weights in {model_dir} lack {len(missing)} tensors of config.json, such as "
                f"{missing[0]}: files are missing, or belong to another model"
            )
        return model.to(device).eval()

    return explained(model_dir, "*.safetensors", read)


def _attention(device: torch.device) -> str | None:
    """Return flash attention if it is installed: otherwise each step reads a mask of the batch."""
    if device.type == "cuda" and is_flash_attn_3_available():
        return "flash_attention_3"
    if device.type == "cuda" and is_flash_attn_2_available():
        return "flash_attention_2"
    return None


def explained(model_dir: Path, what: str, read: Callable[[], _T]) -> _T:
    """Read something; an error names it.

    Raises:
        NotLoadable: reading failed, with any exception.
    """
    try:
        return read()
    except NotLoadable:
        raise
    except SafetensorError as error:
        raise NotLoadable(f"{_damaged(model_dir)} is damaged: {_first_line(error)}") from error
    except Exception as error:
        if is_out_of_memory(error):
            gc.collect()
            raise NotLoadable(
                f"the model in {model_dir} does not fit into memory: {_first_line(error)}"
            ) from error
        raise NotLoadable(
            f"{what} in {model_dir} cannot be loaded: {_first_line(error)}"
        ) from error


def _damaged(model_dir: Path) -> str:
    """Return the first file that cannot be opened, because safetensors does not name it."""
    from safetensors import safe_open

    for path in sorted(model_dir.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt"):
                pass
        except (SafetensorError, OSError):
            return str(path)
    return f"a file of {model_dir}"


def _sample(generation: Any) -> Sample:
    """Return the sampling that the model's authors recommend."""
    if generation.do_sample is False:
        return Sample(temperature=0.0)
    temperature, top_p = generation.temperature, generation.top_p
    return Sample(
        temperature=1.0 if temperature is None else float(temperature),
        top_p=1.0 if top_p is None else float(top_p),
    )


def _decode(tokenizer: Any) -> Callable[[list[int]], str]:
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is not None:  # a fifth of the time, for every token of every reply
        return lambda tokens: str(fast.decode(tokens, skip_special_tokens=True))
    return lambda tokens: str(
        tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    )


def _ends(*tokens: int | list[int] | None) -> frozenset[int]:
    found: set[int] = set()
    for each in tokens:
        found.update([each] if isinstance(each, int) else each or [])
    return frozenset(found)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
