"""The engine: many concurrent replies of one language model, and recovery from a failed step."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Literal

from transformers.generation.continuous_batching.requests import GenerationOutput

from partway.container.errors import Busy, ModelError
from partway.container.models.text.admission import ReplyAdmission
from partway.container.models.text.batching import Batching
from partway.container.models.text.generation import Generation
from partway.container.models.text.loading import Loaded, is_out_of_memory
from partway.container.models.text.metrics import EngineMetrics
from partway.container.models.text.row_sampling import RowSampler
from partway.container.models.text.settings import Sample, TextSettings
from partway.container.threads import in_thread, post
from partway.log_lines import LogLine

_log = logging.getLogger("partway.container.text")

#: Seconds between two checks of the engine while a caller waits: its thread may end silently.
WATCH_INTERVAL = 1.0

#: All replies are given up when the engine has computed no step for this long.
STALL_TIMEOUT = 60.0

#: While replies are computed: seconds without a step after which /ping answers 503.
HUNG_AFTER = 30.0

#: The engine is given up after this many starts without a single computed token.
MAX_STARTS = 3


class Engine:
    """Concurrent replies from one model.

    A reply waits, first come, first served, until the cache has room for its greatest length. A
    step computes the next token of all replies together. So an error of one reply fails all, and
    ends the engine's thread; NaN may spread to other replies. The engine is then restarted, and
    must compute a test token. After that each reply computes a token by itself. A reply that fails
    alone is at fault; the others only see a pause.

    Args:
        loaded: the model; no other engine may use it.
        settings: the number of concurrent replies, and the sizes.
        name: the model's name in metrics.
    """

    def __init__(self, loaded: Loaded, settings: TextSettings, name: str) -> None:
        self._loaded = loaded
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renewing = threading.Lock()
        self._batching = self._new_batching()
        self._admission = self._new_admission()
        self._metrics = EngineMetrics(name)
        self._names = itertools.count()
        #: All replies, the oldest first, each with the name of its engine request; None waits.
        self._live: dict[Generation, str | None] = {}
        #: The engine's requests: the reply of each, and the number of the reply's tokens in its
        #: prompt.
        self._requests: dict[str, tuple[Generation, int]] = {}
        self._recovering: asyncio.Task[None] | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._stepped = asyncio.Event()
        self._steps = 0
        self._stepped_at = time.monotonic()
        self._failed_by = ""
        self._spoiled = False  # the cache holds NaN, or the thread has ended
        self._dead: str | None = None
        #: Most tokens of a prompt and its reply together.
        self.context = min(loaded.context, self._batching.longest)

    # --- For the model ---------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """Why the engine cannot serve; None if it can, or soon will. Any thread may read it."""
        idle = self._idle()
        if self._dead is None and self._requests and idle > HUNG_AFTER:
            return f"the language model has computed nothing for {idle:.0f} s"
        return self._dead

    @property
    def running(self) -> int:
        """Number of replies that are being computed."""
        return len(self._admission.admitted)

    @property
    def waiting(self) -> int:
        """Number of replies that wait for room in the cache."""
        return len(self._live) - self.running

    def metrics_page(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        return self._metrics.page(self.running, self.waiting, self._admission.usage)

    @property
    def samples_rows(self) -> bool:
        """Whether a request may have a row sampler (see :attr:`Sample.fits_batch`)."""
        return self._batching.samples_rows

    def held_blocks(self) -> int:
        return self._batching.held_blocks()

    def generate(self, prompt: Sequence[int], most: int, sample: Sample) -> Generation:
        """Begin a reply.

        Args:
            prompt: the prompt's tokens, at least one, and fewer than ``context``.
            most: most tokens of the reply; they must fit into ``context`` after the prompt.
            sample: the sampling of tokens.

        Raises:
            Busy: too many replies are under way.
            ModelError: the engine has stopped.
        """
        if self._dead is not None:
            raise ModelError(self._dead, status=503)
        if len(self._live) >= self._settings.generations:
            raise Busy(f"{self._settings.generations} replies are under way already")
        self._loop = asyncio.get_running_loop()
        generation = Generation(self.forget, prompt, min(most, self.context - len(prompt)), sample)
        self._live[generation] = None
        self._metrics.began(generation)
        if self._recovering is None:  # otherwise recovery lets all wait, in their order
            self._wait(generation)
            self._admit()
        self._watch()
        return generation

    def forget(self, generation: Generation) -> None:
        """Stop computing a reply, or waiting for its turn."""
        name = self._live.pop(generation, None)
        if name is not None and self._requests.pop(name, None) is not None:
            self._batching.cancel(name)
        if generation.finish is not None:
            stopped = generation.finish == "stop"
            self._metrics.ended(generation, "stop" if stopped else "abort")
        self._admission.leave(generation)
        self._admit()

    def close(self) -> None:
        """End the thread after the current step; the call blocks. Any thread may call it."""
        with self._renewing:
            self._dead = self._dead or "the language model is being unloaded"
            self._batching.stop()

    # --- Admission -------------------------------------------------------------------------------

    def _new_admission(self) -> ReplyAdmission[Generation]:
        return ReplyAdmission(self._batching.sectors, self._batching.slots)

    def _wait(self, generation: Generation) -> None:
        longest = len(generation.prompt) + generation.most
        self._admission.wait(generation, self._batching.sectors_for(longest))

    def _admit(self) -> None:
        """Submit the replies that have waited longest, as far as the cache has room."""
        while self._recovering is None and self._dead is None:
            generation = self._admission.next()
            if generation is None:
                return
            self._submit(generation, generation.most - len(generation.tokens))

    # --- What steps bring ------------------------------------------------------------------------

    def _from_thread(self, outputs: list[GenerationOutput]) -> None:
        if self._loop is not None:
            post(self._loop, self._on_outputs, outputs)

    def _on_outputs(self, outputs: Iterable[GenerationOutput]) -> None:
        self._stepped_at = time.monotonic()
        self._stepped.set()
        for output in outputs:
            # The step may have begun before a request was cancelled.
            if output.request_id in self._requests:
                self._on_output(output)

    def _on_output(self, output: GenerationOutput) -> None:
        generation, held = self._requests[output.request_id]
        if output.error is not None:
            if self._batching.running:  # an error of this request alone
                self._fail(generation, _failure(output.error))
            else:
                self._on_failure()
            return
        row = generation.row
        if row is not None and row.failure is not None:
            self._fail(generation, ModelError(row.failure, status=400))
            return
        first = len(generation.tokens) - held
        new = output.generated_tokens[first:]
        if any(map(math.isnan, output.logprobs[len(output.logprobs) - len(new) :])):
            # With masked attention, a NaN spreads to other replies and their cache.
            if len(self._requests) == 1:
                self._fail(generation, ModelError("the model's output is not a number (NaN)"))
            self._spoiled = True
            self._on_failure()
            return
        finish: Literal["stop", "length"] | None = None
        if new and new[-1] in self._loaded.ends:
            new, finish = new[:-1], "stop"
        elif len(generation.tokens) + len(new) >= generation.most:
            finish = "length"
        if output.is_finished():
            del self._requests[output.request_id]
        self._metrics.advanced(generation, len(new))
        if finish is not None:
            self._metrics.ended(generation, finish)
            self.forget(generation)
        scores = () if row is None else row.scores[first : first + len(new)]
        generation.extend(new, finish, scores)

    def _fail(self, generation: Generation, error: ModelError) -> None:
        self._metrics.ended(generation, "error")
        self.forget(generation)
        generation.fail(error)

    def _submit(self, generation: Generation, most: int) -> None:
        """Submit a reply, or its missing part, to the engine."""
        self._live[generation] = name = f"{next(self._names)}"
        if not self._requests:  # otherwise new replies would hide a hang
            self._stepped_at = time.monotonic()
        self._requests[name] = generation, len(generation.tokens)
        prompt = generation.prompt + generation.tokens
        sample = generation.sample
        row = None if sample.fits_batch else RowSampler(sample, generation.tokens)
        generation.row = row
        if not self._batching.submit(name, prompt, most, sample, row):
            self._on_failure()

    # --- When a step fails -----------------------------------------------------------------------

    def _watch(self) -> None:
        """Check that the thread runs while a token is awaited: it may end silently."""
        if self._watching is None and self._loop is not None:
            self._watching = self._loop.call_later(WATCH_INTERVAL, self._on_watch)

    def _on_watch(self) -> None:
        self._watching = None
        if not self._live:
            return
        if not self._batching.running:
            self._on_failure()
        if self._idle() > STALL_TIMEOUT:
            reason = f"the language model computed nothing for {STALL_TIMEOUT:g} s"
            for generation in reversed(list(self._live)):  # those that wait first: none is admitted
                self._fail(generation, ModelError(reason, status=504))
        self._watch()

    def _idle(self) -> float:
        """Seconds since the engine was seen to take a step; any thread may call it.

        A piece of a prompt counts as well as a token.
        """
        steps = self._batching.steps
        if steps != self._steps:
            self._steps, self._stepped_at = steps, time.monotonic()
        return time.monotonic() - self._stepped_at

    def _on_failure(self) -> None:
        if self._recovering is None and self._dead is None:
            self._recovering = asyncio.ensure_future(self._recover())

    async def _recover(self) -> None:
        """Restart, find the replies at fault, and continue with the others."""
        try:
            suspects = self._admission.admitted
            await self._restart()
            await self._prove()
            for generation in suspects:
                if not generation.over and self._dead is None:
                    await self._try_alone(generation)
        finally:
            self._recovering = None
        self._admission = self._new_admission()
        for generation in list(self._live):
            if self._dead is not None:
                self._fail(generation, ModelError(self._dead, status=503))
            else:
                self._wait(generation)
        self._admit()

    async def _prove(self) -> None:
        """Check that the engine computes without any reply; otherwise give it up."""
        for _ in range(MAX_STARTS):
            if self._dead is not None:
                return
            proof = Generation(self.forget, [min(self._loaded.ends, default=0)], 1, Sample(0.0))
            self._live[proof] = None
            try:
                async with asyncio.timeout(HUNG_AFTER):
                    await self._try_alone(proof)
            except TimeoutError:
                proof.cancel()
                self._failed_by = "it hangs"
                break
            if proof.finish is not None:
                return
        self._dead = self._dead or f"the language model failed: {self._failed_by}"

    async def _try_alone(self, generation: Generation) -> None:
        had = len(generation.tokens)
        self._submit(generation, 1)
        while not generation.over and len(generation.tokens) == had:
            if not self._batching.running:
                self._fail(generation, _failure(self._batching.failure))
                self._spoiled = True
                break
            self._stepped.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_INTERVAL):
                    await self._stepped.wait()
        if self._spoiled:
            await self._restart()

    async def _restart(self) -> None:
        """Start a new thread with an empty cache, or give the engine up."""
        self._requests.clear()
        self._live = dict.fromkeys(self._live)
        self._spoiled = False
        failure = self._batching.failure
        what = "its output was not a number" if failure is None else _first_words(failure)
        failed = "a step of the language model failed: its engine is restarted"
        _log.error(LogLine(failed, reason=what), exc_info=failure)
        self._failed_by = _first_words(failure)
        try:
            await in_thread(self._renew, name="partway-text-restart")
        except Exception as error:
            _log.exception("the language model cannot be started again")
            self._dead = f"the language model cannot be started again: {_first_words(error)}"

    def _renew(self) -> None:
        with self._renewing:
            if self._dead is None:
                self._batching.stop()
                self._batching = self._new_batching()

    def _new_batching(self) -> Batching:
        batching = Batching(self._loaded, self._settings, self._from_thread)
        batching.start()
        return batching


def _failure(error: BaseException | str | None) -> ModelError:
    """Make the error that a client sees for a failed step; the log has the details."""
    if isinstance(error, BaseException) and is_out_of_memory(error):
        return Busy("the model has no memory left for this request")
    return ModelError(f"the model failed: {_first_words(error)}")


def _first_words(error: BaseException | str | None) -> str:
    """Return an error's type: its message may quote other clients' input."""
    return type(error).__name__ if isinstance(error, BaseException) else "a step went wrong"
