"""A container of nothing but the standard library that transform jobs ask: it answers in capitals.

``bad`` in a request is answered with 400, and ``json`` with JSON, which says so. As long as there
is a file ``hold`` in the folder that is its last argument, requests wait; each is noted there in
the file ``asked``.
"""

from __future__ import annotations

import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(sys.argv[-1])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200 if self.path == "/ping" else 404, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with (FOLDER / "asked").open("ab") as file:
            file.write(body.partition(b"\n")[0] + b"\n")
        while (FOLDER / "hold").exists():
            time.sleep(0.01)
        if b"bad" in body:
            self._answer(400, b"bad is no word of mine")
        elif b"json" in body:
            self._answer(200, b'{"score": 0.5}', "application/json")
        else:
            self._answer(200, body.upper() + os.environ.get("SAGEMAKER_SAYS", "").encode())

    def _answer(self, status: int, body: bytes, content_type: str = "") -> None:
        self.send_response(status)
        if content_type:
            self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: object) -> None:
        print(format % words, flush=True)


ThreadingHTTPServer(
    ("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])), Handler
).serve_forever()
