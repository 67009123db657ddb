"""The language model under load, beside its engine called in a loop and others.

``python -m benchmarks.text`` makes a model with random weights: of SmolLM2-135M's shape for the
CPU, or with ``--gpu`` one of a billion parameters. Many streams ask at once, through gateway and
runtime, and through the runtime alone. The engine itself, transformers' ``generate()`` and, with
``--vllm``, vLLM are asked the same. The exit status is not zero when there is no GPU for ``--gpu``,
a process did not run, or a reply was wrong, and never for being slow.
``docs/discussion/language-model.md`` explains the tables.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers import StartError
from benchmarks.rounds import RunError
from benchmarks.text_replies import WrongReply

if TYPE_CHECKING:
    from benchmarks.text_ways import Setup

#: Two engines share a GPU; 256 streams need half of this.
_GPU_CACHE_BYTES = 4 << 30

_CPU_STREAMS, _GPU_STREAMS = (1, 16, 64), (1, 16, 64, 256)
_CPU_TOKENS, _GPU_TOKENS = 64, 128

#: Numbers of streams for which first parts are measured; the goal is for 64.
_DELAY_STREAMS = (1, 64)


def run(args: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Make the model, measure it, and yield the report line by line."""
    try:
        import torch
        import transformers

        from benchmarks.text_models import BILLION, SMALL, make
        from benchmarks.text_ways import Setup
        from partway.container.models.text.settings import TextSettings
    except ModuleNotFoundError as error:
        raise StartError(f"{error.name} is missing: pip install 'partway[text,bench]'") from error

    if args.gpu and not torch.cuda.is_available():
        raise StartError("torch finds no GPU on this machine, and --gpu measures one")
    yield f"torch {torch.__version__}, transformers {transformers.__version__}"
    if args.gpu:
        settings = TextSettings(device="cuda", cache_bytes=_GPU_CACHE_BYTES)
        made = make(folder / "billion", BILLION)
        device = torch.cuda.get_device_name()
    else:
        settings = TextSettings(device="cpu")
        made = make(folder / "small", SMALL)
        device = f"CPU, {os.cpu_count()} cores"
    setup = Setup(
        f"{device}, {made.parameters:,} parameters, bfloat16",
        made,
        settings,
        args.streams or (_GPU_STREAMS if args.gpu else _CPU_STREAMS),
        args.tokens or (_GPU_TOKENS if args.gpu else _CPU_TOKENS),
    )
    yield from report(setup, args.rounds, args.vllm)


def report(setup: Setup, rounds: int, vllm_python: str | None) -> Iterator[str]:
    from benchmarks import text_delays, text_tokens

    yield f"\n{setup.name}; {setup.tokens} tokens a reply, {rounds} rounds\n"
    found, bandwidth = text_tokens.measure(setup, rounds, vllm_python)
    yield from text_tokens.table(found)
    if vllm_python is None:
        yield "\nvLLM is not measured: --vllm names an interpreter that has it."
    yield ""
    yield from text_tokens.verdicts(found)
    if bandwidth:
        yield from text_tokens.floor_verdicts(found, setup.made, bandwidth)
    yield "\nFrom a first token's delivery by the engine until its part is there:\n"
    streams = [count for count in setup.streams if count in _DELAY_STREAMS]
    yield from text_delays.table(text_delays.measure(setup, streams, rounds))


@contextmanager
def folder_for(keep: Path | None) -> Iterator[Path]:
    """The folder of the models: kept, or for this run alone."""
    if keep is not None:
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text")
    parser.add_argument("--gpu", action="store_true", help="measure the GPU; without one, fail")
    parser.add_argument(
        "--streams", type=int, nargs="+", help="at once (1 16 64, and on a GPU also 256)"
    )
    parser.add_argument("--tokens", type=int, help="of a reply (64; on a GPU 128)")
    parser.add_argument("--rounds", type=int, default=2, help="over all ways (2)")
    parser.add_argument("--vllm", metavar="PYTHON", help="an interpreter that has vLLM")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the model there, once")
    args = parser.parse_args()
    try:
        with folder_for(args.keep) as folder:
            for line in run(args, folder):
                print(line, flush=True)
    except (StartError, RunError, WrongReply) as error:
        print(f"benchmarks.text: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
