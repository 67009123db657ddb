"""partway.gateway.cli.readiness: one question to /readyz; test_wait.py has servers of all kinds."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from partway.gateway.cli.readiness import NotReady, ReadinessUrl

#: Nothing here takes this long, in seconds.
PATIENCE = 30


@pytest.mark.parametrize(
    ("gateway", "readyz"),
    [
        ("http://127.0.0.1:8090", "http://127.0.0.1:8090/readyz"),
        ("https://gw.example/", "https://gw.example/readyz"),
        ("http://[::1]:8090", "http://[::1]:8090/readyz"),
        ("http://h/behind a proxy/".replace(" ", "%20"), "http://h/behind%20a%20proxy/readyz"),
        ("http://h/é", "http://h/%C3%A9/readyz"),
    ],
)
def test_where_a_gateway_says_whether_it_is_ready(gateway, readyz):
    assert str(ReadinessUrl.of_gateway(gateway)) == readyz


def test_the_request_is_for_the_gateways_path_and_ends_its_connection():
    with socket.create_server(("127.0.0.1", 0)) as server:
        received: list[bytes] = []

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                received.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nready\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/behind"
        ReadinessUrl.of_gateway(url).ask(time.monotonic() + PATIENCE)
        thread.join()
    assert received[0].startswith(b"GET /behind/readyz HTTP/1.1\r\n")
    assert b"\r\nConnection: close\r\n" in received[0]


def test_a_connection_that_is_closed_without_an_answer_may_be_a_proxys():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        with pytest.raises(NotReady, match=f"^{url}/readyz: "):
            ReadinessUrl.of_gateway(url).ask(time.monotonic() + PATIENCE)
        thread.join()


def test_a_name_that_cannot_be_looked_up_is_waited_for():
    url = ReadinessUrl.of_gateway(f"http://{'a' * 64}.example")
    with pytest.raises(NotReady, match=r"\.example/readyz: "):
        url.ask(time.monotonic() + PATIENCE)
