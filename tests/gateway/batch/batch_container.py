"""A container on the standard library alone, that does what the lines it is asked with say.

``400``, ``503``: it answers that. ``twice-ID``: 500 two times, and then well. ``die``: it ends.
``wait-PATH``: it answers when there is such a file. ``environment``: it answers with what it was
told. ``json``: it answers JSON, and says so. Everything else it answers as it is.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PARAMETERS = {"BatchStrategy": "SINGLE_RECORD", "MaxPayloadInMB": 1}

asked: Counter[bytes] = Counter()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        said = b"" if self.path == "/ping" else json.dumps(PARAMETERS).encode()
        self._answer(200, said)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        word = body.strip()
        asked[word] += 1
        if word == b"die":
            os._exit(3)
        elif word in (b"400", b"503"):
            self._answer(int(word), b"the model's own words")
        elif word.startswith(b"twice-") and asked[word] < 3:
            self._answer(500, b"not yet")
        elif word == b"environment":
            told = {name: os.environ[name] for name in os.environ if name.startswith("SAGEMAKER_")}
            self._answer(200, json.dumps(told).encode())
        elif word == b"json":
            self._answer(200, b'{"score": 0.5}', "application/json")
        else:
            if word.startswith(b"wait-"):
                while not Path(os.fsdecode(word[5:])).exists():
                    time.sleep(0.05)
            self._answer(200, body)

    def _answer(self, status, body, content_type=""):
        self.send_response(status)
        if content_type:
            self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    address = ("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"]))
    ThreadingHTTPServer(address, Handler).serve_forever()
