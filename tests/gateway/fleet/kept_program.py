"""A program that answers with 200, and prints the path of each request but its pings.

``READY`` names a file without which it answers ``/ping`` with 503. ``GET /exit`` ends it with
status 3, and SIGTERM with status 0.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path


def answer(path: str) -> bytes:
    ready = os.environ.get("READY")
    if path == "/ping":
        return b"200 OK" if ready is None or Path(ready).exists() else b"503 It Loads"
    print(path, flush=True)
    if path == "/exit":
        os._exit(3)
    return b"200 OK"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    with socket.create_server(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"]))) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                _, path, *_ = connection.recv(65536).decode().split() or ("", "")
                said = b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                connection.sendall(said % answer(path))
