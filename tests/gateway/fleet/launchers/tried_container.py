"""The container that launchers are tried with: a program of nothing but the standard library.

It listens where ``PARTWAY_BIND_TO_HOST`` and ``SAGEMAKER_BIND_TO_PORT`` say, on 8080 everywhere
without them, and says what it is asked:

- ``GET /ping``: nothing, with 200.
- ``GET /arguments``, ``/environment``: its own, as JSON.
- ``GET /model``: the names and texts of the files in its model directory, as JSON.
- ``GET /write``: what the system says of a new file in there; nothing if it can be written.
- ``GET /fork``: a child of its own is left behind, which does not care for SIGTERM.
- ``GET /exit``: it ends with status 3, its last words said before.

``ON_SIGTERM`` says what it does about SIGTERM: ``end`` with status 0, or ``ignore`` it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MODEL = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
LAST_WORDS = "these are my last words"


def model() -> str:
    files = sorted(path for path in MODEL.rglob("*") if path.is_file())
    return json.dumps({str(path.relative_to(MODEL)): path.read_text() for path in files})


def write() -> str:
    try:
        (MODEL / "written").write_text("by the container")
    except OSError as error:
        return os.strerror(error.errno or 0)
    return ""


def fork() -> str:
    if not (child := os.fork()):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1000)
    return str(child)


def leave() -> str:
    print(LAST_WORDS, file=sys.stderr, flush=True)
    os._exit(3)


ANSWERS = {
    "/ping": str,
    "/arguments": lambda: json.dumps(sys.argv[1:]),
    "/environment": lambda: json.dumps(dict(os.environ)),
    "/model": model,
    "/write": write,
    "/fork": fork,
    "/exit": leave,
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        said = ANSWERS[self.path]().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *about: object) -> None:
        pass


def end(*_: object) -> None:
    os._exit(0)


if __name__ == "__main__":
    ignores = os.environ.get("ON_SIGTERM") == "ignore"
    signal.signal(signal.SIGTERM, signal.SIG_IGN if ignores else end)
    port = os.environ.get("SAGEMAKER_BIND_TO_PORT")
    # What a process of this machine serves is for this machine alone; a container has its own.
    where = ("", 8080) if port is None else (os.environ["PARTWAY_BIND_TO_HOST"], int(port))
    server = ThreadingHTTPServer(where, Handler)
    print("this is said to standard output", flush=True)
    print("this is said to standard error", file=sys.stderr, flush=True)
    server.serve_forever()
