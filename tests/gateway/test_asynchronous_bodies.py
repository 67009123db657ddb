"""Bodies of asynchronous requests are in the store: behind SIGKILL, and in a backup."""

from __future__ import annotations

import random
import signal
import sqlite3
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from partway.gateway.apis.asynchronous.limits import INLINE_BYTES
from partway.gateway.fleet.launchers.process import free_port
from tests.gateway.cli.test_serve_full_disk import PATIENCE, Gateway, ask_for_endpoint, until

#: As many bytes as a body may have, of all values.
BODY = random.Random(34).randbytes(INLINE_BYTES)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    made = Gateway(tmp_path, tmp_path / "data")
    yield made
    made.end()


def write_settings(gateway: Gateway, word: str = "") -> None:
    """Have containers do as a word says, of those that a faulty container knows."""
    gateway.write()
    good = gateway.config.read_text()
    gateway.config.write_text(
        good.replace('faulty_container.py"]', f'faulty_container.py", "{word}"]')
    )


def send(gateway: Gateway, name: str) -> None:
    """Have a request taken, whose answer has a name."""
    url = f"{gateway.url}/endpoints/made/async-invocations"
    request = urllib.request.Request(url, BODY, {"X-Amzn-SageMaker-Filename": name})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.status == 202


def kept(data: Path) -> int:
    """Attachments in the store of a gateway that has stopped."""
    with closing(sqlite3.connect(data / "store.db")) as store:
        (count,) = store.execute("SELECT count(*) FROM attachments").fetchone()
    return int(count)


def test_a_body_has_its_exact_bytes_after_a_kill_and_after_a_restore(gateway, tmp_path):
    answers = tmp_path / "answers"
    answers.mkdir()
    write_settings(gateway, "unready")
    gateway.start(port=free_port())
    ask_for_endpoint(gateway)
    send(gateway, "one")
    gateway.stop(signal.SIGKILL)
    assert list((gateway.data / "requests").iterdir()) == []
    backup = tmp_path / "backup"
    assert gateway.command("backup", str(backup)).status == 0

    write_settings(gateway)
    gateway.start()
    until(lambda: (answers / "one").exists())
    assert (answers / "one").read_bytes() == BODY
    until(lambda: "partway_async_spooled_bytes 0.0" in gateway.metrics())
    gateway.stop()
    assert kept(gateway.data) == 0

    (answers / "one").unlink()
    assert gateway.command("restore", str(backup)).status == 0
    assert kept(gateway.data) == 1
    gateway.start()
    until(lambda: (answers / "one").exists())
    assert (answers / "one").read_bytes() == BODY
