"""The engine by itself, in a process of its own, with nothing before it."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event
from typing import Any

import torch
from transformers.generation.continuous_batching.requests import GenerationOutput

from benchmarks.peers import StartError
from benchmarks.rounds import RunError
from benchmarks.text_replies import Reply
from partway.container.models.text.attention import use_all_keys, use_own_keys
from partway.container.models.text.batching import Batching
from partway.container.models.text.loading import load
from partway.container.models.text.settings import Sample, TextSettings

_END_TIMEOUT = 15.0
_GREEDY = Sample(temperature=0.0)

#: Bytes of a copy, far more than any cache of a device; and the number of copies.
_COPIED_BYTES = 1 << 30
_COPIES = 20


class BareEngine:
    """The engine's process, seen from outside.

    Args:
        seconds: for each answer.
    """

    def __init__(self, pipe: Connection, seconds: float) -> None:
        self._pipe = pipe
        self._seconds = seconds

    def replies(self, prompts: Sequence[str], tokens: int) -> list[Reply]:
        """Generate one reply to each prompt, all under way at once."""
        return self._call(_replies, list(prompts), tokens)

    def generate(self, prompts: Sequence[str], tokens: int) -> list[Reply]:
        """Generate the same by transformers' ``generate()``, in one batch from begin to end."""
        return self._call(_generate, list(prompts), tokens)

    def copy_bandwidth(self) -> float:
        """Bytes a second that the device reads and writes when it copies."""
        return self._call(_copy_bandwidth)

    def _call(self, call: Callable[..., Any], *args: object) -> Any:
        try:
            self._pipe.send((call, args))
            if not self._pipe.poll(self._seconds):
                raise RunError(f"the bare engine gave no answer within {self._seconds:g} s")
            return self._pipe.recv()
        except (EOFError, OSError):
            raise RunError("the bare engine has ended") from None


@contextmanager
def bare_engine(
    model_dir: Path, settings: TextSettings, load_seconds: float, seconds: float
) -> Iterator[BareEngine]:
    """Start an engine that has loaded a model; it ends with the block.

    Raises:
        StartError: the engine did not load the model.
    """
    context = multiprocessing.get_context("spawn")  # a fork would share torch's threads
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, model_dir, settings), daemon=True)
    process.start()
    theirs.close()
    try:
        try:
            loaded = ours.poll(load_seconds) and ours.recv()
        except EOFError:
            loaded = False
        if not loaded:
            raise StartError("the bare engine did not load its model")
        yield BareEngine(ours, seconds)
    finally:
        ours.close()  # ends the process
        process.join(_END_TIMEOUT)
        if process.is_alive():
            process.kill()
            process.join()


class _Engine:
    def __init__(self, model_dir: Path, settings: TextSettings) -> None:
        self.loaded = load(model_dir, settings)
        self._waiting: set[str] = set()
        self._over = Event()
        self._at: dict[str, list[float]] = {}
        self._tokens: dict[str, list[int]] = {}
        self.batching = Batching(self.loaded, settings, self._deliver)
        self.batching.start()

    def replies(self, prompts: Sequence[str], tokens: int) -> list[Reply]:
        encoded = [self.loaded.tokenizer(prompt)["input_ids"] for prompt in prompts]
        names = [f"{time.monotonic_ns()}-{n}" for n in range(len(prompts))]
        self._at = {name: [] for name in names}
        self._tokens = {}
        self._waiting = set(names)
        self._over.clear()
        sent = []
        for name, prompt in zip(names, encoded, strict=True):
            sent.append(time.perf_counter())
            if not self.batching.submit(name, prompt, tokens, _GREEDY):
                raise RunError("the bare engine takes no requests")
        while not self._over.wait(1.0):
            if not self.batching.running:
                raise RunError("a step of the bare engine failed")
        return [
            Reply(at, self._at[name], self.loaded.decode(self._tokens[name]))
            for name, at in zip(names, sent, strict=True)
        ]

    def _deliver(self, outputs: list[GenerationOutput]) -> None:
        now = time.perf_counter()
        for output in outputs:
            self._at[output.request_id].append(now)
            if output.is_finished():
                self._tokens[output.request_id] = output.generated_tokens
                self._waiting.discard(output.request_id)
        if not self._waiting:
            self._over.set()


def _serve(pipe: Connection, model_dir: Path, settings: TextSettings) -> None:
    """Run the process: answer calls until the pipe's other end is closed."""
    engine = _Engine(model_dir, settings)
    try:
        pipe.send(True)
        while True:
            call, args = pipe.recv()
            pipe.send(call(engine, *args))
    except EOFError:
        return
    finally:
        engine.batching.stop()


def _replies(engine: _Engine, prompts: Sequence[str], tokens: int) -> list[Reply]:
    return engine.replies(prompts, tokens)


@torch.no_grad()
def _generate(engine: _Engine, prompts: Sequence[str], tokens: int) -> list[Reply]:
    model = engine.loaded.model
    asked = torch.tensor(engine.loaded.tokenizer(prompts)["input_ids"], device=model.device)
    use_all_keys(model)  # the engine's thread is idle
    sent = time.perf_counter()
    found = model.generate(
        asked,
        attention_mask=torch.ones_like(asked),
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        do_sample=False,
    )
    _synchronize(model.device)
    ended = time.perf_counter()
    use_own_keys(model)
    texts = [engine.loaded.decode(row[asked.shape[1] :].tolist()) for row in found]
    return [Reply(sent, [ended], text) for text in texts]


def _copy_bandwidth(engine: _Engine) -> float:
    device = engine.loaded.model.device
    there = torch.ones(_COPIED_BYTES, dtype=torch.uint8, device=device)
    here = torch.empty_like(there)
    here.copy_(there)
    _synchronize(device)
    began = time.perf_counter()
    for _ in range(_COPIES):
        here.copy_(there)
    _synchronize(device)
    return 2 * _COPIED_BYTES * _COPIES / (time.perf_counter() - began)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
