"""partway.gateway.cli.admin_client: which gateway is meant, and what is said if none answers."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from partway.gateway.cli import admin_client
from partway.gateway.cli.admin_client import GatewayNotAsked, ask, find_gateway, whole
from partway.gateway.fleet.status_json import from_json
from tests.gateway.cli.asked_gateway import gateway_at
from tests.gateway.fleet.statuses import an_endpoint


@pytest.fixture
def user(tmp_path):
    """A user's environment, and the folder of the user's gateways."""
    return {"XDG_DATA_HOME": str(tmp_path)}, tmp_path / "partway" / "gateways"


@contextmanager
def answering(path, data: bytes) -> Iterator[None]:
    """Somebody at an admin socket, who answers once and with anything."""
    path.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path / "admin.sock"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(data)

        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join()


# --- Which one -----------------------------------------------------------------------------------


def test_none_has_ever_run(user):
    environment, folder = user
    with pytest.raises(GatewayNotAsked) as refused:
        find_gateway(None, environment)
    assert refused.value.status == 1
    assert str(refused.value) == (
        f"no gateway runs with a data directory below {folder}; start one with: partway serve; if "
        "one was started with --data-dir or port 0, name its directory: "
        "--data-dir DIR"
    )


def test_the_only_one_that_runs(user):
    environment, folder = user
    with gateway_at(folder / "8091"):
        pass
    (folder / "8092").mkdir()
    with gateway_at(folder / "8090"):
        assert find_gateway(None, environment) == folder / "8090"
        assert find_gateway(folder / "8090", {}) == folder / "8090"
    with pytest.raises(GatewayNotAsked, match="no gateway runs"):
        find_gateway(None, environment)


def test_the_one_that_the_environment_names(user, tmp_path):
    environment, folder = user
    elsewhere = {**environment, "PARTWAY_DATA_DIR": str(tmp_path / "data")}
    with gateway_at(folder / "8090"), gateway_at(tmp_path / "data"):
        assert find_gateway(None, elsewhere) == tmp_path / "data"
        assert find_gateway(folder / "8090", elsewhere) == folder / "8090"
    with pytest.raises(GatewayNotAsked, match=f"with the data directory {tmp_path}/data; start"):
        find_gateway(None, elsewhere)


def test_one_that_was_killed_is_none(user):
    environment, folder = user
    (folder / "8090").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(folder / "8090" / "admin.sock"))
    with pytest.raises(GatewayNotAsked, match="no gateway runs"):
        find_gateway(None, environment)


def test_several_are_named(user):
    environment, folder = user
    with gateway_at(folder / "8090") as first, gateway_at(folder / "8091"):
        first.directory.announce(["http://127.0.0.1:8090", "https://127.0.0.1:8443"], 5.0)
        with pytest.raises(GatewayNotAsked) as refused:
            find_gateway(None, environment)
    assert refused.value.status == 2
    where = f"http://127.0.0.1:8090, https://127.0.0.1:8443, process {os.getpid()}"
    assert str(refused.value).splitlines() == [
        "2 gateways run; name one of them:",
        f"  --data-dir {folder}/8090  ({where})",
        f"  --data-dir {folder}/8091",
    ]


@pytest.mark.parametrize("there", ["nothing", "folder", "file"])
def test_none_runs_where_it_was_named(tmp_path, there):
    path = tmp_path / "data"
    if there == "folder":
        path.mkdir()
    elif there == "file":
        path.write_text("")
    with pytest.raises(GatewayNotAsked) as refused:
        find_gateway(path, {})
    assert str(refused.value) == (
        f"no gateway runs with the data directory {path}; start one with: partway serve "
        f"--data-dir {path}"
    )


def test_another_users(tmp_path, monkeypatch):
    def refuse(self, name):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(
        admin_client.socket, "socket", type("S", (socket.socket,), {"connect": refuse})
    )
    with pytest.raises(GatewayNotAsked, match="this is another user's gateway; only that user and"):
        find_gateway(tmp_path, {})


def test_a_user_without_a_home():
    with pytest.raises(GatewayNotAsked, match="set HOME or XDG_DATA_HOME, or name a folder"):
        find_gateway(None, {})


def test_a_directory_whose_path_is_too_long_for_a_socket(tmp_path):
    with gateway_at(tmp_path / ("deep" * 30)) as gateway:
        directory = find_gateway(gateway.directory.path, {})
        assert from_json(whole(directory, ask(directory, "GET", "endpoints"))) == (an_endpoint(),)


# --- What it answers -----------------------------------------------------------------------------


def test_errors_are_the_gateways_words(tmp_path):
    with gateway_at(tmp_path / "data") as gateway:
        with pytest.raises(GatewayNotAsked, match="there is no endpoint 'eco'") as refused:
            ask(gateway.directory.path, "GET", "endpoints", "eco", "logs")
        assert refused.value.status == 2
        with pytest.raises(GatewayNotAsked, match=r"^GET /a/b was requested; it must") as refused:
            ask(gateway.directory.path, "GET", "a/b")
        assert refused.value.status == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "is gone: it ended"),
        (b"SSH-2.0\r\n", "is gone: it ended"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n[]", "the gateway has answered with status"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\n[]", "the gateway has answered with status"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[]", "is gone: it ended"),
    ],
)
def test_what_is_no_answer(tmp_path, answer, said):
    with answering(tmp_path / "data", answer), pytest.raises(GatewayNotAsked, match=said):
        whole(tmp_path / "data", ask(tmp_path / "data", "GET", "endpoints"))


def test_one_that_refuses_and_closes_before_anything_was_sent(tmp_path, monkeypatch):
    said = b'{"Message": "the name must be of letters"}'
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(said)
    ours, its = socket.socketpair(socket.AF_UNIX)
    its.sendall(head + said)
    its.close()
    monkeypatch.setattr(admin_client, "_connect", lambda directory: ours)
    with pytest.raises(GatewayNotAsked, match=r"^the name must be of letters$") as refused:
        ask(tmp_path, "PUT", "deployments", "bad name", body={})
    assert refused.value.status == 2


def test_one_that_closes_without_a_word(tmp_path, monkeypatch):
    ours, its = socket.socketpair(socket.AF_UNIX)
    its.close()
    monkeypatch.setattr(admin_client, "_connect", lambda directory: ours)
    with pytest.raises(GatewayNotAsked, match="is gone: it ended"):
        ask(tmp_path, "PUT", "deployments", "chat", body={})


def test_one_that_says_nothing(tmp_path):
    path = tmp_path / "admin.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(GatewayNotAsked, match="does not answer"):
            ask(tmp_path, "GET", "endpoints", patience=0.01)
