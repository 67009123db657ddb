"""Adapter to transformers' continuous batching, as far as an engine needs it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching.continuous_api import OutputRouter
from transformers.generation.continuous_batching.requests import (
    GenerationOutput,
    RequestState,
    RequestStatus,
)
from transformers.generation.continuous_batching.scheduler import SCHEDULER_MAPPING, FIFOScheduler

from partway.container.models.text.loading import Loaded
from partway.container.models.text.settings import CPU_CACHE_BYTES, Sample, TextSettings
from partway.log_lines import LogLine

_log = logging.getLogger("partway.container.text")

# Page size on a CPU by default: small pages waste little memory for a short reply.
_CPU_PAGE_TOKENS = 32
_CPU_BATCH_TOKENS = 256
_LEAST_PAGES = 4

#: Per-request sampling needs an engine whose defaults are not 1.0, although each request sets its
#: own values.
_SAMPLES = {"do_sample": True, "temperature": 0.5, "top_p": 0.5, "top_k": 0}

#: A smaller temperature counts as 0: logits of 1e4 divided by this one are still finite.
_LEAST_TEMPERATURE = 1e-4

#: Seconds for the engine's thread to finish its step.
_STOP_TIMEOUT = 10.0


class _Router(OutputRouter):  # type: ignore[misc]  # transformers has no types
    """Passes the results of each step on, in one call.

    The engine's own handlers stay registered when a request is cancelled. Its late results would
    fill a queue that nobody reads.
    """

    def __init__(self, deliver: Callable[[list[GenerationOutput]], None]) -> None:
        super().__init__()
        self._deliver = deliver
        #: The error of the last failed request.
        self.failure: Exception | None = None

    def fail_and_deliver(self, state: RequestState, error: Exception) -> None:
        # The thread records its own failure only after that of its requests. That is too late to
        # tell an error of all requests from one of a single request.
        self.failure = error
        super().fail_and_deliver(state, error)

    def deliver(self, output: GenerationOutput) -> None:
        self._deliver([output])

    def deliver_batch(self, outputs: list[GenerationOutput]) -> None:
        self._deliver(outputs)


class _Scheduler(FIFOScheduler):  # type: ignore[misc]  # transformers has no types
    """Counts a cancelled request as finished.

    After it has postponed a request for lack of room, the engine admits none until one finishes. If
    all running requests were cancelled, the waiting ones would wait forever. With asynchronous
    batching, the current step would also look for the freed blocks of the request, and fail.
    """

    def clear_cancelled_requests(self) -> list[RequestState]:
        cancelled: list[RequestState] = super().clear_cancelled_requests()
        for state in cancelled:
            state.status = RequestStatus.FINISHED
            self.block_new_requests = False
        return cancelled


SCHEDULER_MAPPING["partway"] = _Scheduler


class Batching:
    """One run of the engine's thread, from :meth:`start` to :meth:`stop` or to its failure.

    Args:
        settings: the sizes of the cache and of a step.
        deliver: called on the engine's thread with the results of a step.
    """

    def __init__(
        self,
        loaded: Loaded,
        settings: TextSettings,
        deliver: Callable[[list[GenerationOutput]], None],
    ) -> None:
        self._on_gpu = loaded.model.device.type == "cuda"
        self._config = _config(loaded, settings)
        self._manager = loaded.model.init_continuous_batching(
            generation_config=GenerationConfig(
                eos_token_id=sorted(loaded.ends) or None, max_new_tokens=1, **_SAMPLES
            ),
            continuous_batching_config=self._config,
        )
        self._router = self._manager.output_router = _Router(deliver)

    def start(self) -> None:
        """Allocate the cache, capture the graphs, and begin; the call blocks meanwhile."""
        manager = self._manager
        # The thread would do this first, but could not report a lack of memory.
        manager.batch_processor = manager._create_batch_processor()  # noqa: SLF001
        if self._on_gpu:  # there it captures the graphs; on a CPU it is no use
            manager.warmup()
        manager.start()

    def stop(self) -> None:
        """Stop after the current step, and free the cache; the call blocks meanwhile."""
        failure = self.failure
        # Needed even if the thread has ended: this call frees its resources.
        self._manager.stop(timeout=_STOP_TIMEOUT, hard_stop=True)
        if self._manager.is_running():
            late = "a step of the language model has not ended in time"
            _log.error(LogLine(late, seconds=_STOP_TIMEOUT))
        else:
            self._manager.destroy()  # it would wait forever
        if failure is not None:  # the frames of its traceback hold the cache
            traceback.clear_frames(failure.__traceback__)

    @property
    def running(self) -> bool:
        status = self._manager.background_thread_status
        return bool(self._manager.is_running() and status.local_status == status.DONT_STOP)

    @property
    def failure(self) -> BaseException | None:
        """The exception that ended the thread; None while it runs."""
        if self.running:
            return None
        error: BaseException | None = self._manager.background_thread_status.fatal_error
        return error or self._router.failure

    @property
    def cache_tokens(self) -> int:
        """Number of tokens whose keys and values fit into the cache, for all requests together."""
        cache = self._manager.batch_processor.cache
        return int(cache.num_blocks * self._manager.continuous_batching_config.page_size)

    def held_blocks(self) -> int:
        """Blocks of the cache that requests hold, without the blocks kept for reuse."""
        if self._manager.batch_processor is None:  # the thread is ending
            return 0
        allocators = self._manager.batch_processor.cache.cache_allocators.values()
        tables = [table for each in allocators for table in list(each.block_table.values())]
        return sum(map(len, tables))

    def submit(self, name: str, prompt: Sequence[int], most: int, sample: Sample) -> bool:
        """Submit a request; return False if the thread has ended.

        It never blocks: the engine's queue is unbounded, and the caller limits the number of
        requests.

        Args:
            name: the request's name, used once.
            prompt: the prompt's tokens.
            most: most tokens of the reply.
            sample: the sampling of tokens.
        """
        accepted = self._manager.add_request(
            list(prompt),
            request_id=name,
            max_new_tokens=most,
            streaming=True,
            **_arguments(sample),
        )
        return accepted is not None

    def cancel(self, name: str) -> None:
        """Give a request up; its blocks are freed by the next step."""
        self._manager.cancel_request(name)


def _arguments(sample: Sample) -> dict[str, float]:
    # The logits are divided by the temperature, and an overflow would fail the whole step. A top_p
    # of 0 leaves only the likeliest token.
    if sample.temperature < _LEAST_TEMPERATURE:
        return {"temperature": 1.0, "top_p": 0.0}
    return {"temperature": float(sample.temperature), "top_p": float(sample.top_p)}


def _config(loaded: Loaded, settings: TextSettings) -> ContinuousBatchingConfig:
    model = loaded.model
    config = ContinuousBatchingConfig(
        per_request_processors=True,
        scheduler_type="partway",
        max_batch_tokens=settings.batch_tokens or None,
        auto_switch_to_flash=False,  # it may fetch code from a hub; loading has chosen
    )
    if model.device.type == "cuda":
        config.use_cuda_graph = True
        config.use_async_batching = True
    else:
        # By default it takes more than half of the machine's memory.
        config.page_size = _CPU_PAGE_TOKENS
        config.max_batch_tokens = settings.batch_tokens or _CPU_BATCH_TOKENS
    cache_bytes = settings.cache_bytes or (0 if model.device.type == "cuda" else CPU_CACHE_BYTES)
    if cache_bytes:
        pages = cache_bytes // (config.page_size * token_bytes(model))
        needed = settings.generations * -(-loaded.context // config.page_size)
        config.num_blocks = max(_LEAST_PAGES, min(pages, needed))
    return config


def token_bytes(model: Any) -> int:
    """Return the size in bytes of the keys and values of one token."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * size * model.dtype.itemsize)
