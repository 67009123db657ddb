"""A container that begins sessions, and answers each request with the name of its pod."""

from __future__ import annotations

import socket
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SESSION = "X-Amzn-SageMaker-Session-Id"
NEW_SESSION = "X-Amzn-SageMaker-New-Session-Id"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(socket.gethostname().encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        if self.headers.get(SESSION) == "NEW_SESSION":
            begun = f"{uuid.uuid4()}; Expires=2100-01-01T00:00:00Z"
            self.send_header(NEW_SESSION, begun)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
