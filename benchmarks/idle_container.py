"""A container that answers each request with 200, as small as Python can be.

It is started as a program, and many of them must fit on one machine.
"""

from __future__ import annotations

import os
import signal
import socket

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def main() -> None:
    """Serve until the process is ended, one connection after the other."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    port = int(os.environ["SAGEMAKER_BIND_TO_PORT"])
    with socket.create_server(("127.0.0.1", port)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                head = b""
                while b"\r\n\r\n" not in head and (data := connection.recv(4096)):
                    head += data
                connection.sendall(_ANSWER)


if __name__ == "__main__":
    main()
