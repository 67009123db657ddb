"""An app as a process: in a container, and as the hosting page starts its sample."""

from __future__ import annotations

import re
import runpy
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from websockets.sync.client import connect

from tests.conftest import ROOT
from tests.processes import running

SAMPLES = ROOT / "docs" / "examples" / "hosting"
STREAM = "/invocations-bidirectional-stream"


@pytest.mark.clause("1.1-1")
def test_as_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SAMPLES))
    app = ("--app", "fastapi_bidirectional:app")
    with running("partway.container", "serve", *app, "--host", "127.0.0.1", "--port", "0") as url:
        with urllib.request.urlopen(f"{url}/ping") as response:
            assert (response.status, response.read()) == (200, b"")
        with connect(url.replace("http", "ws") + STREAM) as client:
            client.send("hello")
            assert client.recv() == "hello"


#: What the page says, on a port that is free.
AS_THE_PAGE_SAYS = """
import runpy, sys, uvicorn
run = uvicorn.run
def elsewhere(app, host, port):
    print(host, port, flush=True)
    run(app, host="127.0.0.1", port=0)
uvicorn.run = elsewhere
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_as_the_page_says() -> None:
    """Without a container's runtime: it streams, but knows no /ping."""
    sample = str(SAMPLES / "fastapi_bidirectional.py")
    with subprocess.Popen(
        [sys.executable, "-c", AS_THE_PAGE_SAYS, sample, "serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "Starting server on port 8080...\n"
            assert process.stdout.readline() == "0.0.0.0 8080\n"
            lines = iter(process.stderr.readline, "")
            port = next(
                found[1] for line in lines if (found := re.search(r"127.0.0.1:(\d+)", line))
            )
            with connect(f"ws://127.0.0.1:{port}{STREAM}") as client:
                client.send(b"\x00\xff")
                assert client.recv() == b"\x00\xff"
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ping")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=40)
        finally:
            process.kill()


def test_without_the_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py"])
    with pytest.raises(SystemExit, match="1"):
        runpy.run_path(str(SAMPLES / "fastapi_bidirectional.py"), run_name="__main__")
    assert capsys.readouterr().out == "Usage: python app.py serve\n"
