"""The docs' browser page in a real Chromium, toward a real gateway. Run by ``make browser``."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

import pytest
import websockets.sync.client

from tests.processes import running

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    """The examples' folder over HTTP; gives its origin."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(EXAMPLES))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


LOG_ONCE_CLOSED = """
new Promise((resolve) => {
  const look = () => {
    const log = document.querySelector("#log")?.textContent ?? "";
    if (log.includes("closed")) resolve(log); else setTimeout(look, 10);
  };
  look();
})
"""


@contextmanager
def running_chromium(directory: Path, *more: str) -> Iterator[str]:
    """A headless Chromium; gives the address of its DevTools.

    Args:
        directory: for its files.
        more: further flags.
    """
    program = shutil.which("chromium")
    assert program, "this check needs Chromium: apt-get install chromium"
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--remote-debugging-port=0", f"--user-data-dir={directory}", *more,
    ]  # fmt: skip
    browser = subprocess.Popen([program, *flags, "about:blank"], stderr=subprocess.PIPE, text=True)
    assert browser.stderr is not None
    try:
        for line in browser.stderr:
            if line.startswith("DevTools listening on "):
                yield urlsplit(line.split()[-1]).netloc
                break
    finally:
        browser.kill()
        browser.communicate()


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[str]:
    """A browser for one test."""
    with running_chromium(tmp_path) as devtools:
        yield devtools


def log_of(page: str, devtools: str) -> str:
    """What the page has shown once its stream is closed."""
    request = Request(f"http://{devtools}/json/new?{quote(page, safe='')}", method="PUT")
    with urlopen(request, timeout=20) as response:
        tab = json.load(response)["webSocketDebuggerUrl"]
    ask = {"expression": LOG_ONCE_CLOSED, "awaitPromise": True, "returnByValue": True}
    for _ in range(3):  # the page replaces a blank one, and a question asked of that is lost
        with websockets.sync.client.connect(tab, max_size=None) as socket:
            socket.send(json.dumps({"id": 1, "method": "Runtime.evaluate", "params": ask}))
            answer = json.loads(socket.recv(timeout=20)).get("result", {}).get("result", {})
        if isinstance(answer.get("value"), str):
            return str(answer["value"])
    raise AssertionError(answer)


@pytest.mark.clause("3-1", "3-4")
def test_page_talks_through_the_gateway(pages: str, chromium: str) -> None:
    with (
        running("partway.container", "serve", "--host", "127.0.0.1", "--port", "0") as container,
        running(
            "partway.gateway.cli.main", "serve", "--port", "0", "--endpoint", f"echo={container}",
            "--allow-origin", pages,
        ) as gateway,
    ):  # fmt: skip
        query = urlencode({"gateway": gateway.replace("http", "ws")})
        text = log_of(f"{pages}/browser.html?{query}", chromium)
    assert '"SGVsbG8g", "DataType": "UTF8", "CompletionState": "PARTIAL"' in text
    assert (
        '"ZnJvbSBhIGJyb3dzZXIg8J+MjQ==", "DataType": "UTF8", "CompletionState": "COMPLETE"' in text
    )
    assert "closed 1000" in text


@pytest.mark.clause("3-4")
def test_page_of_a_foreign_origin_is_refused(pages: str, chromium: str) -> None:
    with (
        running("partway.container", "serve", "--host", "127.0.0.1", "--port", "0") as container,
        running(
            "partway.gateway.cli.main", "serve", "--port", "0", "--endpoint", f"echo={container}"
        ) as gateway,
    ):
        query = urlencode({"gateway": gateway.replace("http", "ws")})
        text = log_of(f"{pages}/browser.html?{query}", chromium)
    assert text == "closed 1006 \n"
