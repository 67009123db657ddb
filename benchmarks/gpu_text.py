"""The language model under load, beside its engine called in a loop.

``python -m benchmarks.gpu_text`` makes two models with random weights. One has a billion parameters
for a GPU, and a tiny one is for the CPU. From 1 to 256 streams ask at once, through gateway and
runtime, through the runtime alone, and at the engine itself. Without a GPU its rows say
``unmeasured``. The exit status is not zero when a process did not run or a reply was wrong, and
never for being slow. ``docs/discussion/language-model.md`` explains the tables.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers import StartError
from benchmarks.rounds import RunError
from benchmarks.text_replies import WrongReply

if TYPE_CHECKING:
    from benchmarks.text_ways import Setup

#: Two engines share a GPU; 256 streams need half of this.
_GPU_CACHE_BYTES = 4 << 30

#: Numbers of streams for which first parts are measured; the goal is for 64.
_DELAY_STREAMS = (1, 64)


def run(args: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Make the models, measure them, and yield the report line by line."""
    try:
        import torch
        import transformers

        from benchmarks import text_tokens
        from benchmarks.text_models import BILLION, TINY, make
        from benchmarks.text_ways import Setup
        from partway.container.models.text.settings import TextSettings
    except ModuleNotFoundError as error:
        raise StartError(f"{error.name} is missing: pip install 'partway[text,bench]'") from error

    yield f"torch {torch.__version__}, transformers {transformers.__version__}"
    if not args.gpu_only:
        settings = TextSettings(device="cpu")
        made = make(folder / "tiny", TINY)
        name = f"CPU, {os.cpu_count()} cores, {made.parameters:,} parameters, {TINY.precision}"
        setup = Setup(name, made, settings, args.cpu_streams, args.cpu_tokens, exact=True)
        yield from report(setup, args.rounds)
    if not torch.cuda.is_available():
        yield from ["", "GPU: there is none here.", "", *text_tokens.table(None, args.streams), ""]
        yield text_tokens.verdict(None)
        yield text_tokens.floor_verdict(None, None, 0.0)
        return
    settings = TextSettings(device="cuda", cache_bytes=_GPU_CACHE_BYTES)
    made = make(folder / "billion", BILLION)
    name = f"{torch.cuda.get_device_name()}, {made.parameters:,} parameters, {BILLION.precision}"
    # Sums in bf16 depend on how many are computed together, and so does the likeliest token.
    setup = Setup(name, made, settings, args.streams, args.tokens, exact=False)
    yield from report(setup, args.rounds)


def report(setup: Setup, rounds: int) -> Iterator[str]:
    from benchmarks import text_delays, text_tokens

    yield f"\n{setup.name}; {setup.tokens} tokens a reply, {rounds} rounds\n"
    found, bandwidth = text_tokens.measure(setup, rounds)
    yield from text_tokens.table(found, setup.streams)
    yield ""
    yield text_tokens.verdict(found)
    if bandwidth:
        yield text_tokens.floor_verdict(found, setup.made, bandwidth)
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_text")
    several: dict[str, Any] = {"type": int, "nargs": "+"}
    parser.add_argument(
        "--streams", **several, default=[1, 16, 64, 256], help="on a GPU (1 16 64 256)"
    )
    parser.add_argument("--tokens", type=int, default=128, help="of a reply, on a GPU (128)")
    parser.add_argument(
        "--cpu-streams", **several, default=[1, 16, 64], help="on the CPU (1 16 64)"
    )
    parser.add_argument("--cpu-tokens", type=int, default=64, help="of a reply, on the CPU (64)")
    parser.add_argument("--rounds", type=int, default=2, help="over all ways (2)")
    parser.add_argument("--gpu-only", action="store_true", help="leave the CPU out")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the models there, once")
    args = parser.parse_args()
    try:
        with folder_for(args.keep) as folder:
            for line in run(args, folder):
                print(line, flush=True)
    except (StartError, RunError, WrongReply) as error:
        print(f"benchmarks.gpu_text: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
