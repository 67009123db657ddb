"""Metrics of the engine, under the names of vLLM's: dashboards and routers know these."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from partway.container.models.text.generation import Generation

#: Upper bounds of the classes of durations, in seconds.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)

#: The reasons for the end of a request, in vLLM's words: ``abort`` is the client's.
_Reason = Literal["stop", "length", "abort", "error"]


@dataclass(slots=True)
class _RequestTiming:
    began: float = field(default_factory=time.monotonic)
    has_token: bool = False


class EngineMetrics:
    """Counts of one model.

    Args:
        model_name: the value of the label ``model_name``.
    """

    def __init__(self, model_name: str) -> None:
        self._registry = CollectorRegistry()
        self._timings: dict[Generation, _RequestTiming] = {}

        def gauge(name: str, text: str) -> Gauge:
            made = Gauge(f"vllm:{name}", text, ["model_name"], registry=self._registry)
            return made.labels(model_name)

        def counter(name: str, text: str) -> Counter:
            made = Counter(f"vllm:{name}", text, ["model_name"], registry=self._registry)
            return made.labels(model_name)

        def histogram(name: str, text: str) -> Histogram:
            made = Histogram(
                f"vllm:{name}", text, ["model_name"], registry=self._registry, buckets=_SECONDS
            )
            return made.labels(model_name)

        self._running = gauge("num_requests_running", "Requests that are being computed.")
        self._waiting = gauge("num_requests_waiting", "Requests that wait for room in the cache.")
        self._usage = gauge("kv_cache_usage_perc", "Share of the cache that is kept for requests.")
        self._prompt_tokens = counter("prompt_tokens", "Computed tokens of prompts.")
        self._generation_tokens = counter("generation_tokens", "Generated tokens.")
        self._first_token = histogram(
            "time_to_first_token_seconds", "From a request to its first token."
        )
        self._whole = histogram("e2e_request_latency_seconds", "From a request to its last token.")
        ends = Counter(
            "vllm:request_success",
            "Requests that are over.",
            ["model_name", "finished_reason"],
            registry=self._registry,
        )
        reasons: tuple[_Reason, ...] = ("stop", "length", "abort", "error")
        self._ends = {reason: ends.labels(model_name, reason) for reason in reasons}

    def began(self, generation: Generation) -> None:
        self._timings[generation] = _RequestTiming()

    def advanced(self, generation: Generation, tokens: int) -> None:
        """Count new tokens of a reply, the first of which ends its prompt's computation."""
        timing = self._timings.get(generation)
        if timing is None:
            return
        if not timing.has_token:
            timing.has_token = True
            self._first_token.observe(time.monotonic() - timing.began)
            self._prompt_tokens.inc(len(generation.prompt))
        self._generation_tokens.inc(tokens)

    def ended(self, generation: Generation, reason: _Reason) -> None:
        """Count the end of a reply; the first reason is the one that counts."""
        timing = self._timings.pop(generation, None)
        if timing is None:
            return
        self._ends[reason].inc()
        if reason in ("stop", "length"):
            self._whole.observe(time.monotonic() - timing.began)

    def page(self, running: int, waiting: int, usage: float) -> bytes:
        """Return all metrics in Prometheus's text format.

        Args:
            running: number of requests that are being computed.
            waiting: number of requests that wait for room.
            usage: share of the cache that is kept, from 0 to 1.
        """
        self._running.set(running)
        self._waiting.set(waiting)
        self._usage.set(usage)
        return generate_latest(self._registry)
