"""vLLM's engine, in a process of an interpreter that has it.

``PYTHON -m benchmarks.text_vllm FOLDER`` answers each line of JSON with one: streams and tokens
with the replies.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.text_replies import Reply, prompts

#: Share of the GPU: two engines of ours and their weights are beside it.
_GPU_SHARE = 0.4
_END_TIMEOUT = 15.0


@contextmanager
def vllm(
    python: str, model_dir: Path, seconds: float
) -> Iterator[Callable[[int, int], list[Reply]]]:
    """Start vLLM, and return its load; it ends with the block.

    Args:
        python: the interpreter.
        model_dir: the model.
        seconds: for each answer; the first one also loads the model.
    """
    from benchmarks.rounds import RunError

    process = subprocess.Popen(
        [python, "-m", "benchmarks.text_vllm", str(model_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    answers = selectors.DefaultSelector()
    answers.register(process.stdout, selectors.EVENT_READ)

    def ask(streams: int, tokens: int) -> list[Reply]:
        try:
            print(json.dumps([streams, tokens]), file=process.stdin, flush=True)
        except OSError:
            raise RunError("vLLM has ended") from None
        answer = process.stdout.readline() if answers.select(seconds) else ""
        if not answer:
            raise RunError(f"vLLM gave no answer within {seconds:g} s, or has ended")
        return [Reply.from_json(each) for each in json.loads(answer)]

    try:
        yield ask
    finally:
        answers.close()
        process.stdin.close()  # ends the process
        try:
            process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM logs to the standard output
    from vllm import LLM, SamplingParams

    engine = LLM(model=sys.argv[1], gpu_memory_utilization=_GPU_SHARE)
    for line in sys.stdin:
        streams, tokens = json.loads(line)
        sample = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
        sent = time.perf_counter()
        found = engine.generate(prompts(streams), sample, use_tqdm=False)
        ended = time.perf_counter()
        replies = [Reply(sent, [ended], each.outputs[0].text).as_json() for each in found]
        print(json.dumps(replies), file=answers, flush=True)


if __name__ == "__main__":
    main()
