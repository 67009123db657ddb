"""The processes of a chat: an engine of a fixed pace, the model ``chat``, and LiteLLM's proxy."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from benchmarks import peers
from benchmarks.peers import Peer

#: A gateway's paths of its one endpoint.
STREAM_PATH: Final = "/endpoints/echo/invocations-bidirectional-stream"
CHAT_PATH: Final = "/endpoints/echo/openai/v1/chat/completions"

#: Seconds for LiteLLM's proxy, which imports for a while.
_PROXY_START: Final = 120.0


@contextmanager
def engine(tokens: int, pace: float) -> Iterator[Peer]:
    options = [f"--tokens={tokens}", f"--pace={pace}"]
    with peers.listening([sys.executable, "-m", "benchmarks.chat_engine", *options]) as peer:
        yield peer


@contextmanager
def container(before: Peer) -> Iterator[Peer]:
    command = [sys.executable, "-m", "partway.container", "serve", "--model", "chat"]
    command += ["--set", f"upstream=http://{before.address}/v1", "--log-level", "warning"]
    with peers.listening([*command, "--host", "127.0.0.1", "--port", "0"]) as peer:
        yield peer


@contextmanager
def litellm(python: str | None, before: Peer) -> Iterator[Peer | None]:
    """Start LiteLLM's proxy; None without its interpreter."""
    if python is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        model = {"model": "openai/stub", "api_base": f"http://{before.address}/v1", "api_key": "k"}
        config = Path(folder) / "config.yaml"
        models = [{"model_name": "stub", "litellm_params": model}]
        # Clients of the other rows need no key either.
        open_to_all = {"dangerously_permit_weak_or_unset_master_key": True}
        config.write_text(json.dumps({"model_list": models, "general_settings": open_to_all}))
        command = [str(Path(python).with_name("litellm")), "--config", str(config)]
        with peers.started([*command, "--host", "127.0.0.1", "--port", str(port)]) as process:
            address = f"127.0.0.1:{port}"
            yield peers.until_it_listens(process, lambda: _lives(address), _PROXY_START)


def _lives(address: str) -> str | None:
    with suppress(OSError):
        return address if asked(address, "/health/liveliness")[0] == 200 else None
    return None


def asked(address: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
