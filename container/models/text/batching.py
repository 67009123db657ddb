"""Adapter to transformers' continuous batching, as far as an engine needs it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.continuous_api import OutputRouter
from transformers.generation.continuous_batching.model_runner import infer_max_single_request_tokens
from transformers.generation.continuous_batching.requests import (
    GenerationOutput,
    RequestState,
    RequestStatus,
)
from transformers.generation.continuous_batching.scheduler import SCHEDULER_MAPPING, FIFOScheduler

from partway.container.models.text.attention import use_all_keys, use_own_keys
from partway.container.models.text.loading import Loaded
from partway.container.models.text.row_sampling import RowSampler
from partway.container.models.text.settings import CPU_CACHE_BYTES, Sample, TextSettings
from partway.container.models.text.token_sampler import TokenSampler, arguments
from partway.log_lines import LogLine

_log = logging.getLogger("partway.container.text")

# Page size on a CPU by default: small pages waste little memory for a short reply.
_CPU_PAGE_TOKENS = 32
_CPU_BATCH_TOKENS = 256
_LEAST_PAGES = 4

#: Share of a GPU's free memory for the cache; the rest is for temporary tensors, such as the
#: sampler's. transformers takes the same share where logits are processed.
_CACHE_SHARE = 0.8

#: Blocks kept for reuse are given up while a smaller share of the cache is free.
_FREE_SHARE = 0.15

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
    """Relies on admission: the cache has room for all that its requests may still need.

    Requests that generate come first, and each gets a token with every step. The rest of a step is
    for prompts, the oldest first; a long one is computed in pieces.
    """

    def __init__(self, cache: PagedAttentionCache, **arguments: Any) -> None:
        steps = 2 * cache.max_batch_tokens / cache.max_tokens_read  # of prompts must find room
        arguments["safety_margin"] = min(1.0, max(_FREE_SHARE, steps))
        super().__init__(cache, **arguments)
        self._shortest_first = False

    def _try_to_meet_safety_margin(self) -> bool:
        """Give up blocks kept for reuse if few are free; no request is held back."""
        super()._try_to_meet_safety_margin()
        return True

    def _process_candidates(self, candidates: list[RequestState], *rest: Any) -> Any:
        """In every second step, take the shortest prompts first: none is held up by a long one."""
        self._shortest_first = not self._shortest_first
        if self._shortest_first:  # requests that generate have nothing left of their prompts
            candidates.sort(key=lambda state: len(state.remaining_prefill_tokens))
        return super()._process_candidates(candidates, *rest)

    def clear_cancelled_requests(self) -> list[RequestState]:
        """Count a cancelled request as finished.

        With asynchronous batching, the current step would otherwise look for its freed blocks.
        """
        cancelled: list[RequestState] = super().clear_cancelled_requests()
        for state in cancelled:
            state.status = RequestStatus.FINISHED
        return cancelled


SCHEDULER_MAPPING["partway"] = _Scheduler


class Batching:
    """One run of the engine's thread, from :meth:`start` to :meth:`stop` or to its failure.

    Args:
        settings: the sizes of the cache and of a step.
        deliver: called on the engine's thread with the results of a step.

    Attributes:
        sectors: size of the cache, in the units in which it gives room to requests.
        longest: most tokens of one request, prompt and reply, in the whole cache.
        slots: most requests of a step; one more would wait for its token.
    """

    sectors: int
    longest: int
    slots: int

    def __init__(
        self,
        loaded: Loaded,
        settings: TextSettings,
        deliver: Callable[[list[GenerationOutput]], None],
    ) -> None:
        self._model = loaded.model
        use_all_keys(self._model)
        self._manager = self._model.init_continuous_batching(
            # Each step takes the likeliest tokens, after the sampler has drawn the others.
            generation_config=GenerationConfig(
                eos_token_id=sorted(loaded.ends) or None, max_new_tokens=1, do_sample=False
            ),
            continuous_batching_config=_config(loaded, settings),
        )
        self._manager.logit_processor = TokenSampler()
        self._router = self._manager.output_router = _Router(deliver)

    def start(self) -> None:
        """Allocate the cache, capture the graphs, and begin; the call blocks meanwhile."""
        manager = self._manager
        # The thread would do this first, but could not report a lack of memory.
        manager.batch_processor = manager._create_batch_processor()  # noqa: SLF001
        use_own_keys(self._model)
        manager.warmup()  # no effect without graphs
        cache = manager.batch_processor.cache
        self.sectors = int(cache.num_sectors)
        self.longest = int(infer_max_single_request_tokens(cache))
        self.slots = int(manager.continuous_batching_config.max_requests_per_batch)
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
    def steps(self) -> int:
        """Number of steps so far, also those that computed pieces of prompts alone."""
        return int(getattr(self._manager, "current_batch", 0))

    @property
    def samples_rows(self) -> bool:
        """Whether a request may have a row; a step recorded as a graph runs none of its code."""
        config = self._manager.continuous_batching_config
        return not (config.use_async_batching or any(config.cuda_graph_booleans))

    def sectors_for(self, tokens: int) -> int:
        """Return the number of sectors that a request of so many tokens needs, at most."""
        kinds = self._manager.batch_processor.cache.cache_allocators.values()
        blocks = ((kind.needs_new_blocks("", 0, tokens), kind.blocks_per_sector) for kind in kinds)
        return sum(-(-number // size) for number, size in blocks)

    def held_blocks(self) -> int:
        """Blocks of the cache that requests hold, without the blocks kept for reuse."""
        if self._manager.batch_processor is None:  # the thread is ending
            return 0
        allocators = self._manager.batch_processor.cache.cache_allocators.values()
        tables = [table for each in allocators for table in list(each.block_table.values())]
        return sum(map(len, tables))

    def submit(
        self,
        name: str,
        prompt: Sequence[int],
        most: int,
        sample: Sample,
        row: RowSampler | None = None,
    ) -> bool:
        """Submit a request; return False if the thread has ended.

        It never blocks: the engine's queue is unbounded, and the caller limits the number of
        requests.

        Args:
            name: the request's name, used once.
            prompt: the prompt's tokens.
            most: most tokens of the reply.
            sample: the sampling of tokens.
            row: samples instead of the engine.
        """
        accepted = self._manager.add_request(
            list(prompt),
            request_id=name,
            max_new_tokens=most,
            streaming=True,
            **arguments(sample, row),
        )
        return accepted is not None

    def cancel(self, name: str) -> None:
        """Give a request up; its blocks are freed by the next step."""
        self._manager.cancel_request(name)


def _config(loaded: Loaded, settings: TextSettings) -> ContinuousBatchingConfig:
    model = loaded.model
    on_gpu = model.device.type == "cuda"
    config = ContinuousBatchingConfig(
        scheduler_type="partway",
        max_batch_tokens=settings.batch_tokens or None,
        max_memory_percent=_CACHE_SHARE,
        return_logprobs=True,  # NaN shows in them
        auto_switch_to_flash=False,  # it may fetch code from a hub; loading has chosen
    )
    if not on_gpu:
        # By default it takes more than half of the machine's memory.
        config.page_size = _CPU_PAGE_TOKENS
        config.max_batch_tokens = settings.batch_tokens or _CPU_BATCH_TOKENS
    cache_bytes = settings.cache_bytes or (0 if on_gpu else CPU_CACHE_BYTES)
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
