"""partway.gateway.metrics.process_metrics: of a process that is asked, by a real scrape."""

from __future__ import annotations

import json
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import psutil
from cryptography import x509
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import partway
from partway.gateway.metrics import process_metrics
from partway.gateway.metrics.process_metrics import ProcessMetrics
from partway.gateway.settings.settings import Settings
from tests.processes import running


def collected(metrics: ProcessMetrics) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in metrics.collect()
        for sample in family.samples
        if not sample.labels
    }


def test_what_the_system_says_of_the_process():
    metrics = ProcessMetrics(CollectorRegistry(), {})
    found, process = collected(metrics), psutil.Process()
    times = process.cpu_times()
    assert abs(found["process_cpu_seconds_total"] - times.user - times.system) < 1
    assert abs(found["process_start_time_seconds"] - process.create_time()) < 2
    assert found["process_max_fds"] == process.rlimit(psutil.RLIMIT_NOFILE)[0]
    assert found["process_open_fds"] == process.num_fds() - 1  # psutil counts the one that lists
    memory = process.memory_info()
    assert 0.5 < found["process_resident_memory_bytes"] / memory.rss < 2
    assert 0.5 < found["process_virtual_memory_bytes"] / memory.vms < 2


def test_without_a_proc_there_is_less(monkeypatch):
    monkeypatch.setattr(process_metrics, "_PROCESS", Path("/there/is/none"))
    before = time.time()
    found = collected(ProcessMetrics(CollectorRegistry(), {}))
    assert found.keys() == {
        "process_cpu_seconds_total",
        "process_start_time_seconds",
        "process_max_fds",
    }
    assert before <= found["process_start_time_seconds"] <= time.time()


def test_limits_are_those_in_force():
    limits = Settings(max_streams=10, max_connections_per_address=3).limits
    assert limits["max_streams"] == 10
    assert limits["max_streams_per_principal"] == 5
    assert limits["max_connections_per_address"] == 3
    assert all(value > 0 for value in limits.values())


def test_a_scrape_of_a_gateway_with_tls(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("PARTWAY_MAX_STREAMS", "77")
    data = tmp_path / "data"
    flags = ("--port", "0", "--tls-port", "0", "--data-dir", str(data))
    with running("partway.gateway.cli.main", "serve", *flags):
        pem = (tmp_path / "partway" / "tls" / "server.pem").read_bytes()
        certificate = x509.load_pem_x509_certificate(pem)
        url = json.loads((data / "gateway.json").read_text())["urls"][0]
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
    ends = certificate.not_valid_after_utc
    assert found["partway_certificate_expiry_timestamp_seconds",] == ends.timestamp()
    assert datetime.now(UTC) < ends
    assert found["partway_build_info", partway.__version__] == 1
    assert found["partway_limit", "max_streams"] == 77
    assert found["process_open_fds",] > 3
