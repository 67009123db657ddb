"""The processes of a voice assistant: the model ``voice``, a language model, and pipecat."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks import peers
from benchmarks.peers import Peer

#: A gateway's paths of its one endpoint.
REALTIME_PATH: Final = "/endpoints/echo/openai/v1/realtime"
LISTEN_PATH: Final = "/endpoints/echo/stream/v1/listen"

#: Seconds for processes that load models or import torch.
_SLOW_START: Final = 120.0


def _served(python: str, *options: str) -> list[str]:
    command = [python, "-m", "partway.container", "serve", *options, "--log-level", "warning"]
    return [*command, "--host", "127.0.0.1", "--port", "0"]


def on_core(core: int | None, command: list[str]) -> list[str]:
    """Return a command that may use one core only; None for all."""
    return command if core is None else ["taskset", "--cpu-list", str(core), *command]


@contextmanager
def voice(core: int | None = None, /, **settings: str) -> Iterator[Peer]:
    """Start the model ``voice``.

    Args:
        core: the only core that it may use; None for all.
        settings: of the model, such as ``hears``.
    """
    given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = _served(sys.executable, "--model", "voice", *given)
    with peers.listening(on_core(core, command)) as peer:
        yield peer


@contextmanager
def chatting_voice(upstream: Peer, /, **settings: str) -> Iterator[Peer]:
    """Start the model ``voice``, whose answers come from a server of OpenAI's API."""
    with chat_upstream(upstream), voice(None, answers="chat", **settings) as peer:
        yield peer


@contextmanager
def chat_upstream(upstream: Peer) -> Iterator[None]:
    """Name the upstream of the model ``chat`` in the environment of processes."""
    name = "PARTWAY_CHAT_UPSTREAM"
    os.environ[name] = f"http://{upstream.address}/v1"
    try:
        yield
    finally:
        del os.environ[name]


@contextmanager
def language_model(python: str, folder: str) -> Iterator[Peer]:
    """Start the model ``text`` by an interpreter that has torch."""
    command = _served(python, "--model", "text", "--model-dir", folder)
    with peers.listening(command, seconds=_SLOW_START) as peer:
        yield peer


@contextmanager
def story_teller() -> Iterator[Peer]:
    """Start :mod:`benchmarks.voice_upstream`."""
    with peers.listening([sys.executable, "-m", "benchmarks.voice_upstream"]) as peer:
        yield peer


@contextmanager
def pipecat(
    python: str | None, whisper: Path, piper: Path, upstream: Peer
) -> Iterator[Peer | None]:
    """Start :mod:`benchmarks.voice_pipecat`; None without its interpreter."""
    if python is None:
        yield None
        return
    command = [python, "-m", "benchmarks.voice_pipecat", str(whisper), str(piper)]
    command.append(f"http://{upstream.address}/v1")
    with peers.listening(command, seconds=_SLOW_START) as peer:
        yield peer
