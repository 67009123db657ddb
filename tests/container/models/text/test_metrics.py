"""The engine's metrics, as Prometheus reads them."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from partway.container.models.text.generation import Generation
from partway.container.models.text.metrics import EngineMetrics
from partway.container.models.text.settings import Sample


def reply(*prompt: int) -> Generation:
    return Generation(lambda _: None, prompt, 10, Sample())


class Metrics(EngineMetrics):
    """Those of an engine with a certain state, and their registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__("small", self.registry)
        self.observe(lambda: 2, lambda: 3, lambda: 0.5)


def read(metrics: Metrics) -> dict[str, float]:
    """Every sample but the classes of histograms, by name and reason."""
    found = {}
    page = generate_latest(metrics.registry).decode()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            assert sample.labels["model_name"] == "small"
            if not sample.name.endswith(("_created", "_bucket")):
                reason = sample.labels.get("finished_reason")
                found[f"{sample.name}{{{reason}}}" if reason else sample.name] = sample.value
    return found


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_the_names_are_vllms(metrics):
    found = read(metrics)
    assert found["vllm:num_requests_running"] == 2
    assert found["vllm:num_requests_waiting"] == 3
    assert found["vllm:kv_cache_usage_perc"] == 0.5
    assert set(found) >= {
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:time_to_first_token_seconds_count",
        "vllm:e2e_request_latency_seconds_count",
        "vllm:request_success_total{stop}",
        "vllm:request_success_total{length}",
        "vllm:request_success_total{abort}",
    }


def test_a_reply_counts_its_prompt_once_and_each_token(metrics):
    one = reply(1, 2, 3)
    metrics.began(one)
    assert read(metrics)["vllm:prompt_tokens_total"] == 0
    metrics.advanced(one, 1)
    metrics.advanced(one, 4)
    metrics.ended(one, "length")
    found = read(metrics)
    assert found["vllm:prompt_tokens_total"] == 3
    assert found["vllm:generation_tokens_total"] == 5
    assert found["vllm:time_to_first_token_seconds_count"] == 1
    assert found["vllm:e2e_request_latency_seconds_count"] == 1
    assert found["vllm:request_success_total{length}"] == 1


def test_only_the_first_end_counts(metrics):
    one = reply(1)
    metrics.began(one)
    metrics.ended(one, "stop")
    metrics.ended(one, "abort")
    found = read(metrics)
    assert found["vllm:request_success_total{stop}"] == 1
    assert found["vllm:request_success_total{abort}"] == 0


def test_an_abort_has_no_duration(metrics):
    one = reply(1)
    metrics.began(one)
    metrics.ended(one, "abort")
    assert read(metrics)["vllm:e2e_request_latency_seconds_count"] == 0


def test_a_reply_that_nobody_asked_for_does_not_count(metrics):
    """The engine tests itself with one."""
    metrics.advanced(reply(1), 1)
    metrics.ended(reply(1), "length")
    assert read(metrics)["vllm:generation_tokens_total"] == 0
    assert read(metrics)["vllm:request_success_total{length}"] == 0
